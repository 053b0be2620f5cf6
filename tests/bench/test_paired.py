"""The intervals that `docs/benchmarks/paired.py` adds to a page, against scikit-learn."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.metrics import accuracy_score, f1_score

from raretag.labels.store import LabelStore
from raretag.runs import evidence

CLASSES = np.repeat(np.arange(8), 30)
LABELS = LabelStore.from_dense(np.eye(8, dtype=np.int8)[CLASSES])
POSITIVES = torch.tensor([90, 80, 70, 60, 50, 3, 2, 1])  # the rarest three are the last three


def paired():
    found = importlib.util.spec_from_file_location("paired", Path("docs/benchmarks/paired.py").absolute())
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def write_run(folder, strength):
    folder.mkdir()
    torch.manual_seed(0)
    logits = torch.randn(len(CLASSES), 8) + strength * torch.eye(8)[CLASSES] - 1.0
    save_file({"test": logits}, folder / evidence.LOGITS)
    save_file(evidence.packed("test", LABELS.targets()) | {"train_positives": POSITIVES}, folder / evidence.FILE)
    return logits.numpy()


def test_differences_are_those_of_scikit_learn_and_lie_in_their_intervals(tmp_path):
    weak, strong = write_run(tmp_path / "weak", 1.0), write_run(tmp_path / "strong", 3.0)
    told = paired().differences([tmp_path / "strong"], [tmp_path / "weak"])
    found = {
        name: tuple(map(float, numbers))
        for name, *numbers in re.findall(r"([^,]+?) \**([+-][\d.]+) \[([+-][\d.]+), ([+-][\d.]+)\]", told)
    }
    truth = np.eye(8)[CLASSES]
    f1 = [f1_score(truth, logits > 0, average=None, zero_division=0) for logits in (strong, weak)]
    expected = {
        "accuracy": accuracy_score(CLASSES, strong.argmax(1)) - accuracy_score(CLASSES, weak.argmax(1)),
        "F1": (f1[0] - f1[1]).mean(),
        "K=3 F1": (f1[0] - f1[1])[-3:].mean(),
        "K=5 F1": (f1[0] - f1[1])[-5:].mean(),
    }
    assert {name.strip(): round(value, 1) for name, (value, _, _) in found.items()} == {
        name: round(100 * value, 1) for name, value in expected.items()
    }
    assert all(0 < low < value < high for value, low, high in found.values())

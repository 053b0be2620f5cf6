"""A loop of one's own under Accelerate: two processes give what one gives, and checkpoints hold the method."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import raretag
from raretag.core import processes

pytest.importorskip("accelerate")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]
METHODS = ("distribution_balanced", "partial_label_masking", "dynamic_pseudo_labels", "role")


def items():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(48, 4, generator=generator, dtype=torch.float64)
    Y = (X[:, :3] > torch.tensor([0.0, 0.4, 0.8])).double()
    Y[torch.rand(Y.shape, generator=generator) < 0.33] = float("nan")
    return X, raretag.LabelStore.from_dense(Y)


def parts(method, batch):
    from accelerate import Accelerator

    X, labels = items()
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).double()
    loss = raretag.bind(method, labels, epochs=2).double()
    optimizer = torch.optim.AdamW([{"params": model.parameters()}, *loss.parameter_groups(0.05)], lr=0.05)
    options = {"reduce": None} if loss.sampler == "class_aware" else {}
    order = raretag.sampling.Stream(labels.sampler(loss.sampler, seed=0, **options))
    loader = DataLoader(TensorDataset(X, torch.arange(len(X))), batch_size=batch, sampler=order)
    accelerator = Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accelerator.register_for_checkpointing(loss)
    return accelerator, model, loss, optimizer, order, loader


def epoch(accelerator, model, loss, optimizer, order, loader):
    order.set_epoch(loss.epoch)
    loader.set_epoch(loss.epoch)
    for x, rows in loader:
        accelerator.backward(loss(model(x), rows))
        optimizer.step()
        optimizer.zero_grad()
    loss.end_epoch()


def main(folder: str, batch: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    for method in METHODS:
        made = parts(method, int(batch))
        epoch(*made), epoch(*made)
        accelerator, model, loss = made[:3]
        if accelerator.is_main_process:
            found = {**accelerator.unwrap_model(model).state_dict(), **loss.state_dict()}
            torch.save(found, Path(folder) / f"{method}.pt")


def test_two_processes_equal_one(tmp_path):
    from support.two_processes import assert_two_equal_one

    assert_two_equal_one(main, __file__, tmp_path, METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_resuming_goes_on_as_if_nothing_had_happened(tmp_path, method):
    whole = parts(method, 8)
    epoch(*whole)
    whole[0].save_state(str(tmp_path))
    epoch(*whole)
    resumed = parts(method, 8)
    resumed[0].load_state(str(tmp_path))
    epoch(*resumed)
    for first, second in zip(whole[1:3], resumed[1:3], strict=True):
        for name, value in first.state_dict().items():
            assert torch.equal(value, second.state_dict()[name]), name


if __name__ == "__main__":
    main(*sys.argv[1:])
    processes.leave()

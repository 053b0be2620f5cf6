"""Modules of Lightning with methods of raretag: unknown labels, epochs, sampler, checkpoints, processes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import raretag
from raretag.core import processes

lightning = pytest.importorskip("lightning")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]

ITEMS = 48


def items():
    draw = np.random.default_rng(1)
    X = draw.normal(size=(ITEMS, 4)).astype(np.float32)
    Y = (X[:, :3] > [0.0, 0.4, 0.8]).astype(float)
    Y[draw.random(Y.shape) < 0.33] = np.nan
    return torch.from_numpy(X), raretag.LabelStore.from_dense(Y)


def module(method, **options):
    torch.manual_seed(0)
    return raretag.lightning.Module(nn.Linear(4, 3), method, items()[1], learning_rate=0.05, **options)


def trainer(folder, epochs, *callbacks, **options):
    settings = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    settings |= {"enable_checkpointing": bool(callbacks)}
    return lightning.Trainer(max_epochs=epochs, default_root_dir=folder, callbacks=[*callbacks], **settings, **options)


def rows_seen(made):
    seen = []
    made.objective.register_forward_pre_hook(lambda module, inputs: seen.extend(inputs[1].tolist()))
    return seen


@pytest.mark.parametrize("method", ["focal", "partial_label_masking", "dynamic_pseudo_labels", "role", "splc"])
def test_a_method_learns_and_epochs_end(tmp_path, method):
    X, _ = items()
    made = module(method)
    before = made.net.weight.detach().clone()
    trainer(tmp_path, 3).fit(made, made.loader(X, batch_size=8))
    assert (made.objective.epoch, made.objective.epochs) == (3, 3)
    assert not torch.equal(before, made.net.weight)


def test_what_the_method_learns_reaches_the_optimizer(tmp_path):
    made = module("role")
    assert [group["lr"] for group in made.parameter_groups(0.05)] == [0.05, 0.5]
    trainer(tmp_path, 1).fit(made, made.loader(items()[0]))
    assert float(made.objective.method.estimator.moved.detach().abs().sum()) > 0


def test_unknown_labels_in_the_metrics(tmp_path):
    X, labels = items()
    made = module("focal")
    found = trainer(tmp_path, 1).validate(made, made.eval_loader(TensorDataset(X), labels, batch_size=7), verbose=False)
    expected = raretag.metrics.average_precision(made.net(X).detach(), labels.targets()).nanmean()
    assert found[0]["val_mAP"] == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("validates", [False, True])  # a checkpoint of a validation is from before the epoch's end
def test_the_sampler_of_the_paper_decides_the_order_also_after_a_resume(tmp_path, workers, validates):
    X, labels = items()
    orders = [labels.sampler("class_aware", seed=0).epoch(epoch).tolist() for epoch in range(3)]
    made = module("distribution_balanced")
    seen, kept = rows_seen(made), lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, save_last=True)
    measured = [made.eval_loader(X, labels)] if validates else []
    trainer(tmp_path, 1, kept).fit(made, made.loader(X, batch_size=4, num_workers=workers), *measured)
    assert seen == orders[0]
    made = module("distribution_balanced")
    seen = rows_seen(made)
    measured = [made.eval_loader(X, labels)] if validates else []
    loader = made.loader(X, batch_size=4, num_workers=workers)
    trainer(tmp_path, 3).fit(made, loader, *measured, ckpt_path=tmp_path / "last.ckpt")
    assert seen == orders[1] + orders[2]


@pytest.mark.parametrize("method", ["partial_label_masking", "dynamic_pseudo_labels", "role"])
@pytest.mark.parametrize("validates", [False, True])
def test_resuming_goes_on_as_if_nothing_had_happened(tmp_path, method, validates):
    X, labels = items()

    def fit(epochs, *callbacks, **options):
        made = module(method)
        loaders = [made.loader(X, batch_size=8)] + ([made.eval_loader(X, labels)] if validates else [])
        trainer(tmp_path, epochs, *callbacks).fit(made, *loaders, **options)
        return made

    every = lightning.pytorch.callbacks.ModelCheckpoint(tmp_path, save_top_k=-1, filename="{epoch}")
    whole = fit(3, every)
    resumed = fit(3, ckpt_path=tmp_path / "epoch=0.ckpt")
    first, second = whole.state_dict(), resumed.state_dict()
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def test_two_processes_equal_one_and_the_sampler_stays(tmp_path):
    from support.two_processes import assert_two_equal_one

    assert_two_equal_one(main, __file__, tmp_path, TWICE)


def test_in_a_module_of_ones_own(tmp_path):
    X, labels = items()

    class Mine(raretag.lightning.Objective, lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(4, 3)
            self.use("focal", labels, gamma=1.0)

        def training_step(self, batch, index):
            (x,), rows = batch
            return self.objective(self.net(x), rows)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameter_groups(0.1), 0.1)

    made = Mine()
    trainer(tmp_path, 2).fit(made, made.loader(TensorDataset(X)))
    assert made.objective.epoch == 2
    with pytest.raises(raretag.UserError, match="47 items and 48 rows"):
        made.loader(X[1:])


TWICE = ("distribution_balanced", "partial_label_masking", "dynamic_pseudo_labels", "role")


def main(folder: str, batch: str) -> None:
    """Trainings in float64, in as many processes as torchrun started; Lightning may replace samplers if it can."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    X, labels = items()
    devices = 8 // int(batch)
    for method in TWICE:
        sampler = labels.sampler("class_aware", reduce=None) if method == "distribution_balanced" else "auto"
        made = module(method, sampler=sampler).double()
        fit = trainer(folder, 2, devices=devices, strategy="ddp" if devices > 1 else "auto")
        fit.fit(made, made.loader(X.double(), batch_size=int(batch)), made.eval_loader(X.double(), labels))
        if fit.is_global_zero:
            found = {"val_mAP": fit.callback_metrics["val_mAP"], **made.state_dict()}
            torch.save(found, Path(folder) / f"{method}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
    processes.leave()

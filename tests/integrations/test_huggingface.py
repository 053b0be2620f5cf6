"""The Trainer of Hugging Face with methods of raretag: unknown labels, epochs, optimizer, checkpoints, processes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import raretag
from raretag.core import processes

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]

ITEMS, LABELS = 48, 3


class Tiny(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, LABELS)

    def forward(self, x):
        return {"logits": self.layer(x)}


def items(hidden=True):
    """Items as dictionaries, with a column that no model reads, and their labels, of which a third is unknown."""
    draw = np.random.default_rng(1)
    X = draw.normal(size=(ITEMS, 4)).astype(np.float32)
    Y = (X[:, :LABELS] > [0.0, 0.4, 0.8]).astype(float)
    if hidden:
        Y[draw.random(Y.shape) < 0.33] = np.nan
    return [{"x": torch.from_numpy(row), "note": "a text"} for row in X], raretag.LabelStore.from_dense(Y)


def trainer(folder, method, *, epochs=2, batch=8, evaluated=False, double=False, sampler="auto", **arguments):
    from raretag.huggingface import Trainer

    inputs, labels = items()
    model = Tiny()
    if double:
        model, inputs = model.double(), [{**item, "x": item["x"].double()} for item in inputs]
    settings = {
        "output_dir": str(folder),
        "num_train_epochs": epochs,
        "per_device_train_batch_size": batch,
        "learning_rate": 0.05,
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "logging_strategy": "no",
        "save_strategy": "no",
        **arguments,
    }
    more = {"eval_dataset": inputs, "eval_labels": labels} if evaluated else {}
    args = transformers.TrainingArguments(**settings)
    return Trainer(method=method, labels=labels, model=model, args=args, train_dataset=inputs, sampler=sampler, **more)


def same(first, second):
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("method", ["focal", "partial_label_masking", "dynamic_pseudo_labels", "role", "splc"])
def test_a_method_learns_and_epochs_end(tmp_path, method):
    made = trainer(tmp_path, method, epochs=3)
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    made.train()
    assert made.objective.epoch == 3
    assert made.objective.epochs == 3
    assert not torch.equal(before["layer.weight"], made.model.layer.weight)


def test_the_rows_of_a_batch_are_those_of_its_items(tmp_path):
    inputs, _ = items()
    made = trainer(tmp_path, "focal", epochs=1)
    batch = next(iter(made.get_train_dataloader()))
    assert sorted(batch) == ["labels", "x"]
    assert all(torch.equal(x, inputs[row]["x"]) for x, row in zip(batch["x"], batch["labels"].tolist(), strict=True))


def test_what_the_method_learns_reaches_the_optimizer(tmp_path):
    made = trainer(tmp_path, "role")
    made.train()
    moved = made.objective.method.estimator.moved
    group = made.optimizer.param_groups[-1]
    assert group["params"][0] is moved
    assert float(moved.detach().abs().sum()) > 0
    assert group["initial_lr"] == pytest.approx(10 * 0.05)
    assert moved.grad is None or float(moved.grad.abs().sum()) == 0  # the Trainer would leave them to pile up


def test_unknown_labels_in_the_metrics(tmp_path):
    inputs, labels = items()
    made = trainer(tmp_path, "focal", evaluated=True)
    found = made.evaluate()
    logits = made.model.eval()(torch.stack([item["x"] for item in inputs]))["logits"].detach()
    expected = raretag.metrics.average_precision(logits, labels.targets()).nanmean()
    assert found["eval_mAP"] == pytest.approx(float(expected), abs=1e-9)
    terms = nn.functional.binary_cross_entropy_with_logits(logits, labels.targets().positive, reduction="none")
    observed = labels.targets().observed
    means = [(terms[rows] * observed[rows]).sum() / observed[rows].sum() for rows in torch.arange(ITEMS).split(8)]
    assert found["eval_loss"] == pytest.approx(float(torch.stack(means).mean()), rel=1e-5)


def test_labels_of_the_items_themselves_may_be_unknown(tmp_path):
    made = trainer(tmp_path, "focal")
    inputs, labels = items()
    dense = torch.from_numpy(labels.dense())
    rows = [{**item, "labels": row} for item, row in zip(inputs, dense.nan_to_num(-100.0), strict=True)]
    with_numbers = made.evaluate(rows)
    with_nan = made.evaluate([{**item, "labels": row} for item, row in zip(inputs, dense, strict=True)])
    assert with_numbers["eval_mAP"] == with_nan["eval_mAP"]


@pytest.mark.parametrize("method", ["partial_label_masking", "dynamic_pseudo_labels", "role"])
@pytest.mark.parametrize("saved_at", [4, 6])  # in the middle of the first epoch, and after its last step
def test_resuming_goes_on_as_if_nothing_had_happened(tmp_path, method, saved_at):
    saving = {"save_strategy": "steps", "save_steps": saved_at, "epochs": 3}
    whole = trainer(tmp_path / "whole", method, **saving)
    whole.train()
    resumed = trainer(tmp_path / "whole", method, **saving)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / f"checkpoint-{saved_at}"))
    same(whole.model.state_dict(), resumed.model.state_dict())
    same(whole.objective.state_dict(), resumed.objective.state_dict())
    weights = load_file(tmp_path / "whole" / f"checkpoint-{saved_at}" / "model.safetensors")
    assert set(weights) == {"layer.weight", "layer.bias"}  # what the method remembers is not shipped


def test_a_checkpoint_without_the_method_is_refused(tmp_path):
    made = trainer(tmp_path, "focal", save_strategy="epoch")
    made.train()
    (tmp_path / "checkpoint-6" / "raretag.safetensors").unlink()
    with pytest.raises(raretag.UserError, match=r"has no raretag\.safetensors"):
        trainer(tmp_path, "focal", epochs=3).train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))


def test_the_sampler_of_the_paper_decides_the_order(tmp_path):
    made = trainer(tmp_path, "distribution_balanced", epochs=2)
    seen = []
    made.objective.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[1].tolist()))
    made.train()
    sampler = items()[1].sampler("class_aware", seed=made.args.seed)
    orders = [sampler.epoch(epoch).tolist() for epoch in range(2)]
    assert [row for batch in seen for row in batch] == orders[0] + orders[1]


def test_gradients_that_accumulate_are_those_of_the_whole_batch(tmp_path):
    arguments = {"train_sampling_strategy": "sequential", "epochs": 1, "double": True, "sampler": None}
    once = trainer(tmp_path / "a", "assume_negative", batch=12, **arguments)
    parts = trainer(tmp_path / "b", "assume_negative", batch=4, gradient_accumulation_steps=3, **arguments)
    once.train(), parts.train()
    torch.testing.assert_close(once.model.layer.weight, parts.model.layer.weight, rtol=0, atol=1e-12)


def test_two_processes_equal_one(tmp_path):
    from support.two_processes import assert_two_equal_one

    assert_two_equal_one(main, __file__, tmp_path, TWICE)


def test_a_model_of_transformers(tmp_path):
    from raretag.huggingface import Trainer

    config = transformers.BertConfig(
        vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, num_labels=LABELS
    )
    _, labels = items()
    tokens = [{"input_ids": [2 + row % 20, 5, 7], "attention_mask": [1, 1, 1]} for row in range(ITEMS)]
    args = transformers.TrainingArguments(
        str(tmp_path), num_train_epochs=1, report_to=[], use_cpu=True, disable_tqdm=True, save_strategy="epoch"
    )
    made = Trainer(
        method={"name": "asymmetric", "margin": 0.0},
        labels=labels,
        eval_labels=labels,
        model=transformers.BertForSequenceClassification(config),
        args=args,
        train_dataset=tokens,
        eval_dataset=tokens,
    )
    made.train()
    assert 0 < made.evaluate()["eval_mAP"] <= 1
    assert (tmp_path / "checkpoint-6" / "raretag.safetensors").is_file()


def test_other_numbers_of_rows_are_refused(tmp_path):
    from raretag.huggingface import Trainer

    inputs, labels = items()
    with pytest.raises(raretag.UserError, match="47 items and labels have 48 rows"):
        Trainer(method="focal", labels=labels, model=Tiny(), train_dataset=inputs[:-1])


TWICE = ("distribution_balanced", "partial_label_masking", "dynamic_pseudo_labels", "role")


def main(folder: str, batch: str) -> None:
    """Trainings in float64, in as many processes as torchrun started."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for method in TWICE:
        sampler = items()[1].sampler("class_aware", reduce=None) if method == "distribution_balanced" else "auto"
        made = trainer(folder, method, epochs=2, batch=int(batch), double=True, sampler=sampler)
        made.objective.double()
        made.train()
        if made.args.process_index == 0:
            torch.save({**made.model.state_dict(), **made.objective.state_dict()}, Path(folder) / f"{method}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
    processes.leave()

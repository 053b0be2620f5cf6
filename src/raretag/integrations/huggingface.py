"""The Trainer of Hugging Face transformers with any method of raretag as its loss.

    from raretag.huggingface import Trainer

    trainer = Trainer(method="role", labels=labels, eval_labels=test_labels, model=model, args=args, ...)

What a plain `compute_loss_func` lacks is added here: the row number of each item travels with its batch, the method
learns at the end of each epoch, what it learns by gradients reaches the optimizer, all that it remembers is in the
Trainer's checkpoints, and `compute_metrics` leaves unknown labels out.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import Dataset

from raretag.core import processes
from raretag.core.bind import Bound, bind
from raretag.core.errors import UserError
from raretag.core.files import replacing
from raretag.core.lazy import needed
from raretag.core.protocols import Sampler
from raretag.core.targets import Targets
from raretag.labels.counts import groups
from raretag.labels.store import LabelStore
from raretag.metrics.evaluation import evaluate
from raretag.sampling.stream import Stream

STATE = "raretag.safetensors"  # in a checkpoint of the Trainer
EDGES = (20, 100)  # training positives: tail < first <= medium < second <= head


class Objective:
    """Put before any Trainer class, this makes a method of raretag its loss: `class Mine(Objective, SomeTrainer)`.

    Args:
        method: as in `raretag.bind`: a name, {"name": ..., option: value}, a Method, or a loss(logits, targets).
        labels: the LabelStore of the training items, row by row as in `train_dataset`.
        eval_labels: the same for `eval_dataset`; without it the items' own "labels" are used, in which NaN, -1 and
            -100 are unknown.
        sampler: the order of items: "auto" is the method's own, None the Trainer's; a name, or `labels.sampler(...)`.
        options: all others are those of the Trainer.

    The model takes the items without "labels" and gives logits [B, C], in a dictionary or first in a tuple, as the
    models for sequence and image classification do.

    >>> Objective.__mro__[1] is object  # needs no transformers until it is used
    True
    """

    loss_is_scaled_for_ga = False  # the loss is a mean over a batch; the Trainer divides it where gradients accumulate
    args: Any
    state: Any

    def __init__(
        self,
        *arguments: Any,
        method: Any,
        labels: LabelStore,
        eval_labels: LabelStore | None = None,
        sampler: str | Sampler | None = "auto",
        **options: Any,
    ) -> None:
        if options.get("train_dataset") is not None:
            options["train_dataset"] = WithRows(options["train_dataset"], len(labels))
        if eval_labels is not None:
            options["eval_dataset"] = WithLabels(options.get("eval_dataset"), eval_labels)
        options.setdefault("compute_metrics", self.measure)
        self.training_positives = labels.statistics(cooccurrence=False).positives
        self.label_groups = groups(self.training_positives, EDGES)
        super().__init__(*arguments, **options)
        self.model_accepts_loss_kwargs = False
        known: list[str] = getattr(self, "label_names", [])
        self.label_names = known if "labels" in known else [*known, "labels"]
        epochs = max(1, round(self.args.num_train_epochs))  # corrected when training begins
        self.objective: Bound = bind(method, labels, epochs=epochs, seed=self.args.seed).to(self.args.device)
        if sampler == "auto":  # the Trainer shuffles by itself
            sampler = None if self.objective.sampler == "uniform" else self.objective.sampler
        order = labels.sampler(sampler, seed=self.args.seed) if isinstance(sampler, str) else sampler
        self.stream = None if order is None else Stream(order)
        self.resumed: str | None = None
        self.add_callback(_callback()(self))  # type: ignore[attr-defined]

    def train(self, resume_from_checkpoint: str | bool | None = None, *arguments: Any, **options: Any) -> Any:
        """As the Trainer's; what the method remembers comes back from the same checkpoint."""
        self.resumed = resume_from_checkpoint if isinstance(resume_from_checkpoint, str) else None
        return super().train(resume_from_checkpoint, *arguments, **options)  # type: ignore[misc]

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """The method's loss where the batch has row numbers; in evaluation, that of the observed labels."""
        inputs = dict(inputs)
        found = inputs.pop("labels")
        outputs = model(**inputs)
        logits = logits_of(outputs)
        if found.dim() == 1:
            loss = self.objective(logits, found)
        else:
            targets = targets_of(found).to(logits.device)
            terms = binary_cross_entropy_with_logits(logits, targets.positive.to(logits), reduction="none")
            loss = (terms * targets.observed).sum() / targets.observed.sum().clamp(min=1)
        return (loss, outputs) if return_outputs else loss

    def create_optimizer(self, *arguments: Any, **options: Any) -> Any:
        """The Trainer's optimizer, with what the method itself learns."""
        before = getattr(self, "optimizer", None)
        optimizer = super().create_optimizer(*arguments, **options)  # type: ignore[misc]
        if before is None:
            for group in self.objective.parameter_groups(self.args.learning_rate):
                optimizer.add_param_group(group)
        return optimizer

    def measure(self, prediction: Any) -> dict[str, float]:
        """`compute_metrics`: mAP by group, F1 and more, over the observed labels."""
        scores = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        found = evaluate(
            torch.as_tensor(np.asarray(scores)).float(),
            targets_of(prediction.label_ids),
            groups=self.label_groups,
            training_positives=self.training_positives,
        )
        numbers = {f"mAP_{name}".removesuffix("_total"): found["mAP"][name] for name in ("total", *self.label_groups)}
        numbers |= {"F1": found["F1"]["total"], **{name: found[name] for name in ("micro_F1", "P@1", "ranking_loss")}}
        return {name: float("nan") if number is None else number for name, number in numbers.items()}

    def _get_train_sampler(self, *arguments: Any, **options: Any) -> Any:
        if self.stream is None:
            return super()._get_train_sampler(*arguments, **options)  # type: ignore[misc]
        return self.stream

    def begin(self) -> None:
        """Before the first step of a training, new or resumed."""
        self.objective.epochs = max(1, int(self.state.num_train_epochs))
        if not self.state.global_step:
            return
        folder = Path(self.resumed or checkpoint_of(self.args, self.state))
        if not (folder / STATE).is_file():
            raise UserError(f"'{folder}' has no {STATE}: it was saved by a Trainer without a method of raretag")
        self.objective.load_state_dict(load_file(folder / STATE))

    def begin_epoch(self) -> None:
        epoch = int(self.state.epoch or 0)
        while self.objective.epoch < epoch:  # saved after the last step of an epoch and before its end
            self.objective.end_epoch()
        if self.stream is not None:
            self.stream.set_epoch(epoch)

    def save_state(self) -> None:
        if self.args.should_save:
            state = {name: value.detach().cpu().contiguous() for name, value in self.objective.state_dict().items()}
            with replacing(Path(checkpoint_of(self.args, self.state)) / STATE) as new:
                save_file(state, new)

    def average_gradients(self) -> None:
        """Of the method's own parameters: the Trainer's wrapping knows those of the model only."""
        for parameter in self.objective.parameters():
            if parameter.grad is not None and processes.count() > 1:
                parameter.grad.copy_(processes.total(parameter.grad) / processes.count())


def checkpoint_of(args: Any, state: Any) -> str:
    return str(Path(args.output_dir) / f"checkpoint-{state.global_step}")


def logits_of(outputs: Any) -> Tensor:
    """[B, C] in what a model of transformers gives."""
    if isinstance(outputs, Tensor):
        return outputs
    found: Tensor = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
    return found


def targets_of(values: Any) -> Targets:
    """Of 1, 0, and NaN, -1 or -100 for an unknown label, which is also what the Trainer pads with."""
    return LabelStore.from_dense(torch.as_tensor(values).detach().cpu()).targets()


class WithRows(Dataset[dict[str, Any]]):
    """Items whose "labels" are their row number: the one column that reaches the loss whatever else is dropped."""

    def __init__(self, items: Any, rows: int) -> None:
        if len(items) != rows:
            raise UserError(f"train_dataset has {len(items)} items and labels have {rows} rows; expected one for each")
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {**self.items[row], "labels": int(row)}


class WithLabels(Dataset[dict[str, Any]]):
    """Items with their labels as 1, 0 and NaN."""

    def __init__(self, items: Any, labels: LabelStore) -> None:
        if items is None or isinstance(items, dict) or len(items) != len(labels):
            raise UserError(f"eval_labels have {len(labels)} rows; expected one for each item of one eval_dataset")
        self.items, self.labels = items, labels

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {**self.items[row], "labels": torch.from_numpy(self.labels.take([row]).dense()[0])}


@cache
def _callback() -> Any:
    base: Any = needed("transformers", "huggingface", "The Trainer of Hugging Face").TrainerCallback

    class Occasions(base):  # type: ignore[misc]
        """Tells the method when epochs begin and end, and keeps its state beside the model's."""

        def __init__(self, trainer: Objective) -> None:
            self.trainer = trainer

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.trainer.begin()

        def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.trainer.begin_epoch()

        def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.trainer.objective.end_epoch()

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.trainer.average_gradients()

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.trainer.objective.zero_grad()

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.trainer.save_state()

    return Occasions


def Trainer(*arguments: Any, **options: Any) -> Any:  # noqa: N802 - it stands for a class that needs transformers
    """A transformers.Trainer whose loss is a method of raretag; the arguments are those of both.

    `Trainer(method="focal", labels=labels, model=model, args=args, train_dataset=items)`: see `Objective`, which does
    the same for Trainer classes of other packages.
    """
    return _trainer()(*arguments, **options)


@cache
def _trainer() -> Any:
    base: Any = needed("transformers", "huggingface", "The Trainer of Hugging Face").Trainer
    return type("Trainer", (Objective, base), {})

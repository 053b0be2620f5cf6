"""The training loop: a generator. The caller logs, saves, evaluates and stops; this only learns."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from raretag.config.settings import Train
from raretag.core import chance, processes
from raretag.core.context import Context
from raretag.core.errors import UserError
from raretag.core.listener import Step
from raretag.core.method import Method
from raretag.core.protocols import Sampler
from raretag.core.targets import Targets
from raretag.data.dataset import Items
from raretag.engine.batches import cut, features_of, inputs_of, placed, share
from raretag.labels.store import LabelStore

if TYPE_CHECKING:
    from lightning_fabric import Fabric
    from lightning_fabric.wrappers import _FabricModule


@dataclass(slots=True)
class Progress:
    """Where the run stands: the next batch to train on."""

    epoch: int = 0
    batch: int = 0  # within the epoch
    step: int = 0  # since the start
    stage_step: int = 0  # since the stage began
    loss_sum: float = 0.0  # of the running epoch, as the two below
    found: int = 0  # unknown labels that were trained as positives and are, where the truth is known
    mistaken: int = 0  # those that are not


@dataclass
class Training:
    """Everything that changes while learning, and so belongs into a checkpoint."""

    fabric: Fabric
    model: nn.Module
    method: Method
    make_optimizer: Callable[[], torch.optim.Optimizer]  # for the parameters that learn in the stage that begins
    make_sampler: Callable[[str | None], Sampler]
    items: Items
    settings: Train
    seed: int
    progress: Progress = field(default_factory=Progress)
    optimizer: torch.optim.Optimizer | None = None
    truth: LabelStore | None = None  # training labels before some were hidden: only to count what a method finds
    average: nn.Module | None = None  # a moving average of the model
    wrapped: _FabricModule | None = None  # the model as the engine runs it over several processes
    frozen: list[nn.Module] = field(default_factory=list)  # parts that do not learn in this stage

    def train(self) -> None:
        """Training mode, but for the frozen parts: their running means and dropout would move them."""
        self.model.train()
        for module in self.frozen:
            module.eval()

    @property
    def best(self) -> nn.Module:
        """What is evaluated and shipped."""
        return self.model if self.average is None else self.average

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "method": self.method.state_dict(),
            "precision": self.fabric.strategy.precision.state_dict(),  # the loss scale of 16-mixed
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "progress": {name: getattr(self.progress, name) for name in Progress.__slots__},
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.method.load_state_dict(state["method"])
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        self.progress = Progress(**state["progress"])
        if state["average"] is not None:
            self.average = copy.deepcopy(self.model)
            self.average.load_state_dict(state["average"])
        if self.progress.epoch >= self.settings.epochs:
            return
        number, epochs = stage_of(self.method, self.settings, self.progress.epoch)
        if self.progress.epoch > epochs[0] or self.progress.batch:  # else `fit` begins the stage anyway
            self.enter(number)
            assert self.optimizer is not None
            self.optimizer.load_state_dict(state["optimizer"])

    def enter(self, number: int) -> None:
        """Let the parameters of a stage learn, with an optimizer and a wrapping that know of no others."""
        stage = self.method.stages[number]
        for name, parameter in self.model.named_parameters():
            held = name.startswith("backbone") and self.settings.backbone_rate == 0
            parameter.requires_grad_(re.search(stage.trains, name) is not None and not held)
        self.frozen = [module for module in self.model.modules() if is_frozen(module)]
        self.wrapped, self.optimizer = self.fabric.setup(self.model, self.make_optimizer())


def is_frozen(module: nn.Module) -> bool:
    parameters = list(module.parameters())
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def stage_of(method: Method, settings: Train, epoch: int) -> tuple[int, range]:
    """The number of the stage that an epoch belongs to, and the stage's epochs."""
    begin, done = 0, 0.0
    for number, stage in enumerate(method.stages):
        done += stage.share
        after = len(method.stages) - 1 - number  # each stage has an epoch at least
        end = min(max(begin + 1, round(done * settings.epochs)), settings.epochs - after) if after else settings.epochs
        if epoch < end:
            return number, range(begin, end)
        begin = end
    raise AssertionError(f"epoch {epoch} of {settings.epochs}")


def fit(training: Training) -> Iterator[Step]:
    """One optimizer step per item. State may be saved between any two of them: resuming there changes nothing."""
    settings, progress, fabric, method = training.settings, training.progress, training.fabric, training.method
    method.train()
    while progress.epoch < settings.epochs:
        epoch = progress.epoch
        number, epochs = stage_of(method, settings, epoch)
        if epoch == epochs[0] and progress.batch == 0:
            progress.stage_step = 0
            training.average = None  # what a stage begins with is no average of what was before
            method.begin_stage(number, training.model, lambda: features(training))
            training.enter(number)
        sampler = training.make_sampler(method.stages[number].sampler)
        batches = cut(sampler.epoch(epoch), settings.batch_size)
        shares = [share(batch, fabric.global_rank, processes.count()) for batch in batches[progress.batch :]]
        for rows, inputs in inputs_of(training.items, shares, epoch, settings.workers):
            done = (epoch - epochs[0] + (progress.batch + 0.5) / len(batches)) / len(epochs)  # at the step's middle
            rate = factor(settings, done, progress.stage_step)
            loss = train_step(training, rows, inputs, rate)
            if not math.isfinite(loss):
                raise diverged(loss, progress, rate * settings.learning_rate)

            progress.step += 1
            progress.stage_step += 1
            progress.batch += 1
            progress.loss_sum += loss
            mean = progress.loss_sum / progress.batch
            found, mistaken = progress.found, progress.mistaken
            ends = progress.batch == len(batches)
            share_done = (epoch + progress.batch / len(batches)) / settings.epochs
            if ends:
                method.end_epoch(Context(epoch=epoch, epochs=settings.epochs))
                progress.epoch, progress.batch, progress.loss_sum = epoch + 1, 0, 0.0
                progress.found = progress.mistaken = 0
            rate *= settings.learning_rate
            yield Step(epoch, progress.step, loss, rate, ends, mean, found, mistaken, share_done)


def train_step(training: Training, rows: Tensor, inputs: Tensor, rate: float) -> float:
    """One step on these rows of the training set; the loss of the batch of all processes."""
    fabric, settings, progress, optimizer = training.fabric, training.settings, training.progress, training.optimizer
    assert optimizer is not None
    for group in optimizer.param_groups:
        group["lr"] = rate * group.setdefault("peak", group["lr"])
    # Dropout draws from here: a step's draws depend on the step, not on what ran before it, and are alike everywhere.
    seed_draws(chance.number(training.seed, progress.step))
    training.train()
    loss = gradients(training, rows, inputs)
    for parameter in training.method.parameters():  # the engine averages the gradients of the model only
        if parameter.grad is not None and processes.count() > 1:
            parameter.grad.copy_(processes.total(parameter.grad) / processes.count())
    if settings.clip is not None:
        assert training.wrapped is not None
        fabric.clip_gradients(training.wrapped, optimizer, max_norm=settings.clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if settings.average is not None:
        follow(training, settings.average)
    return float(processes.total(loss)) / processes.count()


def seed_draws(number: int) -> None:
    """`torch.manual_seed` without the stack trace that it keeps for a device not yet used: a tenth of a small step."""
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)


def gradients(training: Training, rows: Tensor, inputs: Tensor) -> Tensor:
    """Backward through all parts of a step. The sum of their numerators is divided by the sum of their denominators."""
    fabric, method, model, parts = training.fabric, training.method, training.wrapped, training.settings.accumulate
    assert model is not None
    if parts == 1:
        outputs, (targets, context) = model(placed(training.fabric, training.model, inputs)), targets_of(training, rows)
        count_found(training, outputs, targets, context)
        loss = method.loss(outputs, targets, context)
        fabric.backward(loss)
        return loss.detach()

    numerator, denominator = torch.zeros((), device=fabric.device), torch.zeros((), device=fabric.device)
    smallest = int(processes.total(torch.tensor(len(rows), device=fabric.device))) // processes.count()
    parts = max(1, min(parts, smallest))  # the same number everywhere, and no part without a row
    taught = []
    for part, some_rows, some_inputs in zip(
        range(parts), rows.tensor_split(parts), inputs.tensor_split(parts), strict=True
    ):
        with fabric.no_backward_sync(model, enabled=part < parts - 1):
            logits = model(placed(training.fabric, training.model, some_inputs))
            targets, context = targets_of(training, some_rows)
            count_found(training, logits, targets, context)
            ratio = method.objective.ratio(logits, targets, context)
            fabric.backward(ratio.numerator * processes.count())
        taught.append((logits.detach(), targets, context))
        numerator = numerator + ratio.numerator.detach() * processes.count()
        denominator = denominator + (0.0 if ratio.denominator is None else ratio.denominator)
    with torch.no_grad():
        for batch in taught:  # after all parts: what one of them teaches must not change the loss of the next
            method.observe(*batch)
    total = processes.total(denominator).clamp(min=1.0)
    for parameter in [*training.model.parameters(), *method.parameters()]:
        if parameter.grad is not None:
            parameter.grad.div_(total.to(parameter.grad))
    return numerator / total


def targets_of(training: Training, rows: Tensor) -> tuple[Targets, Context]:
    device, progress = training.fabric.device, training.progress
    context = Context(index=rows.to(device), epoch=progress.epoch, epochs=training.settings.epochs)
    return training.items.labels.targets(rows).to(device), context


def count_found(training: Training, outputs: Any, targets: Targets, context: Context) -> None:
    """Compare what the method takes unknown labels for with the truth, where it is known. Nothing learns from this."""
    if training.truth is None:
        return
    truth = training.truth.targets(context.items.cpu()).to(training.fabric.device)
    taken = training.method.found_missing(outputs, targets, context)
    right = (taken & truth.observed & (truth.positive > 0.5)).sum()
    wrong = (taken & truth.observed & (truth.negative > 0.5)).sum()
    found, mistaken = processes.total(torch.stack([right, wrong])).tolist()
    training.progress.found += found
    training.progress.mistaken += mistaken


def follow(training: Training, decay: float) -> None:
    """The moving average takes a step towards the model; its first value is the model."""
    if training.average is None:
        training.average = copy.deepcopy(training.model)
        return
    with torch.no_grad():
        for slow, new in zip(training.average.state_dict().values(), training.model.state_dict().values(), strict=True):
            slow.lerp_(new, 1.0 - decay) if slow.is_floating_point() else slow.copy_(new)


def features(training: Training) -> Iterator[tuple[Tensor, Targets]]:
    """Features of this process's share of the training set, for methods that begin a stage with them."""
    rows = 4 * training.settings.batch_size
    return features_of(training.model, training.items, training.fabric, rows)


def diverged(loss: float, progress: Progress, rate: float) -> UserError:
    """Weights after such a step are NaN for ever: better to stop now than to find out at the evaluation."""
    return UserError(
        f"the loss is {loss} at step {progress.step + 1} (epoch {progress.epoch + 1}, learning rate {rate:.2g}): "
        "training has diverged; try a smaller train.learning_rate or train.clip=1, or look for enormous inputs"
    )


def factor(train: Train, done: float, step: int) -> float:
    """The learning rate as a factor of its peak: a linear rise, then the schedule.

    done    0 before the first step of the stage and 1 after its last
    step    counts from 0 in the stage
    """
    if train.warmup_steps is not None:
        rising, risen = step < train.warmup_steps, step / max(train.warmup_steps, 1)
        begin = 0.0
    else:
        rising, risen = done < train.warmup, done / max(train.warmup, 1e-12)
        begin = train.warmup
    if rising:
        return train.warmup_from + (1.0 - train.warmup_from) * risen
    if train.schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * (done - begin) / (1.0 - begin)))
    if train.schedule == "steps":
        return float(train.decay ** sum(done >= milestone for milestone in train.milestones))
    return 1.0

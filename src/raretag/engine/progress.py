"""Where a run stands, and the error when it can go no further."""

from __future__ import annotations

from dataclasses import dataclass

from raretag.core.errors import UserError


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


@dataclass(frozen=True, slots=True)
class Step:
    epoch: int
    step: int
    loss: float
    learning_rate: float
    ends_epoch: bool
    mean_loss: float  # of the epoch so far
    found: int = 0  # see Progress
    mistaken: int = 0


def diverged(loss: float, progress: Progress, rate: float) -> UserError:
    """Weights after such a step are NaN for ever: better to stop now than to find out at the evaluation."""
    return UserError(
        f"the loss is {loss} at step {progress.step + 1} (epoch {progress.epoch + 1}, learning rate {rate:.2g}): "
        "training has diverged; try a smaller train.learning_rate or train.clip=1, or look for enormous inputs"
    )

"""The learning rate as a factor of its peak, from the share of the run that is done."""

from __future__ import annotations

import math

from raretag.engine.config import Train


def factor(train: Train, done: float) -> float:
    """Linear rise over `warmup`, then the schedule. `done` is 0 before the first step and 1 after the last."""
    if done < train.warmup:
        return done / train.warmup
    if train.schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * (done - train.warmup) / (1.0 - train.warmup)))
    if train.schedule == "steps":
        return float(0.1 ** sum(done >= milestone for milestone in train.milestones))
    return 1.0

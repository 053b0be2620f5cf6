"""The learning rate as a factor of its peak, from the share of the stage that is done."""

from __future__ import annotations

import math

from raretag.engine.config import Train


def factor(train: Train, done: float, step: int) -> float:
    """Linear rise, then the schedule.

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

"""What each learner of `blend` is worth: python benchmarks/blend_parts.py slashdot yeast enron

Nothing here looks at a test part. 30 % of the training items (6,000 at most) are put aside with all their labels; the
rest (6,000 at most) teach, with full labels and with PPL 0.4 (each positive is kept with probability 0.4 and nothing
else is known). Learners, folds and shares are those of the package. Printed: mAP of what was put aside, of balanced
logistic regression and, as differences to it, of each learner alone, the blend, the blend without one of them, the best
learner alone (an oracle), and CPU seconds of each learner.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

from raretag.config.settings import compose
from raretag.core.listener import SILENT
from raretag.core.solver import Solver
from raretag.engine.run import run
from raretag.models.heads.blended import Blended
from raretag.solvers.blend import PLAIN, Blend, Stack, stacked, summed
from raretag.solvers.folds import Judge, along_path, deal
from raretag.solvers.learners import Task, dense_rows, gathered, rows_of
from raretag.solvers.newton import Products
from raretag.solvers.regression import mean_precision

MOST = 6000


class GrabbedError(Exception):
    """The features of a run, on their way out of it."""


class Grab(Solver):
    cross_fits = takes_sparse = True

    def solve(self, features, head, listener):
        raise GrabbedError(*gathered(features())[:2])

    def vital_signs(self):
        return {}


def features_of(name):
    changes = [f"data.name={name}", "data.validation=0.0", "method.name=blend_parts:Grab"]
    changes += ["data.features=mobilenetv2"] if name == "voc_mlt" else []
    try:
        run(compose(None, changes), Path(tempfile.mkdtemp()), overwrite=True, listener=SILENT)
    except Exception as found:  # the class has two names where this file is the program
        if type(found).__name__ != "GrabbedError":
            raise
        return found.args


def precision(z, y, known):
    some = known & (y.sum(0) > 0)
    return 100 * float(mean_precision(z[:, some], y[:, some].float()))


def score(stack, fits, tried, task, x):
    """Of rows x [M, D] by the learners of a stack."""
    total = summed(stack, fits, tried, task.positive)
    head = Blended(task.products.columns, task.labels)
    head.fill(total.weight, total.bias)
    if total.of_items is not None:
        x_kept = task.products.x
        centre = x_kept.mean(0) if task.products.dense else torch.zeros(task.products.columns)
        head.keep(x_kept, centre, task.length, total.of_items)
    if total.trees is not None:
        head.plant(total.trees, total.mixing)
    if total.units is not None:
        head.connect(total.units.weight, total.units.bias, total.of_units)
    with torch.no_grad():
        return torch.cat([head(dense_rows(x, rows)) for rows in torch.arange(x.shape[0]).split(500)])


def measure(name, kept):
    x, y = features_of(name)
    random = torch.Generator().manual_seed(0)
    order = torch.randperm(len(y), generator=random)
    first = min(int(0.7 * len(y)), MOST)
    mine, aside = order[:first], order[first:][:MOST]
    positive = y[mine] & (torch.rand(len(mine), y.shape[1], generator=random) < kept)
    task = Task(Products(rows_of(x, mine)), positive, None, deal(positive, 5, 0))
    judge, tried, fits, seconds = Judge(positive, None), {}, {}, {}
    for learner in Blend().learners(task)[0]:
        begun = time.process_time()
        tried[learner.name], _ = along_path(learner.held_out, learner.strengths, task.fold, judge, SILENT)
        fits[learner.name] = learner.fitted(tried[learner.name].strength)
        seconds[learner.name] = time.process_time() - begun

    def of(names):
        stack = stacked({one: tried[one] for one in names}, PLAIN, judge, task.fold)
        return precision(score(stack, fits, tried, task, rows_of(x, aside)), y[aside], positive.any(0)), stack

    def alone(one):
        line = Stack({one: 1.0}, 0.0, tried[one].held_out.scores, 0.0, {})
        return precision(score(line, fits, tried, task, rows_of(x, aside)), y[aside], positive.any(0))

    base, (whole, stack) = alone(PLAIN), of(tried)
    rows = {f"{one} alone": alone(one) - base for one in tried if one != PLAIN}
    rows["blend"] = whole - base
    for one in (name for name in tried if name != PLAIN):
        rows[f"without {one}"] = of([name for name in tried if name != one])[0] - base
    rows["best learner"] = max(0.0, *(rows[f"{one} alone"] for one in tried if one != PLAIN))
    print(f"{name}, {'full labels' if kept == 1 else f'PPL {kept:g}'}, {first:,} items: {PLAIN} {base:.1f}; ", end="")
    print(", ".join(f"{title} {value:+.1f}" for title, value in rows.items()), end="; ")
    print("shares", {one: round(share, 2) for one, share in stack.shares.items()}, end="; ")
    print("CPU s", {one: round(value, 1) for one, value in seconds.items()}, flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        for kept in (1.0, 0.4):
            measure(name, kept)

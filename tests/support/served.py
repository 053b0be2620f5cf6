"""Small finished runs that the tests of `serve` share."""

from __future__ import annotations

import csv

import numpy as np

from raretag.config.settings import compose
from support.runs import run


def train(folder, changes=(), data=None, own=None, **more):
    config = compose(None, ["train.epochs=1", *changes], data=None if data is None else str(data))
    run(config, folder, data=own, **more)
    return folder


def digits(folder, *changes):
    return train(folder, ["data.largest=60", "model.name=mlp", *changes])


def feature_rows(path, items=60, seed=0):
    """A table of three features, two labels, and a part for each row; the first feature decides the first label."""
    values = np.random.default_rng(seed).normal(size=(items, 3)) * [1.0, 100.0, 0.01] + [0.0, 5000.0, 1.0]
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["name", "a", "b", "c", "tags", "split"])
        for row, (a, b, c) in enumerate(values):
            tags = ";".join(tag for tag, there in (("up", a > 0), ("wide", b > 5000)) if there)
            rows.writerow([f"item{row}", a, b, c, tags, ("train", "train", "val", "test")[row % 4]])
    return values

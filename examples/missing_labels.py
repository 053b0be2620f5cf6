"""The loop: train, ask about labels that are probably missing, put the answers in, train again.

60 % of the positives are hidden on purpose, so the hidden truth can play the person who answers.
"""

from __future__ import annotations

import numpy as np
import torch

import raretag

ITEMS, FEATURES, TAGS = 400, 20, 6


def main() -> None:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(ITEMS + 2000, FEATURES)).astype("float32")
    truth = X @ draw.normal(size=(FEATURES, TAGS)) > np.linspace(2, 7, TAGS)  # the last tags are rare
    marked = np.where(truth & (draw.random(truth.shape) < 0.4), 1.0, np.nan)[:ITEMS]  # NaN: nobody looked
    ids = [str(row) for row in range(ITEMS)]

    first = train(X[:ITEMS], marked, ids)
    found = raretag.suggest(first, most=300, wrong=0, folds=3)
    answers = [truth[int(one.item), int(one.label)] for one in found]
    print(f"{len(answers)} questions, {sum(answers)} of them about tags that are truly there")

    answered = marked.copy()
    for one, yes in zip(found, answers, strict=True):
        answered[int(one.item), int(one.label)] = float(yes)
    second = train(X[:ITEMS], answered, ids)

    there = raretag.Targets.from_dense(truth[ITEMS:].astype("float32"))
    for name, run in (("before", first), ("after", second)):
        scores = torch.from_numpy(run.predict(X[ITEMS:]).probabilities)
        print(f"mAP {name}: {100 * raretag.metrics.mean_average_precision(scores, there):.1f}")


def train(inputs: np.ndarray, labels: np.ndarray, ids: list[str]) -> raretag.Run:
    return raretag.train(raretag.data.from_arrays(inputs, labels, ids=ids, test=0.0), effort="quick")


if __name__ == "__main__":
    main()

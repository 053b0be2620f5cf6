"""Which score of held-out folds has the methods of a race in the order of the test: plain mAP, or balanced mAP?

    RARETAG_DATA=... python benchmarks/race_scores.py voc_mlt enron

Every racer of `raretag inspect --recommend` is trained on five folds; no one leaves. Compare with the test numbers of
benchmarks/recommend.py. Nothing is written.
"""

from __future__ import annotations

import sys

import torch
from scipy.stats import rankdata

from raretag.config.settings import compose
from raretag.data.sources import load
from raretag.engine.out_of_fold import train_without, with_features
from raretag.labels.split import split
from raretag.metrics.weighted import WeightedAveragePrecision
from raretag.recommend.race import rarity
from recommend import SETS, racers

FOLDS = 5


def scores(name: str) -> None:
    config = compose(None, SETS[name], name)
    data, settled = with_features(load(config.data, config.seed), config, print)
    targets = data.train.labels.targets()
    weights = torch.stack([torch.ones(len(data.train)).double(), rarity(data.train.labels.positives)], 1)
    print(f"\n{name:30s}   plain  balanced")
    for one in racers(name):
        chosen = compose(None, [*SETS[name], *one.changes], name).model_copy(update={"encoder": settled.encoder})
        ranks = torch.zeros(len(data.train), data.train.labels.labels, dtype=torch.float64)
        for rows in split(data.train.labels, [1 / FOLDS] * FOLDS, config.seed).parts:
            logits = train_without(chosen, data, rows, lambda epochs: None)
            ranks[torch.from_numpy(rows)] = torch.from_numpy(rankdata(logits, axis=0) / len(rows))
        plain, balanced = 100 * WeightedAveragePrecision(ranks, targets).of(weights).nanmean(0)
        print(f"{one.label:30s} {plain:7.1f} {balanced:9.1f}", flush=True)


if __name__ == "__main__":
    for given in sys.argv[1:]:
        scores(given)

"""What answers teach: mAP on untouched test items after 100, 300 and 1,000 answers, for several orders of asking.

    python benchmarks/teach.py --seeds 0 1 2 --cache runs/promises
    python benchmarks/teach.py --table
    python benchmarks/teach.py --put-aside --seeds 40 41 && python benchmarks/teach.py --put-aside --table

60 % of the training positives are hidden; a simulated person answers with the truth, in the order of
`raretag suggest --teach` ("gain"), by probability, by cleanlab's self-confidence (left out if it is not installed) or
at random; then balanced logistic regression is solved again for the labels that changed, on the features that training
uses and with the strength that was chosen before, so that nothing but the answers makes a difference. "ceiling": all
hidden positives of the labels that have a mark, which no order can surpass by much. Needs $RARETAG_DATA. Scores out of
fold are those of promises.py.
Result: benchmarks/results/teach.json; a number that it has is not measured again, so a run can be stopped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

import promises
from raretag.data.dataset import DataSet
from raretag.data.sources import group_counts
from raretag.engine.batches import build_fabric, features_of
from raretag.engine.prepare import prepare
from raretag.labels.corrections import Places
from raretag.labels.counts import groups
from raretag.solvers.learners import gathered
from raretag.solvers.regression import choose, solved
from raretag.suggestions.probabilities import estimate_probabilities
from raretag.suggestions.selection import list_suggestions, pick_teaching
from raretag.suggestions.teaching import teaching_order

RESULT = Path(__file__).parent / "results" / "teach.json"
ASIDE_RESULT = RESULT.with_name("teach_aside.json")
SETS = ("voc", "goemotions", "corel5k", "arxiv")
ASIDE_SETS = (*SETS, "yeast", "slashdot", "enron", "langlog", "bibtex")
ASIDE = 0.3  # of the training items
POWERS = (1.0, 1.5, 2.0)
FEWEST = 3  # labels of a tail, below which a set has no say in the choice of the power
KEEP = 0.4
COUNTS = (100, 300, 1000)
ORDERS = {
    "gain": "what helps rare labels most",
    "probability": "likeliest first",
    "cleanlab": "cleanlab's self-confidence",
    "random": "random",
}
Entries = list[tuple[int, int]]  # row and label, in the order of asking


def orders(z: np.ndarray, marked: np.ndarray, data: DataSet, seed: int) -> dict[str, Entries]:
    places, most = Places(data.train.labels), max(COUNTS)
    taught = list_suggestions(z, data.train.labels, {}, most=most, wrong=0, teach=True)
    sure = list_suggestions(z, data.train.labels, {}, most=most, wrong=0, quota=0.0)
    free = np.argwhere(~marked)
    drawn = free[np.random.default_rng(seed).permutation(len(free))[:most]]
    return {
        "gain": [
            (places.row[one.item], places.column[one.label]) for one in sorted(taught, key=lambda one: one.turn or 0)
        ],
        "probability": [(places.row[one.item], places.column[one.label]) for one in sure],
        **cleanlab_order(z, marked),
        "random": [(int(row), int(label)) for row, label in drawn],
    }


def orders_by_power(z: np.ndarray, marked: np.ndarray, data: DataSet) -> dict[str, Entries]:
    entries = estimate_probabilities(z, data.train.labels.targets())
    found = {}
    for power in POWERS:
        picked = pick_teaching(entries, z, max(COUNTS), power)
        p = entries.probability(entries.t[picked.row, picked.label])
        order = teaching_order(p, picked.label, marked.sum(axis=0), z[picked.row], power=power)
        found[f"{power:g}"] = list(zip(picked.row[order].tolist(), picked.label[order].tolist(), strict=True))
    return found


def cleanlab_order(z: np.ndarray, marked: np.ndarray) -> dict[str, Entries]:
    """Labels that cleanlab doubts, of each label by its self-confidence; only those that are not marked."""
    try:
        from cleanlab.rank import get_self_confidence_for_each_label
    except ImportError:
        return {}
    p = 1 / (1 + np.exp(-z))
    quality = np.ones_like(p)
    for label in np.flatnonzero(marked.any(axis=0)):
        both = np.stack([1 - p[:, label], p[:, label]], axis=1)
        quality[:, label] = get_self_confidence_for_each_label(marked[:, label].astype(int), both)
    quality[marked] = np.inf
    order = np.argsort(quality, axis=None, kind="stable")[: max(COUNTS)]
    return {"cleanlab": [(int(at // p.shape[1]), int(at % p.shape[1])) for at in order]}


class Model:
    """Balanced logistic regression of each label, and its average precision on the test items."""

    def __init__(self, name: str, seed: int, marked: np.ndarray, aside: float) -> None:
        self.config, self.data = promises.read(name, KEEP, seed, aside)
        prepared = prepare(self.config, build_fabric(self.config.train), data=self.data)
        parts = (prepared.data.train, prepared.data.test)
        with torch.no_grad():
            (self.x, _, _), (self.new, truth, _) = (
                gathered(features_of(prepared.model, items, prepared.fabric, 512, keep_sparse=True)) for items in parts
            )
        self.truth = truth.numpy()
        self.members = groups(group_counts(self.data), self.config.group_edges)
        self.marked = torch.from_numpy(marked).float()
        self.strength = choose(self.x, self.marked, 3, 0).strength
        self.before = self.precision(self.marked, list(range(marked.shape[1])))

    def precision(self, positive: Tensor, labels: list[int]) -> Tensor:
        """Average precision of these labels, NaN without a test positive."""
        theta = solved(self.x, positive[:, labels].contiguous(), self.strength)
        z = np.asarray(self.new @ theta[:, :-1].T.numpy() + theta[:, -1].numpy())
        return torch.tensor(
            [
                average_precision_score(self.truth[:, label], z[:, place]) if self.truth[:, label].any() else np.nan
                for place, label in enumerate(labels)
            ]
        )

    def after(self, found: Entries) -> dict[str, float]:
        """mAP of all labels and of each group, after these positives were found."""
        positive, precision = self.marked.clone(), self.before.clone()
        for row, label in found:
            positive[row, label] = 1.0
        if found:
            labels = sorted({label for _, label in found})
            precision[labels] = self.precision(positive, labels)
        some = {"total": precision, **{name: precision[labels] for name, labels in self.members.items()}}
        return {name: float(values.nanmean()) for name, values in some.items() if len(values)}


def trial(
    name: str, seed: int, cache: Path, result: dict[str, Any], counts: list[int], aside: float = 0.0
) -> Iterator[str]:
    """Measures what `result` lacks of a set and a seed, and tells of each number when it is there."""
    titles = [f"{power:g}" for power in POWERS] if aside else list(ORDERS)
    names = [f"{order}, {count}" for order in titles for count in counts]
    if all(one in result for one in ("before", "ceiling", *names)):
        return
    scored = promises.scored(name, KEEP, seed, cache, aside)
    truth, marked = scored["truth"], scored["marked"]
    model = Model(name, seed, marked, aside)
    z = scored["z"].astype(np.float64)
    asking = orders_by_power(z, marked, model.data) if aside else orders(z, marked, model.data, seed)
    hidden = np.argwhere(truth & ~marked & marked.any(axis=0))
    tested = torch.from_numpy(model.truth).bool().any(dim=0)
    members = {name: int(tested[some].sum()) for name, some in model.members.items()}
    result["labels"] = {"total": int(tested.sum()), **members}
    asked: dict[str, Entries] = {"before": [], "ceiling": [(int(row), int(label)) for row, label in hidden]}
    for order, entries in asking.items():
        asked |= {f"{order}, {count}": entries[:count] for count in counts}
    for key, entries in asked.items():
        if key not in result:
            found = [at for at in entries if truth[at]]
            right = {"right": len(found) / len(entries)} if entries else {}
            result[key] = {**model.after(found), **right}
            yield key


def table(found: dict[str, Any], group: str) -> str:
    """Changes in points, means over seeds; and in how many seeds the first order is ahead of each other one."""
    trials = {name: [one for key, one in found.items() if key.startswith(f"{name},")] for name in SETS}
    trials = {name: [one for one in some if f"{[*ORDERS][-1]}, {COUNTS[-1]}" in one] for name, some in trials.items()}
    trials = {name: some for name, some in trials.items() if some}
    lines = ["| order | " + " | ".join(f"{name}, {len(some)} seeds" for name, some in trials.items()) + " |"]
    lines.append("|---|" + "---|" * len(trials))

    def change(one: dict[str, Any], key: str) -> float:
        return 100 * (one[key][group] - one["before"][group])

    for order, title in ORDERS.items():
        cells = []
        for some in trials.values():
            means = [f"{mean(change(one, f'{order}, {count}') for one in some):+.1f}" for count in COUNTS]
            ahead = [
                sum(change(one, f"gain, {count}") > change(one, f"{order}, {count}") for one in some)
                for count in COUNTS
            ]
            cells.append(" ".join(means) + ("" if order == "gain" else f" ({', '.join(map(str, ahead))})"))
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    ceilings = [f"{mean(change(one, 'ceiling') for one in some):+.1f}" for some in trials.values()]
    starts = [f"{100 * mean(one['before'][group] for one in some):.1f}" for some in trials.values()]
    lines.append("| all hidden positives of labels with a mark | " + " | ".join(ceilings) + " |")
    lines.append("| before, % | " + " | ".join(starts) + " |")
    rights = [
        " ".join(f"{mean(one[f'{order}, {count}']['right'] for one in some):.2f}" for count in COUNTS)
        for order in ("gain", "probability")
        for some in trials.values()
    ]
    lines.append("| share of yes, this order | " + " | ".join(rights[: len(trials)]) + " |")
    lines.append("| share of yes, likeliest first | " + " | ".join(rights[len(trials) :]) + " |")
    return "\n".join(lines)


def table_of_powers(found: dict[str, Any], group: str) -> str:
    """Changes in points, means over seeds; the last columns are means over sets and answers, and without each set."""
    trials = {name: [one for key, one in found.items() if key.startswith(f"{name},")] for name in ASIDE_SETS}
    trials = {name: some for name, some in trials.items() if some}

    def change(some: list[dict[str, Any]], key: str) -> float:
        return float(
            np.nanmean([100 * (one[key].get(group, np.nan) - one["before"].get(group, np.nan)) for one in some])
        )

    lines = ["| power | " + " | ".join(f"{name}, {len(some)} seeds" for name, some in trials.items()) + " | mean |"]
    lines.append("|---|" + "---|" * (len(trials) + 1))
    voters = [name for name, some in trials.items() if min(one["labels"].get(group, 0) for one in some) >= FEWEST]
    means: dict[str, dict[str, float]] = {}
    for power in (f"{one:g}" for one in POWERS):
        each = {name: [change(some, f"{power}, {count}") for count in COUNTS] for name, some in trials.items()}
        means[power] = {name: mean(each[name]) for name in voters}
        cells = [" ".join(f"{value:+.1f}" for value in values) for values in each.values()]
        lines.append(f"| {power} | " + " | ".join(cells) + f" | {mean(means[power].values()):+.2f} |")
    ceilings = [f"{change(some, 'ceiling'):+.1f}" for some in trials.values()]
    lines.append("| all hidden positives of labels with a mark | " + " | ".join(ceilings) + " | |")
    best = {
        name: max(means, key=lambda power: mean(value for one, value in means[power].items() if one != name))
        for name in voters
    }
    lines += ["", f"{group}: best without " + ", ".join(f"{name}: {power}" for name, power in best.items())]
    rights = {
        power: " ".join(
            f"{mean(one[f'{power}, {count}']['right'] for some in trials.values() for one in some):.2f}"
            for count in COUNTS
        )
        for power in means
    }
    return "\n".join([*lines, "share of yes: " + "; ".join(f"{power}: {text}" for power, text in rights.items())])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=Path, default=Path("runs/promises"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--counts", type=int, nargs="+", default=list(COUNTS))
    parser.add_argument("--result", type=Path)
    parser.add_argument("--put-aside", action="store_true", help="choose the power, on training items put aside")
    parser.add_argument("--table", action="store_true", help="print what was measured, for the tail and for all labels")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    aside = ASIDE if arguments.put_aside else 0.0
    file = arguments.result or (ASIDE_RESULT if aside else RESULT)
    found = json.loads(file.read_text()) if file.exists() else {}
    if arguments.table:
        print(*((table_of_powers if aside else table)(found, group) for group in ("tail", "total")), sep="\n\n")
        return
    for seed in arguments.seeds:
        for name in arguments.sets or (ASIDE_SETS if aside else SETS):
            result = found.setdefault(f"{name}, {seed}", {})
            for key in trial(name, seed, arguments.cache, result, arguments.counts, aside):
                print(name, seed, key, result[key], flush=True)
                file.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

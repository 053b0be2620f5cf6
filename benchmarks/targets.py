"""Every goal of speed and size with what was measured last, in one table: met or missed.

    python benchmarks/targets.py [--since FILE]

Reads benchmarks/results/*.json, which the other files here write; `make bench-speed` runs them all first, and with
`--since` what is older than that file is not shown. Where a goal has several cases the worst one counts and is named.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from growth import LINEAR, steepest

RESULTS = Path(__file__).parent / "results"


class Target(NamedTuple):
    what: str
    measured: float
    goal: float
    at_least: bool = False
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.measured >= self.goal if self.at_least else self.measured <= self.goal


def fused(found: dict[str, Any]) -> Iterator[Target]:
    about = found["about"]
    for threads, sizes in found["threads"].items():
        for size, table in sizes.items():
            ours = {name: row for name, row in table.items() if "met" in row and "distribution" not in name}
            if not ours:
                continue  # a small size, without goal
            slowest = max(ours, key=lambda name: ours[name]["cost"])
            case = f"{size.replace('x', ' x ')}, {threads} thread{'s' if threads != '1' else ''}"
            name = slowest.partition(" ")[0]
            yield Target(
                f"loss and gradient, six scores, {case}: {name}", ours[slowest]["cost"], about["goal"], unit="BCE"
            )
            most = max(row["floats"] for row in ours.values())
            yield Target(f"its memory beyond inputs, {case}", most, about["goal_floats"], unit="B x C")


def metrics(found: dict[str, Any]) -> Iterator[Target]:
    for row in found["average_precision"]:
        for other in ("torchmetrics", "scikit-learn"):
            what = f"exact AP, {row['items']:,} x {row['labels']:,} {row['dtype']}, times as fast as {other}"
            yield Target(what, row[f"times as fast as {other}"], row["goal"], at_least=True)
    largest = max(row["largest difference from scikit-learn"] for row in found["average_precision"])
    yield Target("exact AP, largest difference from scikit-learn", largest, 1e-12)
    for row in found["resampling"]:
        yield Target(row["what"], row["seconds"], row["goal"], unit="s")


def large_labels(found: dict[str, Any]) -> Iterator[Target]:
    for row in found["results"]:
        if row["goal"] is not None:
            yield Target(f"{found['labels']:,} labels, {row['what']}", row["measured"], row["goal"], unit=row["unit"])


def labels(found: dict[str, Any]) -> Iterator[Target]:
    for row in found["results"]:
        yield Target(row["what"], row["measured"], row["goal"], row["at_least"], row["unit"])


def sampling(found: dict[str, Any]) -> Iterator[Target]:
    slowest = min(found, key=lambda size: found[size]["per_second"])
    yield Target(f"class-aware sampler, {slowest}", found[slowest]["per_second"], 10e6, True, "indices/s")


def data_path(found: list[dict[str, Any]]) -> Iterator[Target]:
    for row in found:
        case = f"VOC features, {row['model']}, batches of {row['batch']}"
        if row["model"] == "linear" and row["batch"] == 256:
            yield Target(f"{case}: epochs", row["epochs_per_second"], 50.0, True, "1/s")
        yield Target(f"{case}: in model, loss, optimizer", 100 * row["computing"], 50.0, True, "%")


def images(found: dict[str, Any]) -> Iterator[Target]:
    rows = {row["what"]: row for row in found["results"]}
    one, two = (rows[f"read, resized, augmented, {some}"] for some in ("1 worker process", "2 worker processes"))
    yield Target("images from disk: CPU time outside of two workers", 100 * two["outside_of_workers"], 10.0, unit="%")
    gain = two["images_per_second"] / one["images_per_second"]
    yield Target("images from disk: two workers over one, by the wall clock", gain, 1.7, at_least=True)


def growth_quick(found: list[dict[str, Any]]) -> Iterator[Target]:
    for axis in ("items", "labels"):
        name, exponent = steepest(found, axis)
        yield Target(f"growth over {axis}, steepest exponent of time: {name}", exponent, LINEAR)


def step_cost(found: dict[str, Any]) -> Iterator[Target]:
    for goal in sorted({row["goal"] for row in found["methods"].values()}):
        costs = {name: row["cost"] for name, row in found["methods"].items() if row["goal"] == goal}
        name = max(costs, key=lambda one: costs[one])
        yield Target(f"training step, {len(costs)} methods: {name}", costs[name], goal, unit="BCE")


SOURCES = (fused, metrics, large_labels, sampling, labels, data_path, images, growth_quick, step_cost)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--since", type=Path)
    since = arguments.parse_args().since
    begin = 0.0 if since is None else since.stat().st_mtime
    print(f"\n{'':<84}{'measured':>14}{'goal':>15}")
    missed = number = 0
    for source in SOURCES:
        path = RESULTS / f"{source.__name__}.json"
        if not path.exists() or path.stat().st_mtime < begin:
            print(f"{source.__name__}: not measured")
            continue
        for target in source(json.loads(path.read_text())):
            number, missed = number + 1, missed + (not target.met)
            goal = f"{'>=' if target.at_least else '<='} {target.goal:,.4g}"
            said = "met" if target.met else "MISSED"
            print(f"{target.what:<84}{target.measured:>14,.4g}{goal:>15}  {target.unit:<10}{said}")
    print(f"{number - missed} of {number} goals met, {missed} missed")


if __name__ == "__main__":
    main()

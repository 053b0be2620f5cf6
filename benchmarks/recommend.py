"""Is the advice of `raretag inspect DATA --recommend` good? Its choice against every method of its race, on TEST items.

    RARETAG_DATA=... python benchmarks/recommend.py --seeds 0 1 --write docs/benchmarks/recommend.md

The race sees training items only. Then every racer is trained on the whole training part with each seed. Choices and
runs that are in the folder of runs are not made again, so it can be stopped at any time.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from safetensors.torch import load_file

from raretag.bench import runner
from raretag.bench.plan import Cell, Plan, Row, cells
from raretag.bench.results import final_of
from raretag.config.settings import compose, parsed
from raretag.core.errors import UserError
from raretag.data.sources import load
from raretag.metrics.intervals import paired_difference
from raretag.recommend.candidates import Candidate, entrants
from raretag.recommend.race import recommend
from raretag.runs import evidence

SETS = {
    "enron": [],
    "corel5k": [],
    "voc_mlt": ["data.features=mobilenetv2"],
    "goemotions": ["data.texts=5000", "data.encoder=minilm"],
    "yeast": [],
    "slashdot": [],
    "digits": [],
}
BASELINES = ("logistic regression", "BCE", "BCE, three times as long")  # the last two together: tuned BCE


def choice_of(name: str, minutes: float, folder: Path) -> dict[str, Any]:
    path = folder / f"{name}.json"
    if not path.exists():
        started = time.process_time()
        outcome = recommend(name, SETS[name], minutes=minutes, clock=time.process_time)  # on a busy machine too
        if outcome.choice is None:
            raise UserError(f"{name}: {outcome.reason()}")
        found = outcome.as_dict(name, SETS[name])
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found | {"minutes": minutes, "seconds": time.process_time() - started}, indent=1))
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


@cache
def racers(name: str) -> tuple[Candidate, ...]:
    config = compose(None, SETS[name], name)
    return tuple(entrants(load(config.data, config.seed), config))


def grid_of(name: str, seeds: list[int]) -> list[Cell]:
    methods = [Row(label=one.label, set=settings(one.changes)) for one in racers(name)]
    data = Row(label=name, set={"data.name": name, **settings(SETS[name])})
    return cells(Plan(title="", data=[data], methods=methods, seeds=seeds, metrics={}, budgets={"": {}}), "")


def settings(changes: list[str] | tuple[str, ...]) -> dict[str, Any]:
    return {key: parsed(value) for key, _, value in (change.partition("=") for change in changes)}


def measured(name: str, seeds: list[int], runs: Path, choice: dict[str, Any]) -> dict[str, Any]:
    """Test mAP of every racer, and how far the choice is from each, over the same seeds and items."""
    grid = grid_of(name, seeds)
    folders = {(cell.method.label, cell.seed): runs / cell.name for cell in grid}
    labels = list(dict.fromkeys(cell.method.label for cell in grid))
    scores = {label: [final_of(folders[label, seed]) for seed in seeds] for label in labels}
    done = {label: [one["mAP"]["total"] for one in some if one] for label, some in scores.items()}
    finished = [label for label in labels if len(done[label]) == len(seeds)]
    logits = {
        label: [load_file(folders[label, seed] / "logits.safetensors")["test"] for seed in seeds] for label in finished
    }
    chosen = choice["choice"]
    targets = evidence.unpacked("test", evidence.read(folders[chosen, seeds[0]])) if chosen in finished else None
    apart = {
        label: paired_difference(logits[chosen], logits[label], targets, resamples=500)["total"].as_dict()
        for label in finished
        if targets is not None and label != chosen
    }
    return {"mAP": {label: done[label] for label in finished}, "choice_minus": apart, "recommend": choice}


def verdict(found: dict[str, Any]) -> dict[str, Any]:
    """Behind the best racer in points, and the baselines that are clearly better than the choice."""
    means = {label: mean(values) for label, values in found["mAP"].items()}
    best = max(means, key=lambda label: means[label])
    lost = [name for name in BASELINES if name in found["choice_minus"] and found["choice_minus"][name]["high"] < 0]
    return {"best": best, "behind": 100 * (means[best] - means[found["recommend"]["choice"]]), "lost_to": lost}


def page(results: dict[str, Any], seeds: list[int], minutes: float) -> str:
    some = "" if set(results) == set(SETS) else f"--sets {' '.join(results)} "
    labels = list(dict.fromkeys(label for found in results.values() for label in found["mAP"]))
    lines = [
        "# Is the recommendation good?",
        "",
        "`raretag inspect DATA --recommend` races a few methods on folds of the training items and names one. Here",
        f"every racer was then trained on all training items with seeds {', '.join(map(str, seeds))}: mean TEST mAP",
        "in %, the choice bold.",
        f"Each race had {minutes:g} minutes of one core.",
        "",
        f"    RARETAG_DATA=... python benchmarks/recommend.py --minutes {minutes:g} "
        f"--seeds {' '.join(map(str, seeds))} {some}--write docs/benchmarks/recommend.md",
        "",
        "| method | " + " | ".join(results) + " |",
        "|---|" + "---|" * len(results),
    ]
    for label in labels:
        row = []
        for found in results.values():
            text = f"{100 * mean(found['mAP'][label]):.1f}" if label in found["mAP"] else "-"
            row.append(f"**{text}**" if label == found["recommend"]["choice"] else text)
        lines.append(f"| {label} | " + " | ".join(row) + " |")
    verdicts = {name: verdict(found) for name, found in results.items()}
    lines.append("| behind the best | " + " | ".join(f"{one['behind']:.1f}" for one in verdicts.values()) + " |")
    lines += ["", "| data | settings | race | choice minus logistic regression | minus BCE | minus BCE, longer |"]
    lines.append("|---|---|---|---|---|---|")
    for name, found in results.items():
        race = found["recommend"]
        apart = [difference(found["choice_minus"].get(label)) for label in BASELINES]
        asked = " ".join(f"`{change}`" for change in SETS[name]) or "defaults"
        lines.append(
            f"| {name} | {asked} | {race['items']:,} items, {race['seconds']:.0f} s of one core | {' | '.join(apart)} |"
        )
    near = sum(one["behind"] <= 1 for one in verdicts.values())
    lost = [f"{name} ({', '.join(one['lost_to'])})" for name, one in verdicts.items() if one["lost_to"]]
    lines += [
        "",
        f"Within one point of the best racer on {near} of {len(results)} sets. Clearly worse than a baseline (95 %",
        "interval of the paired bootstrap over test items, of the mean over seeds, below 0): "
        f"{', '.join(lost) or 'on none'}.",
    ]
    return "\n".join(lines) + "\n"


def difference(found: dict[str, Any] | None) -> str:
    return (
        "itself"
        if found is None
        else f"{100 * found['value']:+.1f} [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}]"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--sets", nargs="+", default=list(SETS)[:5], choices=list(SETS))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--runs", type=Path, default=Path("runs/recommend"))
    parser.add_argument("--only", choices=("race", "train"), help="one half of the work")
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    for name in asked.sets if asked.only != "race" else []:
        failed = runner.run(grid_of(name, asked.seeds), asked.runs, jobs=1, threads=1, on_end=print_end)
        if failed:
            raise UserError("; ".join(f"{cell}: {outcome.error}" for cell, outcome in failed.items()))
    if asked.only == "train":
        return
    choices = {name: choice_of(name, asked.minutes, asked.runs / f"race-{asked.minutes:g}") for name in asked.sets}
    if asked.only == "race":
        return
    results = {name: measured(name, asked.seeds, asked.runs, choices[name]) for name in asked.sets}
    text = page(results, asked.seeds, asked.minutes)
    print(text)
    if asked.write:
        kept = Path(__file__).parent / "results" / "recommend.json"
        kept.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        before = asked.write.read_text(encoding="utf-8") if asked.write.exists() else ""
        reading = before[before.find("\n## Reading") :] if "\n## Reading" in before else ""  # the hand-written end
        asked.write.write_text(text + reading, encoding="utf-8")


def print_end(cell: Cell, seconds: float, outcome: runner.Outcome) -> None:
    print(f"{cell.name}: {outcome.error or f'{seconds:.0f} s'}", flush=True)


if __name__ == "__main__":
    main()

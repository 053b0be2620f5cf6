"""What thresholds and calibration do on test items: 0.5, the best cut of each label alone, and `metrics.tuning`.

    RARETAG_DATA=... python benchmarks/thresholds.py --seeds 0 1 2 --write docs/benchmarks/thresholds.md

Trains what is not in the folder of runs yet (minutes on one core), then only reads the logits that runs keep.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from raretag.config.settings import Config, checked, compose, read
from raretag.core.targets import Targets
from raretag.data.sources import group_counts, load
from raretag.engine.run import run
from raretag.labels.counts import groups
from raretag.metrics import decisions
from raretag.metrics.calibration import best_f1_thresholds, calibration_error, class_calibration_error
from raretag.metrics.tuning import tune

SETS = {
    "voc_mlt": ["data.features=mobilenetv2", "data.validation=0.3", "train.epochs=15"],
    "corel5k": ["data.validation=0.2", "train.epochs=15"],
    "goemotions": ["train.epochs=3", "train.batch_size=128"],
}
CUTS = {"half": "0.5", "alone": "each label alone", "tuned": "tuned"}
COLUMNS = {
    "macro": "macro F1",
    "head": "head",
    "medium": "medium",
    "tail": "tail",
    "third": "rarest third",
    "micro": "micro F1",
}


def trained(folder: Path, name: str, seed: int) -> Config:
    if not (folder / "logits.safetensors").exists():
        run(compose(None, [f"data.name={name}", *SETS[name], f"seed={seed}"]), folder, overwrite=True)
    return checked(read(folder / "config.yaml"))


def f1_of(decided: Tensor, targets: Targets, members: dict[str, Tensor]) -> dict[str, float]:
    counts = decisions.DecisionCounts.of(decided, targets)
    each = decisions.f1(counts)
    means = {name: float(each[labels].nanmean()) for name, labels in members.items()}
    return {"macro": decisions.macro_f1(counts), **means, "micro": decisions.micro_f1(counts)}


def measured(folder: Path, name: str, seed: int) -> dict[str, Any]:
    config = trained(folder, name, seed)
    data, logits = load(config.data, config.seed), load_file(folder / "logits.safetensors")
    counts = group_counts(data)
    parts = groups(counts, config.group_edges)
    members = {**parts, "third": torch.argsort(counts, stable=True)[: len(counts) // 3]}
    known, targets = (part.labels.targets() for part in (data.validation, data.test))
    tuned = tune(logits["validation"], known, parts, seed=config.seed)
    before, after = logits["test"].double().sigmoid(), tuned.calibrated(logits["test"]).sigmoid()
    alone = best_f1_thresholds(logits["validation"].double().sigmoid(), known)
    return {
        "half": f1_of(before > 0.5, targets, members),
        "alone": f1_of(before > alone, targets, members),
        "tuned": f1_of(after > tuned.thresholds, targets, members),
        "ece": [calibration_error(p, targets) for p in (before, after)],
        "class": [float(class_calibration_error(p, targets).nanmean()) for p in (before, after)],
        "notes": tuned.notes,
        "labels": {part: len(labels) for part, labels in members.items()},
    }


def shown(values: list[float]) -> str:
    values = [100 * value for value in values if value == value]
    if not values:
        return "-"
    return f"{statistics.mean(values):.1f}" + (f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else "")


def page(found: dict[str, list[dict[str, Any]]], seeds: list[int]) -> str:
    lines = [
        "# Thresholds and calibration",
        "",
        "F1 in % on TEST items at three choices of thresholds, and the expected calibration error (ECE, in %) before",
        "and after calibration. Thresholds and calibration come from validation items alone. Binary cross entropy on",
        f"frozen features or TF-IDF, short trainings, {len(seeds)} seed(s): the mean over seeds, and",
        "± their deviation. Head, medium and tail by training positives (100, 20); beside them the rarest third of the",
        "labels, as GoEmotions has no tail in that sense. Macro means leave out labels without test positives.",
        "",
        f"    RARETAG_DATA=... python benchmarks/thresholds.py --seeds {' '.join(map(str, seeds))} "
        "--write docs/benchmarks/thresholds.md",
    ]
    for name, runs in found.items():
        sizes = runs[0]["labels"]
        lines += [
            "",
            f"## {name}",
            "",
            f"| thresholds | {' | '.join(COLUMNS.values())} |",
            "|---|" + "---|" * len(COLUMNS),
        ]
        lines += [
            f"| {called} | " + " | ".join(shown([one[cut][column] for one in runs]) for column in COLUMNS) + " |"
            for cut, called in CUTS.items()
        ]
        errors = {
            key: " to ".join(f"{100 * statistics.mean(one[key][when] for one in runs):.2f}" for when in (0, 1))
            for key in ("ece", "class")
        }
        lines += [
            "",
            f"Labels: head {sizes['head']}, medium {sizes['medium']}, tail {sizes['tail']}; "
            f"{runs[0]['notes']['validation_items']:,} validation items. "
            f"ECE of all labels together {errors['ece']}, mean over labels {errors['class']}. "
            f"Chosen by cross-fitting: spread {', '.join(str(one['notes']['spread']) for one in runs)}; "
            f"k {', '.join('inf' if one['notes']['k'] is None else format(one['notes']['k'], 'g') for one in runs)}.",
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--runs", type=Path, default=Path("runs/thresholds"))
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    found = {name: [measured(asked.runs / f"{name}-{seed}", name, seed) for seed in asked.seeds] for name in asked.sets}
    text = page(found, asked.seeds)
    print(text)
    if asked.write:
        before = asked.write.read_text(encoding="utf-8") if asked.write.exists() else ""
        reading = before[before.find("\n## Reading") :] if "\n## Reading" in before else ""  # the hand-written end
        asked.write.write_text(text + reading, encoding="utf-8")


if __name__ == "__main__":
    main()

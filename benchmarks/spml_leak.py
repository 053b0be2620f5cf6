"""How much is gained by choosing on complete validation labels: `python benchmarks/spml_leak.py FOLDER`.

FOLDER holds the runs of `raretag bench spml --out FOLDER`. For each method the learning rate with the better mean
validation mAP is taken, once by complete validation labels and once by one positive per image; the difference of the
two in test AP has an interval over labels.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from raretag.bench.plan import cells, load
from raretag.bench.results import final_of, interval


def main(runs: Path) -> None:
    plan = load("spml")
    found: dict[tuple[str, str, str], dict[int, dict]] = {}
    for cell in cells(plan, "small"):
        final = final_of(runs / cell.name)
        if final is not None:
            found.setdefault((cell.method.family, cell.setting.label, cell.method.label), {})[cell.seed] = final
    whole, honest = (setting.label for setting in plan.settings)
    print("| method | chosen on all labels | chosen on one positive | difference in test mAP, over labels |")
    print("|---|---|---|---|")
    for family in dict.fromkeys(method.family for method in plan.methods):
        best = {}
        for setting in (whole, honest):
            rows = {key[2]: by_seed for key, by_seed in found.items() if key[:2] == (family, setting)}
            if rows:
                best[setting] = max(
                    rows.values(),
                    key=lambda some: np.mean([one["validation"]["mAP"]["total"] for one in some.values()]),
                )
        seeds = sorted(set.intersection(*(set(one) for one in best.values()))) if len(best) == 2 else []
        if not seeds:
            continue
        ap = [
            np.array([best[s][seed]["per_class"]["average_precision"] for seed in seeds], float).mean(0)
            for s in (whole, honest)
        ]
        middle, low, high = interval(ap[0] - ap[1])
        total = [100 * np.mean([best[s][seed]["mAP"]["total"] for seed in seeds]) for s in (whole, honest)]
        shown = f"{100 * middle:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
        print(f"| {family} | {total[0]:.1f} | {total[1]:.1f} | {shown} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""The four papers' methods with 40 % of the positives hidden, on the embedded digits. Resumable.

    python benchmarks/hidden_positives.py            # 8 methods x 3 seeds, about 20 minutes on two cores
    python benchmarks/hidden_positives.py --table    # the table of what is there

Runs go to runs/hidden-positives, the table to docs/benchmarks/hidden-positives.md, its numbers beside it as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "runs" / "hidden-positives"
PAGE = ROOT / "docs" / "benchmarks" / "hidden-positives.md"
SEEDS = (0, 1, 2)
SETTINGS = ["data.hide=ppl", "data.keep=0.6"]
ROWS: dict[str, tuple[str, list[str]]] = {
    "assume_negative": ("assume_negative", []),
    "class-aware + BCE": ("assume_negative", ["sampler.name=class_aware"]),
    "class-aware + ignore_likely": ("ignore_likely", []),
    "distribution_balanced": ("distribution_balanced", []),
    "distribution_balanced, focal": ("distribution_balanced", ["method.score=focal"]),
    "partial_label_masking": ("partial_label_masking", ["method.base=assume_negative", "method.count_unknown=true"]),
    "dynamic_pseudo_labels": ("dynamic_pseudo_labels", []),
    "comic": ("comic", []),
}
NUMBERS = {
    "mAP": lambda final: final["mAP"]["total"],
    "head": lambda final: final["mAP"]["head"],
    "medium": lambda final: final["mAP"]["medium"],
    "tail": lambda final: final["mAP"]["tail"],
    "F1 at 0.5": lambda final: final["F1"]["total"],
    "F1 tuned": lambda final: final["F1_tuned"]["total"],
}


def folder(row: str, seed: int) -> Path:
    return RUNS / f"{row.replace(' ', '').replace(',', '-').replace('+', '-')}-{seed}"


def command(row: str, seed: int) -> list[str]:
    method, changes = ROWS[row]
    words = ["train", "--method", method, "--seed", str(seed), "--out", str(folder(row, seed))]
    for change in [*SETTINGS, *changes]:
        words += ["--set", change]
    return words


def run() -> None:
    for seed in SEEDS:
        for row in ROWS:
            path = folder(row, seed)
            if (path / "record.json").exists():
                continue
            words = command(row, seed)
            again = ["train", "--resume", str(path)] if (path / "last.ckpt").exists() else [*words, "--overwrite"]
            print(f"{row}, seed {seed}", flush=True)
            subprocess.run([sys.executable, "-m", "raretag", *again], check=True, stderr=subprocess.DEVNULL)


def table() -> None:
    found = {row: [record(row, seed) for seed in SEEDS if (folder(row, seed) / "record.json").exists()] for row in ROWS}
    lines = ["| method | " + " | ".join(NUMBERS) + " | seeds |", "|---|" + "---|" * (len(NUMBERS) + 1)]
    for row, records in found.items():
        if records:
            shown = [spread([number(final) for final in records]) for number in NUMBERS.values()]
            lines.append(f"| {row} | " + " | ".join(shown) + f" | {len(records)} |")
    text = PAGE.read_text() if PAGE.exists() else "<!-- table -->\n<!-- end -->\n"
    before, rest = text.split("<!-- table -->", 1)
    _, after = rest.split("<!-- end -->", 1)
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(f"{before}<!-- table -->\n" + "\n".join(lines) + f"\n<!-- end -->{after}")
    numbers = {
        row: {name: [number(final) for final in records] for name, number in NUMBERS.items()}
        for row, records in found.items()
    }
    PAGE.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n")
    print("\n".join(lines))


def record(row: str, seed: int) -> dict:
    return json.loads((folder(row, seed) / "record.json").read_text())["metrics"]["final"]


def spread(values: list[float]) -> str:
    deviation = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.1f}{deviation}"


if __name__ == "__main__":
    if "--table" not in sys.argv:
        run()
    table()

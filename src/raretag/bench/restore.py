"""Runs of earlier days as finished cells: their lines in records/PLAN.jsonl stand for run folders that are gone.

A line restores a cell if it was trained with the same settings and seed, whatever the cell is called; what changed in
the code since then does not show. Lines of newer runs also hold what intervals need (`resampled_mAP`,
`average_precision`), so a run that is added later is paired with them. Older ones only count in means.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from raretag.bench.plan import Cell
from raretag.bench.results import record_of
from raretag.bench.runner import is_done, lock_folder
from raretag.bench.worker import plain
from raretag.core.errors import UserError
from raretag.core.files import write_json
from raretag.runs.cost import FILE as COST


def restore(cells: Iterable[Cell], files: Collection[Path], runs: Path) -> list[Cell]:
    """Write the cells that are not done and are in one of the files; returns them."""
    known = {settings: line for path in files for settings, line in lines_of(path)}
    found = []
    with closing(lock_folder(runs)):
        for cell in cells:
            line = None if is_done(runs / cell.name) else known.get(settings_of(cell.changes, cell.seed))
            if line is not None:
                write(line, runs / cell.name)
                found.append(cell)
    return found


def is_restored(folder: Path) -> bool:
    return bool((record_of(folder) or {}).get("restored"))


def lines_of(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Each run of a file with its settings. A setting that there is no more leaves its line out."""
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        found = [(settings_of(line["changes"], line["seed"]), line) for line in lines]
    except OSError as error:
        raise UserError(f"the records '{path}' cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"'{path}' is not a file of records, as `raretag bench PLAN --format jsonl` prints") from None
    return [(settings, line) for settings, line in found if settings]


def settings_of(changes: Sequence[str], seed: int) -> str:
    """The whole configuration, so that neither the order of settings nor an older name of one matters."""
    try:
        return json.dumps(plain({"changes": changes, "seed": seed}).model_dump(mode="json"), sort_keys=True)
    except UserError:
        return ""


def write(line: dict[str, Any], folder: Path) -> None:
    final = dict(line["final"])
    learned = {"out_of_fold_mAP": final.pop("out_of_fold_mAP", None)}
    if "average_precision" in line:
        final["per_class"] = {"average_precision": line["average_precision"]}
    kept: dict[str, Any] = {name: line[name] for name in ("environment", "groups", "resampled_mAP") if name in line}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.jsonl").write_text(json.dumps({"seconds": line["seconds"]}) + "\n", encoding="utf-8")
    if line.get("cost") is not None:
        write_json(folder / COST, line["cost"])
    kept |= {"restored": True, "metrics": {"final": final}, "method": {"learned": learned}}
    write_json(folder / "record.json", kept)  # the last one: by it the cell is done

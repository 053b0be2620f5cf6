"""Train again with the answers: corrected labels beside the run, a child process that trains, and what changed.

The original labels stay as they are: the answers become a file of corrections, and both runs are tested on the same
items. `python -m raretag.review.training CONFIG OUT` is the child; it prints its progress as lines of JSON.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from raretag.config.settings import Config, checked, compose, put
from raretag.core.errors import UserError
from raretag.core.files import write_text
from raretag.core.listener import Listener, Step
from raretag.engine.run import run as train
from raretag.metrics.intervals import paired_difference
from raretag.metrics.precision_curve import average_precision
from raretag.runs.run import Run, open_run
from raretag.suggestions.answers import Answer, Merged, apply_to_corrections, write_log

GROUPS = ("head", "medium", "tail")
RESAMPLES = 300
MOVED = 0.0005  # of average precision: less is shown as 0.0


@dataclass
class Round:
    """One training with the answers so far."""

    number: int
    folder: Path  # of corrections, log and configuration
    out: Path  # of the new run
    changed: int
    conflicts: int
    state: str = "running"  # finished, failed, stopped
    progress: float = 0.0
    messages: list[str] = field(default_factory=list)
    result: dict[str, Any] | None = None

    def hear(self, line: str) -> None:
        """A line that the child printed: JSON of ours, or a warning of a library."""
        try:
            said = json.loads(line)
            self.progress = float(said.get("progress", self.progress))
            self.messages += [str(said["message"])] if "message" in said else []
        except (ValueError, AttributeError, TypeError):
            self.messages.append(line.strip()[:500])

    def as_dict(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "out": str(self.out),
            "corrections": str(self.folder / "corrections.csv"),
            "changed": self.changed,
            "conflicts": self.conflicts,
            "state": self.state,
            "progress": self.progress,
            "messages": self.messages[-8:],
            "result": self.result,
        }


class Trainer:
    """Starts one round at a time."""

    def __init__(self, run: Path, config: Config, folder: Path) -> None:
        self.run, self.config, self.folder = run, config, folder
        self.round: Round | None = None
        self._child: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def start(self, answers: list[Answer]) -> Round:
        with self._lock:
            if self.round is not None and self.round.state == "running":
                raise UserError("training is already running; wait until it ends, or stop it")
            if not answers:
                raise UserError("there are no answers yet: nothing would change")
            place, out, number = self._free_places()
            place.mkdir(parents=True)
            config, merged = write_corrections(self.config, answers, place)
            write_text(place / "config.yaml", config.to_yaml())
            self.round = Round(number, place, out, merged.count("changed"), len(merged.conflicts))
            if not merged.changes:
                self.round.state = "failed"
                self.round.messages.append("no answer changes a label, so training again would give the same run")
                return self.round
            command = [sys.executable, "-m", "raretag.review.training", str(place / "config.yaml"), str(out)]
            self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            threading.Thread(target=self._follow, args=(self.round, self._child), daemon=True).start()
            return self.round

    def _free_places(self) -> tuple[Path, Path, int]:
        """Folders of the next round and its run; neither is there yet, so that nothing is replaced."""
        for number in itertools.count(1):
            place, out = self.folder / f"round-{number}", self.run.with_name(f"{self.run.name}-review-{number}")
            if not place.exists() and not out.exists():
                return place, out, number
        raise AssertionError("there are more numbers than folders")

    def stop(self) -> None:
        """End the child, if one is running; its folder can be resumed."""
        child, current = self._child, self.round
        if child is not None and child.poll() is None and current is not None:
            current.state = "stopped"
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()

    def _follow(self, current: Round, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            current.hear(line)
        child.stdout.close()
        if current.state == "stopped":
            return
        if child.wait():
            current.state = "failed"
            return
        try:
            current.result = compared(open_run(self.run, with_data=False), open_run(current.out, with_data=False))
        except UserError as error:
            current.messages.append(str(error))
        current.progress, current.state = 1.0, "finished"


def write_corrections(config: Config, answers: list[Answer], folder: Path) -> tuple[Config, Merged]:
    """The answers as corrections in a folder, and the configuration that reads them."""
    file = (folder / "corrections.csv").absolute()
    merged = apply_to_corrections(config, answers, file)
    write_log(folder / "log.csv", merged)
    tree = config.model_dump(mode="json")
    put(tree, "data.corrections", str(file))
    return checked(tree), merged


def compared(before: Run, after: Run) -> dict[str, Any]:
    """What changed, on the same test items."""
    part = "test" if "test" in before.logits and len(before.logits["test"]) else "validation"
    targets = after.targets(part)
    a, b = before.logits.get(part), after.logits.get(part)
    same = a is not None and b is not None and a.shape == b.shape and (part != "test" or after.tested_as(before))
    if targets is None or a is None or b is None or not same:
        return {"sentence": "the two runs were not tested on the same items, so their numbers cannot be compared"}
    members = {name: torch.tensor(after.record.groups.members.get(name, []), dtype=torch.int64) for name in GROUPS}
    members = {name: some for name, some in members.items() if len(some)}
    found = paired_difference(b, a, targets, members, resamples=RESAMPLES)
    first, second = average_precision(a, targets), average_precision(b, targets)  # [C]
    rows = {"total": torch.arange(len(first)), **members}
    parts = [
        {
            "part": name,
            "before": _mean(first[some]),
            "after": _mean(second[some]),
            "low": found[name].low,
            "high": found[name].high,
        }
        for name, some in rows.items()
        if name in found
    ]
    names = after.record.data.labels
    moved = torch.nan_to_num(second - first)
    labels = [
        {"label": names[label], "before": float(first[label]), "after": float(second[label])}
        for label in torch.argsort(moved.abs(), descending=True)[:12].tolist()
        if abs(float(moved[label])) >= MOVED
    ]
    where = "test items" if part == "test" else "training items, scored out of fold and judged by the new labels"
    return {"sentence": f"mAP on the same {len(targets):,} {where}", "parts": parts, "labels": labels}


def _mean(values: torch.Tensor) -> float | None:
    known = values[~values.isnan()]
    return float(known.mean()) if len(known) else None


class Lines(Listener):
    """Prints what it hears as lines of JSON."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def _print(self, **said: Any) -> None:
        print(json.dumps(said), flush=True)

    def message(self, line: str) -> None:
        self._print(message=line)

    def epoch(self, step: Step, row: dict[str, Any]) -> None:
        self._print(progress=(step.epoch + 1) / max(self.epochs, 1))

    def progress(self, share: float) -> None:
        self._print(progress=share)


def main(config: str, out: str) -> None:
    """The child."""
    settings = compose(Path(config), [])
    try:
        train(settings, Path(out), listener=Lines(settings.train.epochs))
    except UserError as error:
        print(json.dumps({"message": str(error)}), flush=True)
        sys.exit(2)


if __name__ == "__main__":
    main(*sys.argv[1:])

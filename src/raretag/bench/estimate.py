"""How long a plan will take, within half a minute and without training.

A run is of a kind: a method on a data set. Kinds that have ended runs take as long as those took, others as long as the
runs of the published tables did (costs.json, which docs/benchmarks/refresh.py writes). Of what is left as many kinds as
there is time for make two steps, of which the second is timed; evaluation comes on top. The rest is a guess.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean

from raretag.bench.plan import Cell
from raretag.bench.runner import Worker, is_done
from raretag.bench.table import seconds_of

LIMIT = 20.0  # seconds for all timed steps, so that a command ends within 30
LEAST = 8.0  # seconds for one of them: less is gone with imports
COSTS = Path(__file__).parent / "costs.json"
ENDED, TABLES, STEPS = "runs that have ended", "the published tables", "two timed steps"
GUESS, READ = "runs like them", "the row they are trained as"
SURE = {
    ENDED: "within a fifth or so",
    TABLES: "of another machine: half to twice as long",
    STEPS: "without evaluation: up to twice as long",
    GUESS: "a guess: it may be several times as long",
    READ: "no training of their own",
}


@dataclass
class Estimate:
    """Seconds per run by `method on data` with where they come from, and what cannot run, with the reason."""

    seconds: dict[str, float] = field(default_factory=dict)
    source: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)  # data that is absent, and methods that do not run on theirs

    def know(self, kind: str, seconds: float, source: str) -> None:
        self.seconds[kind], self.source[kind] = seconds, source

    def sentence(self, left: Sequence[Cell], total: int, jobs: int) -> str:
        """What is to do, how long it takes, and how sure that is."""
        unable = [cell for cell in left if {kind_of(cell), cell.data.label} & self.failed.keys()]
        known = [cell for cell in left if kind_of(cell) in self.seconds and cell not in unable]
        minutes = sum(self.seconds[kind_of(cell)] for cell in known) / jobs / 60
        how_long = f"about {minutes:.0f} minutes with {jobs} jobs" if minutes else "how long they take is not known"
        lines = [f"{len(left)} of {total} runs to do, {how_long}"]
        for source, sure in SURE.items():
            number = sum(self.source[kind_of(cell)] == source for cell in known)
            lines += [f"  {number} runs by {source} ({sure})"] if number else []
        lines += [f"  {len(unable)} runs cannot run here"] if unable else []
        unknown = len(left) - len(known) - len(unable)
        lines += (
            [f"  {unknown} runs are not in the estimate: there was no time to try any like them"] if unknown else []
        )
        return "\n".join(lines)


def kind_of(cell: Cell) -> str:
    """Cells of one kind take about the same time."""
    return f"{cell.method.label} on {cell.data.label}"


def estimate(
    cells: Iterable[Cell],
    runs: Path,
    threads: int,
    on_end: Callable[[str], None] = lambda line: None,
    *,
    plan: str = "",
    limit: float = LIMIT,
) -> Estimate:
    """`on_end` gets a line about each kind that was timed. `plan`: its name in the published tables."""
    cells, found = list(cells), Estimate()
    ended: dict[str, list[float]] = {}
    for cell in cells:
        if is_done(runs / cell.name):
            ended.setdefault(kind_of(cell), []).append(seconds_of(runs / cell.name))
    for kind, some in ended.items():
        found.know(kind, mean(some), ENDED)
    left = {kind_of(cell): cell for cell in cells if not is_done(runs / cell.name)}
    for kind, seconds in json.loads(COSTS.read_text(encoding="utf-8")).get(plan, {}).items():
        if kind in left and kind not in found.seconds:
            found.know(kind, seconds, TABLES)
    for kind, cell in left.items():
        if cell.method.trained_as and kind not in found.seconds:  # it reads out the model of another one
            found.know(kind, 0.0, READ)
    time_steps(
        in_turn([cell for kind, cell in left.items() if kind not in found.seconds]), found, threads, on_end, limit
    )
    timed = dict(found.seconds)
    for kind, cell in left.items():
        if kind not in found.seconds and not {kind, cell.data.label} & found.failed.keys():
            alike = [timed[other] for other, one in left.items() if other in timed and one.data == cell.data]
            alike = [some for some in alike if some] or [some for some in timed.values() if some]
            if alike:
                found.know(kind, mean(alike), GUESS)
    return found


def in_turn(cells: Sequence[Cell]) -> list[Cell]:
    """A method of each data set first, then a second one of each: what time is left for stands for the others."""
    place: dict[str, int] = {}
    turns = []
    for cell in cells:
        place[cell.data.label] = place.get(cell.data.label, -1) + 1
        turns.append((place[cell.data.label], cell))
    return [cell for _, cell in sorted(turns, key=lambda turn: turn[0])]


def time_steps(
    cells: Sequence[Cell], found: Estimate, threads: int, on_end: Callable[[str], None], limit: float
) -> None:
    """Two steps of each until the time is up. Data that takes more than its share of it to load is left."""
    until = time.monotonic() + limit
    share = max(LEAST, limit / max(1, len({cell.data.label for cell in cells})))
    slow: set[str] = set()
    worker = Worker(threads)
    for cell in cells:
        kind, now = kind_of(cell), time.monotonic()
        if {kind, cell.data.label} & (found.failed.keys() | slow):
            continue
        if now >= until:
            break
        late = threading.Timer(min(share, until - now), worker.end)
        late.start()
        _, outcome = worker.do(cell, {"only": "time"})
        late.cancel()
        if worker.process is None:  # it was ended
            slow.add(cell.data.label)
        elif outcome.error:
            subject = cell.data.label if outcome.data_absent else kind
            found.failed[subject] = outcome.error
            on_end(f"{subject}: {outcome.error}")
        elif outcome.seconds is not None:  # a solver makes no steps
            found.know(kind, outcome.seconds, STEPS)
            on_end(f"{kind}: about {outcome.seconds:.0f} s per run")
    worker.close()

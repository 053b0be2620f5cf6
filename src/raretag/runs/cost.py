"""What a run costs: CPU seconds of this process, its threads and its children that have ended, and its peak memory.

It is written as `cost.json` beside the record, which is the same to the byte when a run is repeated; a cost never is.
CPU seconds (user and system) hardly depend on what else a machine does, as seconds on a clock do. A run that was
resumed counts from there, and one of several processes counts the first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raretag.core.files import write_json

FILE = "cost.json"


@dataclass
class Cost:
    """Filled while a run goes on.

    >>> cost = Cost()
    >>> with cost.of("fit"):
    ...     total = sum(range(1000))
    >>> sorted(cost.as_dict())
    ['cpu_seconds', 'fit', 'peak_memory_mb']
    """

    seconds: dict[str, float] = field(default_factory=dict)  # of each part of the work
    peak: float | None = None  # MB, at the end of fitting

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        started = cpu_seconds()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + cpu_seconds() - started
        if part == "fit":
            self.peak = peak_memory()

    def as_dict(self) -> dict[str, Any]:
        """`cpu_seconds` is loading and fitting; choosing thresholds is named beside it, and evaluating left out."""
        total = self.seconds.get("load", 0.0) + self.seconds.get("fit", 0.0)
        parts = {part: round(value, 2) for part, value in self.seconds.items()}
        return {"cpu_seconds": round(total, 2), **parts, "peak_memory_mb": self.peak}

    def write(self, folder: Path) -> None:
        write_json(folder / FILE, self.as_dict())


def cpu_seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def peak_memory() -> float | None:
    """The most that this process has held so far, in MB; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (2**20 if sys.platform == "darwin" else 2**10), 1)

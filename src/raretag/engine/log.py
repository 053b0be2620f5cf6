"""One line of JSON for each epoch, and the same numbers for TensorBoard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from raretag.engine.config import flat
from raretag.engine.record import without_nan, write_text


class Log:
    """Starts from the epochs that a checkpoint already has, so that a resumed run leaves no line twice."""

    def __init__(self, folder: Path, history: list[dict[str, Any]]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.path = folder / "metrics.jsonl"
        write_text(self.path, "".join(json.dumps(without_nan(row)) + "\n" for row in history))
        # A wide queue, and writing now and then: epochs may be short and disks slow. `metrics.jsonl` has all of it.
        self.board = SummaryWriter(
            str(folder / "tensorboard"), purge_step=len(history), max_queue=10_000, flush_secs=20
        )

    def epoch(self, row: dict[str, Any], seconds: float) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**without_nan(row), "seconds": round(seconds, 3)}) + "\n")
        for name, value in flat(row, "/").items():
            if isinstance(value, (int, float)) and name != "epoch":
                self.board.add_scalar(name, value, row["epoch"])

    def close(self) -> None:
        self.board.close()

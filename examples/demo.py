"""Two methods side by side on the embedded digits, with 40 % of the training positives hidden. Run with `make demo`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from rich.console import Console

from raretag.cli.table import results
from raretag.cli.train import watched
from raretag.config.settings import compose
from raretag.engine.run import run

SETTINGS = ["data.hide=ppl", "data.keep=0.6"]


def main() -> None:
    records = {}
    with tempfile.TemporaryDirectory() as folder:
        for method in ("assume_negative", "ignore_likely"):
            config = compose(None, SETTINGS, method__name=method)
            records[method] = watched(config, Path(folder) / method, resume=False, overwrite=False, train=run)
    results(Console(), records)


if __name__ == "__main__":
    main()

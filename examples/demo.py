"""Two methods side by side on the embedded digits, with 40 % of the training positives hidden. Run with `make demo`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from raretag.cli.progress import run_with_bar
from raretag.config.settings import compose
from raretag.report import print_results

SETTINGS = ["data.hide=ppl", "data.keep=0.6"]


def main() -> None:
    records = {}
    with tempfile.TemporaryDirectory() as folder:
        for method in ("assume_negative", "ignore_likely"):
            config = compose(None, SETTINGS, method__name=method)
            records[method] = run_with_bar(config, Path(folder) / method).record
    print_results(records)


if __name__ == "__main__":
    main()

"""Two methods side by side on the embedded digits, with 40 % of the training positives hidden. Run with `make demo`."""

from __future__ import annotations

import raretag
from raretag.report import print_results


def main() -> None:
    methods = ("assume_negative", "ignore_likely")
    runs = {name: raretag.train("digits", method=name, data__hide="ppl", data__keep=0.6) for name in methods}
    print_results({name: run.record for name, run in runs.items()})


if __name__ == "__main__":
    main()

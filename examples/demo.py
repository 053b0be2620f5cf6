"""Two methods side by side on the embedded digits, with 40 % of the training positives hidden. Run with `make demo`."""

from __future__ import annotations

import raretag


def main() -> None:
    runs = {
        method: raretag.train({"name": "digits", "hide": "ppl", "keep": 0.6}, method=method)
        for method in ("assume_negative", "ignore_likely")
    }
    raretag.print_results(runs)


if __name__ == "__main__":
    main()

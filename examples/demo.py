"""Two methods side by side on the embedded digits, with 40 % of the training positives hidden. Run with `make demo`."""

from __future__ import annotations

import raretag

GROUPS = ("head", "medium", "tail")


def main() -> None:
    rows = []
    for method in ("assume_negative", "ignore_likely"):
        run = raretag.train("digits", method=method, data__hide="ppl", data__keep=0.6)
        means = run.metrics.mAP
        rows.append([method, *(100 * (number or 0.0) for number in (means.total, *map(means.of, GROUPS)))])
    print(f"\n{'mAP on the test items':24}" + "".join(f"{name:>10}" for name in ("total", *GROUPS)))
    for method, *numbers in rows:
        print(f"{method:24}" + "".join(f"{number:10.1f}" for number in numbers))


if __name__ == "__main__":
    main()

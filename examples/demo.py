"""From labels with holes to a report and suggested labels, on the embedded digits. Run with `make demo`.

40 % of the training positives are hidden on purpose, so that what the tool says can be checked.
"""

from __future__ import annotations

import raretag

DATA = {"name": "digits", "hide": "ppl", "keep": 0.6}


def main() -> None:
    runs = {
        method: raretag.train(DATA, method=method, out=f"runs/demo-{method}", overwrite=True)
        for method in ("assume_negative", "ignore_likely")
    }
    raretag.print_results(runs)

    best = runs["ignore_likely"]
    page = best.report()
    print("\nLabels that are probably missing:")
    for found in raretag.suggest(best, most=5, wrong=0, folds=2):
        print(f"  item {found.item:>4}: {found.label}, probability {found.probability:.2f}")
    print(
        f"""
The page that explains the run: {page}
With data of your own:
  raretag train --data my.csv --test 0.2 --out runs/mine
  raretag report runs/mine
  raretag review runs/mine      # answer suggestions in the browser, then train again
  raretag predict runs/mine new.csv --out answers.csv"""
    )


if __name__ == "__main__":
    main()

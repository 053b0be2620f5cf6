"""Learning where only some positives are marked (`data.marking`): entries that are probably positives are left out.

What is unknown counts as negative where no negative is observed, also a positive that nobody marked. A solver that
scores its items out of fold shows which these probably are: the share of the positives that is marked, one number or
one for each label, turns a score into the probability that an unmarked entry is positive (metrics/marked_shares.py).
Entries above one half stay unknown, the others become negatives, and a solver that leaves out unknown entries is
fitted again. Thresholds and calibration are then found with shares too, and with the labels as they were.
"""

from __future__ import annotations

from dataclasses import replace

from raretag.core.listener import Listener
from raretag.core.solver import Solver
from raretag.engine.prepare import Prepared
from raretag.engine.run import solve
from raretag.labels.entries import Entries, pack
from raretag.metrics.marked_shares import likely_missing, marked_shares


def solve_again(prepared: Prepared, solver: Solver, listener: Listener) -> None:
    """Fit the head a second time; the out-of-fold logits become those of this fit."""
    assert prepared.out_of_fold is not None
    train = prepared.data.train
    targets = train.labels.targets()
    found = marked_shares(prepared.out_of_fold, targets, by_label=prepared.config.data.marking == "by_label")
    if found is None:
        listener.message("data.marking is not used: it needs items with several positives and no observed negatives")
        return
    likely = likely_missing(prepared.out_of_fold, targets, found)
    shares = found.shares()
    said = f"{shares.min():.0%} to {shares.max():.0%} of a label's" if found.vary else f"{shares[0]:.0%} of the"
    again = solver.leaves_out and bool(likely.any())
    then = f"; fitted again without {int(likely.sum()):,} that are likely" if again else ""
    listener.message(f"marking: about {said} positives are marked{then}")
    if again:
        positives = train.labels.entries.positives
        entries = Entries.of_bits(positives, train.labels.labels, pack((~likely).numpy()))
        items = replace(train, labels=train.labels.holding(entries))
        prepared.out_of_fold = solve(prepared, solver, listener, items)
    note = {
        "share": found.frequency.interval()[0],
        "by_label": found.vary,
        "left_out": int(likely.sum()) if again else 0,
    }
    prepared.data = replace(prepared.data, notes={**prepared.data.notes, "marking": note})

"""The words every room uses: targets, statistics, the contracts of the parts, and the one equation."""

SLOTS = ("complete", "shape", "keep", "weigh", "score", "reduce")  # of the one equation, see objective.py

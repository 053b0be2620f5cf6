"""Grids of runs: plans say what, the runner does it and can be stopped at any time, the table says what came out."""

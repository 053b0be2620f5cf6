"""Grids of runs: a plan lists them, the runner trains them (stop it at any time), the table shows the results."""

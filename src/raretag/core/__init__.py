"""The words every room uses: targets, statistics, the contracts of the parts, and the one equation."""

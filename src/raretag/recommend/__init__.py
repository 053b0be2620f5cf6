"""Which method suits a data set: a quick race of a few, cross-validated on its training items."""

"""What the named research sets share: where files are, their splits, and inputs that are made while training."""

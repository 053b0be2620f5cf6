"""A page in the browser to answer suggestions, and to train again with the answers."""

"""Labels of a whole data set: held, counted, hidden, thinned to a long tail and split."""

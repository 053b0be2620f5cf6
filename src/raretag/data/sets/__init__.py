"""The sets of the papers, each with the reader of its files; and readers of ARFF and SVMlight files of your own."""

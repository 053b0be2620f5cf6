"""One file a source. File name = command-line name; the class is its CamelCase and `load()` gives a DataSet."""

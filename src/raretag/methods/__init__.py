"""One paper, one file, readable next to the paper. File name = command-line name; the class is its CamelCase."""

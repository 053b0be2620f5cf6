"""The figures of the papers, drawn from run folders: one drawing idea a file.

A module `two_words` holds the class `TwoWords(options).draw(words) -> Figure`, where `words` are run folders or, for
drawings of data, also names of data sets. `PAPERS` says which figures of the papers it draws, and with what options.
"""

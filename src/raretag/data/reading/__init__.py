"""From the files that users have to columns, roles, labels and parts. Nothing here is a data set of its own."""

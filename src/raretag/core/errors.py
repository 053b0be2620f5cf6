"""Mistakes that a user can mend."""


class UserError(ValueError):
    """One line: what arrived, what was expected, the likely reason. The command line shows it without a traceback."""


class DataAbsentError(UserError):
    """Files of a named data set are not there; the line says where to get them."""

"""Mistakes that a user can mend."""


class UserError(ValueError):
    """One line: what arrived, what was expected, the likely reason. The command line shows it without a traceback."""

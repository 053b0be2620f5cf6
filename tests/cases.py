"""The table of methods: one row for each file in src/raretag/methods. What a row holds is told in `table.py`."""

from __future__ import annotations

import cases_missing  # noqa: F401  (the rows add themselves)
import cases_rare  # noqa: F401
import cases_structured  # noqa: F401
import cases_with_state  # noqa: F401
from table import CASES

__all__ = ["CASES"]

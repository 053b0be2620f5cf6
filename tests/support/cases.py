"""The table of methods: one row for each file in src/raretag/methods. What a row holds is told in `table.py`."""

from __future__ import annotations

import support.cases_missing
import support.cases_rare
import support.cases_structured
import support.cases_with_state  # noqa: F401
from support.method_table import CASES

__all__ = ["CASES"]

"""Finished runs explained in one HTML page (`raretag report`).

`runs` reads run folders and computes; the other files draw and write HTML from plain dictionaries and numpy arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.report.runs import write_report as write_report

__getattr__, __dir__ = lazy.exports(__name__, {"write_report": "raretag.report.runs:write_report"})

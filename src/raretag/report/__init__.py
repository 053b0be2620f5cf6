"""Finished runs explained: one HTML page (`raretag report`), and the table of results in a terminal or a notebook.

`runs` reads run folders and computes; the other files draw and write HTML from plain dictionaries and numpy arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.report.overview import print_results as print_results
    from raretag.report.runs import write_report as write_report

__getattr__, __dir__ = lazy.exports(
    __name__,
    {"print_results": "raretag.report.overview:print_results", "write_report": "raretag.report.runs:write_report"},
)

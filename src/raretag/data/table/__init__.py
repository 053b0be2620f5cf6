"""Your own files: everything that reads a CSV, TSV, Parquet or JSONL file of items and writes it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raretag.core import lazy

if TYPE_CHECKING:
    from raretag.data.table.source import Table as Table
    from raretag.data.table.source import from_table as from_table

_EXPORTS = {"Table": "raretag.data.table.source:Table", "from_table": "raretag.data.table.source:from_table"}
__getattr__, __dir__ = lazy.exports(__name__, _EXPORTS)

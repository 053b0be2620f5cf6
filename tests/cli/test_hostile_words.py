"""Labels, ids and texts of a stranger: no formula reaches a spreadsheet, no escape sequence the terminal."""

from __future__ import annotations

import csv
import io
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raretag.cli.main import main
from raretag.cli.progress import screen
from raretag.core.errors import visible
from raretag.core.spreadsheets import guarded, unguarded
from raretag.serve.predictions import Predictions, write_table
from raretag.suggestions.answers import Merged, MergeLine, read, write_log
from raretag.suggestions.listing import Suggestion, Suggestions

FORMULA = "=HYPERLINK(1)"


@given(st.text())
def test_a_guarded_text_is_no_formula_and_is_found_again(text):
    assert unguarded(guarded(text)) == text
    try:
        float(guarded(text))
    except ValueError:
        assert not guarded(text).startswith(("=", "+", "-", "@", "\t", "\r"))


def predictions():
    return Predictions(["+id", "-5"], [FORMULA, "sea"], np.full((2, 2), 0.5, np.float32), np.ones((2, 2), bool))


def cells(content):
    return [cell for row in csv.reader(io.StringIO(content)) for cell in row]


def test_formulas_are_guarded_in_csv_and_nowhere_else(tmp_path):
    table = predictions().table()
    written = {}
    for raw in (False, True):
        content = io.BytesIO()
        write_table(table, content, ".csv", header=True, raw=raw)
        written[raw] = cells(content.getvalue().decode())
    assert f"'{FORMULA}" in written[False]
    assert f"'{FORMULA};sea" in written[False]
    assert "'+id" in written[False]
    assert "-5" in written[False]  # a number
    assert FORMULA in written[True]
    for ending in (".jsonl", ".parquet"):
        write_table(table, tmp_path / f"p{ending}", ending, header=True)
    assert f'"{FORMULA}"' in (tmp_path / "p.jsonl").read_text()
    assert pa.parquet.read_table(tmp_path / "p.parquet").column_names[2] == FORMULA


def test_a_list_for_people_is_guarded_and_its_answers_find_their_items(tmp_path):
    one = Suggestion(1, "@item", FORMULA, "missing", "unknown", 0.9, "head")
    found = Suggestions([one], previews={"@item": {"text": "-1+cmd|' /C calc'!A0"}})
    text = found.to_csv(tmp_path / "list.csv")
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells(text))
    answered = read(tmp_path / "list.csv")[0]
    assert (answered.item, answered.label) == ("@item", FORMULA)
    assert FORMULA in cells(found.to_csv(raw=True))
    write_log(tmp_path / "log.csv", Merged(lines=[MergeLine("@item", FORMULA, "", "", "changed")]))
    assert f"'{FORMULA}" in cells((tmp_path / "log.csv").read_text())


ESCAPE = "sea\x1b[2J\x1b]0;title\x07\x9b31m\u202eboat"


def test_escape_sequences_are_shown_and_not_obeyed(capsys):
    from rich.table import Table

    table = Table()
    table.add_column(ESCAPE)
    table.add_row(ESCAPE)
    screen().print(ESCAPE)
    screen().print(table)
    screen(error=True).print(f"remark: {ESCAPE}")
    shown = capsys.readouterr()
    for text in (shown.out, shown.err, visible(ESCAPE)):
        assert not any(sign in text for sign in "\x1b\x07\x9b\u202e")
        assert "boat" in text


def test_an_error_about_a_hostile_name_does_not_reach_the_terminal(monkeypatch, capsys, tmp_path):
    (tmp_path / "t.csv").write_text(f"text,{ESCAPE},{ESCAPE}\na,b,c\n")
    monkeypatch.setattr(sys, "argv", ["raretag", "inspect", f"{tmp_path}/{ESCAPE}.csv"])
    with pytest.raises(SystemExit):
        main()
    assert not any(sign in capsys.readouterr().err for sign in "\x1b\x07\x9b")

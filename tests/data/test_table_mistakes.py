"""Mistakes in a table are answered with file and line."""

from __future__ import annotations

import pytest

from raretag.core.errors import UserError
from raretag.data.files import LONGEST_LINE
from raretag.data.table import Table
from support.written_tables import STATES, csv, jsonl

MISTAKES = {
    "no such file": ("", {"file": "nowhere.csv"}, "does not exist"),
    "empty file": ("", {}, "is empty"),
    "only a header": ("id,text,tags\n", {}, "no rows"),
    "blank lines": ("\n\n\n", {}, "only blank lines"),
    "no label column": ("a,b\nhello,world\n", {}, "no label column found among 'a', 'b'"),
    "no inputs": ("tags,z\na,b\n", {}, "no inputs found"),
    "unknown column": (csv(), {"labels": "tgas"}, "did you mean 'tags'"),
    "too many cells": (csv() + "x,y,z,w\n", {}, r"a\.csv, line 22: 4 cells, expected 3"),
    "open quote": (csv() + 'x,y,"z\nmore\n', {}, r"a\.csv, line 22: a quote"),
    "not UTF-8": (csv().encode() + b"x,\xe9,z\n", {}, r"a\.csv, line 22, character 3: byte 0xe9"),
    "same id": (csv() + "r3,y,a\n", {}, r"line 22: the id 'r3' was given before \(a\.csv, line 5\)"),
    "blank id": (csv() + ",y,a\n", {}, r"line 22: the id is blank"),
    "unknown split": ("text,tags,split\nx y,a,train\nx,b,later\n", {}, r"line 3: the split 'later'"),
    "no training part": ("text,tags,split\nx y,a,test\n", {}, "no row belongs to the training part"),
    "label outside the names": (csv(), {"names": ["a", "b", "d"]}, r"line 5: the label 'c' is not in data\.names"),
    "number in a class column": (STATES + "0.5,2,1\n", {"labels": ["cat", "dog"]}, r"line 22: '2' in the label column"),
    "fraction in a marked label": (
        "f,label_a,label_b\n" + "3.5,1,0\n7,0,1\n" * 9 + "2,1,0.5\n",
        {},
        "line 20: '0.5' in",
    ),
    "text in a feature column": (STATES + "w,1,1\n", {"features": ["f"]}, r"line 22: 'w' in the feature column 'f'"),
    "too few items": ("text,tags\nx y,a\n", {}, "too few"),
    "no positives": ("f,cat\n" + "0.5,0\n" * 20, {}, "nothing to learn"),
    "column twice": ("a,a\n1,2\n", {}, "occurs twice"),
    "image as header": ("x.jpg,a\ny.jpg,b\n", {}, "not the name of a column"),
    "wrong choice": (csv(), {"absent": "perhaps"}, "'perhaps'; expected one of 'negative', 'unknown'"),
    "wrong separator": (csv(), {"separator": ";;"}, "expected one character"),
    "encoder without folder": (csv(), {"representation": "encoder"}, r"needs data\.encoder"),
    "positive and negative": ("text,tags,negatives\nx,a;b,b\n", {}, r"line 2: the label 'b' is positive and negative"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_answered_with_what_and_where(write, mistake):
    content, options, answer = MISTAKES[mistake]
    with pytest.raises(UserError, match=answer) as caught:
        Table(**{"file": write("a.csv", content), **options}).load()
    assert "\n" not in str(caught.value)


JSON_MISTAKES = {
    "not JSON": (jsonl() + "{oops\n", "line 21: not JSON"),
    "no object": (jsonl() + "[1]\n", "line 21: list; expected one object"),
    "names and numbers": (
        jsonl() + '{"text": "x", "tags": ["a", 1]}\n',
        r"'tags' holds .* in line 1 and \[\"a\", 1\] in line 21",
    ),
    "lists and texts": (jsonl() + '{"text": "x", "tags": "a"}\n', "'tags' holds .* in line 1 and \"a\" in line 21"),
    "deep": (jsonl() + '{"tags": ' + "[" * 100_000 + "\n", "line 21: not JSON"),
    "half a character": (
        jsonl() + r'{"text": "\ud800", "tags": ["a"]}' + "\n",
        "'text' holds a value that cannot be kept",
    ),
    "blank lines": ("\n \n", "only blank lines"),
}


@pytest.mark.parametrize("mistake", JSON_MISTAKES)
def test_mistakes_in_json_lines_are_answered(write, mistake):
    content, answer = JSON_MISTAKES[mistake]
    with pytest.raises(UserError, match=answer):
        Table(file=write("a.jsonl", content), text="text", labels="tags").load()


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_line_without_end_is_refused_before_it_fills_the_memory(write, name):
    start = csv() if name == "a.csv" else jsonl() + '{"text": "'
    with pytest.raises(UserError, match=r"line 2[12]: longer than 16,777,216 bytes"):
        Table(file=write(name, start + "x" * (LONGEST_LINE + 10))).load()


def test_damaged_parquet_is_a_users_mistake(write):
    with pytest.raises(UserError, match="not a Parquet file"):
        Table(file=write("a.parquet", b"PAR1" + b"x" * 100)).load()


def test_text_in_quotes_may_hold_separators_and_lines_and_errors_still_name_the_line(write):
    content = 'id,text,tags\n1,"one, two\nthree",a\n\n' + "".join(f"{i},x,b\n" for i in range(2, 20)) + "1,y,a\n"
    with pytest.raises(UserError, match=r"line 23: the id '1' was given before .*line 2"):
        Table(file=write("a.csv", content)).load()

"""Every cell of the table in docs/integrations.md is a test that exists."""

from __future__ import annotations

import re

from support.paths import REPOSITORY

PAGE = (REPOSITORY / "docs" / "integrations.md").read_text(encoding="utf-8")
LISTED = dict(re.findall(r"^(\d+)\. `([\w/.]+::\w+)`$", PAGE, re.MULTILINE))


def test_every_listed_test_exists():
    assert len(LISTED) >= 30
    for name in LISTED.values():
        file, _, function = name.partition("::")
        assert f"def {function}(" in (REPOSITORY / file).read_text(encoding="utf-8"), name


def test_every_cell_of_the_table_is_listed_tests_or_a_dash():
    rows = [
        line.strip("|").split("|")[2:] for line in PAGE.splitlines() if line.startswith("| ") and "lines" not in line
    ]
    words = [cell for row in rows for cell in row if not re.fullmatch(r" (-|\d+(, \d+)*) ", cell)]
    assert not words
    used = {number for row in rows for cell in row for number in re.findall(r"\b\d+\b", cell)}
    assert used == set(LISTED)


def test_every_linked_example_exists():
    for path in re.findall(r"\]\(\.\./(examples/\w+\.\w+)\)", PAGE):
        assert (REPOSITORY / path).is_file(), path

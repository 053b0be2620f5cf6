"""Whatever bytes a table holds: it is read, or refused with one line. Slow; run with -m slow."""

from __future__ import annotations

import json
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raretag.core.errors import UserError
from raretag.data.table import Table

pytestmark = pytest.mark.slow
many = settings(
    max_examples=4_000,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

PIECES = [
    b"id", b"text", b"tags", b"split", b"labels", b"image", b"a.png", b"../b.png", b"train", b"val", b"test",
    b"a;b", b"a|b", b"['a', 'b']", b'["a"]', b"[[", b"0", b"1", b"-1", b"nan", b"1e999", b"0.5", b"", b" ",
    b",", b";", b"\t", b"|", b'"', b'""', b"\n", b"\r", b"\r\n", b"\n\n", b"\x00", b"\xff", b"\xef\xbb\xbf",
    "é".encode(), "\u2028".encode(), b"=1+1", b"some longer words of a text", b"9" * 400, b"\\", b"'", b"#",
    b"{", b"}", b":", b"null", b"true",
]  # fmt: skip
broken = st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join)
cells = st.sampled_from(["a", "b;c", "", "1", "0", "-1", "nan", "x y z", '"q"', "a,b", "\n", "é", "train", "[1, 'a']"])


@st.composite
def rectangular(draw):
    """Tables that are well formed, so that what comes after the reader is tried as well."""
    header = draw(
        st.lists(st.sampled_from(["id", "text", "tags", "split", "f", "negatives", "y"]), unique=True, min_size=1)
    )
    least = draw(st.sampled_from([0, 12]))  # from ten items on, there can be parts
    body = draw(st.lists(st.lists(cells, min_size=len(header), max_size=len(header)), min_size=least, max_size=16))
    mark = draw(st.sampled_from([",", "\t", ";"]))

    def written(cell):
        return '"' + cell.replace('"', '""') + '"'

    return "\n".join(mark.join(map(written, row)) for row in [header, *body]).encode()


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(st.sampled_from(["id", "text", "tags", "split", "x", "negatives"]), values, max_size=5)
json_lines = st.lists(objects, max_size=14).map(lambda rows: "\n".join(map(json.dumps, rows)).encode())


def read_or_refuse(path, content):
    path.write_bytes(content)
    answer = ""
    try:
        Table(file=str(path), bad_items="skip", size=4).load()
    except UserError as error:
        answer = str(error)
    assert "\n" not in answer
    assert len(answer) < 3_000


@many
@given(content=broken | rectangular())
def test_csv_is_read_or_refused(tmp_path, content):
    read_or_refuse(tmp_path / "t.csv", content)


@many
@given(content=broken | rectangular())
def test_tsv_is_read_or_refused(tmp_path, content):
    read_or_refuse(tmp_path / "t.tsv", content)


@many
@given(content=broken | json_lines)
def test_json_lines_are_read_or_refused(tmp_path, content):
    read_or_refuse(tmp_path / "t.jsonl", content)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl"])
@pytest.mark.parametrize("piece", [b'"', b"x", b"\n", b"\x00", b"[", b",", b"\xff", b"\r"])
def test_memory_stays_bounded_for_one_byte_many_times(tmp_path, name, piece):
    tracemalloc.start()
    try:
        read_or_refuse(tmp_path / name, b"text,tags\n" + piece * 40_000_000)
        assert tracemalloc.get_traced_memory()[1] < 300_000_000
        assert pa.default_memory_pool().max_memory() < 500_000_000
    finally:
        tracemalloc.stop()

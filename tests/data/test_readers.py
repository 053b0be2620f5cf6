"""A broken or hostile file is one clear sentence, whatever its format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raretag.core.errors import UserError
from raretag.data import files
from support.readers import READERS, Reader, put

every_reader = pytest.mark.parametrize("name", READERS)
text_readers = pytest.mark.parametrize("name", [name for name in READERS if READERS[name].text])


@pytest.fixture
def given_file(tmp_path):
    return lambda content: put(tmp_path, content)


@every_reader
def test_a_good_file_is_read(name, given_file):
    READERS[name].read(given_file(READERS[name].good))


@every_reader
@pytest.mark.parametrize("kind", ["empty", "absent", "folder"])
def test_an_unreadable_file_is_named(name, kind, tmp_path):
    path = tmp_path / "file.dat"
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(UserError, match=r"file\.dat"):
        READERS[name].read(path)


@text_readers
def test_a_byte_that_is_not_utf8_is_refused(name, given_file):
    good = READERS[name].good
    middle = good.index(b"\n") - 1 if b"\n" in good else len(good) // 2
    with pytest.raises(UserError, match=r"file\.dat.*(UTF-8|not valid XML)"):
        READERS[name].read(given_file(good[:middle] + b"\xff\xfe" + good[middle:]))


@every_reader
def test_a_truncated_gzip_file_is_refused(name, given_file):
    if name in ("cifar sheet", "npz"):
        pytest.skip("a format with a compression of its own")
    packed = gzip.compress(READERS[name].good)
    READERS[name].read(given_file(packed))
    with pytest.raises(UserError, match=r"file\.dat.*cannot be read"):
        READERS[name].read(given_file(packed[:-12]))


@text_readers
def test_a_gzip_bomb_is_refused_with_bounded_memory(name, given_file, monkeypatch):
    monkeypatch.setattr(files, "UNPACKED_ALWAYS", 1 << 16)
    blanks = READERS[name].good + b"\n" * (4 << 20)  # packs 1000 times
    with pytest.raises(UserError, match=r"file\.dat"):
        READERS[name].read(given_file(gzip.compress(blanks)))


SHARP = [b",", b"\n", b"-1", b"9" * 20, b"nan", b"{", b"<", b'"', b"'", b"\x00", b"\t", b":"]


def damaged(good: bytes) -> st.SearchStrategy[bytes]:
    """Random bytes, and good files with a piece cut out, doubled or replaced."""
    place = st.integers(0, len(good))
    piece = st.one_of(
        st.binary(max_size=8),
        st.sampled_from(SHARP),
    )
    edited = st.tuples(place, place, piece).map(lambda cut: good[: min(cut[:2])] + cut[2] + good[max(cut[:2]) :])
    inserted = st.tuples(place, piece).map(lambda cut: good[: cut[0]] + cut[1] + good[cut[0] :])
    return st.one_of(edited, inserted, st.binary(max_size=64), st.text(max_size=40).map(lambda text: text.encode()))


def complaint(reader: Reader, path: Path) -> str | None:
    try:
        reader.read(path)
    except UserError as error:
        return str(error)
    return None


def never_surprises(reader: Reader, folder: Path, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(damaged(reader.good))
    def check(content: bytes) -> None:
        message = complaint(reader, put(folder, content))
        assert message is None or ("file.dat" in message and "\n" not in message and len(message) < 1000)

    check()


@every_reader
def test_any_bytes_are_read_or_refused_in_one_sentence(name, tmp_path):
    never_surprises(READERS[name], tmp_path, 25)


@pytest.mark.slow
@every_reader
def test_many_more_bytes_are_read_or_refused_in_one_sentence(name, tmp_path):
    never_surprises(READERS[name], tmp_path, 1000)

"""A broken or hostile file is one clear sentence, whatever its format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from raretag.core.errors import UserError
from raretag.data import limits
from support.mutations import mutations
from support.readers import READERS, Reader

every_reader = pytest.mark.parametrize("name", READERS)
text_readers = pytest.mark.parametrize(
    "name", [name for name, one in READERS.items() if one.text and one.ending == ".dat"]
)


@pytest.fixture
def given_file(tmp_path):
    def write(content, ending=".dat"):
        path = tmp_path / f"file{ending}"
        path.write_bytes(content)
        return path

    return write


@every_reader
def test_a_good_file_is_read(name, given_file):
    READERS[name].read(given_file(READERS[name].good, READERS[name].ending))


@every_reader
@pytest.mark.parametrize("kind", ["empty", "absent", "folder"])
def test_an_unreadable_file_is_named(name, kind, tmp_path):
    path = tmp_path / f"file{READERS[name].ending}"
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(UserError, match=r"file\."):
        READERS[name].read(path)


@text_readers
def test_a_byte_that_is_not_utf8_is_refused(name, given_file):
    good = READERS[name].good
    middle = good.index(b"\n") - 1 if b"\n" in good else len(good) // 2
    with pytest.raises(UserError, match=r"file\.dat.*(UTF-8|not valid XML)"):
        READERS[name].read(given_file(good[:middle] + b"\xff\xfe" + good[middle:]))


@every_reader
def test_a_truncated_gzip_file_is_refused(name, given_file):
    if name in ("cifar sheet", "npz") or READERS[name].ending != ".dat":
        pytest.skip("a format with a compression of its own")
    packed = gzip.compress(READERS[name].good)
    READERS[name].read(given_file(packed))
    with pytest.raises(UserError, match=r"file\.dat.*cannot be read"):
        READERS[name].read(given_file(packed[:-12]))


@text_readers
def test_a_gzip_bomb_is_refused_with_bounded_memory(name, given_file, monkeypatch):
    monkeypatch.setattr(limits, "UNPACKED_ALWAYS", 1 << 16)
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
        path = folder / f"file{reader.ending}"
        path.write_bytes(content)
        message = complaint(reader, path)
        named = message is None or "file" in message or reader.ending == ".yaml"  # settings also come from options
        assert named
        assert message is None or ("\n" not in message and len(message) < 1000)

    check()


@every_reader
def test_any_bytes_are_read_or_refused_in_one_sentence(name, tmp_path):
    never_surprises(READERS[name], tmp_path, 25)


def survives(reader: Reader, folder: Path, examples: int, seed: int) -> None:
    """Every file is read or refused, in one line; the seed of one that is not is in the error."""
    path = folder / f"file{reader.ending}"
    for number, content in mutations(reader.good, examples, seed):
        path.write_bytes(content)
        try:
            message = complaint(reader, path) or ""
        except Exception as error:
            raise AssertionError(f"mutation {number}: {type(error).__name__}: {error}") from error
        assert "\n" not in message, f"mutation {number}: {message}"
        assert len(message) < 3000, f"mutation {number}: {message}"


@every_reader
def test_damaged_files_are_read_or_refused(name, tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_MEMORY", "100M")
    survives(READERS[name], tmp_path, 150, seed=0)


@pytest.mark.slow
@every_reader
def test_100_000_damaged_files_are_read_or_refused(name, tmp_path, monkeypatch):
    monkeypatch.setenv("RARETAG_MEMORY", "100M")
    survives(READERS[name], tmp_path, 100_000, seed=1_000_000)

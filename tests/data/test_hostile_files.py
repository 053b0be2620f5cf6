"""Files that an attacker could send: each is refused in one line, before it takes memory or time."""

from __future__ import annotations

import tracemalloc

import pytest

from raretag.core.errors import UserError
from support.hostile import HOSTILE
from support.opening import OPENING


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_one_line_and_little_memory(name, tmp_path, monkeypatch):
    hostile = HOSTILE[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RARETAG_MEMORY", "100M")
    path = tmp_path / hostile.file
    hostile.make(path)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=hostile.refused) as refusal:
            OPENING[hostile.opens](path)
        assert tracemalloc.get_traced_memory()[1] < 300_000_000
    finally:
        tracemalloc.stop()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 600
    assert not (tmp_path / "made").exists()

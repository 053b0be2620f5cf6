"""Whatever arrived, what is said of it fits a screen and changes no terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from raretag.core.errors import LONGEST, UnwritableError, UserError


def test_a_word_without_end_is_shortened_and_the_advice_stays() -> None:
    said = str(UserError(f"there is no method '{'x' * 5000}'; expected one of focal, hill"))
    assert len(said) < 200
    assert said.startswith("there is no method 'xxx")
    assert said.endswith("; expected one of focal, hill")


def test_a_text_without_end_is_shortened() -> None:
    said = str(UserError("got " + "sea boat " * 10_000 + "; expected a number"))
    assert len(said) == LONGEST
    assert said.endswith("; expected a number")


def test_a_path_of_usual_length_is_whole() -> None:
    path = "/".join(["folder"] * 25)
    assert str(UnwritableError(f"cannot write {path}")) == f"cannot write {path}"


@given(st.text(), st.integers(1, 3000))
def test_no_message_is_long_or_holds_control_characters(text: str, times: int) -> None:
    said = str(UserError(text * times))
    assert len(said) <= LONGEST
    assert not any(ord(sign) < 32 and sign not in "\t\n" for sign in said)

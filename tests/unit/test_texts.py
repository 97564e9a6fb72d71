"""Texts from outside do nothing to a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.model.errors import InvalidSetting, QueueNotFound
from spoolrack_store.model.terminal_text import printable


@given(st.one_of(st.binary(), st.text()))
def test_printed_text_is_printable(content: str | bytes) -> None:
    assert printable(content).isprintable()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("a\nb\r\tc\x7f", r"a\nb\r\tc\x7f"),
        ("abc\u202edef", r"abc\u202edef"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        (b"\xffx", r"\xffx"),
        ("Größe 漢字 “ok” 🎈", "Größe 漢字 “ok” 🎈"),
    ],
)
def test_controls_are_escaped_and_letters_are_not(text: str | bytes, shown: str) -> None:
    assert printable(text) == shown


def test_an_error_quotes_nothing_raw() -> None:
    for error in (
        InvalidSetting(name="\x1b]0;title\x07\u202e", value=1, rule="is no setting"),
        QueueNotFound(queue="a\nlevel=error event=forged"),
    ):
        assert str(error).isprintable()

"""vsqs's names are read and written as vsqs does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack.vsqs import FileState, stored_messages
from spoolrack.vsqs import _file_names as names
from spoolrack.vsqs._file_names import FileName, parse
from spoolrack.vsqs._folder_index import Content

NUMBERS = st.integers(min_value=0, max_value=10**17)


@given(NUMBERS, NUMBERS)
def test_a_written_value_is_read_back(number: int, expiration: int) -> None:
    assert parse(names.new(number)) == FileName(f"{number}.new", number, FileState.NEW)
    assert parse(names.ready(number)) == FileName(str(number), number, FileState.READY)
    lease = parse(names.leased(number, expiration))
    assert lease is not None
    assert (lease.number, lease.state) == (number, FileState.LEASED)
    assert lease.expiration == names.in_micros(expiration)


@given(st.text(alphabet="0123456789.new_ -٣", max_size=12))
def test_every_other_text_is_no_name(text: str) -> None:
    name = parse(text)
    if name is not None:
        assert name.text == text
        assert text.split(".")[0] == str(name.number)


@given(st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 5), st.sampled_from(["", ".1", ".2"]))))
def test_a_content_is_what_it_was_told(told: list[tuple[str, int, str]]) -> None:
    content, there = Content(), set[str]()
    for sign, number, extension in told:
        text = f"{number}{extension}"
        if sign == "+":
            assert content.add(text) is (text not in there)
            there.add(text)
        else:
            content.remove(text)
            there.discard(text)
    assert [name.text for name in content] == sorted(there)
    assert len(content) == len(there)
    ready = [text for text in sorted(there) if "." not in text]
    oldest = content.oldest()
    assert (oldest.text if oldest else None) == (ready[0] if ready else None)
    leased = sorted(there - set(ready))
    assert sorted(name.text for name in content.expired(2)) == leased
    assert not content.replace(sorted(there))
    assert content.replace([]) is bool(there)


def test_a_content_does_not_grow_with_what_is_gone() -> None:
    content = Content()
    content.add("1")
    for expiration in range(10_000):
        content.add(f"2.{expiration}")
        content.remove(f"2.{expiration}")
    assert len(content._leased) < 1_000


@pytest.fixture
def make(folder: Path) -> Callable[[str, bytes], None]:
    folder.mkdir()
    return lambda name, content: (folder / name).write_bytes(content) and None


def test_stored_messages_are_listed_in_order_with_their_states(
    folder: Path, make: Callable[[str, bytes], None]
) -> None:
    make("1700000000000001", b"ready")
    make("1415776871123.1415776879654", b"leased")
    make("1700000000000000.new", b"half")
    make("note", b"")
    (folder / "5").mkdir()
    leased, new, ready = stored_messages(folder)
    assert (leased.id, leased.state, leased.size) == ("1415776871123", FileState.LEASED, 6)
    assert (leased.published, leased.expiration) == (1415776871123000, 1415776879654000)
    assert (new.id, new.state, new.expiration) == ("1700000000000000", FileState.NEW, None)
    assert (ready.id, ready.state, ready.read()) == ("1700000000000001", FileState.READY, b"ready")
    assert ready.published == 1700000000000001
    assert len(list(folder.iterdir())) == 5


def test_a_missing_folder_has_no_list(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(stored_messages(folder))

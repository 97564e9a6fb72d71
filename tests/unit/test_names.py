"""A name has one spelling, and says what a second implementation reads from it."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.members import MOST, all_of, from_text, indexes, pieces, to_text
from spoolrack_store.model.names import (
    MAX_BYTES,
    PACKABLE,
    Death,
    Name,
    NotAName,
    Stem,
    is_queue_name,
    parse,
)
from spoolrack_store.model.receipts import is_set_token, make_set_token, make_token, mark_in, mark_of
from spoolrack_store.model.transitions import State

ID = "018bcfe5-6800-7194-90e5-78aa96119000"
NOW = Millis(1_700_000_000_000)
masks = st.integers(1, all_of(MOST))


@given(masks)
def test_a_list_of_members_reads_as_it_was_written(mask: int) -> None:
    assert from_text(to_text(mask)) == mask
    assert sum(1 << index for index in indexes(mask)) == mask


@given(masks, st.integers(8, 120))
def test_a_list_that_is_too_long_is_divided_and_nothing_is_lost(mask: int, room: int) -> None:
    parts = pieces(mask, room)
    assert all(len(to_text(part)) <= room for part in parts)
    assert sum(parts) == mask


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (0b1, "i0"),
        (all_of(100), "i0-99"),
        (0b1011, "i0-1.3"),
        (int("10" * 40, 2), "b1.lalalalalalalal5"),
        pytest.param(int("01" * 50, 2) << 900, f"b900.{'la' * 10}", id="from 900 on"),
    ],
)
def test_members_are_ranges_or_a_bitmap_whichever_is_shorter(mask: int, text: str) -> None:
    assert len(to_text(mask)) <= len(text)
    assert from_text(to_text(mask)) == mask


@st.composite
def deaths(draw: st.DrawFn) -> Death | None:
    moments = st.sampled_from([None, Millis(1_700_000_000_000)])
    if draw(st.booleans()):
        return draw(st.sampled_from([None, Death(file="0123uv")]))
    return Death(
        at=NOW,
        is_rejected=draw(st.booleans()),
        receives=draw(st.integers(0, 5)),
        first=draw(moments),
        source=draw(st.sampled_from(["q", "a.b-c_d"])),
    )


@st.composite
def names(draw: st.DrawFn) -> Name:
    count = draw(st.sampled_from([0, 2, 100, MOST]))
    state = draw(st.sampled_from(list(State)))
    key = draw(st.sampled_from([None, "" if count else "0" * 26]))
    stem = Stem(
        id=ID if count else ID[:-3] + draw(st.sampled_from(["000", "abc"])),
        count=count,
        size=draw(st.integers(0, 10**9)),
        crc=draw(st.integers(0, 2**32 - 1)),
        line=draw(st.sampled_from([0, 77])),
        key=key,
    )
    waits = state in (State.LEASED, State.DELAYED)
    name = Name(
        stem=stem,
        state=state,
        queue=draw(st.sampled_from(["q", "a.b-c_d", "Q" * 80])),
        version=draw(st.integers(1, 10**6)),
        members=draw(st.sampled_from([stem.full, 1])),
        receives=draw(st.integers(0, 5)),
        first=draw(st.sampled_from([None, Millis(1_700_000_000_000)])),
        owner="p1" if state is State.SENT else "",
        due=Millis(1_700_000_000_000) if waits else None,
        token="0123456789abc" if state is State.LEASED else "",
    )
    if state is State.SENT:
        return name
    dead = replace(name, death=draw(deaths()), renewed=draw(st.sampled_from([None, NOW])))
    # Where a death has no room, a file says it.
    return dead if dead.bytes <= MAX_BYTES else replace(dead, death=Death(file="0123uv"))


@given(names())
def test_a_name_reads_as_it_was_written(name: Name) -> None:
    found = parse(name.path)
    assert found == name
    assert found.path == name.path
    assert name.bytes <= MAX_BYTES


@given(names())
def test_exactly_the_names_that_say_all_of_a_lone_message_that_waits_can_be_packed(name: Name) -> None:
    match, stem = PACKABLE.fullmatch(name.path), name.stem
    is_said = name.death is None or not name.death.file
    is_lone = not stem.count and stem.key is None and not (stem.is_grouped or stem.priority)
    waits = name.state in (State.READY, State.LEASED, State.DELAYED)
    assert (match is not None) == (waits and is_lone and is_said)
    if match is not None:
        ready, hidden, id, size, attributes, due, token = match.groups()
        assert (ready if name.state is State.READY else hidden) == name.queue
        assert (id, int(size), int(attributes or 0)) == (stem.id, stem.size, stem.attributes)
        assert (due and int(due), token or "") == (name.due, name.token)


GOOD = (
    f"queues/q/{ID},s5,c0000abcd",
    f"queues/a.b-c_d/{ID},n100,s5,c0000abcd,m77,k,v2,i3-90,r2,f1700000000000",
    f"new/q:{ID},n2,s5,c0000abcd,m77,op1@1700000000000",
    f"delay/q:{ID},s5,c0000abcd,k{'0' * 26},v3,r1,f1700000000000@1700000000001~0123456789abc",
    f"remove/q:{ID},n2,s5,c0000abcd,m77,v3,i1,d1700000000001.m3.1700000000000.jobs,t1700000000002",
    f"queues/q/{ID},s5,c0000abcd,v3,h0123uv",
)
good_names = pytest.mark.parametrize("good", GOOD)
FOREIGN = ["\0", "/", "\n", " ", "\\", "\N{ARABIC-INDIC DIGIT ONE}", "\udc80", "\N{KELVIN SIGN}", "*"]


@good_names
def test_a_name_with_a_foreign_character_anywhere_is_no_name(good: str) -> None:
    assert parse(good).path == good
    for foreign in FOREIGN:
        for at in range(len(good) + 1):
            for after in (good[at:], good[at + 1 :]):
                changed = good[:at] + foreign + after
                if changed == good:
                    continue  # a slash where it belongs
                with pytest.raises(NotAName):
                    parse(changed)


@good_names
def test_a_name_with_one_character_changed_is_another_name_or_none(good: str) -> None:
    for at in range(len(good)):
        for code in range(128):
            changed = good[:at] + chr(code) + good[at + 1 :]
            try:
                assert (parse(changed) == parse(good)) == (changed == good)
            except NotAName:
                assert changed != good


# Tokens.


def test_tokens_are_unique() -> None:
    random = Random(20)
    assert len({make_token(random) for _ in range(20_000)}) == 20_000


class Bits(Random):
    """Gives one number as its randomness."""

    def __init__(self, bits: int) -> None:
        super().__init__(0)
        self._bits = bits

    def getrandbits(self, count: int, /) -> int:
        assert count == 64
        return self._bits


@given(st.integers(0, 2**64 - 1))
def test_a_token_holds_all_of_its_64_bits(bits: int) -> None:
    token = make_token(Bits(bits))
    assert int(token, 32) == bits
    assert len(token) == 13


@given(st.integers(0, 2**64 - 1), st.from_regex(r"[a-z0-9]{1,16}", fullmatch=True))
def test_a_sets_token_holds_44_of_them_and_the_mark_of_its_process(bits: int, owner: str) -> None:
    token = make_set_token(owner, Bits(bits))
    random = 2**64 - 1 - (2**60 - 2**40)
    assert int(token, 32) & random == bits & random
    assert len(token) == 13
    assert mark_in(token) == mark_of(owner)
    assert is_set_token(token)
    assert not is_set_token(make_token(Bits(bits)))


# Queue names.


@given(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", fullmatch=True))
def test_a_queue_name_keeps_to_its_characters(name: str) -> None:
    assert is_queue_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        ".a",
        "-a",
        "_a",
        "a/b",
        "/a",
        "a/",
        "a:b",
        "a,b",
        "a@b",
        "a~b",
        "a b",
        "a\n",
        "a\0",
        "\0",
        "a" * 81,
        "é",
        "aé",
        "\N{FULLWIDTH LATIN SMALL LETTER A}",
        "a\N{ARABIC-INDIC DIGIT ONE}",
        "a\udc80",
        "*",
        "a" * 10_000_000,
    ],
    ids=lambda name: ascii(name[:20]),
)
def test_anything_else_is_no_queue_name(name: str) -> None:
    assert not is_queue_name(name)


@given(st.text())
def test_a_queue_name_is_always_a_safe_file_name(text: str) -> None:
    if is_queue_name(text):
        assert text.isascii()
        assert re.match("[A-Za-z0-9]", text)
        assert not set(text) & set("/\0:,@~\n")
        assert len(text) <= 80

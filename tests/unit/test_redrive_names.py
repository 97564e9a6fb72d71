"""The names and contents of redrives' files: formatted text is parsed again, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import MAX_BYTES, NotAName
from spoolrack_store.model.redrive_names import (
    FailureReason,
    MoveFailure,
    RedriveName,
    RedriveOrder,
    parse_redrive,
)
from spoolrack_store.model.redrive_requests import MAX_RATE, MAX_SELECTED, RedriveState
from spoolrack_store.model.sealed import NotWhole, seal

ID = "018bcfe5-6800-7455-a2f6-8cc5c44cd389"
COUNTS = st.integers(0, 10**15 - 1)
QUEUES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}", fullmatch=True)
FAILURES = st.builds(MoveFailure, st.sampled_from(FailureReason), st.one_of(st.just(""), QUEUES))
ENDS = st.one_of(st.none(), st.integers(0, 10**13 - 1).map(Millis))


@st.composite
def redrive_names(draw: st.DrawFn) -> RedriveName:
    ended = draw(ENDS)
    return RedriveName(
        id=ID,
        moved=draw(COUNTS),
        failed=draw(COUNTS),
        failure=draw(st.one_of(st.none(), FAILURES)),
        is_cancelled=ended is not None and draw(st.booleans()),
        owner=draw(st.one_of(st.none(), st.from_regex(r"[a-z0-9]{1,16}", fullmatch=True))),
        ended=ended,
    )


@given(redrive_names())
def test_a_name_is_parsed_as_it_was_formatted(name: RedriveName) -> None:
    assert parse_redrive(str(name)) == name
    assert len(str(name)) <= MAX_BYTES


@given(redrive_names(), st.integers(0, 300), st.sampled_from(list(",@~:/xofmw0.\n")))
def test_a_parsed_name_is_formatted_to_the_same_text(name: RedriveName, at: int, extra: str) -> None:
    text = str(name)
    for changed in (text[:at] + extra + text[at:], text[:at] + text[at + 1 :]):
        try:
            parsed = parse_redrive(changed)
        except NotAName:
            continue
        assert str(parsed) == changed


def test_a_name_says_the_state() -> None:
    assert parse_redrive(f"{ID},m0,f0,oabc").state is RedriveState.RUNNING
    assert parse_redrive(f"{ID},m0,f0@1700000000000").state is RedriveState.DONE
    assert parse_redrive(f"{ID},m0,f0,x,oabc@1700000000000").state is RedriveState.CANCELLED


@pytest.mark.parametrize("why", FailureReason)
def test_each_reason_has_a_text_that_says_what_to_do_or_what_it_is_about(why: FailureReason) -> None:
    assert "{" not in MoveFailure(why, "orders").text


ORDER = RedriveOrder(
    queue="dead",
    queue_created_at=Millis(5),
    destination="",
    source_queue="q",
    ids=(ID,),
    rate=7,
    started_at=Millis(9),
)


def test_an_order_is_read_as_it_was_written() -> None:
    assert RedriveOrder.decode(ORDER.encode()) == ORDER


@pytest.mark.parametrize("at", range(0, len(ORDER.encode()), 7))
def test_a_torn_or_damaged_order_is_not_whole(at: int) -> None:
    content = ORDER.encode()
    for damaged in (content[:at], content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]):
        with pytest.raises(NotWhole):
            RedriveOrder.decode(damaged)


@pytest.mark.parametrize(
    "lie",
    [
        {"queue": ""},
        {"queue": "../dead"},
        {"destination": "a b"},
        {"source_queue": None},
        {"ids": [7]},
        {"ids": ["../x"]},
        {"ids": "x"},
        {"ids": [ID] * (MAX_SELECTED + 1)},
        {"rate": -1},
        {"rate": MAX_RATE + 1},
        {"rate": True},
        {"started_at": "now"},
        {"queue_created_at": 1.5},
    ],
)
def test_an_order_that_says_what_cannot_be_is_not_whole(lie: dict[str, object]) -> None:
    values: dict[str, object] = {
        "queue": "dead",
        "queue_created_at": 5,
        "destination": "",
        "source_queue": "",
        "ids": [],
        "rate": 0,
        "started_at": 9,
    }
    assert RedriveOrder.decode(seal(values)).queue == "dead"
    with pytest.raises(NotWhole):
        RedriveOrder.decode(seal(values | lie))

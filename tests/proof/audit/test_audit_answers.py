"""The auditor finds an answer that leaves too early, in traces that are written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.proof.audit.findings import finding, report
from tests.proof.audit.trace_text import (
    LEASED,
    READY,
    REMOVED,
    SENT,
    TraceText,
    entry_of,
    id_of,
    move,
    new,
    opened,
    receipt_of,
    root,
)
from tests.support.system_calls import NotATrace

RELEASED: Final = READY.replace(",v2", ",v4,r1")
Steps = Callable[[TraceText], object]
TOO_EARLY: Final[dict[str, tuple[Steps, str]]] = {
    "before the folder that it left is synced": (
        lambda t: t.send(1).lease(settled=False).sync("new", "delay").answer(3, receipt_of(1)),
        f"was moved to {LEASED}",
    ),
    "before the folder that it came to is synced": (
        lambda t: t.send(1).lease(settled=False).sync("new", "queues/q").answer(3, receipt_of(1)),
        f"was moved to {LEASED}",
    ),
    "before its body is synced": (
        lambda t: t.ask(1, "q body").make(SENT, synced=False).sync("new").answer(1, id_of(1)),
        f"{SENT} isn't synced",
    ),
    "before its body's name is synced": (
        lambda t: t.ask(1, "q body").make(SENT).answer(1, id_of(1)),
        f"{SENT} was made",
    ),
    "that names nothing, before everything is synced": (
        lambda t: t.ask(1, "create").make_folder("queues/other").answer(1, "created"),
        "queues/other was made",
    ),
    "before a sync has ended": (
        lambda t: (
            t.ask(1, "q body").make(SENT).begins("fsync", opened("new"), thread=3).answer(1, id_of(1))
        ),
        "was made",
    ),
    "after a sync that began before the move was done": (
        lambda t: (
            t.send(1)
            .sync("new", "queues/q")
            .ask(3, "q")
            .begins("renameat", move(READY, LEASED), thread=3)
            .begins("syncfs", root(), thread=4)
            .ends("renameat", thread=3)
            .ends("syncfs", thread=4)
            .answer(3, receipt_of(1))
        ),
        "was moved to",
    ),
    "after a sync that has failed": (
        lambda t: t.ask(1, "q body").make(SENT).sync("new", result=-5).answer(1, id_of(1)),
        "was made",
    ),
    "of a lease that was never made": (
        lambda t: t.send(1).ask(3, "q").answer(3, receipt_of(1)),
        "is leased, which it isn't",
    ),
    "of a delete that isn't done": (
        lambda t: t.send(1).lease().ask(5, receipt_of(1)).answer(5),
        "before anything was done",
    ),
}
IN_TIME: Final[dict[str, Steps]] = {
    "of a release, though another consumer has leased the message by then": lambda t: (
        t.send(1)
        .lease()
        .ask(5, receipt_of(1))
        .ask(1, "another caller's", client=2)
        .rename(LEASED, RELEASED)
        .sync("queues/q", "delay")
        .rename(RELEASED, LEASED.replace(",v3", ",v5"))
        .answer(5)
    ),
    "of a lease of a relaxed queue, before it is durable": lambda t: (
        t.make("config/q.2.json", b'{"lease_durability": "relaxed"}')
        .sync("config")
        .send(1)
        .lease(settled=False)
        .answer(3, receipt_of(1))
    ),
    "none: frames of the connection": lambda t: (
        t.ask(1, "q body")
        .make(SENT)
        .say(bytes(3) + b"\x04\x00" + bytes(4))
        .say(b"\0\0\x08\x06\0" + bytes(4) + b"eight...")
    ),
}


@pytest.mark.parametrize("answer", TOO_EARLY)
def test_an_answer_that_leaves_too_early_is_found(trace: TraceText, answer: str) -> None:
    steps, told = TOO_EARLY[answer]
    steps(trace)

    assert told in finding(trace)


@pytest.mark.parametrize("answer", IN_TIME)
def test_an_answer_that_leaves_in_time_is_found_in_order(trace: TraceText, answer: str) -> None:
    IN_TIME[answer](trace)

    assert report(trace).findings == []


def test_a_life_that_keeps_every_rule_is_found_in_order(trace: TraceText) -> None:
    trace.send(1).lease().ask(5, receipt_of(1))
    trace.rename(LEASED, REMOVED).sync("delay", "remove").unlink(REMOVED).answer(5)

    found = report(trace)

    assert found.findings == []
    assert (found.seen.bodies, found.seen.unlinked, found.seen.moves) == (1, 1, 3)
    assert (found.seen.answers, found.seen.answers_alone) == (3, 3)


def test_while_others_wait_an_answer_depends_on_what_it_names(trace: TraceText) -> None:
    trace.send(1).ask(1, "another caller's", client=2).make(new(entry_of(2)))
    trace.ask(3, "q").rename(READY, LEASED).sync("queues/q", "delay").answer(3, receipt_of(1))

    assert f"an answer about {id_of(1)}" not in "".join(report(trace).findings)

    trace.answer(1, id_of(2), client=2)

    assert f"an answer about {id_of(2)}" in finding(trace)


def test_an_answer_that_the_socket_takes_in_two_pieces_leaves_with_its_end(trace: TraceText) -> None:
    whole = TraceText().answer(1, id_of(1))
    said = bytes.fromhex(whole.lines[-1].split('"')[1].replace("\\x", ""))
    trace.ask(1, "q body").make(SENT).sync("new").say(said, taken=20).say(said[20:])
    trace.ask(3, "q body").make_folder("queues/other").answer(3)

    assert report(trace).seen.answers_alone >= 2
    assert "queues/other" in finding(trace)


# Texts that are no trace.


def test_a_string_that_strace_has_cut_short_is_refused(trace: TraceText) -> None:
    trace.ask(1, "q body")
    trace.lines[-1] = trace.lines[-1].replace('", iov_len', '"..., iov_len')

    with pytest.raises(NotATrace, match="cut short"):
        report(trace)


@pytest.mark.parametrize("line", ["no thread", "1 fsync(", "1 fsync(7</x>)", "1 <... fsync resumed>)"])
def test_an_invalid_trace_line_is_refused(trace: TraceText, line: str) -> None:
    trace.lines.append(line)

    with pytest.raises(NotATrace):
        report(trace)

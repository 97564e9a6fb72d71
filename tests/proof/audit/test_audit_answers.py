"""The auditor finds an answer that leaves too early, in traces that are written by hand."""

from __future__ import annotations

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


def test_a_life_that_keeps_every_rule_is_found_in_order(trace: TraceText) -> None:
    trace.send(1)
    trace.lease()
    trace.ask(5, receipt_of(1))
    trace.rename(LEASED, REMOVED)
    trace.sync("delay", "remove")
    trace.unlink(REMOVED)
    trace.answer(5)

    found = report(trace)

    assert found.findings == []
    assert (found.seen.bodies, found.seen.unlinked, found.seen.moves) == (1, 1, 3)
    assert (found.seen.answers, found.seen.answers_alone) == (3, 3)


@pytest.mark.parametrize("forgotten", ["queues/q", "delay"])
def test_an_answer_before_a_folder_of_its_move_is_synced_is_found(
    trace: TraceText, forgotten: str
) -> None:
    trace.send(1)
    trace.lease(settled=False)
    trace.sync(*({"new", "queues/q", "delay"} - {forgotten}))
    trace.answer(3, receipt_of(1))

    assert f"was moved to {LEASED}" in finding(trace)


def test_an_answer_before_its_body_is_synced_is_found(trace: TraceText) -> None:
    trace.ask(1, "q body")
    trace.make(SENT, synced=False)
    trace.sync("new")
    trace.answer(1, id_of(1))

    assert f"{SENT} isn't synced" in finding(trace)


def test_an_answer_before_its_bodys_name_is_synced_is_found(trace: TraceText) -> None:
    trace.ask(1, "q body")
    trace.make(SENT)
    trace.answer(1, id_of(1))

    assert f"{SENT} was made" in finding(trace)


def test_an_answer_that_names_nothing_waits_for_everything(trace: TraceText) -> None:
    trace.ask(1, "create")
    trace.make_folder("queues/other")
    trace.answer(1, "created")

    assert "queues/other was made" in finding(trace)


def test_a_sync_that_has_not_ended_covers_nothing(trace: TraceText) -> None:
    trace.ask(1, "q body")
    trace.make(SENT)
    trace.begins("fsync", opened("new"), thread=3)
    trace.answer(1, id_of(1))

    assert "was made" in finding(trace)


def test_a_sync_that_began_before_the_move_was_done_does_not_cover_it(trace: TraceText) -> None:
    trace.send(1)
    trace.sync("new", "queues/q")
    trace.ask(3, "q")
    trace.begins("renameat", move(READY, LEASED), thread=3)
    trace.begins("syncfs", root(), thread=4)
    trace.ends("renameat", thread=3)
    trace.ends("syncfs", thread=4)
    trace.answer(3, receipt_of(1))

    assert "was moved to" in finding(trace)


def test_a_sync_that_has_failed_covers_nothing(trace: TraceText) -> None:
    trace.ask(1, "q body")
    trace.make(SENT)
    trace.sync("new", result=-5)
    trace.answer(1, id_of(1))

    assert "was made" in finding(trace)


def test_while_others_wait_an_answer_depends_on_what_it_names(trace: TraceText) -> None:
    trace.send(1)
    trace.ask(1, "another caller's", client=2)
    trace.make(new(entry_of(2)))
    trace.ask(3, "q")
    trace.rename(READY, LEASED)
    trace.sync("queues/q", "delay")
    trace.answer(3, receipt_of(1))

    assert f"an answer about {id_of(1)}" not in "".join(report(trace).findings)

    trace.answer(1, id_of(2), client=2)

    assert f"an answer about {id_of(2)}" in finding(trace)


def test_a_release_is_answered_though_another_consumer_has_leased_the_message_by_then(
    trace: TraceText,
) -> None:
    trace.send(1)
    trace.lease()
    trace.ask(5, receipt_of(1))
    trace.ask(1, "another caller's", client=2)
    released = READY.replace(",v2", ",v4,r1")
    trace.rename(LEASED, released)
    trace.sync("queues/q", "delay")
    trace.rename(released, LEASED.replace(",v3", ",v5"))
    trace.answer(5)

    assert report(trace).findings == []


def test_a_lease_that_is_told_and_was_never_made_is_found(trace: TraceText) -> None:
    trace.send(1)
    trace.ask(3, "q")
    trace.answer(3, receipt_of(1))

    assert "is leased, which it isn't" in finding(trace)


def test_a_delete_that_is_answered_and_not_done_is_found(trace: TraceText) -> None:
    trace.send(1)
    trace.lease()
    trace.ask(5, receipt_of(1))
    trace.answer(5)

    assert "before anything was done" in finding(trace)


def test_connection_frames_are_no_answer(trace: TraceText) -> None:
    trace.ask(1, "q body")
    trace.make(SENT)
    trace.say(bytes(3) + b"\x04\x00" + bytes(4))
    trace.say(b"\0\0\x08\x06\0" + bytes(4) + b"eight...")

    assert report(trace).findings == []


def test_an_answer_that_the_socket_takes_in_two_pieces_leaves_with_its_end(trace: TraceText) -> None:
    whole = TraceText()
    whole.answer(1, id_of(1))
    said = bytes.fromhex(whole.lines[-1].split('"')[1].replace("\\x", ""))
    trace.ask(1, "q body")
    trace.make(SENT)
    trace.sync("new")
    trace.say(said, taken=20)
    trace.say(said[20:])
    trace.ask(3, "q body")
    trace.make_folder("queues/other")
    trace.answer(3)

    assert report(trace).seen.answers_alone >= 2
    assert "queues/other" in finding(trace)


def test_a_lease_of_a_relaxed_queue_is_answered_before_it_is_durable(trace: TraceText) -> None:
    trace.make("config/q.2.json", b'{"lease_durability": "relaxed"}')
    trace.sync("config")
    trace.send(1)
    trace.lease(settled=False)
    trace.answer(3, receipt_of(1))

    assert report(trace).findings == []


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

"""The auditor finds a step that is taken too early, and a body that is touched again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.proof.audit.findings import finding, report
from tests.proof.audit.trace_text import (
    BATCH,
    DUE,
    ENTRY,
    LEASED,
    READY,
    REMOVED,
    ROOT,
    SENT,
    TOKEN,
    TraceText,
    entry_of,
    new,
    opened,
    text,
)


def test_a_publication_before_the_body_is_synced_is_found(trace: TraceText) -> None:
    trace.make(SENT, synced=False)
    trace.sync("new")
    trace.rename(SENT, READY)

    assert "isn't durable yet" in finding(trace)


def test_a_publication_of_a_torn_file_is_found(trace: TraceText) -> None:
    trace.make(new(BATCH), b"x" * 17)
    trace.sync("new")
    trace.rename(new(BATCH), f"queues/q/{BATCH},v2")

    assert "only 17 of 18 bytes" in finding(trace)


def test_a_move_that_replaces_a_message_is_found(trace: TraceText) -> None:
    trace.send(1)
    trace.send(2)
    trace.sync_all()
    trace.rename(READY, f"queues/q/{entry_of(2)},v2")

    assert "replaces" in finding(trace)


def test_a_name_that_goes_before_its_successor_is_durable_is_found(trace: TraceText) -> None:
    """Each message of a batch is leased by a link of its own: the name that listed both is stale."""
    ready = trace.send_batch()
    for index in (0, 1):
        trace.link(ready, f"delay/q:{BATCH},v3,i{index},r1{DUE}~{TOKEN}")
    trace.unlink(ready)

    assert "the name of its messages isn't durable" in finding(trace)


def test_a_stale_name_that_goes_when_its_successors_are_durable_is_well(trace: TraceText) -> None:
    ready = trace.send_batch()
    for index in (0, 1):
        trace.link(ready, f"delay/q:{BATCH},v3,i{index},r1{DUE}~{TOKEN}")
    trace.sync("delay")
    trace.unlink(ready)

    assert report(trace).findings == []


def test_a_name_that_holds_a_message_yet_must_stay(trace: TraceText) -> None:
    ready = trace.send_batch()
    trace.link(ready, f"delay/q:{BATCH},v3,i0,r1{DUE}~{TOKEN}")
    trace.sync("delay")
    trace.unlink(ready)

    assert "it holds messages" in finding(trace)


def test_an_unlink_before_the_delete_is_durable_is_found(trace: TraceText) -> None:
    trace.send(1)
    trace.lease()
    trace.rename(LEASED, REMOVED)
    trace.sync("delay")
    trace.unlink(REMOVED)

    assert "has not durably been deleted" in finding(trace)


def test_a_queue_that_is_emptied_before_its_end_is_durable_is_found(trace: TraceText) -> None:
    trace.send(1)
    trace.sync_all()
    trace.make("config/q.2.json", b'{"deleted": true}')
    trace.rename(READY, f"remove/q:{ENTRY},v3")

    assert "isn't durably deleted" in finding(trace)


def test_a_tombstone_that_goes_before_its_queue_is_found(trace: TraceText) -> None:
    trace.send(1)
    trace.make("config/q.2.json", b'{"deleted": true}')
    trace.sync_all()
    trace.rename(READY, f"remove/q:{ENTRY},v3")
    trace.unlink("config/q.2.json")

    assert "isn't all that is left" in finding(trace)


def test_settings_that_go_before_the_newer_are_durable_are_found(trace: TraceText) -> None:
    trace.make("config/q.2.json", b"{}")
    trace.unlink("config/q.1.json")

    assert "the newer isn't durable" in finding(trace)


# One body, written once and unlinked once.


def open_again(trace: TraceText) -> None:
    trace.open(READY, "O_WRONLY|O_CLOEXEC")


def truncate(trace: TraceText) -> None:
    trace.call("ftruncate", f"{opened(READY)}, 0")


def truncate_by_name(trace: TraceText) -> None:
    trace.call("truncate", f"{text(f'{ROOT}/{READY}')}, 0")


def write_on(trace: TraceText) -> None:
    trace.write(READY, b"more")


def write_in_place(trace: TraceText) -> None:
    trace.call("pwrite64", f"{opened(READY)}, {text('b')}, 1, 0", 1)


def make_anew(trace: TraceText) -> None:
    trace.open(SENT, "O_WRONLY|O_CREAT|O_EXCL")


def make_elsewhere(trace: TraceText) -> None:
    trace.open(f"queues/q/{entry_of(2)},v2", "O_WRONLY|O_CREAT|O_EXCL")


def make_without_asking(trace: TraceText) -> None:
    trace.open(new(entry_of(2)), "O_WRONLY|O_CREAT")


def move_out(trace: TraceText) -> None:
    trace.call("rename", f"{text(f'{ROOT}/{READY}')}, {text('/elsewhere')}")


def unlink_unseen(trace: TraceText) -> None:
    trace.unlink(READY)


@pytest.mark.parametrize(
    "sin",
    [
        open_again,
        truncate,
        truncate_by_name,
        write_on,
        write_in_place,
        make_anew,
        make_elsewhere,
        make_without_asking,
        move_out,
        unlink_unseen,
    ],
)
def test_a_body_that_is_touched_again_is_found(
    trace: TraceText, sin: Callable[[TraceText], None]
) -> None:
    trace.send(1)
    trace.sync_all()
    sin(trace)

    assert finding(trace)


def test_a_body_that_is_written_twice_over_is_found(trace: TraceText) -> None:
    trace.make(SENT, synced=False)
    trace.write(SENT, b"body")
    trace.sync(SENT, "new")
    trace.rename(SENT, READY)

    assert "8 bytes were written to it in place of 4" in finding(trace)


def test_a_body_that_is_unlinked_twice_is_found(trace: TraceText) -> None:
    trace.send(1)
    trace.lease()
    trace.rename(LEASED, REMOVED)
    trace.sync("delay", "remove")
    trace.unlink(REMOVED)
    trace.unlink(REMOVED, result=-2)

    assert "a second time" in finding(trace)

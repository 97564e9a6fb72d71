"""The auditor finds a step that is taken too early, and a body that is touched again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from spoolrack_store.files.spares import seal_of

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
    WHOLE,
    TraceText,
    entry_of,
    id_of,
    new,
    opened,
    text,
)

PARTS: Final = [f"delay/q:{BATCH},v3,i{index},r1{DUE}~{TOKEN}" for index in (0, 1)]
"""Names of the batch's messages when each is leased by a link of its own: the name before is stale."""
SECOND: Final = "config/q.2.json"
TOMBSTONE: Final = b'{"deleted": true}'
TOO_EARLY: Final[dict[str, tuple[Callable[[TraceText], object], str]]] = {
    "a publication before the body is synced": (
        lambda t: t.make(SENT, synced=False).sync("new").rename(SENT, READY),
        "isn't durable yet",
    ),
    "a publication of a torn file": (
        lambda t: t.make(new(BATCH), b"x" * 17).sync("new").rename(new(BATCH), WHOLE),
        "only 17 of 18 bytes",
    ),
    "a move that replaces a message": (
        lambda t: t.send(1).send(2).sync_all().rename(READY, f"queues/q/{entry_of(2)},v2"),
        "replaces",
    ),
    "a name that goes before its successor is durable": (
        lambda t: t.send_batch().link(WHOLE, PARTS[0]).link(WHOLE, PARTS[1]).unlink(WHOLE),
        "the name of its messages isn't durable",
    ),
    "a name that holds a message yet": (
        lambda t: t.send_batch().link(WHOLE, PARTS[0]).sync("delay").unlink(WHOLE),
        "it holds messages",
    ),
    "an unlink before the delete is durable": (
        lambda t: t.send(1).lease().rename(LEASED, REMOVED).sync("delay").unlink(REMOVED),
        "has not durably been deleted",
    ),
    "a queue that is emptied before its end is durable": (
        lambda t: t.send(1).sync_all().make(SECOND, TOMBSTONE).rename(READY, f"remove/q:{ENTRY},v3"),
        "isn't durably deleted",
    ),
    "a tombstone that goes before its queue": (
        lambda t: (
            t.send(1)
            .make(SECOND, TOMBSTONE)
            .sync_all()
            .rename(READY, f"remove/q:{ENTRY},v3")
            .unlink(SECOND)
        ),
        "isn't all that is left",
    ),
    "settings that go before the newer are durable": (
        lambda t: t.make(SECOND, b"{}").unlink("config/q.1.json"),
        "the newer isn't durable",
    ),
    "a body that is written twice over": (
        lambda t: t.make(SENT, synced=False).write(SENT, b"body").sync(SENT, "new").rename(SENT, READY),
        "8 bytes were written to it in place of 4",
    ),
    "a body that is unlinked twice": (
        lambda t: (
            t.send(1)
            .lease()
            .rename(LEASED, REMOVED)
            .sync("delay", "remove")
            .unlink(REMOVED)
            .unlink(REMOVED, result=-2)
        ),
        "a second time",
    ),
}
TOUCHED_AGAIN: Final[dict[str, Callable[[TraceText], object]]] = {
    "opened": lambda t: t.open(READY, "O_WRONLY|O_CLOEXEC"),
    "truncated": lambda t: t.call("ftruncate", f"{opened(READY)}, 0"),
    "truncated by its name": lambda t: t.call("truncate", f"{text(f'{ROOT}/{READY}')}, 0"),
    "written on": lambda t: t.write(READY, b"more"),
    "written in place": lambda t: t.call("pwrite64", f"{opened(READY)}, {text('b')}, 1, 0", 1),
    "made anew": lambda t: t.open(SENT, "O_WRONLY|O_CREAT|O_EXCL"),
    "made elsewhere": lambda t: t.open(f"queues/q/{entry_of(2)},v2", "O_WRONLY|O_CREAT|O_EXCL"),
    "made without asking": lambda t: t.open(new(entry_of(2)), "O_WRONLY|O_CREAT"),
    "moved out": lambda t: t.call("rename", f"{text(f'{ROOT}/{READY}')}, {text('/elsewhere')}"),
    "unlinked unseen": lambda t: t.unlink(READY),
}


@pytest.mark.parametrize("step", TOO_EARLY)
def test_a_step_that_is_taken_too_early_or_twice_is_found(trace: TraceText, step: str) -> None:
    take, told = TOO_EARLY[step]
    take(trace)

    assert told in finding(trace)


@pytest.mark.parametrize("sin", TOUCHED_AGAIN)
def test_a_body_that_is_touched_again_is_found(trace: TraceText, sin: str) -> None:
    trace.send(1)
    trace.sync_all()
    TOUCHED_AGAIN[sin](trace)

    assert finding(trace)


def test_a_stale_name_that_goes_when_its_successors_are_durable_is_well(trace: TraceText) -> None:
    trace.send_batch().link(WHOLE, PARTS[0]).link(WHOLE, PARTS[1]).sync("delay").unlink(WHOLE)

    assert report(trace).findings == []


SPARE = "new/abc-1.spare"


def over_a_spare(trace: TraceText, *, made_durable: bool = True, synced: bool = True) -> TraceText:
    """Send the message 1 over a spare."""
    trace.make(SPARE, bytes(4096), synced=False)
    if made_durable:
        trace.sync_all()
    trace.ask(1, "q body").overwrite(SPARE, b"body", 0).overwrite(SPARE, seal_of(SPARE, SENT), 3584)
    if synced:
        trace.call("fdatasync", opened(SPARE))
    return trace.answer(1, id_of(1))


def test_a_send_over_a_spare_is_durable_by_its_data() -> None:
    trace = over_a_spare(TraceText().queue()).rename(SPARE, READY).sync_all()
    assert not report(trace.call("ftruncate", f"{opened(READY)}, 4")).findings


@pytest.mark.parametrize(
    ("trace", "what"),
    [
        (over_a_spare(TraceText().queue(), made_durable=False), "used before it is durable"),
        (over_a_spare(TraceText().queue(), synced=False), "isn't synced"),
        (
            over_a_spare(TraceText().queue()).call("ftruncate", f"{opened(SPARE)}, 4"),
            "cut off after 4 bytes",
        ),
        (
            over_a_spare(TraceText().queue())
            .rename(SPARE, READY)
            .call("ftruncate", f"{opened(READY)}, 4"),
            "cut off before that is durable",
        ),
        (
            over_a_spare(TraceText().queue())
            .rename(SPARE, READY)
            .sync_all()
            .call("ftruncate", f"{opened(READY)}, 3"),
            "cut off after 3 bytes",
        ),
        (
            over_a_spare(TraceText().queue()).overwrite(SPARE, b"body", 0),
            "written after it was sealed",
        ),
    ],
)
def test_a_spare_that_is_misused_is_found(trace: TraceText, what: str) -> None:
    assert any(what in each for each in report(trace).findings)

"""Starts on files that a crash or a copy has left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import Name, Stem, parse
from spoolrack_store.model.operations import Receive, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State

from tests.support.dead_letter_rig import Rig

DELAY = Millis(5_000)
BODIES = [b"a", b"bb", b"ccc"]
LEASED = Millis(1_700_000_060_000)


@pytest.fixture
def rig() -> Rig:
    return Rig({"q": QueueSettings()})


def sent(rig: Rig, *bodies: bytes, **more: Any) -> tuple[str, bytes]:
    """Send, and die before the answer; return the path in `new/`, and the content."""
    rig.engine.apply([Send(queue="q", bodies=bodies, **more)])
    (found,) = rig.disk.scan("new")
    path = f"new/{found.name}"
    return path, rig.disk.read(path)


def started(rig: Rig) -> Rig:
    rig = rig.restart()
    for _ in range(3):
        rig.ask(tick=True)
    return rig


def bodies(rig: Rig) -> list[bytes]:
    found = rig.ask(Receive(queue="q", max_messages=50, visibility_timeout=Millis(60_000)))
    return [body for each in found for body in each.bodies]


@pytest.mark.parametrize("count", [1, 3])
def test_a_whole_file_in_new_is_delivered(rig: Rig, count: int) -> None:
    sent(rig, *BODIES[:count])
    assert bodies(started(rig)) == BODIES[:count]


@pytest.mark.parametrize("listed", [0b110, 0b011])
def test_a_batch_in_new_of_which_no_name_lists_all_messages_was_never_sent(
    rig: Rig, listed: int
) -> None:
    path, content = sent(rig, *BODIES)
    rig.disk.unlink(path)
    rig.disk.create(replace(parse(path), members=listed).path, [content], sync=True)
    rig = started(rig)
    assert bodies(rig) == []
    assert list(rig.disk.scan("new")) == []


@pytest.mark.parametrize("count", [1, 3])
def test_a_torn_file_in_new_was_never_sent_and_leaves_nothing(rig: Rig, count: int) -> None:
    path, content = sent(rig, *BODIES[:count])
    torn = [content[:end] for end in range(len(content))]
    torn += [bytes(len(content)), content[:-2] + b"\0\0", b"X" + content[1:]]
    for left in torn:
        rig.disk.unlink(path)
        rig.disk.create(path, [left], sync=True)
        rig = started(rig)
        assert bodies(rig) == []
        assert [each.name for folder in ("new", "quarantine") for each in rig.disk.scan(folder)] == []
        rig.disk.create(path, [content], sync=True)


def test_a_delayed_message_in_new_keeps_its_deliver_time(rig: Rig) -> None:
    sent(rig, *BODIES, delays=dict.fromkeys(range(3), DELAY))
    rig.after(DELAY - 1_000)
    rig = started(rig)
    assert bodies(rig) == []
    rig.after(1_000)
    rig.ask()
    assert bodies(rig) == BODIES


PLACES: dict[State, dict[str, Any]] = {
    State.READY: {},
    State.LEASED: {"receives": 1, "due": LEASED, "token": "0" * 13},
    State.DELAYED: {"due": LEASED},
    State.REMOVED: {},
}


def named(stem: Stem, state: State, version: int) -> str:
    return Name(
        stem=stem, state=state, queue="q", version=version, members=stem.full, **PLACES[state]
    ).path


@pytest.mark.parametrize("is_copied", [False, True], ids=["one file", "files of a copied root"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("older", PLACES)
@pytest.mark.parametrize("newer", PLACES)
def test_of_several_names_that_list_a_message_the_highest_version_decides(
    rig: Rig, newer: State, older: State, count: int, is_copied: bool
) -> None:
    path, content = sent(rig, *BODIES[:count])
    stem = parse(path).stem
    for version, state in ((2, older), (3, newer)):
        if is_copied:
            rig.disk.create(named(stem, state, version), [content], sync=True)
        else:
            rig.disk.link(path, named(stem, state, version))
    rig.disk.unlink(path)
    rig = started(rig)
    held = [
        (entry.name.state, entry.members.bit_count()) for entry in rig.engine.index.queue("q").entries
    ]
    assert held == ([] if newer is State.REMOVED else [(newer, count)])
    if newer is State.REMOVED:
        rig.after(120_000)
        rig.ask()
    assert bodies(rig) == (BODIES[:count] if newer is State.READY else [])


def test_messages_that_no_name_lists_are_told(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.send(*BODIES)
    rig.receive(most=1)
    (found,) = rig.disk.scan("queues/q")
    rig.disk.unlink(f"queues/q/{found.name}")
    rig.restart()
    told = [
        each.message for each in caplog.records if "no name lists the messages [1, 2]" in each.message
    ]
    assert len(told) == 1

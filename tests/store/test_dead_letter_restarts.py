"""A start finds the file that a dead letter was in, whichever of the two it lists first."""

from __future__ import annotations

import os
from pathlib import Path

from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import CreateQueue, Delete, Message, Receive, Send, messages_of
from spoolrack_store.model.settings import QueueSettings

from tests.support.root_rig import NOW, Still, done, lay_out, opened, settle

DYING = QueueSettings(max_receives=1, dead_letter_queue="dead", dead_letter_at="receive")
OVER = 31_000
"""Milliseconds after which a lease is over."""


def receive(engine: Engine, queue: str) -> list[Message]:
    (found,) = done(engine, Receive(queue=queue, max_messages=10))
    assert isinstance(found, list), found
    settle(engine)
    return messages_of(found)


def test_a_dead_letter_that_is_deleted_does_not_die_again(tmp_path: Path) -> None:
    """A power cut may keep the copy, which a consumer has leased, and undo the deletion of the message
    where it was."""
    root, clock = tmp_path / "root", Still(NOW)
    lay_out(root)
    engine = opened(root, clock)
    done(engine, CreateQueue(name="dead", settings=QueueSettings()))
    done(engine, CreateQueue(name="dying", settings=DYING))
    done(engine, Send(queue="dying", bodies=[b"a", b"b"]))
    settle(engine)
    assert len(receive(engine, "dying")) == 2
    clock.now = Millis(clock.now + OVER)
    engine.apply([], tick=True)
    settle(engine)
    (before,) = (root / "queues/dying").iterdir()
    os.link(before, tmp_path / "kept")
    assert receive(engine, "dying") == []
    leased = receive(engine, "dead")
    assert {message.body for message in leased} == {b"a", b"b"}
    assert not before.exists()

    os.link(tmp_path / "kept", before)
    for name in (root / "remove").iterdir():
        if name.name.startswith("dying:"):
            name.unlink()
    again = opened(root, clock)
    settle(again)

    assert not before.exists()
    done(again, Delete(queue="dead", receipts=[message.receipt or "" for message in leased]))
    settle(again)
    last = opened(root, clock)
    settle(last)
    assert receive(last, "dying") + receive(last, "dead") == []

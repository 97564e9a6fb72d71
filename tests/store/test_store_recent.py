"""What was sent a moment ago is delivered without being read back, and only if it is still there."""

from __future__ import annotations

import errno
import logging

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.engine.recent import Recent
from spoolrack_store.files import layout
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.content import Content
from spoolrack_store.model.operations import ChangeVisibility, Outgoing, Send, VisibilityChange


@pytest.fixture
def memory() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def disk(memory: MemoryDisk) -> FaultyDisk:
    return FaultyDisk(memory)


@pytest.fixture
def rig(disk: FaultyDisk) -> EngineRig:
    rig = EngineRig(disk)
    rig.create(visibility_timeout=30_000)
    return rig


def path_of(rig: EngineRig, id: str) -> str:
    (path,) = (sight.path for sight in rig.sights() if sight.entry.id == id)
    return path


@pytest.mark.parametrize("bodies", [[b"one"], [b"one", b"two", b"three"]])
def test_a_message_sent_a_moment_ago_is_not_read_back(
    rig: EngineRig, disk: FaultyDisk, bodies: list[bytes]
) -> None:
    rig.send(*bodies)
    disk.fail(errno.EIO, "read")
    assert [message.body for message in rig.receive(10)] == bodies


def test_its_attributes_are_those_that_the_file_holds(rig: EngineRig) -> None:
    attributes: dict[str, str | bytes] = {"kind": "text", "key": b"\xff\x00"}
    rig.ask(Send(queue="q", messages=[Outgoing(body=b"x", attributes=attributes)]))
    (recent,) = rig.receive(1)
    rig.clock.advance(30_000)
    (read,) = rig.receive(1)
    assert recent.attributes == read.attributes == attributes
    assert (recent.id, recent.size, recent.sent_at) == (read.id, read.size, read.sent_at)


def test_what_becomes_of_a_senders_attributes_later_changes_no_message(rig: EngineRig) -> None:
    attributes: dict[str, str | bytes] = {"kind": "text"}
    one, two = (Outgoing(body=body, attributes=attributes) for body in (b"one", b"two"))
    rig.ask(Send(queue="q", messages=[one, two]))
    attributes["kind"] = "changed"
    for message in rig.receive(2):
        assert message.attributes == {"kind": "text"}
        assert isinstance(message.attributes, dict)
        message.attributes.clear()


def test_what_is_delivered_again_is_read_from_its_file(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.send(b"one", b"two")
    receipts = [message.receipt or "" for message in rig.receive(2)]
    changes = [VisibilityChange(receipt, Millis(0)) for receipt in receipts]
    rig.ask(ChangeVisibility(queue="q", changes=changes))
    disk.forget()
    assert [(message.body, message.receives) for message in rig.receive(2)] == [
        (b"one", 2),
        (b"two", 2),
    ]
    assert len(disk.called("read")) == 2


def test_after_a_restart_everything_is_read_from_its_file(rig: EngineRig, memory: MemoryDisk) -> None:
    (id,) = rig.send(b"one")
    rig.restart()
    memory.unlink(path_of(rig, id))
    assert rig.receive(1) == []


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_what_somebody_took_out_of_a_batch_by_hand_is_not_delivered(
    rig: EngineRig, memory: MemoryDisk, taken: int
) -> None:
    ids = rig.send(b"a", b"b", b"c")
    memory.rename(path_of(rig, ids[taken]), f"{layout.QUARANTINE}/elsewhere")
    left = [id for id in ids if id != ids[taken]]
    assert [message.id for message in rig.receive(10)] == left
    rig.check()


def test_a_single_message_that_somebody_took_away_is_not_delivered(
    rig: EngineRig, memory: MemoryDisk, caplog: pytest.LogCaptureFixture
) -> None:
    (id,) = rig.send(b"a")
    memory.rename(path_of(rig, id), f"{layout.QUARANTINE}/elsewhere")
    with caplog.at_level(logging.ERROR):
        assert rig.receive(10) == []
    rig.check()


def test_where_a_batch_cannot_be_listed_its_messages_are_read(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.send(b"a", b"b")
    disk.fail(errno.EMFILE, "scan", times=1)
    disk.forget()
    assert [message.body for message in rig.receive(10)] == [b"a", b"b"]
    assert len(disk.called("read")) == 2


def test_no_more_is_held_than_the_limit() -> None:
    recent = Recent(10_000)
    for at in range(100):
        recent.keep(str(at), Content(b"x" * 1_000, {"name": b"y" * 1_000}))
    recent.keep("large", Content(b"x" * 10_000))
    held = [at for at in range(100) if recent.take(str(at)) is not None]
    assert held == list(range(100 - len(held), 100)), "the oldest did not give way first"
    assert 0 < len(held) <= 5
    assert recent.take("large") is None


def test_what_was_taken_makes_room() -> None:
    recent = Recent(5_000)
    for at in range(1_000):
        recent.keep(str(at), Content(b"x" * 3_000))
        assert recent.take(str(at)) == Content(b"x" * 3_000)
        assert recent.take(str(at)) is None

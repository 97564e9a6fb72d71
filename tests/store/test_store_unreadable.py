"""Messages that can't be read: each costs itself only, whatever the reason. No threads here."""

from __future__ import annotations

import errno

import pytest
from damage import rot
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import File, MemoryDisk
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.errors import DiskError
from spoolrack_store.model.operations import (
    Outgoing,
    Receive,
    Send,
)


@pytest.fixture
def memory() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def disk(memory: MemoryDisk) -> FaultyDisk:
    return FaultyDisk(memory)


@pytest.fixture
def rig(disk: FaultyDisk) -> EngineRig:
    rig = EngineRig(disk, recent_bytes=0)  # Nothing is delivered from memory.
    rig.create(visibility_timeout=30_000)
    return rig


def outgoing(*bodies: bytes) -> Send:
    return Send(queue="q", messages=[Outgoing(body=body) for body in bodies])


@pytest.mark.parametrize("code", [None, errno.EIO])
@pytest.mark.parametrize("bodies", [[b"aa", b"bb", b"cc"], [b"aa"]])
def test_a_damaged_message_is_put_aside_and_the_rest_delivered(
    rig: EngineRig, disk: FaultyDisk, memory: MemoryDisk, code: int | None, bodies: list[bytes]
) -> None:
    ids = rig.send(*bodies)
    damaged = ids[len(ids) // 2]
    credits = Credits(10, lambda: None)
    if code is None:
        rot(rig, memory, damaged)
    else:
        disk.fail(code, "read", path=damaged)
    messages = rig.ask(Receive(queue="q", max_messages=10, credits=credits))
    assert [message.id for message in messages] == [id for id in ids if id != damaged]
    assert rig.engine.quarantined == 1
    assert credits.in_flight == len(messages)
    disk.heal()
    rig.check()
    rig.clock.advance(30_000)
    rig.restart()
    assert [message.id for message in rig.receive(10)] == [id for id in ids if id != damaged]


def test_a_file_far_longer_than_its_name_says_is_not_read_to_its_end(
    rig: EngineRig, memory: MemoryDisk
) -> None:
    rig.send(b"aa")
    node = memory.node(next(sight.path for sight in rig.sights()))
    assert isinstance(node, File)
    node.content = b"aa" * 1_000_000
    assert rig.receive() == []
    assert rig.engine.quarantined == 1


@pytest.mark.parametrize("bodies", [[b"aa", b"bb", b"cc"], [b"aa"]])
def test_a_message_without_permissions_costs_itself_and_no_credit(
    rig: EngineRig, disk: FaultyDisk, bodies: list[bytes]
) -> None:
    ids = rig.send(*bodies)
    later = rig.send(b"later")
    credits = Credits(10, lambda: None)
    disk.fail(errno.EACCES, "read", path=ids[0])
    messages = rig.ask(Receive(queue="q", max_messages=10, credits=credits))
    assert [message.id for message in messages] == ids[1:] + later
    assert rig.states()[ids[0]] == "leased"
    assert rig.engine.quarantined == 0
    assert credits.in_flight == len(messages), "nobody holds what nobody was given"
    disk.heal()
    rig.check()
    rig.clock.advance(30_000)
    assert [message.id for message in rig.receive(10)] == ids + later


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("bodies", [[b"aa", b"bb", b"cc"], [b"aa"]])
def test_a_lack_of_handles_gives_the_leases_back_uncounted(
    rig: EngineRig, disk: FaultyDisk, code: int, bodies: list[bytes]
) -> None:
    ids = rig.send(*bodies)
    credits = Credits(10, lambda: None)
    disk.fail(code, "read", path=ids[-1])
    with pytest.raises(DiskError):
        rig.ask(Receive(queue="q", max_messages=10, credits=credits))
    assert set(rig.states().values()) == {"ready"}
    assert credits.in_flight == 0
    disk.heal()
    rig.check()
    assert [message.receives for message in rig.receive(10)] == [1] * len(ids)


def test_what_was_leased_before_handles_ran_out_is_delivered(rig: EngineRig, disk: FaultyDisk) -> None:
    (first,), (second,) = rig.send(b"a"), rig.send(b"b")
    disk.fail(errno.EMFILE, "read", path=second)
    assert [message.id for message in rig.receive(10)] == [first]
    disk.heal()
    assert [message.id for message in rig.receive(10)] == [second]

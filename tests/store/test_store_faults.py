"""A disk that refuses: each refusal costs what was asked of it, and nothing else. No threads here."""

from __future__ import annotations

import errno

import pytest
from damage import rot
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.files.disk import Space
from spoolrack_store.files.syncer import SyncFailed
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import DiskError, DiskFull, QueueBeingDeleted, StoreError
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Outgoing,
    Purge,
    Send,
    Target,
    UpdateQueue,
    VisibilityChange,
)
from spoolrack_store.model.settings import QueueSettings


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


def outgoing(*bodies: bytes) -> Send:
    return Send(queue="q", messages=[Outgoing(body=body) for body in bodies])


# A full disk.


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b", b"c"]])
@pytest.mark.parametrize("skip", [0, 1, 2])
def test_a_full_disk_costs_that_send_only_and_leaves_nothing(
    rig: EngineRig, disk: FaultyDisk, code: int, bodies: list[bytes], skip: int
) -> None:
    disk.fail(code, "create", path="new/", skip=min(skip, len(bodies) - 1), times=1)
    results = rig.ask(outgoing(*bodies))
    assert [type(each) for each in results] == [DiskFull] * len(bodies)
    assert rig.disk.scan("new") == []
    rig.send(b"later")
    assert rig.bodies() == [b"later"]
    rig.check()


def test_a_full_disk_at_the_batch_folder_costs_that_send_only(rig: EngineRig, disk: FaultyDisk) -> None:
    disk.fail(errno.ENOSPC, "make_folder", times=1)
    assert {type(each) for each in rig.ask(outgoing(b"a", b"b"))} == {DiskFull}
    rig.send(b"later")
    rig.check()


def test_sends_leave_room_for_deletes(rig: EngineRig, memory: MemoryDisk) -> None:
    (id,) = rig.send(b"a")
    memory.room = Space(bytes=1 << 20, files=1 << 20, unlimited=False)
    (result,) = rig.ask(outgoing(b"b"))
    assert isinstance(result, DiskFull)
    memory.room = Space(bytes=1 << 40, files=100, unlimited=False)
    (result,) = rig.ask(outgoing(b"b"))
    assert isinstance(result, DiskFull)
    memory.room = Space(bytes=1 << 40, files=0, unlimited=True)
    rig.send(b"c")
    assert rig.ask(Delete(queue="q", targets=[ById(id)])) == [None]


def test_everything_but_sends_works_when_nothing_can_be_created(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    ids = rig.send(*[b"x"] * 5)
    rig.send(b"y")
    disk.fail(errno.ENOSPC, "create", "make_folder")
    messages = rig.receive(10)
    assert len(messages) == 6
    held = [message.receipt or "" for message in messages]
    changes = [VisibilityChange(held[0], Millis(0)), VisibilityChange(held[1], Millis(5_000))]
    results = rig.ask(ChangeVisibility(queue="q", changes=changes))
    assert results == [None, rig.clock.wall() + 5_000]
    targets: list[Target] = [ById(ids[0]), ByReceipt(held[1]), ByReceipt(held[5])]
    assert rig.ask(Delete(queue="q", targets=targets)) == [None] * 3
    rig.clock.advance(30_000)
    rig.commit()
    assert set(rig.states().values()) == {"ready"}
    rig.check()


def test_a_damaged_message_costs_itself_only_also_when_it_cannot_be_put_aside(
    rig: EngineRig, disk: FaultyDisk, memory: MemoryDisk
) -> None:
    ids = rig.send(b"aa", b"bb", b"cc")
    rig.restart()
    rot(rig, memory, ids[1])
    disk.fail(errno.ENOSPC, "create", "make_folder")
    assert [message.id for message in rig.receive(10)] == [ids[0], ids[2]]
    rig.check()
    disk.heal()
    rig.clock.advance(30_000)
    assert [message.id for message in rig.receive(10)] == [ids[0], ids[2]]
    assert rig.engine.quarantined == 1
    rig.check()


def test_a_purge_that_fails_leaves_a_queue_that_works(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.send(b"a")
    rig.send(b"b", b"c")
    disk.fail(errno.EIO, "rename", times=1)
    with pytest.raises(DiskError):
        rig.ask(Purge(queue="q"))
    rig.check()
    rig.send(b"d")
    assert rig.bodies() == [b"a", b"b", b"c", b"d"]


def test_a_purge_works_when_nothing_can_be_created(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.send(b"a", b"b", b"c")
    disk.fail(errno.ENOSPC, "make_folder")
    assert rig.ask(Purge(queue="q")) == 3
    disk.heal()
    rig.send(b"e")
    assert rig.bodies() == [b"e"]
    rig.check()
    rig.restart()
    assert rig.bodies() == [b"e"]


@pytest.mark.parametrize("name", ["create", "make_folder"])
def test_a_queue_that_could_not_be_created_can_be_later(
    rig: EngineRig, disk: FaultyDisk, name: str
) -> None:
    disk.fail(errno.ENOSPC, name, times=1)
    with pytest.raises(DiskFull):
        rig.create("new")
    rig.check()
    assert {each.name for each in rig.disk.scan("queues")} == {"q"}
    rig.create("new")
    rig.send(b"a", queue="new")
    rig.restart()
    assert set(rig.engine.catalog.queues) == {"q", "new"}


def test_an_update_that_could_not_be_written_changes_nothing(rig: EngineRig, disk: FaultyDisk) -> None:
    disk.fail(errno.ENOSPC, "create", times=1)
    with pytest.raises(DiskFull):
        rig.ask(UpdateQueue(name="q", changes={"max_message_size": 5}))
    assert rig.engine.catalog.queues["q"].settings.max_message_size == 1 << 20
    rig.ask(UpdateQueue(name="q", changes={"max_message_size": 5}))
    rig.restart()
    assert rig.engine.catalog.queues["q"].settings.max_message_size == 5


# What can't be moved.


def test_a_send_whose_publication_fails_is_published_later(rig: EngineRig, disk: FaultyDisk) -> None:
    disk.fail(errno.EIO, "rename", path="new/")
    ids = [*rig.send(b"a"), *rig.send(b"b", b"c"), *rig.send(b"d", delay=5_000)]
    assert rig.receive(10) == []
    disk.heal()
    rig.tick()
    assert [message.id for message in rig.receive(10)] == ids[:3]
    assert rig.states()[ids[3]] == "delayed"
    rig.check()


def test_a_send_to_a_queue_whose_folder_somebody_removed_is_delivered(rig: EngineRig) -> None:
    rig.disk.remove_folder("queues/q")
    ids = [*rig.send(b"a"), *rig.send(b"b", b"c")]
    assert [message.id for message in rig.receive(10)] == ids
    rig.disk.remove_folder("queues/q")
    rig.clock.advance(30_000)
    assert [message.id for message in rig.receive(10)] == ids
    rig.check()


def test_what_is_due_and_cannot_come_back_is_tried_again(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.send(b"a")
    rig.send(b"b", b"c")
    rig.receive(10)
    disk.fail(errno.EIO, "rename", path="queues/")
    rig.clock.advance(30_000)
    rig.commit()
    assert set(rig.states().values()) == {"leased"}
    disk.heal()
    rig.clock.advance(1_000)
    assert len(rig.receive(10)) == 3
    rig.check()


@pytest.mark.parametrize("bodies", [[b"a", b"b", b"c"], [b"a"]])
def test_what_somebody_took_away_is_not_delivered_and_not_counted(
    rig: EngineRig, bodies: list[bytes]
) -> None:
    ids = rig.send(*bodies)
    path = next(sight.path for sight in rig.sights() if sight.entry.id == ids[0])
    rig.disk.unlink(path)
    assert [message.id for message in rig.receive(10)] == ids[1:]
    rig.check()


@pytest.mark.parametrize("leased", [False, True])
@pytest.mark.parametrize("can_sync_all", [True, False])
def test_a_folder_that_somebody_took_away_costs_itself_only(leased: bool, can_sync_all: bool) -> None:
    memory = MemoryDisk(can_sync_all=can_sync_all)
    rig = EngineRig(memory)
    rig.create()
    ids = rig.send(b"a", b"b", b"c", b"d")
    if leased:
        held = [message.receipt or "" for message in rig.receive(4)]
        # One leaves, so that the folder has to be synced.
        rig.engine.finish(rig.engine.apply([Delete(queue="q", targets=[ByReceipt(held[0])])]))
        where = "delay"
    else:
        rig.engine.finish(rig.engine.apply([Delete(queue="q", targets=[ById(ids[0])])]))
        where = "queues/q"
    (found,) = memory.scan(where)
    for each in memory.scan(f"{where}/{found.name}"):
        memory.unlink(f"{where}/{found.name}/{each.name}")
    memory.remove_folder(f"{where}/{found.name}")
    (later,) = rig.send(b"later")
    assert [message.id for message in rig.receive(10)] == [later]
    for id in ids[1:]:
        rig.commit(Delete(queue="q", targets=[ById(id)]))
    rig.clock.advance(30_000)
    rig.tick()
    rig.check()
    assert list(rig.states()) == [later]


def test_a_dead_letter_that_cannot_move_stays_and_is_delivered_on(disk: FaultyDisk) -> None:
    rig = EngineRig(disk)
    rig.create("dead")
    rig.create("q", max_receives=1, dead_letter_queue="dead", visibility_timeout=1_000)
    (id,) = rig.send(b"a")
    rig.receive()
    fault = disk.fail(errno.EIO, "rename", path="queues/dead")
    rig.clock.advance(1_000)
    rig.commit()
    assert fault.met
    assert rig.states("q") == {id: "ready"}
    disk.heal()
    rig.receive()
    assert rig.states("dead") == {id: "ready"}
    rig.check()


@pytest.mark.parametrize("can_sync_all", [True, False])
def test_a_folder_that_somebody_took_away_fails_no_later_sync(can_sync_all: bool) -> None:
    memory = MemoryDisk(can_sync_all=can_sync_all)
    rig = EngineRig(memory)
    rig.create(relaxed_leases=True)
    ids = rig.send(b"a", b"b", b"c", b"d")
    rig.send(b"syncs what came before")
    rig.receive(1)  # Leaves the folder, and waits for no sync.
    (found,) = [each for each in memory.scan("queues/q") if ",n" in each.name]
    for each in memory.scan(f"queues/q/{found.name}"):
        memory.unlink(f"queues/q/{found.name}/{each.name}")
    memory.remove_folder(f"queues/q/{found.name}")
    rig.send(b"later")
    assert [message.body for message in rig.receive(10)] == [b"syncs what came before", b"later"]
    assert next(iter(rig.states())) == ids[0]
    rig.check()


# What can't be made durable.


@pytest.mark.parametrize("can_sync_all", [True, False])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES])
def test_a_failed_sync_is_never_called_a_success(code: int, can_sync_all: bool) -> None:
    disk = FaultyDisk(MemoryDisk(can_sync_all=can_sync_all))
    rig = EngineRig(disk)
    rig.create()
    disk.fail(code, "sync_folder", "sync_all", times=1)
    with pytest.raises(SyncFailed):
        rig.send(b"a", b"b")
    rig.restart()
    rig.check()
    assert rig.bodies() == [b"a", b"b"]


def test_a_start_that_cannot_make_durable_what_it_found_fails(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.send(b"a")
    disk.fail(errno.EIO, "sync_all", "sync_folder", "sync_file")
    with pytest.raises(SyncFailed):
        rig.restart()


@pytest.mark.parametrize("name", ["create", "make_folder"])
def test_a_start_on_a_full_disk_serves_what_is_there(
    rig: EngineRig, disk: FaultyDisk, memory: MemoryDisk, name: str
) -> None:
    rig.send(b"a")
    memory.create("new/stranger", [b""], sync=False)
    memory.create("config/stranger", [b""], sync=False)
    memory.create("queues/q/stranger", [b""], sync=False)
    rig.die()
    disk.fail(errno.ENOSPC, name, path="quarantine")
    rig.engine = rig._start()
    assert [message.body for message in rig.receive()] == [b"a"]


def test_space_that_cannot_be_asked_for_costs_the_send_only(rig: EngineRig, disk: FaultyDisk) -> None:
    disk.fail(errno.EIO, "space", times=1)
    assert isinstance(rig.ask(outgoing(b"a"))[0], StoreError)
    rig.send(b"b")
    rig.check()


def test_create_and_delete_are_answered_after_their_sync(rig: EngineRig, disk: FaultyDisk) -> None:
    disk.forget()
    rig.ask(CreateQueue(name="new", settings=QueueSettings()))
    names = [call.name for call in disk.calls]
    assert names.index("create") < names.index("sync_folder" if "sync_folder" in names else "sync_all")


# Settings files that can't be unlinked.


@pytest.mark.parametrize("undropped", ["q.1.json", "q.2.json", "q.3.json"])
def test_a_deleted_queue_stays_deleted_though_a_file_of_its_settings_cannot_be_unlinked(
    rig: EngineRig, disk: FaultyDisk, undropped: str
) -> None:
    disk.fail(errno.EIO, "unlink", path=undropped)
    rig.ask(UpdateQueue(name="q", changes={"visibility_timeout": 5_000}))
    rig.ask(DeleteQueue(name="q"))
    rig.restart()
    assert "q" not in rig.engine.catalog.queues
    disk.heal()
    rig.tick()
    rig.restart()
    assert "q" not in rig.engine.catalog.queues
    assert not [found.name for found in disk.scan("config") if found.name.startswith("q.")]


def test_a_queue_made_again_keeps_its_messages_though_the_tombstone_stayed_for_a_while(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    disk.fail(errno.EIO, "unlink", path="q.2.json")
    rig.ask(DeleteQueue(name="q"))
    with pytest.raises(QueueBeingDeleted):
        rig.create()
    disk.heal()
    rig.tick()
    rig.create()
    rig.send(b"kept")
    rig.restart()
    assert rig.bodies() == [b"kept"]


def test_settings_can_be_written_though_a_part_of_an_attempt_is_still_there(
    rig: EngineRig, disk: FaultyDisk, memory: MemoryDisk
) -> None:
    for number, request in enumerate(
        [UpdateQueue(name="q", changes={"visibility_timeout": 5_000}), DeleteQueue(name="q")]
    ):
        disk.fail(errno.EIO, "create", path="config/q", times=1)
        (outcome,) = rig.commit(request)
        assert isinstance(outcome, DiskError)
        # Unlinking it failed, too.
        memory.create(f"config/q.{2 + 2 * number}.json", [b"{"], sync=False)
        disk.heal()
        rig.ask(request)
    rig.tick()
    assert not [found.name for found in disk.scan("config") if found.name.startswith("q.")]

"""Where a deduplication id lies: in its message's name, and when that is unlinked, in a segment."""

from __future__ import annotations

import errno
from pathlib import Path

from deduplication_rig import WINDOW, a_root, create, names_in, reap, send
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.engine.beliefs import MARGIN
from spoolrack_store.files.segments import SEGMENT_BYTES
from spoolrack_store.model import keys
from spoolrack_store.model.operations import (
    ById,
    CreateQueue,
    Delete,
    Outgoing,
    Purge,
    Send,
    Sent,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from spoolrack_store.sweeper import NOTHING_ELSE, Sweeper


def test_a_message_carries_its_key_in_its_name_and_a_segment_keeps_it() -> None:
    rig = a_root()
    (first,) = send(rig, "a")
    key = keys.key_of("a", rig.engine.catalog.queues["q"].salt)
    (name,) = names_in(rig, "queues/q")
    assert name == f"{first.id},s1,c{0x8CDC1683:08x},k{keys.key_text(key)}"
    assert names_in(rig, "keys") == []
    rig.commit(Delete(queue="q", targets=[ById(first.id)]))
    reap(rig)

    (segment,) = names_in(rig, "keys")

    assert rig.disk.read(f"keys/{segment}") == f"q:{first.id},k{keys.key_text(key)}\n".encode()


def test_messages_without_ids_and_those_whose_window_is_over_leave_no_line() -> None:
    rig = a_root()
    ids = [each.id for each in send(rig, "a", "")]
    rig.clock.advance(WINDOW + MARGIN)
    rig.commit(Delete(queue="q", targets=[ById(id) for id in ids]))
    reap(rig)

    assert names_in(rig, "keys") == []


def test_a_segment_is_unlinked_when_all_in_it_is_over() -> None:
    rig = a_root()
    for restarts in (False, True):
        (first,) = send(rig, "a")
        rig.commit(Delete(queue="q", targets=[ById(first.id)]))
        reap(rig)
        if restarts:
            rig.restart()
        rig.clock.advance(WINDOW - 1)
        rig.engine.tick()
        assert names_in(rig, "keys")
        rig.clock.advance(WINDOW)
        rig.engine.tick()
        assert names_in(rig, "keys") == []


def test_a_segment_that_is_long_enough_is_followed_by_another() -> None:
    rig = a_root()
    segments = rig.engine.deduplication._segments
    segments._size, segments._path = SEGMENT_BYTES, "keys/none.1"
    (first,) = send(rig, "a")
    rig.commit(Delete(queue="q", targets=[ById(first.id)]))
    reap(rig)
    rig.restart()

    assert send(rig, "a")[0].id == first.id


def test_a_damaged_line_costs_itself_only() -> None:
    rig = a_root()
    sent = send(rig, "a", "b", "c")
    rig.commit(Delete(queue="q", targets=[ById(each.id) for each in sent]))
    reap(rig)
    (segment,) = names_in(rig, "keys")
    lines = rig.disk.read(f"keys/{segment}").splitlines(keepends=True)
    rig.disk.unlink(f"keys/{segment}")
    damaged = lines[1][:40] + b"\0\xff?" + lines[1][43:]
    rig.disk.create(f"keys/{segment}", [lines[0], damaged, lines[2][:-1]], sync=True)
    rig.restart()

    # The last one has no end: nobody was told that it is there.
    assert [each.is_duplicate for each in send(rig, "a", "b", "c")] == [True, False, False]


def test_after_a_torn_line_the_next_one_begins_in_another_segment() -> None:
    disk = FaultyDisk(MemoryDisk())
    rig = EngineRig(disk)
    create(rig, "q")
    sent = [send(rig, id)[0] for id in "abc"]

    def delete(which: Sent) -> None:
        rig.commit(Delete(queue="q", targets=[ById(which.id)]))
        rig.engine.reaper.reap(100)

    delete(sent[0])
    (segment,) = names_in(rig, "keys")
    disk.fail(errno.ENOSPC, "append", times=1)
    disk.disk.append(f"keys/{segment}", b"q:torn", sync=False)
    delete(sent[1])
    delete(sent[2])
    rig.engine.tick()
    reap(rig)
    rig.restart()

    assert [each.id for each in send(rig, *"abc")] == [each.id for each in sent]


def test_a_key_that_could_not_be_kept_keeps_its_message_in_remove() -> None:
    disk = FaultyDisk(MemoryDisk())
    rig = EngineRig(disk)
    create(rig, "q")
    for ids in ("a", "bc"):
        sent = send(rig, *ids)
        rig.commit(Delete(queue="q", targets=[ById(each.id) for each in sent]))
    disk.fail(errno.EIO, "sync_new", path="keys/")
    rig.engine.reaper.reap(100)
    assert len(names_in(rig, "remove")) == 2
    disk.heal()
    rig.restart()
    reap(rig)
    rig.restart()

    assert all(each.is_duplicate for each in send(rig, *"abc"))


def test_what_was_never_sent_as_a_whole_takes_no_id() -> None:
    disk = FaultyDisk(MemoryDisk())
    rig = EngineRig(disk)
    create(rig, "q")
    send(rig, "a", "b", "c")
    batch = names_in(rig, "queues/q")[0]
    disk.rename(f"queues/q/{batch}", f"new/q:{batch},oabc")
    inside = disk.scan(f"new/q:{batch},oabc")[0].name
    disk.unlink(f"new/q:{batch},oabc/{inside}")
    rig.restart()
    assert rig.recovery.undone == 1
    for _ in range(2):
        rig.restart()
        reap(rig)

    assert not any(each.is_duplicate for each in send(rig, *"abc"))


def test_a_file_of_which_a_part_was_written_takes_no_id() -> None:
    rig = a_root()
    send(rig, "a", body=b"xyz")
    (name,) = names_in(rig, "queues/q")
    rig.disk.unlink(f"queues/q/{name}")
    rig.disk.create(f"new/q:{name},oabc", [b"x"], sync=True)
    rig.restart()
    rig.restart()
    reap(rig)
    rig.restart()

    assert not send(rig, "a")[0].is_duplicate


def test_what_is_whole_in_new_at_a_start_holds_its_id() -> None:
    rig = a_root()
    (first,) = send(rig, "a")
    (name,) = names_in(rig, "queues/q")
    rig.disk.rename(f"queues/q/{name}", f"new/q:{name},oabc")
    rig.restart()

    assert send(rig, "a")[0].id == first.id


def test_the_reaper_of_another_process_keeps_ids_too(tmp_path: Path) -> None:
    request = Send(queue="q", messages=[Outgoing(body=b"x", deduplication_id=id) for id in "abc"])
    with Store.open(tmp_path, chores=NOTHING_ELSE) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        sent = store.submit(request).result()
        store.submit(Purge(queue="q")).result()
        Sweeper.open(tmp_path).sweep()
        assert list((tmp_path / "remove").iterdir()) == []
        assert [each.is_duplicate for each in store.submit(request).result()] == [True] * 3

    with Store.open(tmp_path) as store:
        again = store.submit(request).result()

    assert [each.id for each in again] == [each.id for each in sent]

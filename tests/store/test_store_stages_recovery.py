"""What a start makes of stages and publications over which somebody has died: all of it, or nothing."""

from __future__ import annotations

import errno
import json

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk, Killed
from memory_disk import MemoryDisk
from spoolrack_store.model.errors import DiskError
from spoolrack_store.model.operations import ById, CreateQueue, Delete, DeleteQueue
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.staging import Abort
from stage_rig import chunk, names_in, publication, publish, stage


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk(MemoryDisk())


@pytest.fixture
def rig(disk: FaultyDisk) -> EngineRig:
    rig = EngineRig(disk)
    rig.create("q")
    rig.create("other")
    stage(rig, "s", 0, b"a", b"b")
    stage(rig, "s", 1, b"c", queue="other")
    stage(rig, "t", 0, b"d")
    return rig


def found(rig: EngineRig) -> list[bytes]:
    return [m.body for queue in ("q", "other") for m in rig.receive(9, queue=queue)]


def staged(rig: EngineRig) -> list[str]:
    return [info.name for info in rig.engine.staging.listed("", 9)]


def test_wherever_a_publication_dies_all_of_it_is_published_or_nothing(
    disk: FaultyDisk, rig: EngineRig
) -> None:
    for changes in range(100):
        memory = MemoryDisk()
        disk = FaultyDisk(memory)
        rig = EngineRig(disk)
        rig.create("q")
        rig.create("other")
        stage(rig, "s", 0, b"a", b"b")
        stage(rig, "s", 1, b"c", queue="other")
        stage(rig, "t", 0, b"d")
        disk.die_after(changes)
        try:
            publish(rig, "w", 3, "s", "t")
        except Killed:
            disk.die_after(None)
            rig.restart()
            is_published = staged(rig) == []
            assert found(rig) == ([b"a", b"b", b"d", b"c"] if is_published else [])
            assert publish(rig, "w", 3, *staged(rig)).is_already == is_published
            rig.check()
        else:
            assert changes > 10
            return
    raise AssertionError("no end of it")


@pytest.mark.parametrize("left", [b"", b"{", b"{}\n", bytes(200)])
def test_a_torn_manifest_is_none(rig: EngineRig, disk: FaultyDisk, left: bytes) -> None:
    disk.create("published/w.1", [left], sync=True)
    (name, _) = names_in(disk, "staged")
    disk.rename(f"staged/{name}", f"published/w.1.{name}")
    rig.restart()
    assert staged(rig) == ["s", "t"]
    assert rig.engine.quarantined == 1
    assert publish(rig, "w", 1, "s").messages == 3


def test_a_manifest_publishes_also_the_stages_whose_claims_were_lost(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    names = names_in(disk, "staged")
    work = rig.engine.apply([publication("w", 1, "s", "t")])
    rig.engine.sync(work)
    disk.rename(f"published/w.1.{names[0]}", f"staged/{names[0]}")
    rig.restart()
    assert (staged(rig), found(rig)) == ([], [b"a", b"b", b"d", b"c"])


def test_a_manifest_is_written_only_once_its_queues_are_durable(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    rig.ask(DeleteQueue(name="other"))
    disk.calls.clear()
    rig.commit(CreateQueue(name="other", settings=QueueSettings()), publication("w", 1, "s"))
    calls = list(map(str, disk.calls))
    made = next(at for at, call in enumerate(calls) if call.startswith("create(config/other."))
    assert any(
        call.startswith("sync_all") for call in calls[made : calls.index("create(published/w.1)")]
    )


def test_an_old_manifest_publishes_no_stage_that_was_made_later(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    names = names_in(disk, "staged")
    publish(rig, "w", 1, "s", "t")
    # At the same moment, so under the same name.
    stage(rig, "s", 0, b"new")
    assert names_in(disk, "staged") == names[:1]
    rig.restart()
    assert staged(rig) == ["s"]
    assert found(rig) == [b"a", b"b", b"d", b"c"]


def test_what_is_published_to_a_queue_that_is_made_again_meanwhile_is_deleted(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    work = rig.engine.apply([publication("w", 1, "s")])
    rig.engine.sync(work)
    settings = json.loads(disk.read("config/q.1.json"))
    disk.unlink("config/q.1.json")
    settings["created_at"] += 1
    disk.create("config/q.1.json", [json.dumps(settings).encode()], sync=True)
    rig.restart()
    assert found(rig) == [b"c"]
    assert names_in(disk, "published") == ["w.1"]


@pytest.mark.parametrize("content", [None, b"{"])
def test_what_is_published_to_a_queue_that_loses_its_settings_is_delivered(
    rig: EngineRig, disk: FaultyDisk, content: bytes | None
) -> None:
    rig.send(b"first")
    work = rig.engine.apply([publication("w", 1, "s")])
    rig.engine.sync(work)
    disk.unlink("config/q.1.json")
    if content is not None:
        disk.create("config/q.1.json", [content], sync=True)
    rig.restart()
    assert sorted(found(rig)) == [b"a", b"b", b"c", b"first"]


def test_a_message_that_was_deleted_after_its_publication_stays_deleted(
    rig: EngineRig, disk: FaultyDisk
) -> None:
    publish(rig, "w", 1, "t")
    (id,) = rig.states()
    rig.ask(Delete(queue="q", targets=[ById(id)]))
    rig.restart()
    assert rig.states() == {}


@pytest.mark.parametrize("torn", ["a message is missing", "a message is cut short"])
def test_a_torn_chunk_was_never_staged(rig: EngineRig, disk: FaultyDisk, torn: str) -> None:
    assert rig.engine.apply([chunk("s", 7, b"x", b"y")]).commit
    (name, _) = names_in(disk, "staged")
    folder = next(each for each in names_in(disk, f"staged/{name}") if each.startswith("7:"))
    path = f"staged/{name}/{folder}/{names_in(disk, f'staged/{name}/{folder}')[1]}"
    disk.unlink(path)
    if torn == "a message is cut short":
        disk.create(path, [b""], sync=True)
    rig.restart()
    assert not stage(rig, "s", 7, b"x", b"y").is_repeated


def test_a_chunk_that_may_have_been_acknowledged_is_kept(rig: EngineRig) -> None:
    rig.engine.sync(rig.engine.apply([chunk("s", 7, b"x", b"y")]))
    rig.restart()
    assert stage(rig, "s", 7, b"x", b"y").is_repeated
    (name, _) = names_in(rig.disk, "staged")
    assert not [each for each in names_in(rig.disk, f"staged/{name}") if ",o" in each]


def test_stages_that_cannot_be_read_are_not_taken_for_missing(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.restart()
    disk.fail(errno.EIO, "scan", path="staged/t@", times=1)
    with pytest.raises(DiskError):
        stage(rig, "u", 0, b"x")
    assert staged(rig) == ["s", "t"]
    assert stage(rig, "t", 0, b"d").is_repeated


def test_a_stage_that_was_dropped_goes_on_going(rig: EngineRig, disk: FaultyDisk) -> None:
    rig.engine.sync(rig.engine.apply([Abort(stage="s")]))
    assert [name for name in names_in(disk, "staged") if name.endswith("~dropped")]
    rig.restart()
    assert staged(rig) == ["t"]
    rig.engine.reaper.reap(99)
    assert (len(names_in(disk, "staged")), names_in(disk, "remove")) == (1, [])


def test_of_two_stages_of_one_name_the_older_is_the_true_one(rig: EngineRig, disk: FaultyDisk) -> None:
    (name, _) = names_in(disk, "staged")
    due = int(name.partition("@")[2])
    disk.rename(f"staged/{name}", "published/hidden")
    rig.engine.staging.forget()
    rig.clock.advance(1)
    stage(rig, "s", 0, b"newer")
    disk.rename("published/hidden", f"staged/s@{due}")
    rig.restart()
    publish(rig, "w", 0, "s")
    assert found(rig) == [b"a", b"b", b"c"]
    assert names_in(disk, "staged") == [f"t@{due}"]

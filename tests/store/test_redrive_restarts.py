"""What becomes of a redrive when its process ends, when files are damaged, and when the disk fails."""

from __future__ import annotations

import errno

import pytest
from dead_letter_rig import LEASE, RedriveRig
from faulty_disk import FaultyDisk, Killed
from memory_disk import MemoryDisk
from spoolrack_store.model.errors import DiskFull, RedriveNotFound, RedriveRunning
from spoolrack_store.model.redriving import CancelRedrive, RedriveState, StartRedrive


@pytest.fixture
def rig() -> RedriveRig:
    rig = RedriveRig()
    rig.make_queues()
    return rig


def buried(rig: RedriveRig, count: int) -> list[str]:
    return rig.bury(*(b"%d" % n for n in range(count)))


def test_a_redrive_goes_on_after_a_restart_with_the_rate_and_the_selection_that_it_had(
    rig: RedriveRig,
) -> None:
    ids = buried(rig, 6)
    redrive = rig.start(ids=ids[:4], rate=1)
    rig.after(1_000)
    rig.after(1_000)
    rig.restart()
    assert rig.shown(redrive.id).state is RedriveState.RUNNING
    with pytest.raises(RedriveRunning):
        rig.start()
    rig.tick()
    for moved in (3, 4):
        rig.after(1_000)
        assert len(rig.ids("q")) == moved
    done = rig.shown(redrive.id)
    assert (done.state, done.rate) == (RedriveState.DONE, 1)
    assert done.moved in (3, 4), "up to a second's work may be missing"
    assert (rig.ids("q"), rig.ids("dead")) == (ids[:4], ids[4:])
    rig.check()


def test_what_died_after_the_start_is_none_of_it_after_a_restart_either(rig: RedriveRig) -> None:
    ids = buried(rig, 3)
    rig.start(rate=1)
    rig.after(1_000)
    assert [message.id for message in rig.receive(9, visibility=500)] == ids[:1]
    rig.after(500)
    assert ids[0] in rig.ids("dead")
    rig.restart()
    for _ in range(6):
        rig.after(1_000)
    assert (rig.ids("q"), rig.ids("dead")) == (ids[1:], ids[:1])


def test_those_that_fail_are_counted_once_though_they_are_found_again(rig: RedriveRig) -> None:
    rig.send(b"a", b"b", queue="dead")
    ids = buried(rig, 3)
    redrive = rig.start(rate=1)
    rig.after(2_500)
    assert rig.shown(redrive.id).failed == 2
    rig.restart()
    assert rig.shown(redrive.id).last_failure.startswith("it has no history")
    rig.tick()
    for _ in range(4):
        rig.after(1_000)
    done = rig.shown(redrive.id)
    assert (done.state, done.failed) == (RedriveState.DONE, 2)
    assert rig.ids("q") == ids
    rig.restart()
    assert rig.shown(redrive.id) == done


def test_a_cancelled_redrive_stays_cancelled_after_a_restart(rig: RedriveRig) -> None:
    ids = buried(rig, 3)
    redrive = rig.start(rate=1)
    rig.after(1_000)
    cancelled = rig.cancel(redrive.id)
    rig.restart()
    rig.after(60_000)
    assert rig.shown(redrive.id) == cancelled
    assert rig.ids("dead") == ids[1:]


def test_wherever_a_redrive_dies_each_message_is_in_one_queue_with_its_history_and_it_goes_on() -> None:
    for changes in range(300):
        memory = MemoryDisk()
        disk = FaultyDisk(memory)
        rig = RedriveRig(disk)
        rig.make_queues()
        ids = buried(rig, 3)
        disk.die_after(changes)
        has_begun = False
        try:
            rig.start(rate=10)
            has_begun = True
            for _ in range(5):
                rig.after(100)
        except Killed:
            disk.die_after(None)
            rig.restart()
            rig.check()
            where = {id: queue for queue in ("q", "dead") for id in rig.ids(queue)}
            assert sorted(where) == ids
            assert {f"{queue}:{id}" for id, queue in where.items()} <= rig.histories()
            assert not (has_begun and not rig.all_shown())
            for _ in range(8):
                rig.after(100)
            if rig.all_shown():
                assert rig.ids("q") == ids
                assert rig.all_shown()[0].state is RedriveState.DONE
            rig.check()
        else:
            disk.die_after(None)
            assert rig.ids("q") == ids
            return
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize(
    "name",
    [
        "notes.txt",
        "018bcfe5-6800-7455-a2f6-8cc5c44cd389",
        "018bcfe5-6800-7455-a2f6-8cc5c44cd389,m0,f0",
        "018bcfe5-6800-7455-a2f6-8cc5c44cd389,m0,f0@1700000000000",
    ],
)
@pytest.mark.parametrize("content", [b"", b"{}", b'{"queue":"dead"}\n00000000\n', b"\xff" * 100, None])
def test_a_damaged_file_is_put_aside_and_stops_nothing(
    rig: RedriveRig, name: str, content: bytes | None
) -> None:
    ids = buried(rig, 2)
    running = rig.start(rate=1)
    path = f"redrives/{name}"
    if content is None:
        rig.disk.make_folder(path)
    else:
        rig.disk.create(path, [content], sync=True)
    # As long as it runs, it may be what somebody else just writes.
    rig.tick()
    assert [each.id for each in rig.all_shown()] == [running.id]
    rig.restart()
    assert rig.engine.quarantined == 1
    assert [each.id for each in rig.all_shown()] == [running.id]
    for _ in range(4):
        rig.after(1_000)
    assert rig.ids("q") == ids


def test_a_redrive_with_two_names_goes_on_under_the_later(rig: RedriveRig) -> None:
    buried(rig, 4)
    redrive = rig.start(rate=1)
    (name,) = rig.names("redrives")
    content = rig.disk.read(f"redrives/{name}")
    rig.after(1_000)
    rig.after(1_000)
    cancelled = rig.cancel(redrive.id)
    rig.disk.create(f"redrives/{name}", [content], sync=True)
    rig.restart()
    assert rig.shown(redrive.id) == cancelled
    assert len(rig.names("redrives")) == 1


def test_a_root_of_before_gets_the_folder_when_it_is_opened(rig: RedriveRig) -> None:
    ids = buried(rig, 1)
    rig.disk.remove_folder("redrives")
    rig.restart()
    rig.start()
    assert rig.ids("q") == ids


# Where the disk fails.


@pytest.fixture
def faulty() -> tuple[RedriveRig, FaultyDisk]:
    disk = FaultyDisk(MemoryDisk())
    rig = RedriveRig(disk)
    rig.make_queues()
    return rig, disk


def test_a_redrive_that_cannot_be_written_is_not_begun(faulty: tuple[RedriveRig, FaultyDisk]) -> None:
    rig, disk = faulty
    ids = buried(rig, 1)
    disk.fail(errno.ENOSPC, "create", path="redrives/")
    with pytest.raises(DiskFull):
        rig.start()
    disk.heal()
    rig.after(1_000)
    assert (rig.ids("dead"), rig.all_shown()) == (ids, [])
    rig.start()
    assert rig.ids("q") == ids


@pytest.mark.parametrize(
    ("call", "path"),
    [
        ("create", "history/"),
        ("rename", "queues/dead/"),
        ("rename", "redrives/"),
        ("facts", "redrives/"),
    ],
)
def test_what_the_disk_refuses_is_tried_again_and_is_no_failure(
    faulty: tuple[RedriveRig, FaultyDisk], call: str, path: str
) -> None:
    rig, disk = faulty
    ids = buried(rig, 3)
    disk.fail(errno.ENOSPC, call, path=path)
    redrive = rig.start()
    for _ in range(3):
        rig.after(1_000)
    going = rig.shown(redrive.id)
    assert going.state is RedriveState.RUNNING
    assert going.failed == 0
    disk.heal()
    for _ in range(2):
        rig.after(1_000)
    done = rig.shown(redrive.id)
    assert (done.state, done.moved, done.failed) == (RedriveState.DONE, 3, 0)
    assert rig.ids("q") == ids
    assert rig.histories() == {f"q:{id}" for id in ids}
    rig.check()


def test_a_redrive_that_cannot_be_read_stands_in_no_other_ones_way(
    faulty: tuple[RedriveRig, FaultyDisk],
) -> None:
    rig, disk = faulty
    rig.create("dead2")
    rig.send(b"a", b"b", queue="dead2")
    redrive = rig.start(rate=1)
    other = rig.start("dead2", destination="q", rate=1)
    disk.fail(errno.EIO, "read", path=f"redrives/{redrive.id}")
    rig.restart()
    for _ in range(4):
        rig.after(1_000)
    assert rig.shown(other.id).state is RedriveState.DONE
    assert len(rig.ids("q")) == 2
    with pytest.raises(RedriveNotFound):
        rig.shown(redrive.id)
    disk.heal()
    rig.restart()
    for _ in range(3):
        rig.after(1_000)
    assert rig.shown(redrive.id).state is RedriveState.DONE


def test_a_death_that_was_begun_before_a_crash_is_told_once() -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    rig = RedriveRig(disk)
    rig.make_queues()
    (id,) = rig.send(b"a")
    rig.receive()
    rig.clock.advance(LEASE)
    rig.engine.tick()
    work = rig.engine.apply([])
    rig.engine.sync(work)
    assert rig.histories() == {f"dead:{id}"}
    rig.restart()
    rig.receive()
    assert rig.ids("dead") == [id]
    assert len(rig.history("dead", id)) == 1


def test_a_cancel_that_was_answered_holds_and_one_that_was_not_may(rig: RedriveRig) -> None:
    for changes in range(40):
        disk = FaultyDisk(MemoryDisk())
        rig = RedriveRig(disk)
        rig.make_queues()
        ids = buried(rig, 3)
        redrive = rig.start(rate=10)
        rig.after(100)
        disk.die_after(changes)
        is_answered = False
        try:
            work = rig.begin(CancelRedrive(id=redrive.id))
            rig.engine.finish(work)
            is_answered = True
            rig.settle()
        except Killed:
            pass
        disk.die_after(None)
        rig.restart()
        for _ in range(5):
            rig.after(100)
        state = rig.shown(redrive.id).state
        assert state is not RedriveState.RUNNING
        if is_answered:
            assert state is RedriveState.CANCELLED
        if state is RedriveState.CANCELLED:
            assert len(rig.ids("q")) < 3
        assert sorted(rig.ids("q") + rig.ids("dead")) == ids
        assert not any(",o" in name for name in rig.names("redrives"))
        rig.check()
        if is_answered and changes > 20:
            return


def test_an_answered_start_is_on_stable_media(rig: RedriveRig) -> None:
    disk = FaultyDisk(MemoryDisk(can_sync_all=False))
    rig = RedriveRig(disk)
    rig.make_queues()
    disk.forget()
    rig.commit(StartRedrive(queue="dead", rate=1))
    synced = [call.paths for call in disk.called("sync_folder")]
    assert ("redrives",) in synced

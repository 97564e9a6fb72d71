"""A process that dies in the midst of a reserve leaves a whole set or nothing: no lease without a name.

What it had leased was never answered for, so the next start gives it back, or another process that
lives, and doesn't count it. All other leases stay as they are.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import count

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk, Killed
from memory_disk import LockingDisk, MemoryDisk
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.errors import DiskError, ReservationLost, StoreError
from spoolrack_store.model.names import is_set_token, parse_filed, parse_receipt
from spoolrack_store.model.reservations import CommitReservations, Release, Reserve

HOLD = Millis(12 * HOUR)
MOST_STEPS = 50
RESERVE = Reserve(queue="q", stream="s", seq=0, hold=HOLD)


def make(disk: MemoryDisk) -> tuple[FaultyDisk, EngineRig]:
    """A queue with a batch, two messages, and one that a consumer has."""
    faulty = FaultyDisk(disk)
    rig = EngineRig(faulty)
    rig.create()
    rig.send(b"0")
    assert len(rig.receive(1, visibility=HOLD)) == 1
    rig.send(b"1")
    rig.send(b"2", b"3", b"4")
    rig.send(b"5")
    return faulty, rig


def die_at(step: int, disk: FaultyDisk, rig: EngineRig, *, torn: bool) -> bool:
    """Die before that change of a reserve, if it has so many."""
    disk.die_after(step, torn=torn)
    try:
        rig.ask(RESERVE)
    except Killed:
        return True
    finally:
        disk.die_after(None)
    return False


def check_whole_or_nothing(rig: EngineRig) -> bool:
    """Whether the set is there; then all of it is held, otherwise all is ready and never was leased."""
    rig.check()
    held = rig.engine.reservations.shown("", "", ("", -1), 10)
    states = sorted((sight.state.value, sight.entry.receives) for sight in rig.sights())
    if held:
        assert [(each.messages, each.is_lost) for each in held] == [(5, False)]
        assert states == [("leased", 1)] * 6
    else:
        assert rig.disk.scan("reserved") == []
        assert states == [("leased", 1)] + [("ready", 0)] * 5
    return bool(held)


@pytest.mark.parametrize("torn", [False, True], ids=["before a file", "in its midst"])
@pytest.mark.parametrize("later", [0, HOLD - 1])
def test_a_death_between_any_two_steps_of_a_reserve_leaves_all_of_it_or_nothing(
    later: int, torn: bool
) -> None:
    found = []
    for step in range(MOST_STEPS):
        disk, rig = make(MemoryDisk())
        if not die_at(step, disk, rig, torn=torn):
            break
        rig.clock.advance(later)
        rig.restart()
        found.append(check_whole_or_nothing(rig))
    assert len(found) >= 4
    assert not found[0]
    assert found[-1]


def test_what_nobody_was_told_of_is_not_counted_though_its_hold_is_over() -> None:
    disk, rig = make(MemoryDisk())
    disk.fail(errno.EIO, "create", path="reserved/")
    disk.fail(errno.EIO, "rename", path="queues/q/", skip=3)
    with pytest.raises(DiskError):
        rig.ask(RESERVE)
    disk.heal()
    assert list(rig.states().values()) == ["leased"] * 6
    rig.clock.advance(HOLD)
    rig.restart()
    assert sorted(sight.entry.receives for sight in rig.sights()) == [0, 0, 0, 0, 0, 1]


def test_only_reservations_lease_under_tokens_of_theirs() -> None:
    _, rig = make(MemoryDisk())
    received = [message.receipt or "" for message in rig.receive(3)]
    assert not any(is_set_token(parse_receipt(receipt).token) for receipt in received)
    there = {found.name for found in rig.disk.scan("delay")}
    rig.ask(RESERVE)
    tokens = {parse_filed(found.name).token or "" for found in rig.disk.scan("delay")} - {
        parse_filed(name).token for name in there
    }
    assert len(tokens) == 1
    assert all(map(is_set_token, tokens))


def test_leases_of_a_lost_set_are_counted_though_its_release_was_not_finished() -> None:
    for step in range(MOST_STEPS):
        disk, rig = make(MemoryDisk())
        rig.ask(RESERVE)
        disk.die_after(step)
        try:
            rig.ask(Release(stream="s", seq=0))
        except Killed:
            disk.die_after(None)
            rig.restart()
            if rig.engine.reservations.shown("", "", ("", -1), 10)[0].is_lost:
                assert [sight.entry.receives for sight in rig.sights()] == [1] * 6
            rig.check()
            continue
        break
    assert step >= 3


def test_a_lost_set_is_not_forgotten_before_its_leases_are_over() -> None:
    disk, rig = make(MemoryDisk())
    rig.ask(RESERVE)
    disk.fail(errno.EIO, "rename", path="queues/q/")
    rig.ask(Release(stream="s", seq=0))
    for up_to in range(2):
        rig.ask(CommitReservations(stream="s", up_to=up_to))
    disk.heal()
    rig.restart()
    rig.clock.advance(HOLD)
    rig.tick()
    assert [sight.entry.receives for sight in rig.sights()] == [1] * 6
    rig.ask(CommitReservations(stream="s", up_to=2))
    assert [found.name for found in disk.scan("reserved")] == ["s.2"]
    rig.check()


def test_leases_stay_as_long_as_what_may_name_them_cannot_be_read() -> None:
    disk, rig = make(MemoryDisk())
    made = rig.ask(RESERVE)
    disk.fail(errno.EIO, "read", path="reserved/")
    rig.restart()
    rig.clock.advance(2_000)
    rig.tick()
    assert set(rig.states().values()) == {"leased"}
    with pytest.raises(StoreError):
        rig.ask(RESERVE)
    disk.heal()
    assert rig.ask(RESERVE) == made
    assert check_whole_or_nothing(rig)


def test_what_could_not_be_looked_at_is_undone_later() -> None:
    disk, rig = make(MemoryDisk())
    assert die_at(3, disk, rig, torn=True)
    disk.fail(errno.EIO, "scan", path="reserved")
    rig.restart()
    disk.heal()
    rig.clock.advance(2_000)
    rig.tick()
    assert not check_whole_or_nothing(rig)


# Beside others.


Beside = Callable[[EngineRig], EngineRig]


@pytest.fixture(params=[True, False], ids=["told", "deaf"])
def beside(request: pytest.FixtureRequest) -> Beside:
    """Starts another store on the same root."""

    seeds = count(2)

    def start(rig: EngineRig) -> EngineRig:
        assert isinstance(rig.disk, FaultyDisk)
        memory = rig.disk.disk
        assert isinstance(memory, MemoryDisk)
        watch = memory.watch()
        watch.hears_all = request.param
        if not request.param:
            watch.changes = lambda: None  # type: ignore[method-assign]
        other = EngineRig(FaultyDisk(memory), seed=next(seeds), watch=lambda: watch, clock=rig.clock)
        other.tick()
        return other

    return start


def make_shared(
    beside: Beside, disks: Callable[[], MemoryDisk] = LockingDisk
) -> tuple[FaultyDisk, EngineRig, EngineRig]:
    memory = disks()
    disk = FaultyDisk(memory)
    first = EngineRig(disk, watch=memory.watch)
    first.create()
    other = beside(first)
    first.tick()
    first.send(b"0")
    assert len(first.receive(1, visibility=HOLD)) == 1
    first.send(b"1")
    first.send(b"2", b"3", b"4")
    first.send(b"5")
    other.tick()
    return disk, first, other


def test_a_death_in_a_reserve_beside_another_process_leaves_all_of_it_or_nothing(
    beside: Beside,
) -> None:
    found = []
    for step in range(MOST_STEPS):
        disk, dying, living = make_shared(beside)
        if not die_at(step, disk, dying, torn=bool(step % 2)):
            break
        dying.die()
        living.tick()
        found.append(check_whole_or_nothing(living))
    assert len(found) >= 4
    assert not found[0]
    assert found[-1]


def test_one_of_two_that_live_undoes_what_a_third_has_left(beside: Beside) -> None:
    disk, dying, living = make_shared(beside)
    third = beside(dying)
    kept = living.ask(Reserve(queue="q", stream="kept", seq=0, hold=HOLD, max_messages=1))
    assert kept is not None
    assert die_at(2, disk, dying, torn=False)
    dying.die()
    for rig in (living, third, living):
        rig.tick()
    living.check()
    assert [made.stream for made in third.engine.reservations.shown("", "", ("", -1), 10)] == ["kept"]
    states = sorted((sight.state.value, sight.entry.receives) for sight in third.sights())
    assert states == [("leased", 1)] * 2 + [("ready", 0)] * 4
    assert third.ask(Reserve(queue="q", stream="kept", seq=0)) == kept


@pytest.mark.parametrize("disks", [LockingDisk, MemoryDisk])
def test_a_set_that_is_just_being_made_is_not_undone_when_somebody_else_died(
    disks: type[MemoryDisk], beside: Beside
) -> None:
    disk, making, living = make_shared(beside, disks)
    dying = beside(making)
    living.tick()
    reached = False

    def interrupt(path: str, parts: object, *, sync: bool) -> None:
        """Between its last lease and its manifest another process looks for what the dead have left."""
        nonlocal reached
        del disk.create  # type: ignore[attr-defined]
        reached = True
        dying.die()
        living.tick()
        disk.create(path, parts, sync=sync)  # type: ignore[arg-type]

    disk.create = interrupt  # type: ignore[method-assign]
    made = making.ask(RESERVE)
    assert reached
    assert made is not None
    making.clock.advance(2_000)
    for rig in (living, making, living):
        rig.tick()
    assert living.ask(RESERVE) == made
    assert check_whole_or_nothing(living)


def test_without_locks_for_folders_whoever_stays_alone_undoes_it(beside: Beside) -> None:
    disk, dying, living = make_shared(beside, MemoryDisk)
    third = beside(dying)
    assert die_at(3, disk, dying, torn=True)
    dying.die()
    living.tick()
    third.tick()
    third.die()
    living.clock.advance(60_000)
    living.tick()
    living.tick()
    assert not check_whole_or_nothing(living)


def test_a_set_that_one_of_the_dead_has_lost_is_counted(beside: Beside) -> None:
    _, dying, living = make_shared(beside)
    dying.ask(RESERVE)
    work = dying.engine.apply([Release(stream="s", seq=0)])
    dying.engine.sync(work)
    dying.die()
    living.tick()
    with pytest.raises(ReservationLost):
        living.ask(RESERVE)
    assert {sight.entry.receives for sight in living.sights()} == {1}
    living.clock.advance(HOLD + 2_000)
    living.tick()
    assert {sight.entry.receives for sight in living.sights()} == {1}

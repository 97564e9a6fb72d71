"""Of several stores on one root, whichever an id is sent to: it is stored once."""

from __future__ import annotations

import pytest
from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.engine.order import Work
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    CreateQueue,
    Delete,
    DeleteQueue,
    Outgoing,
    Receive,
    Send,
    Sent,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.testing import ManualClock


class Several:
    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock(wall=Millis(1_700_000_000_000))
        self.count = 0

    def join(self) -> EngineRig:
        self.count += 1
        return EngineRig(self.disk, seed=self.count, watch=self.disk.watch, clock=self.clock)


def sending(*ids: str) -> Send:
    return Send(queue="q", messages=[Outgoing(body=b"x", deduplication_id=id) for id in ids])


def send(rig: EngineRig, *ids: str) -> list[Sent]:
    return list(rig.commit(sending(*ids))[0])


def create(rig: EngineRig) -> None:
    rig.commit(CreateQueue(name="q", settings=QueueSettings()))


def names(each: list[Sent]) -> list[str]:
    return [one.id for one in each]


@pytest.fixture
def several() -> Several:
    return Several()


@pytest.fixture
def two(several: Several) -> tuple[EngineRig, EngineRig]:
    one, other = several.join(), several.join()
    create(one)
    other.tick()
    one.tick()
    return one, other


def test_what_one_has_stored_another_refuses(two: tuple[EngineRig, EngineRig]) -> None:
    one, other = two
    first = send(one, "a", "b", "c")

    again = send(other, "c", "a", "d")

    assert [each.is_duplicate for each in again] == [True, True, False]
    assert names(again)[:2] == [first[2].id, first[0].id]
    assert send(one, "d")[0].id == again[2].id


@pytest.mark.parametrize("part", ["applied", "synced", "finished"])
def test_what_one_has_only_written_another_refuses_and_makes_durable(
    two: tuple[EngineRig, EngineRig], part: str
) -> None:
    one, other = two
    work: Work = one.engine.apply([sending("a", "b")])
    if part != "applied":
        one.engine.sync(work)
    if part == "finished":
        one.engine.finish(work)

    theirs = other.engine.apply([sending("b")])

    assert theirs.outcomes[0][0].is_duplicate
    assert theirs.commit is not None
    assert theirs.commit._whole
    other.complete(theirs)
    (mine,) = one.complete(work) if part != "finished" else work.outcomes
    assert theirs.outcomes[0][0].id == mine[1].id


@pytest.mark.parametrize("before", ["ready", "leased", "deleted", "unlinked"])
def test_who_joins_knows_what_was_stored_before(several: Several, before: str) -> None:
    one = several.join()
    create(one)
    first = send(one, "a", "b", "c")
    if before != "ready":
        (messages,) = one.commit(Receive(queue="q", max_messages=2))
        if before != "leased":
            receipts = [ByReceipt(each.receipt) for each in messages]
            one.commit(Delete(queue="q", targets=receipts))
    if before == "unlinked":
        one.engine.reaper.reap(100)

    other = several.join()

    assert names(send(other, "a", "b", "c")) == names(first)
    assert not send(other, "d")[0].is_duplicate
    assert send(one, "d")[0].is_duplicate


def test_what_was_in_new_when_another_joined_is_refused_then_and_later(several: Several) -> None:
    one = several.join()
    create(one)
    work = one.engine.apply([sending("a", "b")])
    other = several.join()

    assert [each.is_duplicate for each in send(other, "a")] == [True]
    one.complete(work)
    assert [each.is_duplicate for each in send(other, "a", "b")] == [True, True]


@pytest.mark.parametrize("ids", [("a",), ("a", "b", "c")])
def test_what_one_that_died_has_written_whole_is_refused_and_delivered(
    two: tuple[EngineRig, EngineRig], ids: tuple[str, ...]
) -> None:
    one, other = two
    one.engine.apply([sending(*ids)])
    for path in other.engine.deduplication._segments.paths():
        # It died just before it could tell.
        other.disk.unlink(path)
    one.die()

    assert all(each.is_duplicate for each in send(other, *ids))
    other.clock.advance(2_000)
    other.tick()
    other.tick()
    assert other.engine.ready("q") == len(ids)
    assert all(each.is_duplicate for each in send(other, *ids))


@pytest.mark.parametrize("ids", [("a",), ("a", "b", "c")])
def test_what_one_that_died_was_still_writing_is_sent_by_another(
    two: tuple[EngineRig, EngineRig], ids: tuple[str, ...]
) -> None:
    one, other = two
    one.engine.apply([sending(*ids)])
    disk = other.disk
    for path in other.engine.deduplication._segments.paths():
        disk.unlink(path)
    (name,) = (found.name for found in disk.scan("new"))
    if len(ids) == 1:
        disk.unlink(f"new/{name}")
        disk.create(f"new/{name}", [b""], sync=False)
    else:
        disk.unlink(f"new/{name}/{disk.scan(f'new/{name}')[0].name}")
    one.die()

    assert not any(each.is_duplicate for each in send(other, *ids))
    other.clock.advance(2_000)
    other.tick()
    other.tick()
    assert other.engine.ready("q") == len(ids)


def test_what_an_heir_takes_over_the_others_are_told(several: Several) -> None:
    one, heir, third = several.join(), several.join(), several.join()
    create(one)
    for rig in (heir, third, one):
        rig.tick()
        send(rig, f"of {rig.tenancy.owner}")
    one.engine.apply([sending("a")])
    one.die()
    several.clock.advance(2_000)
    heir.tick()
    heir.tick()

    assert send(third, "a")[0].is_duplicate


def test_who_is_alone_again_has_heard_the_last_of_the_others(two: tuple[EngineRig, EngineRig]) -> None:
    one, other = two
    first = send(other, "a")
    other.commit(Delete(queue="q", targets=[ById(first[0].id)]))
    other.engine.reaper.reap(100)
    assert other.tenancy is not None
    other.engine.close()
    other.tenancy.end()
    one.tick()

    assert not one.engine._root.is_shared
    assert names(send(one, "a")) == names(first)


def test_a_visitor_that_nobody_noticed_has_left_its_ids(several: Several) -> None:
    one = several.join()
    create(one)
    visitor = several.join()
    first = send(visitor, "a")
    assert visitor.tenancy is not None
    visitor.engine.close()
    visitor.tenancy.end()

    assert names(send(one, "a")) == names(first)


def test_news_of_what_a_power_cut_took_are_believed_by_nobody(several: Several) -> None:
    one, other = several.join(), several.join()
    create(one)
    for rig in (other, one):
        rig.tick()
    send(one, "a")
    (path,) = (found.name for found in several.disk.scan("queues/q"))
    several.disk.unlink(f"queues/q/{path}")
    one.die()
    other.die()
    alone = several.join()
    joining = several.join()

    assert not send(joining, "a")[0].is_duplicate
    assert send(alone, "a")[0].is_duplicate


def test_an_id_of_a_queue_that_others_made_again_is_not_refused(
    two: tuple[EngineRig, EngineRig],
) -> None:
    one, other = two
    send(one, "a")
    assert send(other, "a")[0].is_duplicate
    one.commit(DeleteQueue(name="q"))
    for _ in range(2):
        one.tick()
    create(one)

    (outcome,) = other.commit(sending("a"))

    if not isinstance(outcome, StoreError):
        assert not isinstance(outcome[0], Sent) or not outcome[0].is_duplicate
    assert not send(other, "b")[0].is_duplicate


def test_segments_of_the_dead_are_unlinked_by_the_living_and_those_of_the_living_are_not(
    two: tuple[EngineRig, EngineRig],
) -> None:
    one, other = two
    send(one, "a")
    send(other, "b")
    segments = other.engine.deduplication._segments
    assert len(segments.paths()) == 2

    def wait() -> None:
        for _ in range(3):
            one.clock.advance(300_000)
            other.tick()

    wait()
    assert [segments.is_own(path) for path in segments.paths()] == [False]
    one.die()
    wait()
    assert segments.paths() == []
    assert [each.is_duplicate for each in send(other, "c", "c")] == [False, True]


def test_a_reaper_whose_clock_is_fast_forgets_no_id_that_others_may_ask_for(several: Several) -> None:
    slow = several.join()
    create(slow)
    several.clock.step_wall(900)
    fast_clock, several.clock = several.clock, ManualClock(wall=Millis(1_700_000_000_000))
    slow.die()
    slow = several.join()
    fast = EngineRig(several.disk, seed=99, watch=several.disk.watch, clock=fast_clock)
    first = send(slow, "a")
    fast.commit(Delete(queue="q", targets=[ById(first[0].id)]))
    for clock in (fast_clock, several.clock):
        clock.advance(300_000 - 1)
    fast.engine.reaper.reap(100)
    slow.die()

    assert names(send(several.join(), "a")) == names(first)

"""A folder of others that can't be listed costs what is in it: nobody waits for it, and nothing is
promised of it. What has the name of a batch and is no folder costs nothing.
"""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import DiskError
from spoolrack_store.model.operations import (
    Purge,
)
from spoolrack_store.model.reservations import Committed
from unlistable import COMMIT, LONG, RESERVE, SEND_TWO, Two, deletes


@pytest.fixture(params=[True, False], ids=["told", "deaf"])
def two(request: pytest.FixtureRequest) -> Two:
    return Two(hears_all=request.param)


@pytest.mark.parametrize("dies", [False, True], ids=["lives", "dies"])
@pytest.mark.parametrize("where", ["delay", "delay/"])
def test_a_set_whose_leases_can_not_be_listed_is_not_committed(
    two: Two, where: str, dies: bool
) -> None:
    two.one.send(b"a", b"b", b"c")
    two.disk.fail(errno.EMFILE, "scan", path=where)
    assert two.one.ask(RESERVE) is not None
    if dies:
        two.one.die()
        two.other.tick()

    with pytest.raises(DiskError):
        two.other.ask(COMMIT)

    two.disk.heal()
    two.other.tick()
    assert two.other.ask(COMMIT) == Committed(messages=3, lost=[])
    two.other.clock.advance(LONG)
    two.other.tick()
    assert two.other.receive(9) == []
    two.other.check()


def test_a_set_is_not_committed_by_who_has_missed_news_and_can_not_look(two: Two) -> None:
    two.one.send(b"a", b"b", b"c")
    two.other.tick()
    two.one.ask(RESERVE)
    two.other.engine.peers.look_later()
    two.disk.fail(errno.EMFILE, "scan", path="delay")

    with pytest.raises(DiskError):
        two.other.ask(COMMIT)

    two.disk.heal()
    assert two.other.ask(COMMIT) == Committed(messages=3, lost=[])
    two.check()


def test_what_of_a_committed_set_can_not_be_listed_is_not_delivered(two: Two) -> None:
    two.one.send(b"a", b"b", b"c")
    two.disk.fail(errno.EMFILE, "scan", path="delay/")
    two.one.ask(RESERVE)
    # Who has committed it dies before the messages are deleted.
    two.one.engine.sync(two.one.engine.apply([COMMIT]))
    two.one.die()

    for _ in range(3):
        two.other.tick()
        two.other.clock.advance(LONG)
        assert two.other.receive(9) == []
    two.disk.heal()

    assert two.other.receive(9) == []
    two.other.tick()
    assert two.other.states() == {}
    two.other.check()


def test_a_set_that_was_never_made_is_undone_once_its_leases_can_be_listed(two: Two) -> None:
    two.one.send(b"a", b"b", b"c")
    two.disk.fail(errno.EMFILE, "scan", path="delay/")
    two.one.engine.apply([RESERVE])
    for path in [f"reserved/{found.name}" for found in two.memory.scan("reserved")]:
        two.memory.unlink(path)
    two.one.die()
    two.other.tick()
    two.disk.heal()

    for _ in range(3):
        two.other.clock.advance(Millis(2_000))
        two.other.tick()

    assert [message.receives for message in two.other.receive(9)] == [1] * 3
    two.other.check()


def test_a_lost_set_is_known_as_long_as_its_leases_can_not_be_listed(two: Two) -> None:
    two.one.send(b"a", b"b", b"c")
    two.disk.fail(errno.EMFILE, "scan", path="delay/")
    two.one.ask(RESERVE)
    two.one.die()
    two.other.clock.advance(LONG)
    two.other.tick()
    for seq in (0, 1):
        two.other.send(b"d")
        if seq:
            two.other.ask(replace(RESERVE, seq=seq))
        assert two.other.ask(replace(COMMIT, up_to=seq)).lost == ([] if seq else [0])
    two.disk.heal()
    two.other.restart()
    two.other.clock.advance(LONG)
    two.other.tick()

    assert [m.receives for m in two.other.receive(9)] == [2] * 3, "the hold was one of its receives"
    two.other.check()


def test_a_delayed_batch_that_can_not_be_listed_holds_nobody_up(two: Two) -> None:
    two.disk.fail(errno.EACCES, "scan", path="delay/")
    two.one.send(b"later", b"much", delay=10_000)
    two.one.send(b"now")

    assert [m.body for m in two.other.receive(9)] == [b"now"]
    figures = two.other.engine.views.figures("q")
    assert figures is not None
    assert (figures.leased, figures.delayed) == (1, 2)

    two.disk.heal()
    two.one.die()
    two.other.tick()
    two.other.clock.advance(Millis(11_001))
    assert [m.body for m in two.other.receive(9)] == [b"later", b"much"]
    two.other.check()


@pytest.mark.parametrize("where", ["queues/q/", "delay/"])
def test_a_batch_that_can_not_be_listed_any_more_holds_nobody_up(two: Two, where: str) -> None:
    two.one.send(b"a", b"b")
    two.other.sights()
    if where == "delay/":
        assert len(two.other.receive(2)) == 2
    two.disk.fail(errno.EACCES, "scan", path=where)
    two.other.engine.peers.look_later()
    two.one.clock.advance(Millis(1))
    two.one.send(b"c")

    assert b"c" in [m.body for m in two.other.receive(9)]

    two.disk.heal()
    two.other.tick()
    assert len(two.other.sights()) == 3
    two.check()


@pytest.mark.parametrize(
    "where",
    [
        "queues/q/{}",
        "delay/q:{}@1800000000000",
        "delay/q:{}@0000000000001~0000000000000",
        "delay/q:{}@1800000000000~0000000000000",
        "delay/q:{}@1800000000000~g000000000000",
    ],
)
def test_what_has_the_name_of_a_batch_and_is_no_folder_costs_nothing(two: Two, where: str) -> None:
    (id,) = two.one.send(b"gone")
    two.one.ask(deletes(*two.one.receive(1)))
    two.memory.create(where.format(f"{id},n7"), [b"no batch"], sync=True)
    two.one.send(b"sent")

    (message,) = two.other.receive(9)
    assert message.body == b"sent"
    assert two.other.ask(deletes(message)) == [None]
    assert two.one.ask(deletes(message)) == [None], "it is known to be gone"
    assert two.other.sights() == []
    two.other.clock.advance(Millis(2_000))
    two.other.tick()
    figures = two.other.engine.views.figures("q")
    assert figures is not None
    assert (figures.ready, figures.leased, figures.delayed) == (0, 0, 0)
    two.one.die()
    two.other.tick()
    assert not two.other.engine._root.is_shared


def test_a_purge_takes_a_ready_batch_that_can_not_be_listed(two: Two) -> None:
    two.one.send(b"a", b"b")
    two.disk.fail(errno.EACCES, "scan", path="queues/q/")
    assert two.other.receive(9) == []

    two.other.ask(Purge(queue="q"))

    two.disk.heal()
    two.tick()
    assert two.other.receive(9) == two.one.receive(9) == []
    two.check()


def test_a_purge_takes_what_the_dead_had_sent_and_nobody_can_list(two: Two) -> None:
    two.one.engine.sync(two.one.engine.apply([SEND_TWO]))
    two.one.die()
    two.disk.fail(errno.EMFILE, "scan", path="new/q:")
    work = two.other.engine.apply([SEND_TWO])

    two.other.ask(Purge(queue="q"))

    two.other.complete(work)
    two.disk.heal()
    two.other.tick()
    assert len(two.other.receive(9)) == 2, "its own are newer than the purge"
    two.other.check()

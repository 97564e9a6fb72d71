"""What a store tells of itself is what it did, costs no look at the disk, and outlives no queue."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_disk import FaultyDisk
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.model.chores import Chores
from spoolrack_store.model.errors import OutcomeUnknown
from spoolrack_store.model.figures import SECONDS, Histogram, QueueFigures, Statistics
from spoolrack_store.model.operations import DeleteQueue, Outgoing, Purge, Send
from spoolrack_store.store import Store
from spoolrack_store.tally import AT_ONCE
from spoolrack_store.testing import ManualClock
from store_rig import StoreRig, opened

LOOKS = ("scan", "read", "open", "facts")


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StoreRig]:
    with opened(tmp_path) as rig:
        yield rig


def of(rig: StoreRig, queue: str = "q") -> QueueFigures:
    (found,) = [each for part in rig.store.tally.queues() for each in part if each.name == queue]
    return found


def test_a_histogram_counts_what_lies_on_a_bound_below_it_and_what_is_beyond_the_last() -> None:
    histogram = Histogram([1.0, 2.0])

    for value in (0.5, 1.0, 1.5, 3.0):
        histogram.observe(value)

    assert (histogram.counts, histogram.sum) == ([2, 1, 1], 6.0)


def test_the_figures_of_a_queue_are_those_of_its_messages(rig: StoreRig) -> None:
    rig.create()
    rig.send(b"first")
    rig.clock.advance(5_000)
    rig.send(b"second", b"third")
    rig.send(b"later", delay=60_000)
    (message,) = rig.receive()
    now = rig.clock.wall()

    leased = of(rig)
    rig.delete(message)

    assert (leased.ready, leased.leased, leased.delayed) == (2, 1, 1)
    assert leased.oldest_ready == now
    assert of(rig).leased == 0
    assert of(rig).bytes == len(b"secondthirdlater")


def test_the_oldest_ready_message_tells_how_often_it_was_received(rig: StoreRig) -> None:
    rig.create(visibility_timeout=1_000)
    rig.send(b"x")
    sent = rig.clock.wall()
    for _ in range(3):
        rig.receive()
        rig.clock.advance(1_000)
    rig.ask(Send(queue="q", messages=[]))

    found = of(rig)

    assert (found.oldest_ready, found.oldest_ready_receives) == (sent, 3)
    assert rig.store.tally.statistics.messages["q"] == {"send": 1, "receive": 3, "requeue": 3}


def test_what_was_done_is_counted_by_queue_until_the_queue_is_deleted(rig: StoreRig) -> None:
    rig.create()
    rig.create("other")
    twice = Outgoing(body=b"x", deduplication_id="once")
    rig.ask(Send(queue="q", messages=[twice, twice]))
    rig.send(b"y", b"z")
    rig.delete(*rig.receive(2))
    rig.ask(Purge(queue="q"))
    rig.send(b"x", queue="other")
    counted = rig.store.tally.statistics.messages

    rig.store.tally.root()
    assert counted["q"] == {"send": 3, "receive": 2, "delete": 2, "purge": 1}

    rig.ask(DeleteQueue(name="q"))
    rig.store.tally.root()
    assert counted == {"other": {"send": 1}}


def test_dead_letters_and_expired_messages_are_counted_where_they_come_from(rig: StoreRig) -> None:
    rig.create("dead")
    rig.create(max_receives=1, dead_letter_queue="dead", visibility_timeout=1_000)
    rig.create("short", retention=1_000)
    rig.send(b"poison")
    rig.send(b"old", queue="short")
    rig.receive()
    rig.clock.advance(2_000)
    rig.receive()
    rig.receive(queue="short")
    statistics = rig.store.tally.statistics

    assert statistics.messages["q"]["bury"] == 1
    assert statistics.messages["short"]["expire"] == 1
    assert rig.store.tally.root().dead_letter_queues == {"dead"}
    assert of(rig, "dead").ready == 1


def test_a_commit_and_its_sync_are_measured_once_for_all_that_share_them(rig: StoreRig) -> None:
    rig.create()
    statistics = rig.store.tally.statistics
    commits, syncs = sum(statistics.commits.counts), sum(statistics.syncs.counts)

    rig.send(*[b"x"] * 100)

    assert sum(statistics.commits.counts) == commits + 1
    assert sum(statistics.syncs.counts) == syncs + 1
    assert statistics.requests.sum == commits + 1


def test_a_sync_that_failed_is_counted_and_the_store_says_that_it_has_failed(rig: StoreRig) -> None:
    rig.create()
    assert not rig.store.tally.root().failed
    rig.disk.fail(errno.EIO, "sync_file", "sync_folder", "sync_all")

    with pytest.raises(OutcomeUnknown):
        rig.send(b"x")

    assert rig.store.tally.statistics.failed_syncs == 1
    assert rig.store.tally.root().failed


def test_what_is_overdue_is_told_by_how_long(tmp_path: Path) -> None:
    clock, disk = ManualClock(), FaultyDisk(LocalDisk(tmp_path))
    # Nobody looks at the time here: the mover is another process, which has stopped.
    with Store.open(tmp_path, clock=clock, disk=disk, chores=Chores(ticks=False)) as store:
        rig = StoreRig(tmp_path, disk, clock, store)
        rig.create(visibility_timeout=1_000)
        rig.send(b"x")
        rig.receive()
        assert store.tally.root().overdue == 0

        clock.advance(11_000)

        assert store.tally.root().overdue == 10_000
        assert rig.receive()
        assert store.tally.root().overdue == 0


def test_receives_that_wait_are_counted(rig: StoreRig) -> None:
    rig.create()
    waiting = rig.wait_for()

    assert rig.store.tally.root().waiting == 1

    waiting.cancel()


def test_figures_cost_no_look_at_the_disk_however_many_queues_and_messages_there_are(
    rig: StoreRig,
) -> None:
    for number in range(AT_ONCE + 1):
        rig.create(f"q{number}")
    rig.send(*[b"x"] * 500, queue="q0")
    disk: FaultyDisk = rig.disk
    disk.forget()

    rig.store.tally.root()
    parts = list(rig.store.tally.queues())

    assert [len(part) for part in parts] == [AT_ONCE, 1]
    assert not disk.called(*LOOKS)


def test_queues_are_told_the_oldest_first_so_that_each_keeps_its_place(rig: StoreRig) -> None:
    rig.create("z")
    rig.clock.advance(1)
    rig.create("a")

    names = [each.name for part in rig.store.tally.queues() for each in part]

    assert names == ["z", "a"]


def test_what_lies_in_quarantine_is_told_by_a_look_into_it(rig: StoreRig) -> None:
    (rig.path / "quarantine" / "x").mkdir(parents=True)

    assert rig.store.tally.quarantined() == 1
    rig.disk.fail(errno.EIO, "scan")
    assert rig.store.tally.quarantined() is None


def test_the_watch_is_an_argument() -> None:
    ticks = iter([5.0])
    statistics = Statistics(watch=lambda: next(ticks))

    statistics.commit([Send(queue="q", messages=[])], [[]], began=4.5)

    assert statistics.commits.sum == 0.5
    assert statistics.commits.counts[SECONDS.index(0.5)] == 1

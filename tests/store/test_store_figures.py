"""The store's metrics are exact, and cost no access to the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_store.files.disk import Space
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.background_work import BackgroundWork
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import OutcomeUnknown
from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    DeleteQueue,
    Purge,
    Receive,
    Send,
    Traffic,
    UpdateQueue,
)
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.reservation_requests import CommitReservations, Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.model.statistics import SECONDS, SIZES, QueueMetrics, Statistics
from spoolrack_store.store import Store

from tests.store.front_rig import FrontRig, opened
from tests.support.listing import messages_in

HOLD = Millis(60_000)


def create(rig: FrontRig, name: str, **settings: object) -> None:
    rig.ask(CreateQueue(name=name, settings=QueueSettings().changed(settings)))


def of(rig: FrontRig, queue: str = "q") -> QueueMetrics:
    """Return the figures once no answered send waits in `new/`."""
    rig.store.queue(queue)
    (found,) = [each for each in rig.store.metrics.queues() if each.name == queue]
    return found


def traffic(rig: FrontRig, queue: str = "q") -> tuple[int, int]:
    found = rig.store.queue(queue).traffic
    assert found == Traffic(entered=of(rig, queue).entered, left=of(rig, queue).left)
    return found.entered, found.left


def counted(rig: FrontRig, queue: str = "q") -> dict[str, int]:
    return rig.store.metrics.statistics.messages[queue]


def test_the_figures_of_a_queue_are_those_of_its_messages(rig: FrontRig) -> None:
    rig.manual_clock.ticks = False
    rig.send(b"first")
    rig.manual_clock.advance(5_000)
    rig.send(b"second", b"third")
    rig.ask(Send(queue="q", bodies=[b"later"], delays={0: HOLD}))
    got = rig.receive()
    now = rig.clock.wall()

    leased = of(rig)
    rig.delete(*got)

    assert (leased.ready, leased.leased, leased.delayed) == (2, 1, 1)
    assert leased.oldest_ready == now
    assert of(rig).leased == 0
    assert of(rig).bytes == len(b"secondthirdlater")


def test_the_oldest_ready_message_tells_how_often_it_was_received(rig: FrontRig) -> None:
    rig.manual_clock.ticks = False
    create(rig, "short", visibility_timeout=1_000)
    sent = rig.clock.wall()
    rig.send(b"x", queue="short")
    for _ in range(3):
        rig.receive(queue="short")
        rig.manual_clock.advance(1_000)
    rig.in_turn()

    found = of(rig, "short")

    assert (found.oldest_ready, found.oldest_ready_receives) == (sent, 3)
    assert counted(rig, "short") == {"send": 1, "receive": 3, "requeue": 3}


def test_operations_are_counted_by_queue_until_the_queue_is_deleted(rig: FrontRig) -> None:
    create(rig, "other")
    rig.ask(Send(queue="q", bodies=[b"x", b"x"], deduplication_ids={0: "once", 1: "once"}))
    rig.send(b"y", b"z")
    got = rig.receive(2)
    assert len([id for each in got for id in each.ids]) == 2
    rig.delete(*got)
    rig.ask(Purge(queue="q"))
    rig.send(b"x", queue="other")

    rig.store.metrics.root()
    assert counted(rig) == {"send": 3, "receive": 2, "delete": 2, "purge": 1}

    rig.ask(DeleteQueue(name="q"))
    rig.store.metrics.root()
    assert rig.store.metrics.statistics.messages == {"other": {"send": 1}}


def test_dead_letters_and_expired_messages_are_counted_where_they_come_from(rig: FrontRig) -> None:
    create(rig, "dead")
    create(rig, "poor", max_receives=1, dead_letter_queue="dead", visibility_timeout=1_000)
    create(rig, "brief", retention=1_000)
    rig.send(b"poison", queue="poor")
    rig.send(b"old", queue="brief")
    rig.receive(queue="poor")
    rig.manual_clock.advance(2_000)
    for _ in range(4):
        rig.in_turn()

    assert counted(rig, "poor")["dead_letter"] == 1
    assert counted(rig, "brief")["expire"] == 1
    assert rig.store.metrics.root().dead_letter_queues == {"dead"}
    assert of(rig, "dead").ready == 1
    assert (traffic(rig, "poor"), traffic(rig, "dead")) == ((1, 1), (1, 0))
    assert traffic(rig, "brief") == (1, 1)


def test_a_redrive_counts_for_the_queue_that_it_leaves_and_the_one_that_it_enters(
    rig: FrontRig,
) -> None:
    create(rig, "dead")
    create(rig, "poor", max_receives=1, dead_letter_queue="dead", visibility_timeout=1_000)
    rig.send(b"poison", b"poison, too", queue="poor")
    rig.receive(2, queue="poor")
    rig.manual_clock.advance(2_000)
    for _ in range(4):
        rig.in_turn()

    # With this rate the second message waits for the clock.
    begun = rig.ask(StartRedrive(queue="dead", max_messages_per_second=1))
    assert rig.store.metrics.root().redrives == 1
    for _ in range(6):
        rig.manual_clock.advance(1_000)
        rig.in_turn()

    assert (traffic(rig, "dead"), traffic(rig, "poor")) == ((2, 2), (4, 2))
    assert counted(rig, "poor")["redrive"] == 2
    assert rig.store.redrive(begun.id).moved_count == 2
    assert [each.id for each in rig.store.redrives(queue="dead")] == [begun.id]
    assert rig.store.redrives(after=begun.id) == rig.store.redrives(queue="q") == []
    assert rig.store.metrics.root().redrives == 0


def test_traffic_is_what_was_sent_and_what_was_deleted_but_for_a_purge(rig: FrontRig) -> None:
    rig.send(b"1", b"2", b"3", b"4", b"5")
    rig.ask(Send(queue="q", bodies=[b"later"], delays={0: HOLD}))
    assert traffic(rig) == (6, 0)
    got = rig.receive(2)
    assert traffic(rig) == (6, 0)
    rig.delete(*got)
    rig.ask(Delete(queue="q", ids=[messages_in(rig.store, "q", limit=1)[0].id]))
    assert traffic(rig) == (6, 3)
    rig.ask(Purge(queue="q"))
    assert traffic(rig) == (6, 3)


def test_a_queue_that_is_made_again_begins_with_no_traffic(rig: FrontRig) -> None:
    rig.send(b"1")
    rig.delete(*rig.receive())
    rig.ask(DeleteQueue(name="q"))
    for _ in range(6):
        rig.in_turn()

    create(rig, "q")

    assert traffic(rig) == (0, 0)


def test_a_message_that_is_leased_as_it_is_sent_enters_once(rig: FrontRig) -> None:
    future = rig.wait_for()
    rig.send(b"1")
    got = future.result()
    assert traffic(rig) == (1, 0)
    rig.delete(*got)
    assert traffic(rig) == (1, 1)


def test_a_published_stage_and_a_committed_set_count(rig: FrontRig) -> None:
    rig.ask(Stage(stage="s", chunk_number=0, queue="q", bodies=[b"1", b"2"]))
    assert [each.name for each in rig.store.stages()] == ["s"]
    assert rig.store.stages(after="s") == []
    assert rig.store.metrics.root().stages == 1
    rig.ask(Publish(stages=["s"], writer="w", epoch=1))
    for _ in range(3):
        rig.in_turn()
    assert traffic(rig) == (2, 0)
    assert counted(rig) == {"publish": 2}

    rig.ask(Reserve(queue="q", stream="s", sequence_number=0, visibility_timeout=HOLD))
    rig.ask(Reserve(queue="q", stream="s", sequence_number=0, visibility_timeout=HOLD))
    assert rig.store.metrics.root().reservations_held == 1
    rig.ask(CommitReservations(stream="s", last_sequence_number=0))
    for _ in range(3):
        rig.in_turn()

    assert counted(rig) == {"publish": 2, "reserve": 2, "commit": 2}
    assert traffic(rig) == (2, 2)
    assert rig.store.metrics.root().reservations_held == 0


def test_operations_of_another_process_are_not_counted(tmp_path: Path) -> None:
    with opened(tmp_path) as rig, opened(tmp_path) as other:
        other.send(b"1", b"2")
        other.in_turn()
        rig.in_turn()

        assert (traffic(rig), traffic(other)) == ((0, 0), (2, 0))
        assert of(rig).ready == 2
        assert "q" not in rig.store.metrics.statistics.messages


def test_a_commit_and_its_sync_are_measured_once_for_all_that_share_them(rig: FrontRig) -> None:
    rig.in_turn()
    statistics = rig.store.metrics.statistics
    commits, requests = sum(statistics.commits.counts), statistics.requests.sum
    syncs = sum(statistics.syncs.counts)

    rig.send_together(50)

    assert sum(statistics.commits.counts) == commits + 2
    assert sum(statistics.syncs.counts) == syncs + 2
    assert statistics.requests.sum == requests + 51


def test_a_sync_that_failed_is_counted_and_the_store_says_that_it_has_failed(rig: FrontRig) -> None:
    assert not rig.store.metrics.root().failed
    rig.disk.fails = True

    with pytest.raises(OutcomeUnknown):
        rig.send(b"x")

    assert rig.store.metrics.statistics.failed_syncs == 1
    assert rig.store.metrics.root().failed


def test_overdue_work_is_reported_with_its_delay(tmp_path: Path) -> None:
    clock, disk = ManualClock(), LocalDisk(tmp_path)
    # Only requests make this store look at the time.
    with Store.open(tmp_path, clock=clock, disk=disk, background=BackgroundWork(ticks=False)) as store:
        settings = QueueSettings(visibility_timeout=Millis(1_000))
        store.submit(CreateQueue(name="q", settings=settings)).result()
        store.submit(Send(queue="q", bodies=[b"x"])).result()
        store.submit(Receive(queue="q")).result()
        assert store.metrics.root().overdue == 0

        clock.advance(11_000)

        assert store.metrics.root().overdue == 10_000
        assert store.submit(Receive(queue="q")).result()
        assert store.metrics.root().overdue == 0


def test_receives_that_wait_are_counted(rig: FrontRig) -> None:
    waiting = rig.wait_for()

    assert rig.store.metrics.root().waiting == 1

    waiting.cancel()


def test_deleted_messages_are_counted_once_they_are_unlinked(rig: FrontRig) -> None:
    rig.send(b"1", b"2")
    rig.delete(*rig.receive(2))
    for _ in range(4):
        rig.manual_clock.advance(1_000)
        rig.in_turn()

    root = rig.store.metrics.root()

    assert (root.unlinked, root.to_be_unlinked) == (2, 0)


def test_figures_cost_no_look_at_the_disk_however_many_queues_there_are(
    rig: FrontRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        create(rig, f"q{number}")
    rig.send(*[b"x"] * 500, queue="q0")
    rig.store.queue("q0")
    looks: list[str] = []
    for name in ("scan", "read", "open", "facts"):
        monkeypatch.setattr(LocalDisk, name, lambda self, path, *_, **__: looks.append(path))

    root = rig.store.metrics.root()
    queues = list(rig.store.metrics.queues())

    assert looks == []
    assert root.queues == len(queues) > 100


def test_queues_are_told_the_oldest_first_so_that_each_keeps_its_place(rig: FrontRig) -> None:
    for name in ("z", "a"):
        rig.manual_clock.advance(1)
        create(rig, name)

    assert [each.name for each in rig.store.metrics.queues()][-2:] == ["z", "a"]


def test_quarantined_files_are_counted_by_listing(rig: FrontRig) -> None:
    (rig.path / "quarantine" / "x").mkdir(parents=True)

    assert rig.store.metrics.quarantined() == 1

    (rig.path / "quarantine" / "x").rmdir()
    (rig.path / "quarantine").rmdir()
    assert rig.store.metrics.quarantined() is None


def test_a_queue_tells_each_obstacle_with_its_figures(
    rig: FrontRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.ask(CreateQueue(name="stuck", settings=QueueSettings(group_order="strict", max_messages=2)))
    rig.ask(Send(queue="stuck", bodies=[b"a", b"b"], groups={0: "g", 1: "g"}))
    rig.receive(queue="stuck")
    rig.ask(UpdateQueue(name="stuck", changes={"sending": "paused", "receiving": "paused"}))
    monkeypatch.setattr(rig.disk, "space", lambda: Space(bytes=0, files=0))

    assert [(each.reason, each.explanation) for each in rig.store.queue("stuck").obstacles] == [
        ("SENDING_PAUSED", "sending is paused"),
        ("QUEUE_FULL", "it is full, with 2 of 2 messages"),
        ("DISK_FULL", "the disk under the root is full, or nearly: no send is stored"),
        ("RECEIVING_PAUSED", "receiving is paused"),
        (
            "GROUPS_BLOCKED",
            "1 of 1 ready messages wait for one of their group, which is leased or delayed",
        ),
    ]


def test_the_ranges_of_spans_and_sizes_ascend() -> None:
    for bounds in (SECONDS, SIZES):
        assert list(bounds) == sorted(set(bounds))


def test_the_watch_is_an_argument() -> None:
    statistics = Statistics(watch=lambda: 5.0)

    statistics.commit([Send(queue="q", bodies=[])], [None], 4.5)
    statistics.commit([], [], 0.0)

    assert statistics.commits.sum == 0.5
    assert statistics.commits.counts[SECONDS.index(0.5)] == 1
    assert sum(statistics.commits.counts) == 1

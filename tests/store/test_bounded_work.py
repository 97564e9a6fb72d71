"""A commit does a bounded part of a large piece of work: of what dies, of what is purged. The rest is
for the commits that follow, and nothing is lost between two of them. Work between requests costs by the
number of objects that are due, and not by all that wait.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store.engine import effort, leaser
from spoolrack_store.engine.sender import MOST_FILES
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import DAY, HOUR, MINUTE, SECOND, Millis
from spoolrack_store.model.operations import (
    UNFINISHED,
    CreateQueue,
    DeleteQueue,
    Purge,
    Receive,
    ReleaseMessages,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.schedule_requests import CreateSchedule
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.model.transitions import State

from tests.store.front_rig import GIVE_UP, bodies_of, opened
from tests.support.dead_letter_rig import DYING, LEASE, QUEUES, Rig
from tests.support.engines import begun
from tests.support.steps import slices_of, steps_of

MANY = 650
MOST_COMMITS = 100
SHARE = effort.FILES // 2
"""Files that a part moves in a commit in which it works alone."""


def _bodies(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def _ask_to_the_end(rig: Rig, request: Any) -> tuple[Any, int]:
    """Return the outcome of a request, and how many commits worked on it."""
    for commits in range(1, MOST_COMMITS):
        outcome = rig.ask(request)
        if outcome is not UNFINISHED:
            return outcome, commits
    raise AssertionError("it doesn't end")


def _has_work(rig: Rig) -> bool:
    """Return whether work is due that no request asks for."""
    now = rig.clock.monotonic()
    waits, due = rig.engine.next_work(now)
    return waits or (due is not None and due <= now)


def _rest(rig: Rig) -> None:
    for _ in range(MOST_COMMITS):
        if not _has_work(rig):
            return
        rig.ask()
    raise AssertionError("the engine doesn't come to rest")


DYING_AT_RECEIVE = QueueSettings(
    max_receives=1,
    dead_letter_queue="dead",
    dead_letter_at="receive",
    visibility_timeout=LEASE,
    messages_per_file=1,
)


@pytest.fixture
def dying_at_receive() -> Rig:
    return Rig({**QUEUES, "q": DYING_AT_RECEIVE})


def test_a_receive_that_meets_a_mass_death_moves_a_bounded_number_of_files_in_each_commit(
    dying_at_receive: Rig,
) -> None:
    rig = dying_at_receive
    dying = rig.send(*_bodies(MANY))
    assert sum(len(each.ids) for each in rig.ask(Receive(queue="q", max_messages=MANY))) == MANY
    rig.after(LEASE)
    rig.ask()
    live = rig.send(b"live")
    receive = Receive(queue="q", max_messages=10)
    moved = [0]
    for _ in range(MOST_COMMITS):
        outcome = rig.ask(receive)
        moved.append(len(rig.ids("dead")))
        if outcome is not UNFINISHED:
            break
    assert max(after - before for before, after in pairwise(moved)) <= SHARE
    # It has waited for them, and not said that nothing is ready.
    assert [id for each in outcome for id in each.ids] == live
    _rest(rig)
    assert rig.ids("dead") == dying
    assert rig.ids("q") == []


def test_a_receive_that_waits_is_answered_when_the_dead_have_moved(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        rig.ask(CreateQueue(name="dead", settings=QueueSettings()))
        rig.ask(CreateQueue(name="dying", settings=DYING_AT_RECEIVE))
        rig.send(*_bodies(3 * SHARE), queue="dying")
        rig.receive(3 * SHARE, queue="dying")
        clock.advance(LEASE)
        rig.send(b"live", queue="dying")
        found = rig.store.submit(Receive(queue="dying", max_messages=10, wait=Millis(DAY)))
        assert bodies_of(found.result(GIVE_UP)) == [b"live"]


@pytest.mark.parametrize("whole_files", [True, False])
def test_leases_that_end_at_once_die_in_slices(whole_files: bool) -> None:
    rig = Rig()
    if whole_files:
        ids = rig.send(*_bodies(MANY))
    else:
        ids = [id for number in range(MANY) for id in rig.send(b"%d" % number)]
    rig.ask(Receive(queue="q", max_messages=MANY, visibility_timeout=LEASE))
    rig.after(LEASE)
    moved = slices_of(lambda: len(rig.ids("dead")), rig.ask, MANY)
    assert max(moved) == (MANY if whole_files else SHARE)
    _rest(rig)
    assert rig.ids("dead") == ids
    assert rig.engine.index.queue("q").total == 0


def test_messages_that_are_released_for_the_last_time_keep_their_neighbours_leases() -> None:
    rig = Rig()
    ids = rig.send(*_bodies(MANY))
    (found,) = rig.ask(Receive(queue="q", max_messages=MANY, visibility_timeout=LEASE))
    released = 210
    rig.ask(ReleaseMessages(queue="q", receipts=found.receipts[:released], delay=Millis(0)))
    _rest(rig)
    assert rig.ids("dead") == ids[:released]
    assert rig.engine.index.queue("q").counts[State.LEASED] == MANY - released


def test_a_purge_goes_in_slices_and_says_how_many_it_has_deleted() -> None:
    rig = Rig()
    rig.engine.moves.effort.files = 20
    for number in range(25):
        rig.send(b"%d" % number)
    deleted, commits = _ask_to_the_end(rig, Purge(queue="q"))
    assert (deleted, commits) == (25, 3)
    assert rig.engine.index.queue("q").total == 0


def test_a_purge_deletes_what_is_leased_between_two_slices_and_nothing_that_is_sent() -> None:
    rig = Rig({**QUEUES, "q": DYING})
    rig.engine.moves.effort.files = 20
    for number in range(25):
        rig.send(b"%d" % number)
    purge = Purge(queue="q")
    assert rig.ask(purge) is UNFINISHED
    rig.ask(Receive(queue="q", max_messages=100, visibility_timeout=LEASE))
    sent = rig.send(b"later")
    assert rig.ask(purge) is UNFINISHED
    assert rig.ask(purge) == 25
    assert rig.ids("q") == sent
    assert rig.engine.index.queue("q").total == 1


LONE = QueueSettings(messages_per_file=1, visibility_timeout=LEASE)


def _lone(settings: dict[str, QueueSettings]) -> Rig:
    return Rig({**QUEUES, **settings})


def test_leases_that_end_at_once_come_back_in_slices() -> None:
    rig = _lone({"q": LONE})
    ids = rig.send(*_bodies(MANY))
    rig.ask(Receive(queue="q", max_messages=MANY, visibility_timeout=LEASE))
    rig.after(LEASE)
    counts = rig.engine.index.queue("q").counts
    assert max(slices_of(lambda: counts[State.READY], rig.ask, MANY)) == SHARE
    _rest(rig)
    assert rig.ids("q") == ids


def test_a_retention_deletes_in_slices_and_what_is_too_old_is_never_delivered() -> None:
    rig = _lone({"q": replace(LONE, retention=Millis(10_000))})
    rig.send(*_bodies(MANY))
    rig.after(10_000)
    young = rig.send(b"young")
    counts = rig.engine.index.queue("q").counts
    receive, before, commits = Receive(queue="q", max_messages=10), counts[State.READY], 0
    while (outcome := rig.ask(receive)) is UNFINISHED:
        assert before - counts[State.READY] <= effort.FILES
        before, commits = counts[State.READY], commits + 1
    assert commits > 1
    assert [id for each in outcome for id in each.ids] == young


def test_a_retention_goes_on_without_a_tick_or_a_receive() -> None:
    rig = _lone({"q": replace(LONE, retention=Millis(10_000))})
    rig.send(*_bodies(MANY))
    rig.after(10_000)
    rig.ask(tick=True)
    assert rig.engine.index.queue("q").total > 0
    _rest(rig)
    assert rig.engine.index.queue("q").total == 0


def test_a_set_is_of_messages_that_are_not_too_old() -> None:
    rig = _lone({"q": replace(LONE, retention=Millis(10_000))})
    rig.send(*_bodies(MANY))
    rig.after(10_000)
    young = rig.send(b"young")
    reserve = Reserve(queue="q", stream="s", sequence_number=0)
    reserved, commits = _ask_to_the_end(rig, reserve)
    assert (reserved.message_count, commits > 1) == (1, True)
    assert [each.first_id for each in rig.engine.index.queue("q").entries] == young


def test_jobs_share_the_effort_of_a_commit_and_none_stands_still() -> None:
    old = replace(LONE, retention=Millis(10_000))
    rig = _lone({"q": LONE, "old": old, "gone": LONE, "purged": LONE})
    queues = ("q", "old", "gone", "purged")
    for queue in queues:
        rig.send(*_bodies(MANY), queue=queue)
    rig.ask(Receive(queue="q", max_messages=MANY, visibility_timeout=Millis(10_000)))
    rig.after(10_000)
    rig.ask(DeleteQueue(name="gone"))
    purge = Purge(queue="purged")

    def left() -> list[int]:
        counts = [rig.engine.index.queue(queue).total for queue in queues]
        return [rig.engine.index.queue("q").counts[State.LEASED], *counts[1:]]

    rig.ask(purge, tick=True)
    for _ in range(3):
        before = left()
        rig.ask(purge)
        moved = [was - now for was, now in zip(before, left(), strict=True)]
        assert all(moved)
        assert sum(moved) <= effort.FILES


def test_a_queue_is_deleted_in_slices() -> None:
    rig = _lone({"q": LONE})
    rig.send(*_bodies(MANY))
    rig.ask(DeleteQueue(name="q"))
    assert max(slices_of(lambda: rig.engine.index.queue("q").total, rig.ask)) <= SHARE
    _rest(rig)
    assert not rig.engine.catalog.is_being_deleted("q")


CHUNKS = 45


def _published() -> Rig:
    rig = Rig()
    rig.engine.moves.effort.files = 20
    for number in range(CHUNKS):
        rig.ask(Stage(stage="s", chunk_number=number, queue="third", bodies=[b"x"]))
    rig.ask(Publish(writer="w", epoch=1, stages=["s"]))
    return rig


def test_a_publication_of_many_chunks_moves_in_slices_and_is_counted_as_a_whole() -> None:
    rig = _published()
    counts, found = rig.engine.index.queue("third").counts, [0]
    while counts[State.READY] < CHUNKS:
        assert rig.engine.with_exact_index(lambda: counts[State.READY]) in (None, CHUNKS)
        found.append(counts[State.READY])
        rig.ask()
        found.append(counts[State.READY])
        assert len(found) < MOST_COMMITS
    assert max(after - before for before, after in pairwise(found)) <= 10
    assert len(found) > 4


def test_a_queue_that_was_changed_often_and_deleted_stays_deleted() -> None:
    rig = Rig()
    other = rig.join("p2")
    for millis in range(1, 6):
        rig.ask(UpdateQueue(name="q", changes={"delivery_delay": Millis(millis)}))
    rig.ask(DeleteQueue(name="q"))
    _rest(other)
    assert not [each for each in rig.disk.scan("config") if each.name.startswith("q.")]


def test_the_oldest_message_is_known_whatever_is_leased() -> None:
    rig = Rig()
    for number in range(50):
        rig.send(b"%d" % number)
    rig.ask(Receive(queue="q", max_messages=49, visibility_timeout=LEASE))
    index = rig.engine.index.queue("q")
    leased = [entry.first_id for entry in index.entries if entry.name.state is State.LEASED]
    head = next(iter(index.orders[State.LEASED]))
    assert head is not None
    assert head.first_id == min(leased)
    assert [id for id, _ in index.orders[State.LEASED].since("")] == sorted(leased)


def test_a_purge_deletes_parts_of_the_last_batch_that_were_leased_meanwhile() -> None:
    rig = Rig({**QUEUES, "q": DYING})
    rig.engine.moves.effort.files = 4
    for number in range(4):
        rig.send(b"%d" % number)
    rig.send(*_bodies(10))
    purge = Purge(queue="q")
    assert rig.ask(purge) is UNFINISHED
    rig.ask(Receive(queue="q", max_messages=8, visibility_timeout=LEASE))
    deleted, _ = _ask_to_the_end(rig, purge)
    assert (deleted, rig.engine.index.queue("q").total) == (14, 0)


def test_a_slice_of_a_purge_costs_the_same_whatever_waits() -> None:
    def steps(backlog: int) -> int:
        rig = _lone({"q": LONE})
        rig.send(*_bodies(backlog))
        rig.engine.moves.effort.files = 8
        return steps_of(lambda: rig.ask(Purge(queue="q")))

    assert steps(800) <= steps(40) + 50


# What waits.

FEW, WAITING = 10, 100


def _expiring(count: int) -> Rig:
    rig = Rig({f"q-{number}": QueueSettings(expires=Millis(HOUR)) for number in range(count)})
    rig.ask(tick=True)
    return rig


def _stages(count: int) -> Rig:
    rig = Rig({"q": QueueSettings()})
    for number in range(count):
        rig.ask(Stage(stage=f"s{number}", chunk_number=0, queue="q", bodies=[b"x"]))
    _rest(rig)
    return rig


def _epochs(count: int) -> Rig:
    rig = Rig({"q": QueueSettings()})
    for number in range(count):
        rig.ask(Stage(stage=f"s{number}", chunk_number=0, queue="q", bodies=[b"x"]))
        rig.ask(Publish(writer=f"w{number}", epoch=0, stages=[f"s{number}"]))
    _rest(rig)
    return rig


def _scheduled(count: int) -> Rig:
    rig = Rig({f"q-{number:03d}": QueueSettings() for number in range(count)})
    for number in range(count):
        rig.ask(
            CreateSchedule(
                queue=f"q-{number:03d}", name="s", cron="* * * * *", time_zone="UTC", body=b"x"
            )
        )
    return rig


def _commit(rig: Rig) -> None:
    rig.ask(tick=True)
    rig.engine.next_work(rig.clock.monotonic())


@pytest.mark.parametrize(
    ("made", "act"),
    [
        (_expiring, lambda rig: rig.engine.expiry.advance()),
        (_stages, _commit),
        (_stages, lambda rig: rig.engine.stages.listed("s", 3)),
        (_epochs, lambda rig: rig.engine.stages.tick()),
        (_scheduled, lambda rig: rig.engine.schedules.listed("", ("q-005", ""), 3)),
    ],
    ids=["queues that expire", "stages", "a page of stages", "epochs", "a page of schedules"],
)
def test_what_waits_costs_no_commit_and_no_page(
    made: Callable[[int], Rig], act: Callable[[Rig], object]
) -> None:
    few, many = made(FEW), made(WAITING)
    _commit(few)
    _commit(many)
    assert steps_of(lambda: act(many)) <= steps_of(lambda: act(few)) + 20


def test_queues_that_expire_together_are_removed_in_slices() -> None:
    count = 2 * SHARE
    rig = Rig({f"q-{number}": QueueSettings(expires=Millis(MINUTE)) for number in range(count)})
    rig.ask()
    rig.after(SECOND)
    rig.ask()
    rig.after(2 * MINUTE)
    assert max(slices_of(lambda: len(rig.engine.catalog.records), rig.ask)) <= SHARE


def test_stages_that_expire_together_are_dropped_in_slices() -> None:
    count = 3 * SHARE
    rig = _stages(count)
    rig.after(30 * DAY)
    left, files = [count], [len(rig.disk.scan("staged"))]
    while files[-1]:
        rig.ask()
        left.append(len(rig.engine.stages.listed("", count)))
        files.append(len(rig.disk.scan("staged")))
        assert len(left) < MOST_COMMITS
    assert max(before - after for before, after in pairwise(left)) <= SHARE
    assert max(files) <= count + SHARE, "more are dropped than are unlinked"
    assert left[-1] == 0


def test_a_death_between_two_slices_of_expired_stages_drops_the_rest() -> None:
    rig = _stages(2 * SHARE)
    rig.after(30 * DAY)
    for _ in range(3):
        rig.ask()
    rig = rig.restart()
    _rest(rig)
    assert rig.disk.scan("staged") == []
    assert rig.engine.index.queue("q").total == 0


def test_epochs_whose_memory_is_over_are_forgotten_in_slices() -> None:
    rig = _epochs(SHARE + 20)
    rig.after(400 * DAY)
    rig.ask(tick=True)
    _rest(rig)
    assert 0 < len(rig.disk.scan("published")) <= SHARE
    rig.ask(tick=True)
    _rest(rig)
    assert rig.disk.scan("published") == []


def test_the_groups_that_a_start_has_found_are_read_in_slices() -> None:
    count = 2 * SHARE
    rig = Rig({"q": QueueSettings()})
    for number in range(count):
        rig.ask(Send(queue="q", bodies=[b"x"] * 2, groups={0: f"g{number}"}))
    rig.ask()
    rig = rig.restart()
    assert max(slices_of(lambda: len(rig.engine.index.unread_group_files), rig.ask)) <= SHARE
    assert rig.engine.index.queue("q").total == 2 * count


def _orphans(count: int) -> tuple[Rig, int]:
    """Let a process die that has answered sends, and not published them."""
    rig = Rig({"q": QueueSettings(messages_per_file=1)})
    other = rig.join("p2")
    for left in range(count, 0, -MOST_FILES):
        begun(other.engine, Send(queue="q", bodies=[b"x"] * min(left, MOST_FILES)))
    rig.living.discard("p2")
    rig.ask(tick=True)
    return rig, count


def _ready(rig: Rig) -> int:
    return rig.engine.index.queue("q").counts[State.READY]


def test_what_a_dead_process_has_sent_is_published_in_slices() -> None:
    rig, count = _orphans(2 * SHARE)
    assert max(slices_of(lambda: _ready(rig), rig.ask, count)) <= SHARE
    _rest(rig)
    assert rig.engine.sharing.orphans == []
    assert rig.disk.scan("new") == []


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside another process"])
def test_a_death_between_two_slices_of_orphans_loses_none(beside: bool) -> None:
    rig, count = _orphans(2 * SHARE)
    other = rig.join("p3") if beside else None
    rig.ask()
    assert 0 < _ready(rig) < count
    if other is None:
        rig = rig.restart()
    else:
        rig.living.discard("p1")
        rig = other
        rig.ask(tick=True)
    _rest(rig)
    assert _ready(rig) == count
    assert rig.disk.scan("new") == []


def test_an_orphan_that_was_removed_by_hand_keeps_no_work_waiting() -> None:
    rig, count = _orphans(3)
    rig.disk.unlink(f"new/{rig.disk.scan('new')[0].name}")
    _rest(rig)
    assert rig.engine.sharing.orphans == []
    assert _ready(rig) == count - 1


def test_a_retention_ends_in_each_of_more_queues_than_one_tick_looks_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leaser, "QUEUES_OF_A_TICK", 3)
    queues = {f"q-{number}": QueueSettings(retention=Millis(MINUTE)) for number in range(7)}
    rig = Rig(queues)
    for queue in queues:
        rig.ask(Send(queue=queue, bodies=[b"x"]))
    rig.ask()
    rig.after(HOUR)
    left = []
    for _ in range(3):
        rig.ask(tick=True)
        _rest(rig)
        left.append(sum(rig.engine.index.queue(queue).total for queue in queues))
    assert left == [4, 1, 0]

"""A commit does a bounded part of what is asked: requests for many messages wait for the next commits,
those for few come first, and in a queue what was sent first stays first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store.engine import effort, turns
from spoolrack_store.engine.sender import MOST_FILES
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import QueueFull, StoreError
from spoolrack_store.model.operations import (
    UNFINISHED,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Purge,
    Receive,
    ReleaseMessages,
    Request,
    Send,
    SendResults,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.schedule_requests import CreateSchedule, Fire
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP, CallersDriver, opened
from tests.support.dead_letter_rig import LEASE, Rig
from tests.support.engines import commit

LONE = QueueSettings(messages_per_file=1, visibility_timeout=LEASE)
QUEUES = {"q": LONE, "other": LONE, "limited": QueueSettings(messages_per_file=1, max_messages=50)}
MANY = 40
CALLERS = 8
MOST_COMMITS = 200


@pytest.fixture(autouse=True)
def a_small_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PORTION", 100)


@pytest.fixture
def rig() -> Rig:
    return Rig(QUEUES)


def _commits(rig: Rig, requests: Sequence[Request[Any]]) -> tuple[dict[Request[Any], Any], list[int]]:
    """Do all requests, as the committer does; return their outcomes, and the names that each commit
    has made for them."""
    found: dict[Request[Any], Any] = {}
    left, made = list(requests), list[int]()
    while left:
        for request, outcome in zip(left, commit(rig.engine, *left), strict=True):
            if outcome is not UNFINISHED:
                found[request] = outcome
        left = [request for request in left if request not in found]
        made.append(effort.FILES - rig.engine.moves.request_effort.left)
        assert len(made) < MOST_COMMITS
    return found, made


def _delayed(queue: str = "q", count: int = MANY) -> Send:
    delays = {at: Millis(at + 1) for at in range(count)}
    return Send(queue=queue, bodies=[b"%d" % at for at in range(count)], delays=delays)


def _bodies(count: int = MANY) -> list[bytes]:
    return [b"%d" % at for at in range(count)]


def test_sends_that_need_many_files_are_written_in_slices_and_a_small_one_at_once(rig: Rig) -> None:
    rig.clock.ticks = False
    large = [_delayed() for _ in range(CALLERS)]
    small = Send(queue="other", bodies=[b"small"])
    outcomes = commit(rig.engine, *large, small)
    assert isinstance(outcomes[-1], SendResults)
    assert outcomes[:-1] == [UNFINISHED] * CALLERS
    found, made = _commits(rig, large)
    assert max(made) <= MOST_FILES + 1
    assert all(isinstance(id, str) for stored in found.values() for id in stored.results)
    rig.settle()
    assert rig.engine.index.queue("q").counts[State.DELAYED] == CALLERS * MANY


def test_a_request_is_written_to_its_end_before_a_later_one_of_its_queue(rig: Rig) -> None:
    first, second = (Send(queue="q", bodies=_bodies(count)) for count in (2 * MANY, 1))
    assert commit(rig.engine, first) == [UNFINISHED]
    assert commit(rig.engine, first, second) == [UNFINISHED] * 2
    found, _ = _commits(rig, [first, second])
    ids = [*found[first].results, *found[second].results]
    assert ids == sorted(ids)
    rig.settle()
    assert rig.ids("q") == ids


def test_a_queue_counts_what_is_still_to_be_written(rig: Rig) -> None:
    first, second = (Send(queue="limited", bodies=_bodies()) for _ in range(2))
    found, _ = _commits(rig, [first, second])
    full = [isinstance(each, QueueFull) for each in found[second].results]
    assert full == [False] * 10 + [True] * 30
    rig = Rig(QUEUES)
    assert commit(rig.engine, first) == [UNFINISHED]
    assert rig.engine._sender.written("limited") == (MANY, sum(map(len, first.bodies)))


def test_the_rest_of_a_send_is_refused_once_its_queue_is_deleted(rig: Rig) -> None:
    send = Send(queue="q", bodies=_bodies())
    assert commit(rig.engine, send) == [UNFINISHED]
    rig.ask(DeleteQueue(name="q"))
    (outcome,) = commit(rig.engine, send)
    assert isinstance(outcome, StoreError)
    for _ in range(20):
        rig.ask()
    rig.ask(CreateQueue(name="q", settings=LONE))
    assert len(rig.send(b"new")) == 1
    assert rig.engine.index.queue("q").total == 1


@pytest.mark.parametrize(
    "with_",
    [{"groups": dict.fromkeys(range(MANY), "g")}, {"deduplication_ids": {0: "d", MANY - 1: "d"}}],
)
def test_groups_and_deduplication_ids_are_written_by_one_commit(
    rig: Rig, with_: dict[str, Any]
) -> None:
    (stored,) = commit(rig.engine, Send(queue="q", bodies=_bodies(), **with_))
    assert isinstance(stored, SendResults)
    assert len(set(stored.results)) == MANY - len(stored.duplicates)


def _leased(rig: Rig, queue: str = "q") -> list[str]:
    return [
        each.receipt or "" for each in messages_of(rig.ask(Receive(queue=queue, max_messages=MANY)))
    ]


def _filled(rig: Rig) -> list[list[str]]:
    for _ in range(CALLERS):
        rig.send(*_bodies())
    rig.send(b"other", queue="other")
    return [_leased(rig) for _ in range(CALLERS)]


@pytest.mark.parametrize(
    "request_of",
    [
        lambda receipts, queue: Delete(queue=queue, receipts=receipts),
        lambda receipts, queue: ReleaseMessages(queue=queue, receipts=receipts, delay=Millis(0)),
        lambda receipts, queue: ChangeVisibility(
            queue=queue, receipts=receipts, visibility_timeout=LEASE
        ),
    ],
)
def test_ends_of_many_leases_are_done_in_slices_and_the_end_of_one_at_once(
    rig: Rig, request_of: Any
) -> None:
    large = [request_of(receipts, "q") for receipts in _filled(rig)]
    small = request_of(_leased(rig, "other"), "other")
    behind = request_of([large[-1].receipts[0]], "q")
    outcomes = commit(rig.engine, *large, small, behind)
    assert outcomes[-2] is not UNFINISHED
    assert outcomes[-1] is UNFINISHED
    begun = [each for each in outcomes if each is not UNFINISHED]
    assert len(begun) == 1 + turns.PORTION // MANY
    left = [each for each, out in zip(large, outcomes, strict=False) if out is UNFINISHED]
    found, made = _commits(rig, [*left, behind])
    assert max(made) <= turns.PORTION
    assert not any(isinstance(each, StoreError) for results in found.values() for each in results[1:])


def test_receives_of_many_messages_are_done_in_slices_and_that_of_one_at_once(rig: Rig) -> None:
    for _ in range(CALLERS):
        rig.send(*_bodies())
    rig.send(b"other", queue="other")
    large = [Receive(queue="q", max_messages=MANY) for _ in range(CALLERS)]
    waits = Receive(queue="q", max_messages=MANY, wait=Millis(1_000))
    small = Receive(queue="other", max_messages=1)
    outcomes = commit(rig.engine, *large, waits, small)
    assert [each.body for each in messages_of(outcomes[-1])] == [b"other"]
    assert outcomes[-2] == []  # It is parked, and tried again.
    left = [each for each, outcome in zip(large, outcomes, strict=False) if outcome is UNFINISHED]
    assert len(left) == CALLERS - turns.PORTION // MANY
    found, made = _commits(rig, left)
    assert max(made) <= turns.PORTION
    assert {len(messages_of(each)) for each in found.values()} == {MANY}


def test_a_purge_goes_on_beside_large_requests(rig: Rig) -> None:
    rig.send(*_bodies(), queue="other")
    purge = Purge(queue="other")
    found, _ = _commits(rig, [*(_delayed() for _ in range(CALLERS)), purge])
    assert found[purge] == MANY
    assert list(found)[-1] is not purge


def test_all_callers_of_large_requests_are_answered(tmp_path: Path) -> None:
    with opened(tmp_path / "root", ManualClock()) as front:
        sends = [front.store.submit(_delayed()) for _ in range(CALLERS)]
        plain = [front.store.submit(Send(queue="q", bodies=[b"plain"])) for _ in range(CALLERS)]
        answers = [each.result(GIVE_UP) for each in [*sends, *plain]]
        assert all(isinstance(id, str) for stored in answers for id in stored.results)
        ids = [stored.results[0] for stored in answers]
        assert ids == sorted(ids)
        counts = front.store.queue("q").counts
        assert (counts.delayed_count, counts.ready_count) == (CALLERS * MANY, CALLERS)


def test_what_is_sent_during_a_commit_stands_behind_the_requests_that_it_has_not_begun(
    tmp_path: Path,
) -> None:
    driver = CallersDriver()
    with Store.open(tmp_path, driver=driver) as store:
        for queue in ("q", "a", "b"):
            store.submit(CreateQueue(name=queue, settings=LONE))
        driver.run()
        # The last one isn't begun by the commit that ends the others.
        large = [Send(queue=queue, bodies=_bodies(turns.PORTION)) for queue in ("q", "a", "b", "q")]
        answers = [store.submit(each) for each in large]
        cycle = driver.committer.cycle()
        work = next(cycle)
        assert work.barrier is not None
        work.barrier.sync()
        answers.append(store.submit(Send(queue="q", bodies=[b"later"])))
        assert next(cycle, None) is None
        driver.run()
        first, _, _, second, last = ([*answer.result(0).results] for answer in answers)
        assert [*first, *second, *last] == sorted([*first, *second, *last])


def _kinds(count: int) -> dict[str, list[Request[Any]]]:
    ticks = range(count)
    return {
        "queues": [CreateQueue(name=f"n{at}", settings=LONE) for at in ticks],
        "updates": [UpdateQueue(name=f"made{at}", changes={"max_messages": 7}) for at in ticks],
        "deletions": [DeleteQueue(name=f"made{at}") for at in ticks],
        "stages": [Stage(stage=f"s{at}", chunk_number=0, queue="q", bodies=[b"x"]) for at in ticks],
        "publications": [Publish(writer=f"w{at}", epoch=1, stages=[]) for at in ticks],
    }


@pytest.mark.parametrize("kind", _kinds(0))
def test_requests_of_every_kind_are_done_in_slices(rig: Rig, kind: str) -> None:
    """A commit's files are bounded by what each request writes, whether or not it names messages."""
    count = 400
    left = [CreateQueue(name=f"made{at}", settings=LONE) for at in range(count)]
    for requests in (left, _kinds(count)[kind]):
        answers, commits = 0, 0
        while requests:
            outcomes = commit(rig.engine, *requests)
            assert effort.FILES - rig.engine.moves.request_effort.left <= 2 * effort.FILES
            requests = [
                request
                for request, outcome in zip(requests, outcomes, strict=True)
                if outcome is UNFINISHED
            ]
            answers += sum(outcome is not UNFINISHED for outcome in outcomes)
            assert not any(isinstance(outcome, StoreError) for outcome in outcomes)
            commits += 1
            assert commits < MOST_COMMITS
        assert (answers, commits > 2) == (count, True)


def test_the_schedules_of_one_minute_are_sent_in_slices(rig: Rig) -> None:
    """Schedules that are due together, 6,400 say, kept the lock for 1.7 s."""
    made = [
        rig.ask(CreateSchedule(queue=queue, name=f"t{at}", cron="* * * * *", time_zone="UTC"))
        for queue in ("q", "other")
        for at in range(60)
    ]
    tick = rig.clock.wall() // 1_000 + 60
    fires: list[Request[Any]] = [
        Fire(queue=each.queue, name=each.name, token=each.schedule.token, tick=tick) for each in made
    ]
    answers: list[Any] = []
    most = 0
    while fires:
        outcomes = commit(rig.engine, *fires)
        most = max(most, sum(outcome is not UNFINISHED for outcome in outcomes))
        answers += [outcome for outcome in outcomes if outcome is not UNFINISHED]
        fires = [fire for fire, outcome in zip(fires, outcomes, strict=True) if outcome is UNFINISHED]
    assert answers == [True] * len(made)
    assert most <= turns.PORTION // turns.FILES_OF_OTHERS * 2

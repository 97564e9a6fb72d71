"""Work between requests costs by the number of objects that are due, and not by all that wait. Many
that are due at once are worked on in slices.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from spoolrack_store.engine import leaser, part
from spoolrack_store.engine.sender import MOST_FILES
from spoolrack_store.model.clock import DAY, HOUR, MINUTE, SECOND, Millis
from spoolrack_store.model.operations import Delete, Receive, Send
from spoolrack_store.model.schedule_requests import CreateSchedule
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.model.transitions import State

from tests.support.dead_letter_rig import Rig
from tests.support.steps import steps_of

FEW, MANY = 10, 100
SHARE = part.FILES // 2
MOST_COMMITS = 100


def _rest(rig: Rig) -> int:
    """Commit until no work waits; return how many commits that took."""
    for commits in range(MOST_COMMITS):
        if not rig.engine.next_work(rig.clock.monotonic())[0]:
            return commits
        rig.ask()
    raise AssertionError("the engine doesn't come to rest")


def _expiring(count: int) -> Rig:
    rig = Rig({f"q-{number}": QueueSettings(expires=Millis(HOUR)) for number in range(count)})
    rig.ask(tick=True)
    return rig


def _stages(count: int) -> Rig:
    rig = Rig({"q": QueueSettings()})
    for number in range(count):
        rig.ask(Stage(stage=f"s{number}", chunk=0, queue="q", bodies=[b"x"]))
    _rest(rig)
    return rig


def _epochs(count: int) -> Rig:
    rig = Rig({"q": QueueSettings()})
    for number in range(count):
        rig.ask(Stage(stage=f"s{number}", chunk=0, queue="q", bodies=[b"x"]))
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
    few, many = made(FEW), made(MANY)
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
    left = [count]
    while left[-1]:
        rig.ask()
        left.append(len(rig.engine.catalog.records))
        assert len(left) < MOST_COMMITS
    assert max(before - after for before, after in pairwise(left)) <= SHARE


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
    unread = [count]
    while unread[-1]:
        rig.ask()
        unread.append(len(rig.engine.index.unread_group_files))
        assert len(unread) < MOST_COMMITS
    assert max(before - after for before, after in pairwise(unread)) <= SHARE
    assert rig.engine.index.queue("q").total == 2 * count


def _orphans(count: int) -> tuple[Rig, int]:
    """Let a process die that has answered sends, and not published them."""
    rig = Rig({"q": QueueSettings(messages_per_file=1)})
    other = rig.join("p2")
    for left in range(count, 0, -MOST_FILES):
        work = other.engine.apply([Send(queue="q", bodies=[b"x"] * min(left, MOST_FILES))])
        assert work is not None
        assert work.commit is not None
        work.commit.sync()
    rig.living.discard("p2")
    rig.ask(tick=True)
    return rig, count


def _ready(rig: Rig) -> int:
    return rig.engine.index.queue("q").counts[State.READY]


def test_what_a_dead_process_has_sent_is_published_in_slices() -> None:
    rig, count = _orphans(2 * SHARE)
    found = [0]
    while rig.engine.sharing.orphans:
        rig.ask()
        found.append(_ready(rig))
        assert len(found) < MOST_COMMITS
    assert max(after - before for before, after in pairwise(found)) <= SHARE
    assert found[-1] == count
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


def test_the_keys_of_deleted_messages_cost_no_look_at_all_queues_for_each() -> None:
    def steps(count: int) -> int:
        queues = {f"q-{number}": QueueSettings() for number in range(count)}
        rig = Rig({"q": QueueSettings(messages_per_file=1), **queues})
        ids = {place: f"id{place}" for place in range(20)}
        rig.ask(Send(queue="q", bodies=[b"x"] * 20, deduplication_ids=ids))
        found = rig.ask(Receive(queue="q", max_messages=20))
        rig.ask(Delete(queue="q", receipts=[each for one in found for each in one.receipts]))
        return steps_of(rig.ask)

    assert steps(MANY) <= steps(FEW) + 10 * (MANY - FEW)

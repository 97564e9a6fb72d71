"""What is asked costs by its answer: not by the messages, queues, groups, sets and files that wait.

Costs are counted as lines of the store that run, or as calls, not as time.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import RLock
from typing import Any

import pytest
from spoolrack_store.committer import Committer
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.index import Index
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.message_ids import batch_of, first_id_of
from spoolrack_store.model.names import Name, Stem
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Message,
    MessageFilter,
    Purge,
    Receive,
    Send,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.reservation_requests import CommitReservations
from spoolrack_store.model.settings import QueueSettings, Record, encode
from spoolrack_store.model.transitions import State
from spoolrack_store.questions import Questions
from spoolrack_store.store_metrics import StoreMetrics
from spoolrack_store.thread_driver import ThreadDriver

from tests.support.dead_letter_rig import Rig
from tests.support.engine_rig import EngineRig
from tests.support.engines import applied, commit
from tests.support.root_rig import NOW, Bytes, Still, lay_out, opened, settle
from tests.support.set_rig import HOLD, SetRig
from tests.support.steps import slices_of, steps_of

BOUNDS = [Millis(15_000 << place) for place in range(5)]
FEW_SETS, MANY_SETS = 2, 200
STRICT = QueueSettings(group_order="strict", visibility_timeout=Millis(HOUR))
PER_FILE = 20
SLACK = 1.5
"""A search in sorted names takes a few steps more where there are more names."""


# Questions of dashboards and metrics.


def _steps_of_ages(messages: int) -> int:
    rig = Rig({"q": QueueSettings(messages_per_file=1)})
    rig.clock.ticks = False
    rig.send(*[b"x"] * messages)
    rig.after(20_000)
    views = rig.engine.views
    ages = views.ages("q", BOUNDS)
    assert ages is not None
    assert ages.counts == (0, messages, 0, 0, 0, 0)
    return steps_of(lambda: views.ages("q", BOUNDS))


def test_the_ages_of_a_queue_cost_the_same_however_many_messages_wait() -> None:
    assert _steps_of_ages(1_000) == _steps_of_ages(10)


def test_ages_are_told_to_an_eighth_of_a_second() -> None:
    rig = Rig({"q": QueueSettings(messages_per_file=1)})
    for _ in range(30):
        rig.send(b"x")
        rig.after(10_000)
    views, bounds = rig.engine.views, [Millis(100_000), Millis(200_000)]
    rig.after(128)
    ages = views.ages("q", bounds)
    assert ages is not None
    assert ages.counts == (9, 10, 11)
    rig.receive(most=11)
    ages = views.ages("q", bounds)
    assert ages is not None
    assert ages.counts == (9, 10, 0)


def _steps_of_looks(queues: int) -> int:
    names = {f"q-{number}": QueueSettings() for number in range(queues)}
    dying = QueueSettings(max_receives=1, dead_letter_queue="q-0")
    rig = Rig({**names, "dying": dying})
    engine = rig.engine

    def look() -> None:
        engine.catalog.has_writer("w")
        list(engine.catalog.sources["q-0"])
        engine.views.queues("", "", 3)

    return steps_of(look)


def test_what_is_asked_of_all_queues_costs_the_same_however_many_there_are() -> None:
    assert _steps_of_looks(200) == _steps_of_looks(20)


def test_the_deletion_of_a_queue_costs_the_same_however_many_others_there_are() -> None:
    def steps(queues: int) -> int:
        rig = Rig({f"q{number}": QueueSettings() for number in range(queues)})
        rig.ask()
        rig.ask(DeleteQueue(name="q7"))
        taken = steps_of(lambda: [rig.ask() for _ in range(6)])
        assert not any(each.name.startswith("q7.") for each in rig.disk.scan("config"))
        return taken

    assert steps(200) == steps(20)


def test_the_sources_of_a_dead_letter_queue_are_the_queues_that_name_it() -> None:
    rig = Rig()
    assert rig.engine.catalog.sources == {"dead": {"q": None, "other": None}}
    rig.ask(DeleteQueue(name="q"))
    rig.ask(UpdateQueue(name="third", changes={"max_receives": 1, "dead_letter_queue": "dead"}))
    rig.ask(UpdateQueue(name="other", changes={"max_receives": 0, "dead_letter_queue": ""}))
    assert rig.engine.catalog.sources == {"dead": {"third": None}}


def _steps_of_metrics(removed: int) -> int:
    """Return the cost of the root's metrics while so many files wait to be unlinked."""
    rig, lock = Rig({"q": QueueSettings(messages_per_file=1)}), RLock()
    committer = Committer(rig.engine, rig.clock, lock, ThreadDriver())
    questions = Questions(rig.engine, rig.disk, lock)
    metrics = StoreMetrics(rig.engine, rig.disk, questions, committer, "root", None)
    rig.send(*[b"x"] * removed)
    rig.ask(Purge(queue="q"))
    assert metrics.root().to_be_unlinked == removed
    return steps_of(metrics.root)


def test_metrics_cost_the_same_however_many_files_wait_to_be_unlinked() -> None:
    assert _steps_of_metrics(70) == _steps_of_metrics(7)


def _most_steps_at_once(messages: int, wanted: MessageFilter, skip: int) -> int:
    """Return the most that a page of a queue costs while commits wait."""
    rig, lock = Rig({"q": QueueSettings(messages_per_file=1)}), RLock()
    for _ in range(messages // 500):
        rig.send(*[b"x"] * 500)
    steps: list[int] = []

    class Counted(Questions):
        def _locate_some(self, *asked: Any) -> list[Any]:
            found: list[Any] = []
            steps.append(steps_of(lambda: found.extend(super(Counted, self)._locate_some(*asked))))
            return found

    page = Counted(rig.engine, rig.disk, lock).page("q", wanted, "", skip, 1, 0)
    assert (len(page.messages), page.last) == (0, "")
    return max(steps)


@pytest.mark.parametrize(
    ("wanted", "is_skipped"),
    [(MessageFilter(), True), (MessageFilter(group="g"), False)],
    ids=["skipped", "filtered"],
)
def test_a_page_keeps_commits_waiting_for_no_longer_the_more_messages_it_passes_over(
    wanted: MessageFilter, is_skipped: bool
) -> None:
    few, many = (
        _most_steps_at_once(messages, wanted, messages if is_skipped else 0)
        for messages in (1_000, 3_000)
    )
    assert many < 1.1 * few


# Sends and starts.


def _steps_of_sends(callers: int, delays: int) -> int:
    rig = Rig()
    rig.ask()
    sends = [
        Send(queue="third", bodies=[b"x"] * delays, delays={at: Millis(at + 1) for at in range(delays)})
        for _ in range(callers)
    ]
    return steps_of(lambda: rig.engine.apply(sends))


def test_sends_with_many_delays_cost_the_same_for_each_message() -> None:
    few = _steps_of_sends(2, 25) / (2 * 25)
    assert _steps_of_sends(8, 200) / (8 * 200) <= 1.2 * few


def test_a_full_queue_is_counted_once_a_commit() -> None:
    def steps(sends: int) -> int:
        rig = Rig({"q": QueueSettings(max_messages=10_000)})
        rig.ask()
        applied(
            rig.engine,
            *[Send(queue="q", bodies=[b"x"], delays={0: Millis(at + 1)}) for at in range(100)],
        )
        return steps_of(lambda: rig.engine.apply([Send(queue="q", bodies=[b"x"] * sends)]))

    assert steps(200) - steps(100) <= 100 * 60


def _calls(root: Path, queues: int) -> int:
    """Return how many functions the start of a root calls."""
    lay_out(root)
    record = encode(Record(settings=QueueSettings(), created_at=NOW, salt="salt"))
    for number in range(queues):
        (root / "config" / f"queue-{number:06d}.1.json").write_bytes(record)
        (root / "queues" / f"queue-{number:06d}").mkdir()
    engine = Engine(
        LocalDisk(root), Bytes(), clock=Still(), random=Random(7), owner="p1", is_living=lambda _: False
    )
    profile = cProfile.Profile()
    profile.enable()
    assert engine.open()
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_the_start_of_ten_times_as_many_queues_takes_ten_times_as_many_calls(tmp_path: Path) -> None:
    assert _calls(tmp_path / "many", 500) < 11 * _calls(tmp_path / "few", 50)


# Sets.


def steps_beside_sets(rig: SetRig) -> int:
    """Return the steps of a send, a receive, and of the question when there is work again."""

    def once() -> None:
        rig.ask(Send(queue="other", bodies=[b"x"]))
        assert len(rig.receive("other")) == 1
        # A receive that finds nothing asks whether a hold is over.
        assert rig.receive("other") == []
        assert not rig.engine.is_coming_back("other")
        rig.engine.next_work(rig.clock.monotonic())[1]

    once()
    return steps_of(once)


def hold(rig: SetRig, numbers: range) -> None:
    for number in numbers:
        rig.send(b"x")
        rig.reserve(stream=f"s{number}")
    rig.settle()


def test_a_message_costs_the_same_beside_few_and_many_held_sets() -> None:
    rig = SetRig()
    hold(rig, range(FEW_SETS))
    few = steps_beside_sets(rig)

    hold(rig, range(FEW_SETS, MANY_SETS))

    assert steps_beside_sets(rig) <= few * 1.2


def steps_of_the_sets(rig: SetRig) -> dict[str, int]:
    """Return the steps of what is asked of one set and of one stream."""
    reservations = rig.engine.reservations

    def commit() -> None:
        rig.send(b"x")
        rig.reserve(stream="mine")
        rig.ask(CommitReservations(stream="mine", last_sequence_number=0))

    def allowed(queue: str) -> bool:
        return True

    return {
        "count": steps_of(reservations.count),
        "held in": steps_of(lambda: reservations.held_in("other")),
        "listed": steps_of(lambda: reservations.shown("", "s1", ("", -1), 3)),
        "due of": steps_of(lambda: reservations.due_of("none")),
        "read": steps_of(lambda: reservations.begin_reading("s1", 0, 0, 0, allowed)),
        "commit": steps_of(commit),
        "rest": steps_of(lambda: rig.settle()),
    }


def test_what_is_asked_of_a_stream_costs_the_same_beside_few_and_many_sets() -> None:
    few, many = SetRig(), SetRig()
    hold(few, range(FEW_SETS))
    hold(many, range(MANY_SETS))
    cheap, dear = steps_of_the_sets(few), steps_of_the_sets(many)
    assert {what: steps for what, steps in dear.items() if steps > 1.2 * cheap[what] + 20} == {}


def test_holds_that_end_together_are_noted_in_slices() -> None:
    rig = SetRig()
    hold(rig, range(MANY_SETS))
    rig.engine.moves.effort.files = 20
    rig.clock.now += HOLD
    sets = rig.engine.reservations.sets
    lost = slices_of(lambda: sum(held.name.is_lost for held in sets.values()), rig.tick, MANY_SETS)
    assert max(lost) <= 10
    rig.settle()


# Groups.


def queue_of(root: Path) -> Engine:
    lay_out(root)
    engine = opened(root)
    commit(engine, CreateQueue(name="strict", settings=STRICT))
    return engine


def send_grouped(engine: Engine, groups: list[str], queue: str) -> None:
    """Send a message for each of `groups`, in files of the same size."""
    for start in range(0, len(groups), PER_FILE):
        names = groups[start : start + PER_FILE]
        sent = Send(queue=queue, bodies=[b"x" for _ in names], groups=dict(enumerate(names)))
        commit(engine, sent)
    settle(engine)


def receive_of(engine: Engine, queue: str, count: int = 1) -> list[Message]:
    (found,) = commit(engine, Receive(queue=queue, max_messages=count))
    assert isinstance(found, list), found
    return messages_of(found)


def steps_of_a_message(engine: Engine, queue: str) -> int:
    """Return what it costs to receive a message and to delete it."""

    def once() -> None:
        (message,) = receive_of(engine, queue)
        commit(engine, Delete(queue=queue, receipts=[message.receipt or ""]))
        settle(engine)

    once()  # Reads the line of its file, as far as it wasn't in memory.
    return steps_of(once)


def test_a_receive_costs_no_more_with_more_groups(tmp_path: Path) -> None:
    for queue in ("q", "strict"):
        costs = []
        for count in (20, 1_000):
            engine = queue_of(tmp_path / f"{queue}{count}")
            send_grouped(engine, [f"g{number}" for number in range(count)] * 2, queue)
            costs.append(steps_of_a_message(engine, queue))
        few, many = costs
        assert many < few * SLACK, (queue, costs)


def test_a_receive_costs_no_more_with_more_blocked_messages(tmp_path: Path) -> None:
    costs = []
    for count in (20, 1_000):
        engine = queue_of(tmp_path / f"{count}")
        blocked = [f"blocked{number % 10}" for number in range(count)]
        send_grouped(engine, blocked[:10], "strict")
        assert len(receive_of(engine, "strict", 10)) == 10
        send_grouped(engine, blocked, "strict")
        assert receive_of(engine, "strict") == []
        send_grouped(engine, ["free"] * 4, "strict")
        costs.append(steps_of_a_message(engine, "strict"))
    few, many = costs
    assert many < few * SLACK, costs


def test_an_empty_receive_costs_no_more_with_more_blocked_groups(tmp_path: Path) -> None:
    costs = []
    for count in (20, 1_000):
        engine = queue_of(tmp_path / f"{count}")
        groups = [f"g{number}" for number in range(count)]
        send_grouped(engine, groups, "strict")
        assert len(receive_of(engine, "strict", count)) == count
        send_grouped(engine, groups, "strict")
        costs.append(steps_of(lambda engine=engine: receive_of(engine, "strict")))
        assert receive_of(engine, "strict") == []
    few, many = costs
    assert many < few * SLACK, costs


def test_small_groups_wait_no_longer_beside_a_large_one(tmp_path: Path) -> None:
    """Within the first receives each of the small groups has its turn, however large the other is."""
    small = [f"small{number}" for number in range(100)]
    for size in (20, 4_000):
        engine = queue_of(tmp_path / f"{size}")
        send_grouped(engine, ["large"] * size, "q")
        send_grouped(engine, small, "q")
        turns = [each.group for _ in range(101) for each in receive_of(engine, "q")]
        assert sorted(turns) == sorted(["large", *small])


LEASED_FOR = Millis(60_000)


def _extended(receipts: list[str]) -> list[Any]:
    return [ChangeVisibility(queue="q", receipts=receipts, visibility_timeout=LEASED_FOR)]


def _extended_twice(receipts: list[str]) -> list[Any]:
    """The second finds names that no sync has made durable: each gets another name, by a link."""
    return _extended(receipts) * 2


def _released_one_by_one(receipts: list[str]) -> list[Any]:
    return [
        ChangeVisibility(queue="q", receipts=[each], visibility_timeout=Millis(0)) for each in receipts
    ]


def _deleted(receipts: list[str]) -> list[Any]:
    return [Delete(queue="q", receipts=receipts)]


@pytest.mark.parametrize("asked", [_extended, _extended_twice, _released_one_by_one, _deleted])
def test_a_message_costs_the_same_however_many_names_its_batch_has(
    asked: Callable[[list[str]], list[Any]],
) -> None:
    """A batch may have a name for each of 1,000 messages, and a request may be about all of them."""
    costs = []
    for count in (20, 400):
        rig = EngineRig({"q": QueueSettings()})
        rig.ask(Send(queue="q", bodies=[b"x"] * count))
        rig.settle()
        receipts = [rig.ask(Receive(queue="q", max_messages=1))[0].receipts[0] for _ in range(count)]
        rig.settle()
        requests = asked(receipts)
        costs.append(_steps_of_requests(rig, requests) / count)
    few, many = costs
    assert many < few * 1.1, costs


def _steps_of_requests(rig: EngineRig, requests: list[Any]) -> int:
    return steps_of(lambda: rig.engine.apply(requests))


def test_a_name_of_many_that_another_process_tells_of_is_found_by_its_messages() -> None:
    costs = []
    for count in (20, 400):
        index = Index()
        stem = Stem(id=batch_of(first_id_of(NOW)), count=count, size=count, crc=1, line=100)
        ready = Name(stem=stem, state=State.READY, queue="q", members=stem.full)
        index.appear(ready, 1)

        names = [replace(ready, version=at + 1, members=1 << at) for at in range(count)]
        costs.append(_steps_of_names(index, names) / count)
    few, many = costs
    assert many < few * 1.1, costs


def _steps_of_names(index: Index, names: list[Name]) -> int:
    return steps_of(lambda: [index.appear(each, 1) for each in names])

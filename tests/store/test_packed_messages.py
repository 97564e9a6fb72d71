"""A lone message that nothing has touched lately is kept as the path of its name, without objects,
whatever its state; nothing else about it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import RLock
from typing import Any

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import parse
from spoolrack_store.model.operations import (
    UNFINISHED,
    ChangeVisibility,
    Delete,
    MessageFilter,
    Purge,
    Receive,
    Send,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.questions import Questions

from tests.support.dead_letter_rig import LEASE, Rig
from tests.support.engine_story import StillClock
from tests.support.recount import drifts, paths_in
from tests.support.steps import steps_of

COUNT = 40
BODIES = [b"%d" % number for number in range(COUNT)]
LONE = {name: QueueSettings(messages_per_file=1) for name in ("q", "r")}


def _packed_ids(rig: Rig, place: str = "queues/q/") -> list[str]:
    return sorted(id for id, path in rig.engine.index._packed.items() if path.startswith(place))


def _rest(rig: Rig) -> None:
    for _ in range(5):
        rig.ask()
    assert drifts(rig.engine.index, rig.clock.monotonic()) == []


def _by_traffic() -> tuple[Rig, list[str]]:
    rig = Rig(LONE, cache_bytes=0)
    rig.engine.index.unpacked = 0
    ids = [id for body in BODIES for id in rig.send(body)]
    rig.send(b"later", queue="r")
    _rest(rig)
    return rig, ids


def _by_a_start() -> tuple[Rig, list[str]]:
    rig = Rig(LONE)
    ids = [id for body in BODIES for id in rig.send(body)]
    _rest(rig)
    assert _packed_ids(rig) == []
    rig = rig.restart()
    _rest(rig)
    return rig, ids


@pytest.fixture(params=[_by_traffic, _by_a_start])
def packed(request: pytest.FixtureRequest) -> tuple[Rig, list[str]]:
    make: Callable[[], tuple[Rig, list[str]]] = request.param
    rig, ids = make()
    rig.clock.ticks = False
    assert _packed_ids(rig) == ids
    return rig, ids


def test_packed_messages_are_received_in_order_and_deleted(packed: tuple[Rig, list[str]]) -> None:
    rig, ids = packed
    got = [each for _ in range(4) for each in messages_of(rig.receive(most=10))]
    assert [each.id for each in got] == ids
    assert [each.body for each in got] == BODIES
    rig.ask(Delete(queue="q", receipts=[each.receipt or "" for each in got]))
    _rest(rig)
    assert rig.engine.index.queue("q").total == 0


def test_a_message_that_comes_back_is_packed_with_its_receives(packed: tuple[Rig, list[str]]) -> None:
    rig, ids = packed
    rig.engine.index.unpacked = 0
    rig.engine.reader._cache_bytes = 0
    rig.receive(most=COUNT)
    rig.after(LEASE)
    _rest(rig)
    rig.send(b"later", queue="r")
    _rest(rig)
    assert _packed_ids(rig) == ids
    assert [each.receive_count for each in messages_of(rig.receive(most=COUNT))] == [2] * COUNT


def test_a_packed_message_is_found_by_its_id(packed: tuple[Rig, list[str]]) -> None:
    rig, ids = packed
    index = rig.engine.index
    found = index.holder(ids[7])
    assert found is not None
    assert found[0].first_id == ids[7]
    assert index.has_file_of(ids[8])
    rig.ask(Delete(queue="q", ids=[ids[9]]))
    _rest(rig)
    assert rig.ids("q") == ids[:9] + ids[10:]


def _pack_all(rig: Rig) -> None:
    """Commit until all that may be packed is, as if others had followed."""
    rig.engine.index.unpacked = 0
    rig.send(b"later", queue="r")
    _rest(rig)


def _begun_again(rig: Rig) -> Rig:
    return rig.restart("p10")


def _left_alone(rig: Rig) -> Rig:
    _pack_all(rig)
    return rig


@pytest.fixture(params=[_left_alone, _begun_again])
def rest(request: pytest.FixtureRequest) -> Callable[[Rig], Rig]:
    found: Callable[[Rig], Rig] = request.param
    return found


def test_packed_leases_end_by_their_receipts_or_by_time(
    packed: tuple[Rig, list[str]], rest: Callable[[Rig], Rig]
) -> None:
    rig, ids = packed
    got = messages_of(rig.receive(most=10))
    rig = rest(rig)
    assert _packed_ids(rig, "delay/q:") == ids[:10]
    rig.ask(Delete(queue="q", receipts=[each.receipt or "" for each in got[:5]]))
    rig.ask(
        ChangeVisibility(
            queue="q", receipts=[got[5].receipt or ""], visibility_timeout=Millis(LEASE + 100)
        )
    )
    _rest(rig)
    assert rig.engine.index.dues.next() == rig.clock.monotonic() + LEASE
    rig.after(LEASE)
    _rest(rig)
    assert rig.engine.index.queue("q").counts == {
        State.READY: COUNT - 6,
        State.LEASED: 1,
        State.DELAYED: 0,
    }
    rig.after(100)
    _rest(rig)
    assert [each.receive_count for each in messages_of(rig.receive(most=COUNT))] == [2] * 5 + [1] * 30


def test_a_packed_delay_ends_in_time(rest: Callable[[Rig], Rig]) -> None:
    rig = Rig(LONE, clock=StillClock())
    rig.ask(Send(queue="q", bodies=BODIES[:3], delays={0: Millis(10), 1: Millis(30), 2: Millis(20)}))
    _rest(rig)
    rig = rest(rig)
    assert len(_packed_ids(rig, "delay/q:")) == 3
    got = []
    for _ in range(3):
        rig.after(10)
        _rest(rig)
        got += [each.body for each in messages_of(rig.receive())]
    assert got == [b"0", b"2", b"1"]


def test_a_packed_lease_is_its_consumers() -> None:
    rig = Rig(LONE, clock=StillClock())
    rig.send(b"1")
    rig.ask(Receive(queue="q", max_messages=1, consumer="a worker: 7"))
    since = rig.clock.wall()
    _pack_all(rig)
    assert _packed_ids(rig, "delay/q:")
    described = rig.engine.views.described(rig.engine.catalog.records["q"], {}, is_disk_full=False)
    assert [(each.consumer, each.received_at) for each in described.oldest_leases] == [
        ("a worker: 7", since)
    ]


def test_packed_messages_of_groups_keep_their_order(rest: Callable[[Rig], Rig]) -> None:
    rig = Rig({name: replace(each, group_order="strict") for name, each in LONE.items()})
    rig.ask(Send(queue="q", bodies=BODIES[:5], groups=dict(enumerate(["a", "b", "a", "b"]))))
    _rest(rig)
    assert [each.body for each in messages_of(rig.receive(most=1))] == [b"0"]
    rig = rest(rig)
    _pack_all(rig)
    assert [len(_packed_ids(rig, place)) for place in ("queues/q/", "delay/q:")] == [4, 1]
    assert sorted(each.body for each in messages_of(rig.receive())) == [b"1", b"3", b"4"]
    _pack_all(rig)
    rig.after(LEASE)
    _rest(rig)
    assert sorted(each.body for each in messages_of(rig.receive())) == BODIES[:5]


def test_the_first_group_of_a_queue_unpacks_nothing(packed: tuple[Rig, list[str]]) -> None:
    rig, ids = packed
    rig.ask(Send(queue="q", bodies=[b"grouped"], groups={0: "g"}))
    assert _packed_ids(rig) == ids


def test_a_page_unpacks_nothing(packed: tuple[Rig, list[str]]) -> None:
    """One that filters looks at 10,000 messages, which the next commit packed again: for 131 ms."""
    rig, ids = packed
    for queue in ("q", "r"):
        rig.ask(Send(queue=queue, bodies=[b"in memory"]))
    questions = Questions(rig.engine, rig.disk, RLock())
    page = questions.page("q", MessageFilter(group="g"), "", 0, COUNT, None)
    assert (page.messages, page.last) == ([], "")
    page = questions.page("q", MessageFilter(), "", 0, COUNT, None)
    assert [(each.id, each.body, each.state) for each in page.messages] == [
        (id, body, State.READY) for id, body in zip(ids, BODIES, strict=True)
    ]
    assert _packed_ids(rig)[:COUNT] == ids
    _rest(rig)


def test_a_page_shows_packed_leases_and_delays(packed: tuple[Rig, list[str]]) -> None:
    rig, ids = packed
    rig.ask(Receive(queue="q", max_messages=2, visibility_timeout=LEASE, consumer="someone"))
    rig.ask(Send(queue="q", bodies=[b"late"], delays={0: 60_000}))
    questions = Questions(rig.engine, rig.disk, RLock())

    def shown() -> list[Any]:
        return questions.page("q", MessageFilter(), "", 0, 100, None).messages

    before = shown()
    _pack_all(rig)
    assert [each.id for each in before] == [*ids, before[-1].id]
    assert shown() == before


def test_a_packed_messages_deduplication_id_is_known(rest: Callable[[Rig], Rig]) -> None:
    rig = Rig(LONE)
    send = Send(queue="q", bodies=[b"1"], deduplication_ids={0: "once"})
    first = rig.ask(send)
    _rest(rig)
    rig = rest(rig)
    _pack_all(rig)
    assert _packed_ids(rig) == first.results
    assert rig.ask(send).results == first.results


def test_packed_messages_with_priorities_are_received_in_their_order(
    rest: Callable[[Rig], Rig],
) -> None:
    rig = Rig(LONE)
    rig.ask(Send(queue="q", bodies=BODIES[:4], priorities={1: 1, 2: 9, 3: 1}))
    _rest(rig)
    rig = rest(rig)
    _pack_all(rig)
    assert len(_packed_ids(rig)) == 4
    assert [each.body for each in messages_of(rig.receive())] == [b"2", b"1", b"3", b"0"]


def test_a_purge_deletes_packed_messages_while_others_are_unpacked(
    packed: tuple[Rig, list[str]],
) -> None:
    rig, ids = packed
    rig.engine.moves.effort.files = 8
    rig.engine.index.unpacked = 0
    assert len(rig.receive(most=4)) == 4
    assert rig.engine.index.holder(ids[20]) is not None  # It has objects as the purge begins.
    purge = Purge(queue="q", states=frozenset({State.READY}))
    while (outcome := rig.ask(purge)) is UNFINISHED:
        rig.ask()
    assert outcome == COUNT - 4
    rig.after(LEASE)
    _rest(rig)
    assert rig.ids("q") == ids[:4]


def test_a_listing_is_the_same_and_counts_without_unpacking(packed: tuple[Rig, list[str]]) -> None:
    rig, ids = packed
    queue = rig.engine.index.queue("q")
    sightings = list(queue.sightings(ids[10], [State.READY, State.LEASED]))
    assert [id for id, _ in sightings] == ids[10:]
    assert [entry for _, entry in sightings] == [None] * (COUNT - 10)
    assert rig.engine.views.metrics("q").ready == COUNT
    assert _packed_ids(rig) == ids


def test_a_priority_overtakes_packed_messages(packed: tuple[Rig, list[str]]) -> None:
    rig, ids = packed
    rig.ask(Send(queue="q", bodies=[b"urgent"], priorities={0: 5}))
    _rest(rig)
    assert _packed_ids(rig) == ids
    assert [each.body for each in messages_of(rig.receive(most=3))] == [b"urgent", b"0", b"1"]


@pytest.mark.parametrize("order", ["fair", "strict"])
def test_groups_and_packed_messages_share_a_queue(packed: tuple[Rig, list[str]], order: str) -> None:
    rig, ids = packed
    rig.set("q", QueueSettings(messages_per_file=1, group_order=order))
    rig.ask(Send(queue="q", bodies=[b"grouped", b"urgent"], groups={0: "g", 1: "g"}, priorities={1: 5}))
    _rest(rig)
    assert _packed_ids(rig) == ids
    got = [each.body for _ in range(50) for each in messages_of(rig.receive(most=1))]
    rest = [body for body in got if body in BODIES]
    assert rest == BODIES
    # Taking turns, the group has its first message among the first three.
    assert set(got[:3]) & {b"grouped", b"urgent"}
    assert sorted(got) == sorted(
        [*BODIES, b"grouped", b"urgent"] if order == "fair" else [*BODIES, b"grouped"]
    )


@pytest.mark.parametrize("others", [{"groups": {0: "g"}}, {"priorities": {0: 5}}])
def test_a_start_packs_messages_beside_those_with_a_group_or_a_priority(
    packed: tuple[Rig, list[str]], others: dict[str, Any]
) -> None:
    rig, ids = packed
    rig.ask(Send(queue="q", bodies=[b"other"], **others))
    _rest(rig)
    rig = rig.restart("p10")
    _rest(rig)
    assert _packed_ids(rig) == ids
    got = [each.body for _ in range(50) for each in messages_of(rig.receive(most=1))]
    assert [body for body in got if body != b"other"] == BODIES


@pytest.mark.parametrize("others", [{"groups": {0: "g"}}, {"priorities": {0: 5}}])
def test_both_files_of_a_copied_message_are_delivered_beside_a_group_or_a_priority(
    others: dict[str, Any],
) -> None:
    rig = Rig(LONE)
    rig.send(b"1")
    (ready,) = (each.name for each in rig.disk.scan("queues/q"))
    copy = ready.replace("c83dcefb7", "c1ad5be0d")  # The checksum of the other body.
    assert copy != ready
    rig.disk.create(f"queues/q/{copy}", [b"2"], sync=True)  # By hand.
    rig = rig.restart()
    rig.ask(Send(queue="q", bodies=[b"other"], **others))
    _rest(rig)
    got = [each.body for _ in range(4) for each in messages_of(rig.receive(most=1))]
    assert sorted(got) == [b"1", b"2", b"other"]
    _rest(rig)


@pytest.mark.parametrize("others", [{"groups": {0: "g"}}, {"priorities": {0: 5}}])
def test_the_first_message_with_a_group_or_a_priority_costs_the_same_whatever_waits(
    others: dict[str, Any],
) -> None:
    def steps(backlog: int) -> int:
        rig = Rig(LONE)
        rig.send(*[b"x"] * backlog)
        rig = rig.restart()
        _rest(rig)
        other = Send(queue="q", bodies=[b"other"], **others)
        return steps_of(lambda: [rig.ask(other), rig.ask(), rig.receive(most=1)])

    assert steps(800) <= steps(40) + 50


def test_a_process_that_lists_again_keeps_what_is_packed(packed: tuple[Rig, list[str]]) -> None:
    rig, ids = packed
    rig.disk.unlink(next(iter(rig.engine.index.packed_paths)))  # By hand.
    other = rig.join("p2")
    assert [each.id for each in messages_of(other.receive(most=3))] == ids[1:4]
    recovery.list_root(rig.engine.moves, lambda: None)
    there = {
        f"{folder}/{each.name}"
        for folder in ("queues/q", "queues/r", "delay")
        for each in rig.disk.scan(folder)
    }
    assert paths_in(rig.engine.index) == there
    assert drifts(rig.engine.index, rig.clock.monotonic()) == []
    assert len(_packed_ids(rig)) == COUNT - 4


def test_what_was_sent_before_the_longest_wait_is_packed_and_the_rest_is_not() -> None:
    rig = Rig(LONE, cache_bytes=0)
    rig.engine.index.unpacked = 10
    ids = [id for body in BODIES for id in rig.send(body)]
    rig.send(b"later", queue="r")
    _rest(rig)
    assert _packed_ids(rig) == ids[: COUNT - 9]


def test_a_packed_message_stays_in_the_body_cache() -> None:
    rig = Rig(LONE)
    rig.engine.index.unpacked = 10
    ids = [id for body in BODIES for id in rig.send(body)]
    _rest(rig)
    assert ids[0] in _packed_ids(rig)
    for each in rig.disk.scan("queues/q"):
        assert rig.disk.read(f"queues/q/{each.name}")
    rig.disk.read = None  # type: ignore[assignment,method-assign]  # Nothing is read from now on.
    assert [each.body for each in messages_of(rig.receive(most=COUNT))] == BODIES


def test_a_message_past_its_retention_is_deleted_though_it_is_packed() -> None:
    settings = QueueSettings(messages_per_file=1, retention=Millis(60_000))
    rig = Rig({"q": settings}, cache_bytes=0)
    rig.engine.index.unpacked = 0
    for body in BODIES:
        rig.send(body)
    _rest(rig)
    rig.after(60_001)
    for _ in range(5):
        rig.ask(tick=True)
    assert rig.ask(Receive(queue="q", max_messages=COUNT)) == []
    assert rig.engine.index.queue("q").total == 0


def test_what_is_sent_after_a_restart_stands_behind_packed_messages_though_the_clock_went_back() -> (
    None
):
    rig, ids = _by_a_start()
    rig.clock.now -= 3_600_000
    rig = rig.restart("p10")
    assert _packed_ids(rig) == ids
    assert rig.send(b"new")[0] > ids[-1]


def test_a_packed_message_that_another_process_links_is_one_message(
    packed: tuple[Rig, list[str]],
) -> None:
    rig, ids = packed
    other = rig.join("p2")
    assert _packed_ids(other) == ids
    name = other.engine.index.packed_paths
    linked = replace(parse(next(iter(name))), state=State.LEASED, version=2, receives=1)
    linked = replace(linked, first=Millis(1), due=Millis(rig.clock.now + 1_000), token="0" * 12)
    other.engine.index.appear(linked, other.engine.moves.commit, due=1_000)
    counts = other.engine.index.queue("q").counts
    assert (counts[State.READY], counts[State.LEASED]) == (COUNT - 1, 1)


def test_a_lease_ends_though_a_copy_of_its_file_was_deleted() -> None:
    rig = Rig(LONE)
    (id,) = rig.send(b"1")
    rig.receive()
    (leased,) = (each.name for each in rig.disk.scan("delay"))
    copy = leased.replace("c83dcefb7", "cffffffff")
    assert copy != leased
    rig.disk.create(f"delay/{copy}", [b"1"], sync=True)  # By hand.
    rig = rig.restart()
    index = rig.engine.index
    (other,) = (
        each
        for batch in index.batches.values()
        for each in batch.entries
        if each.name.path.endswith(copy)
    )
    rig.engine.moves.delete(other, 1)
    rig.after(LEASE)
    _rest(rig)
    assert rig.ids("q") == [id]

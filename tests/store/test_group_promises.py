"""Groups of messages take turns; in a strict queue a group is open up to what is leased or delayed.
In a group, and without one, the higher priority is first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.entries import Entry
from spoolrack_store.model.clock import HOUR, MINUTE, Millis
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    Message,
    Receive,
    ReleaseMessages,
    Send,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support.dead_letter_rig import QUEUES, Rig
from tests.support.engines import commit
from tests.support.root_rig import NOW, Still, lay_out, opened, settle

STRICT = QueueSettings(group_order="strict", visibility_timeout=Millis(HOUR))


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    lay_out(tmp_path / "root")
    engine = opened(tmp_path / "root")
    commit(engine, CreateQueue(name="strict", settings=STRICT))
    return engine


def send(engine: Engine, groups: Sequence[str], queue: str = "q", start: int = 0) -> None:
    """Send a message for each of `groups` in one request; its body is the group and its place."""
    numbered = list(enumerate(groups))
    bodies = [f"{group}{start + place}".encode() for place, group in numbered]
    commit(engine, Send(queue=queue, bodies=bodies, groups={p: g for p, g in numbered if g}))
    settle(engine)


def receive(engine: Engine, count: int = 1, queue: str = "q") -> list[Message]:
    (found,) = commit(engine, Receive(queue=queue, max_messages=count))
    assert isinstance(found, list), found
    return messages_of(found)


def bodies(messages: Sequence[Message]) -> list[str]:
    return [message.body.decode() for message in messages]


def test_a_receive_takes_from_all_groups_alike(engine: Engine) -> None:
    send(engine, "aaaabbbbcc")
    found = bodies(receive(engine, 6))
    assert sorted(found) == ["a0", "a1", "b4", "b5", "c8", "c9"]
    assert all(one < other for one, other in pairwise(found) if one[0] == other[0])


@pytest.mark.parametrize("queue", ["q", "strict"])
@pytest.mark.parametrize("seed", range(6))
def test_receives_get_all_that_is_asked_for_and_ready_in_groups_of_unequal_length(
    engine: Engine, seed: int, queue: str
) -> None:
    random = Random(seed)
    groups = [group for group in ["", *"abcde"] for _ in range(random.choice((0, 1, 2, 7, 20)))]
    random.shuffle(groups)
    middle = random.randint(0, len(groups))
    for part in filter(None, (groups[:middle], groups[middle:])):
        send(engine, part, queue)
    left = len(groups)
    while left:
        wanted = [random.randint(1, 9) for _ in range(1 if queue == "strict" else random.randint(1, 3))]
        answers = commit(engine, *(Receive(queue=queue, max_messages=most) for most in wanted))
        found = [messages_of(each) for each in answers]
        expected = min(sum(wanted), left)
        assert sum(map(len, found)) == expected
        assert all(len(each) <= most for each, most in zip(found, wanted, strict=True))
        receipts = [message.receipt or "" for each in found for message in each]
        commit(engine, Delete(queue=queue, receipts=receipts))
        left -= expected


def strict(engine: Engine, count: int = 1) -> list[Message]:
    return receive(engine, count, "strict")


def release(engine: Engine, *messages: Message) -> None:
    receipts = [message.receipt or "" for message in messages]
    commit(engine, ChangeVisibility(queue="strict", receipts=receipts, visibility_timeout=Millis(0)))


def test_a_receive_takes_what_it_can_of_a_strict_group_before_the_next(engine: Engine) -> None:
    send(engine, "abac", "strict")
    send(engine, "ab", "strict", start=4)
    assert bodies(strict(engine, 4)) == ["a0", "a2", "a4", "b1"]
    assert bodies(strict(engine, 4)) == ["c3"]


def test_a_message_comes_again_while_later_ones_of_its_strict_group_are_leased(engine: Engine) -> None:
    send(engine, "aaaaab", "strict")
    first, second, third, fourth = strict(engine, 4)
    release(engine, first, second, fourth)
    assert engine.ready("strict")
    assert bodies(strict(engine, 10)) == ["b5", "a0", "a1"]
    assert strict(engine, 10) == []
    assert engine.ready("strict") == 0
    commit(engine, Delete(queue="strict", receipts=[third.receipt or ""]))
    assert strict(engine, 10) == []


def test_a_receive_of_a_strict_group_ends_before_a_delayed_message(engine: Engine) -> None:
    send(engine, "aa", "strict")
    late = {0: Millis(HOUR)}
    commit(engine, Send(queue="strict", bodies=[b"late"], groups={0: "a"}, delays=late))
    settle(engine)
    send(engine, "ab", "strict", start=3)
    assert sorted(bodies(strict(engine, 10))) == ["a0", "a1", "b4"]


def test_a_receive_of_a_strict_group_ends_before_what_its_own_batch_has_delayed(engine: Engine) -> None:
    send(engine, "aaa", "strict")
    first, second, third = strict(engine, 3)
    for message, delay in ((second, Millis(HOUR)), (first, Millis(0)), (third, Millis(0))):
        receipts = [message.receipt or ""]
        commit(engine, ReleaseMessages(queue="strict", receipts=receipts, delay=delay))
        settle(engine)
    assert bodies(strict(engine, 10)) == ["a0"]


def test_a_group_has_had_its_turn_before_dead_letters_change_the_index(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = QueueSettings(max_receives=1, dead_letter_queue="dead", dead_letter_at="receive")
    rig = Rig(QUEUES | {"q": settings})
    rig.ask(Send(queue="q", bodies=[b"dies"], groups={0: "first"}))
    rig.settle()
    rig.fail_all()
    rig.ask(Send(queue="q", bodies=[b"large1", b"large2"], groups={0: "large", 1: "large"}))
    rig.ask(Send(queue="q", bodies=[b"small"], groups={0: "small"}))
    rig.settle()
    queue, turns = rig.engine.index.queue("q"), []

    def bury(wanted: Sequence[tuple[Entry, int]]) -> list[None]:
        following = queue.runs(1, {}, settings, None, rig.engine.moves.commit)
        turns.append(next(following)[0].batch.groups.of(0))  # type: ignore[union-attr]
        following.close()
        return [None] * len(wanted)

    monkeypatch.setattr(rig.engine._dead_letters, "bury", bury)
    (delivery,) = rig.ask(Receive(queue="q", max_messages=9, max_bytes=8))
    assert [bytes(body) for body in delivery.bodies] == [b"large1"]
    assert turns == ["small"]


# Priorities.


def rank(engine: Engine, priorities: Sequence[int], queue: str = "q", **more: Any) -> None:
    """Send a message for each priority in one request; its body is the priority and its place."""
    bodies = [f"{priority}-{place}".encode() for place, priority in enumerate(priorities)]
    commit(engine, Send(queue=queue, bodies=bodies, priorities=dict(enumerate(priorities)), **more))
    settle(engine)


def test_an_aging_that_is_changed_counts_for_what_is_there(tmp_path: Path) -> None:
    lay_out(tmp_path / "root")
    clock = Still(NOW)
    engine = opened(tmp_path / "root", clock)
    rank(engine, [0])
    clock.now = Millis(clock.now + 3 * MINUTE)
    rank(engine, [2, 2])
    assert bodies(receive(engine)) == ["2-0"]
    commit(engine, UpdateQueue(name="q", changes={"priority_aging": Millis(MINUTE)}))
    assert bodies(receive(engine, 2)) == ["0-0", "2-1"]


def test_groups_take_turns_and_priorities_order_each(engine: Engine) -> None:
    rank(engine, [0, 9, 0, 9], groups={0: "a", 1: "a", 2: "b", 3: "b"})
    assert bodies(receive(engine, 2)) == ["9-1", "9-3"]

"""The cost of a receive depends neither on the number of groups nor on that of blocked messages.

Costs are counted as lines of the store that run, not as time.
"""

from __future__ import annotations

from pathlib import Path

from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.operations import CreateQueue, Delete, Message, Receive, Send, messages_of
from spoolrack_store.model.settings import QueueSettings

from tests.support.engines import commit
from tests.support.root_rig import lay_out, opened, settle
from tests.support.steps import steps_of

STRICT = QueueSettings(group_order="strict", visibility_timeout=Millis(HOUR))
PER_FILE = 20
SLACK = 1.5
"""A search in sorted names takes a few steps more where there are more names."""


def queue_of(root: Path) -> Engine:
    lay_out(root)
    engine = opened(root)
    commit(engine, CreateQueue(name="strict", settings=STRICT))
    return engine


def send(engine: Engine, groups: list[str], queue: str) -> None:
    """Send a message for each of `groups`, in files of the same size."""
    for start in range(0, len(groups), PER_FILE):
        names = groups[start : start + PER_FILE]
        sent = Send(queue=queue, bodies=[b"x" for _ in names], groups=dict(enumerate(names)))
        commit(engine, sent)
    settle(engine)


def receive(engine: Engine, queue: str, count: int = 1) -> list[Message]:
    (found,) = commit(engine, Receive(queue=queue, max_messages=count))
    assert isinstance(found, list), found
    return messages_of(found)


def steps_of_a_message(engine: Engine, queue: str) -> int:
    """Return what it costs to receive a message and to delete it."""

    def once() -> None:
        (message,) = receive(engine, queue)
        commit(engine, Delete(queue=queue, receipts=[message.receipt or ""]))
        settle(engine)

    once()  # Reads the line of its file, as far as it wasn't in memory.
    return steps_of(once)


def test_a_receive_costs_no_more_with_more_groups(tmp_path: Path) -> None:
    for queue in ("q", "strict"):
        costs = []
        for count in (20, 1_000):
            engine = queue_of(tmp_path / f"{queue}{count}")
            send(engine, [f"g{number}" for number in range(count)] * 2, queue)
            costs.append(steps_of_a_message(engine, queue))
        few, many = costs
        assert many < few * SLACK, (queue, costs)


def test_a_receive_costs_no_more_with_more_blocked_messages(tmp_path: Path) -> None:
    costs = []
    for count in (20, 1_000):
        engine = queue_of(tmp_path / f"{count}")
        blocked = [f"blocked{number % 10}" for number in range(count)]
        send(engine, blocked[:10], "strict")
        assert len(receive(engine, "strict", 10)) == 10
        send(engine, blocked, "strict")
        assert receive(engine, "strict") == []
        send(engine, ["free"] * 4, "strict")
        costs.append(steps_of_a_message(engine, "strict"))
    few, many = costs
    assert many < few * SLACK, costs


def test_an_empty_receive_costs_no_more_with_more_blocked_groups(tmp_path: Path) -> None:
    costs = []
    for count in (20, 1_000):
        engine = queue_of(tmp_path / f"{count}")
        groups = [f"g{number}" for number in range(count)]
        send(engine, groups, "strict")
        assert len(receive(engine, "strict", count)) == count
        send(engine, groups, "strict")
        costs.append(steps_of(lambda engine=engine: receive(engine, "strict")))
        assert receive(engine, "strict") == []
    few, many = costs
    assert many < few * SLACK, costs


def test_small_groups_wait_no_longer_beside_a_large_one(tmp_path: Path) -> None:
    """Within the first receives each of the small groups has its turn, however large the other is."""
    small = [f"small{number}" for number in range(100)]
    for size in (20, 4_000):
        engine = queue_of(tmp_path / f"{size}")
        send(engine, ["large"] * size, "q")
        send(engine, small, "q")
        turns = [each.group for _ in range(101) for each in receive(engine, "q")]
        assert sorted(turns) == sorted(["large", *small])

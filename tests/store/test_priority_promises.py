"""Ready messages of a higher priority are received first; an aging bounds how long others wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import MINUTE, Millis
from spoolrack_store.model.errors import InvalidMessage
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Message,
    Receive,
    Request,
    Send,
    SendResults,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support.engines import commit
from tests.support.root_rig import NOW, Still, lay_out, opened, settle


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    lay_out(tmp_path / "root")
    return opened(tmp_path / "root")


def send(engine: Engine, priorities: Sequence[int], queue: str = "q", **more: object) -> None:
    """Send a message for each priority in one request; its body is the priority and its place."""
    bodies = [f"{priority}-{place}".encode() for place, priority in enumerate(priorities)]
    request = Send(queue=queue, bodies=bodies, priorities=dict(enumerate(priorities)), **more)  # type: ignore[arg-type]
    commit(engine, request)
    settle(engine)


def receive(engine: Engine, count: int = 1, queue: str = "q") -> list[Message]:
    (found,) = commit(engine, Receive(queue=queue, max_messages=count))
    assert isinstance(found, list), found
    return messages_of(found)


def bodies(messages: Sequence[Message]) -> list[str]:
    return [message.body.decode() for message in messages]


def test_a_higher_priority_is_received_first_and_the_oldest_of_one(engine: Engine) -> None:
    send(engine, [0, 5, 9, 5])
    send(engine, [5, 0, 9])
    assert bodies(receive(engine, 10)) == ["9-2", "9-2", "5-1", "5-3", "5-0", "0-0", "0-1"]


def test_messages_sent_before_the_first_priority_keep_their_order_behind_it(engine: Engine) -> None:
    send(engine, [0, 0, 0])
    send(engine, [1])
    assert bodies(receive(engine, 4)) == ["1-0", "0-0", "0-1", "0-2"]


def test_priorities_are_kept_over_a_restart(engine: Engine, tmp_path: Path) -> None:
    send(engine, [0, 3, 9])
    assert bodies(receive(opened(tmp_path / "root"), 3)) == ["9-2", "3-1", "0-0"]


def test_a_released_message_takes_the_place_of_its_priority(engine: Engine) -> None:
    send(engine, [4, 4, 8])
    first = receive(engine, 2)
    receipts = [message.receipt or "" for message in first]
    commit(engine, ChangeVisibility(queue="q", receipts=receipts, visibility=Millis(0)))
    assert bodies(receive(engine, 3)) == ["8-2", "4-0", "4-1"]


def test_an_aging_lets_older_messages_come_before_higher_priorities(tmp_path: Path) -> None:
    lay_out(tmp_path / "root")
    clock = Still(NOW)
    engine = opened(tmp_path / "root", clock)
    settings = QueueSettings(priority_aging=Millis(MINUTE))
    commit(engine, CreateQueue(name="aged", settings=settings))
    send(engine, [0], "aged")
    clock.now = Millis(clock.now + 3 * MINUTE)
    send(engine, [2, 4], "aged")
    assert bodies(receive(engine, 3, "aged")) == ["4-1", "0-0", "2-0"]


def test_an_aging_that_is_changed_counts_for_what_is_there(tmp_path: Path) -> None:
    lay_out(tmp_path / "root")
    clock = Still(NOW)
    engine = opened(tmp_path / "root", clock)
    send(engine, [0])
    clock.now = Millis(clock.now + 3 * MINUTE)
    send(engine, [2, 2])
    assert bodies(receive(engine)) == ["2-0"]
    commit(engine, UpdateQueue(name="q", changes={"priority_aging": Millis(MINUTE)}))
    assert bodies(receive(engine, 2)) == ["0-0", "2-1"]


def test_groups_take_turns_and_priorities_order_each(engine: Engine) -> None:
    send(engine, [0, 9, 0, 9], groups={0: "a", 1: "a", 2: "b", 3: "b"})
    assert bodies(receive(engine, 2)) == ["9-1", "9-3"]


def test_a_strict_group_has_the_order_of_its_sends_whatever_the_priorities(engine: Engine) -> None:
    commit(engine, CreateQueue(name="strict", settings=QueueSettings(group_order="strict")))
    send(engine, [0, 9], "strict", groups={0: "a", 1: "a"})
    assert bodies(receive(engine, 2, "strict")) == ["0-0", "9-1"]


@pytest.mark.parametrize("priority", [-1, 10])
def test_an_impossible_priority_refuses_its_message_alone(engine: Engine, priority: int) -> None:
    priorities: Mapping[int, int] = {0: priority, 1: 1}
    request: Request[SendResults] = Send(queue="q", bodies=[b"bad", b"good"], priorities=priorities)
    (stored,) = commit(engine, request)
    assert isinstance(stored, SendResults)
    assert isinstance(stored.results[0], InvalidMessage)
    settle(engine)
    assert bodies(receive(engine, 2)) == ["good"]

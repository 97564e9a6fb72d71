"""A wall clock that jumps by an hour under a whole server: nothing ends early, late or out of order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import spoolrack
from spoolrack.errors import StaleReceipt
from spoolrack.testing import RunningServer, manual_clock, running_server
from spoolrack_store.manual_clock import ManualClock

HOUR = 3_600_000
JUMPS = [HOUR, -HOUR]


@pytest.fixture
def clock() -> ManualClock:
    return manual_clock()


@pytest.fixture
def server(tmp_path: Path, clock: ManualClock) -> Iterator[RunningServer]:
    with running_server(tmp_path / "root", clock=clock) as server:
        yield server


@pytest.fixture
def queue(server: RunningServer) -> Iterator[spoolrack.Queue]:
    with server.client() as client:
        client.create_queue("q", visibility_timeout=30)
        yield client.queue("q")


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("messages", [1, 3])
def test_a_lease_lasts_as_long_as_it_was_told(
    jump: int, messages: int, clock: ManualClock, queue: spoolrack.Queue
) -> None:
    ids = [result.id for result in queue.send_many(["x"] * messages)]
    held = queue.receive(10)
    clock.advance(10_000)
    clock.step_wall(jump)
    assert queue.receive(10) == []
    clock.advance(19_999)
    assert queue.receive(10) == []
    held[0].extend(30)
    clock.advance(1)
    assert [message.id for message in queue.receive(10)] == ids[1:]
    clock.step_wall(-jump)
    clock.advance(29_998)
    assert queue.receive(10) == []
    clock.advance(1)
    assert [message.id for message in queue.receive(10)] == ids[:1]
    with pytest.raises(StaleReceipt):
        held[0].delete()


@pytest.mark.parametrize("jump", JUMPS)
def test_a_delay_lasts_as_long_as_it_was_asked_for(
    jump: int, clock: ManualClock, queue: spoolrack.Queue
) -> None:
    id = queue.send("x", delay=60)
    clock.advance(1_000)
    clock.step_wall(jump)
    assert queue.receive(1) == []
    clock.advance(58_999)
    assert queue.receive(1) == []
    clock.advance(1)
    assert [message.id for message in queue.receive(1)] == [id]


def test_messages_stay_in_the_order_of_their_sends(
    server: RunningServer, clock: ManualClock, queue: spoolrack.Queue
) -> None:
    sent: list[str] = []
    for jump in (0, HOUR, -HOUR, -HOUR, 2 * HOUR, -HOUR):
        clock.step_wall(jump)
        sent.append(queue.send("alone"))
        sent += [result.id or "" for result in queue.send_many(["in", "a", "batch"])]
        server.restart()
    assert sent == sorted(sent)
    assert [message.id for message in queue.receive(100)] == sent


@pytest.mark.parametrize("jump", JUMPS)
def test_a_restart_after_a_jump_loses_no_message_and_no_lease_stays_for_ever(
    jump: int, server: RunningServer, clock: ManualClock, queue: spoolrack.Queue
) -> None:
    leased = queue.send("leased")
    queue.receive(1)
    delayed = queue.send("delayed", delay=60)
    ready = queue.send("ready")
    clock.step_wall(jump)
    server.restart()
    # After a restart only the wall clock is left to go by: it is late by what it jumped, and no more.
    clock.advance(HOUR + 60_000)
    assert {message.id for message in queue.receive(10)} == {leased, delayed, ready}


@pytest.mark.parametrize("jump", JUMPS)
def test_a_waiting_receive_is_served_at_once_at_any_wall_time(
    jump: int, clock: ManualClock, queue: spoolrack.Queue
) -> None:
    with queue.messages(max_in_flight=1) as stream:
        first = queue.send("first")
        assert next(stream).id == first
        clock.step_wall(jump)
        clock.advance(30_000)
        again = next(stream)
        assert (again.id, again.receive_count) == (first, 2)

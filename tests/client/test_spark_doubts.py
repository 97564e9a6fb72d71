"""Calls in doubt, on Spark's side: other rows under a known number, and what no task has read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from spoolrack.spark._light_client import LightClient
from spoolrack.spark._options import QueueAddress, ReadOptions
from spoolrack.spark._queue_reader import BatchUnread
from spoolrack.spark._row_sender import stage, together
from spoolrack.spark._rows import chunks, message_of

from tests.support.relayed_server import RelayedServer, relayed_server
from tests.support.spark_reading import JobsReading, initial


@pytest.fixture
def server() -> Iterator[RelayedServer]:
    with relayed_server("jobs") as server:
        yield server


@pytest.fixture
def place(server: RelayedServer) -> QueueAddress:
    return QueueAddress(address=server.endpoint, queue="jobs", retry_seconds=30.0)


@pytest.fixture
def caller(place: QueueAddress) -> LightClient:
    return place.caller


def test_a_batch_that_no_task_has_read_is_not_deleted(
    server: RelayedServer, caller: LightClient, place: QueueAddress
) -> None:
    server.put("jobs", [b"1", b"2"])
    one = JobsReading(ReadOptions(place=place), caller)
    end = one.latest(initial(), max_messages=4, max_bytes=1 << 26)

    with pytest.raises(BatchUnread, match=f"reservations release {end.gen} {end.sequence_number}'"):
        one.commit(end)
    one.stop()

    assert server.left("jobs") == 2


def test_staged_rows_have_one_digest_in_any_order_and_division(caller: LightClient) -> None:
    rows = [
        (b"1", {"a": "x", "b": "y"}, None, None),
        (b"1", {"a": "x", "b": b"y"}, None, None),
        (b"1", {}, None, 1.0),
        (b"1", {}, None, None),
        (b"1", {}, None, None),
        (b"", {"1": ""}, None, None),
    ]

    def digest(*parts: list[Any]) -> str:
        staged = []
        for part in parts:
            messages = (message_of(*row) for row in part)
            staged.append(stage(caller, "jobs", chunks(messages, is_staged=True)))
        return together(staged).digest

    whole = digest(rows)
    turned = [(body, dict(reversed(named.items())), key, delay) for body, named, key, delay in rows]
    assert digest(turned[3:], turned[:1], turned[1:3]) == whole
    others = [digest(rows[:at] + rows[at + 1 :]) for at in range(len(rows))]
    assert len({whole, *others}) == len(rows)  # two rows are the same

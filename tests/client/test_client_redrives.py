"""A redrive is begun once, though the connection breaks while it is begun."""

from __future__ import annotations

from dataclasses import asdict, fields

import pytest
from spoolrack import Client, Redrive, RedriveState, RetryPolicy
from spoolrack.errors import RedriveRunning, Unreachable

from tests.client.lossy_root import LossyRoot
from tests.support.waiting import until


def dying(root: LossyRoot, client: Client, messages: int) -> None:
    """Put dead letters into "dead"."""
    client.create_queue("dead")
    client.create_queue("jobs", max_receives=1, dead_letter_queue="dead", visibility_timeout=1)
    client.queue("jobs").send_many(map(str, range(messages)))
    client.queue("jobs").receive(messages)
    root.advance(1_000)
    until(lambda: client.queue("dead").info().counts.ready_count == messages)


def test_a_lost_answer_is_found_again(root: LossyRoot) -> None:
    with root.client() as client:
        dying(root, client, 5)
        root.lose("start_redrive", Unreachable())
        redrive = client.queue("dead").redrive(max_messages_per_second=1)
        assert redrive.state is RedriveState.RUNNING
        assert set(asdict(redrive)) == {each.name for each in fields(Redrive)}, "without the client"
        assert [found.id for found in client.redrives.list()] == [redrive.id]
        assert [name for name, _ in root.calls if "redrive" in name][:3] == [
            "start_redrive",
            "start_redrive",
            "get_redrive",
        ]


def test_another_caller_s_redrive_is_not_taken_for_the_lost_one(root: LossyRoot) -> None:
    with root.client() as client:
        dying(root, client, 5)
        client.queue("dead").redrive(max_messages_per_second=1)
        root.fail("start_redrive", Unreachable())
        with pytest.raises(RedriveRunning):
            client.queue("dead").redrive(max_messages_per_second=2)


def test_without_a_broken_connection_a_running_redrive_is_another_one(root: LossyRoot) -> None:
    with root.client() as client:
        dying(root, client, 5)
        client.queue("dead").redrive(max_messages_per_second=1)
        with pytest.raises(RedriveRunning):
            client.queue("dead").redrive(max_messages_per_second=1)


def test_an_unknown_outcome_is_raised_where_retries_are_off(root: LossyRoot) -> None:
    with root.client(retry=RetryPolicy(attempts=1)) as client:
        dying(root, client, 2)
        root.lose("start_redrive", Unreachable())
        with pytest.raises(Unreachable):
            client.queue("dead").redrive()
        assert len(list(client.redrives.list())) == 1


def test_ids_are_a_list_and_one_id_is_one(root: LossyRoot) -> None:
    with root.client() as client:
        dying(root, client, 3)
        one, *_ = client.queue("dead").peek()
        first = client.queue("dead").redrive(message_ids=one.id)
        until(lambda: client.redrives.get(first.id).state is RedriveState.DONE)
        rest = (message.id for message in client.queue("dead").peek())
        second = client.queue("dead").redrive(message_ids=rest)
        until(lambda: client.redrives.get(second.id).state is RedriveState.DONE)
        assert [client.redrives.get(each.id).moved_count for each in (first, second)] == [1, 2]

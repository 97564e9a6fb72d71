"""Redrives with no server: the processes that have the root open drive them, and each message moves
once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import spoolrack
from spoolrack import Client, RedriveState
from spoolrack.testing import running_server

from tests.brokerless.actor import Actor
from tests.support.waiting import until


def die(client: Client, count: int) -> list[str]:
    """Put so many messages of jobs into "dead"."""
    client.create_queue("dead")
    client.create_queue("jobs", max_receives=1, dead_letter_queue="dead")
    jobs = client.queue("jobs")
    ids = [result.id or "" for result in jobs.send_many(map(str, range(count)))]
    jobs.release_many(jobs.receive(count))
    assert jobs.receive() == []
    until(lambda: client.queue("dead").info().counts.ready_count == count)
    return ids


def ended(client: Client, id: str) -> spoolrack.Redrive:
    until(lambda: client.redrives.get(id).state is not RedriveState.RUNNING)
    return client.redrives.get(id)


def ids_in(client: Client, queue: str) -> list[str]:
    return [message.id for message in client.queue(queue).peek()]


def test_work_of_a_killed_process_is_finished_by_another(
    client: Client, actor: Callable[[], Actor]
) -> None:
    ids = die(client, 60)
    other = actor()
    id = eval(other.does("client.queue('dead').redrive(max_messages_per_second=30).id"))
    other.kill()
    assert ended(client, id).state is RedriveState.DONE
    assert ids_in(client, "jobs") == ids
    assert ids_in(client, "dead") == []


def test_a_server_finishes_what_was_begun_without_it(root: Path, url: str) -> None:
    with spoolrack.connect(url) as here:
        ids = die(here, 30)
        redrive = here.queue("dead").redrive(max_messages_per_second=30)
    with running_server(root) as server, server.client() as there:
        assert ended(there, redrive.id).moved_count == 30
        assert ids_in(there, "jobs") == ids

"""A consumer that freezes or dies is counted for the messages that it had begun, and for no others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest
import spoolrack

from tests.proof.e2e.handler import IN_FLIGHT, POISONED
from tests.support import STUCK
from tests.support.run_processes import Crew, Member, Served

VISIBILITY: Final = 5.0
"""Seconds: a consumer on a loaded machine extends its leases in time, too."""
WHILE_FROZEN: Final = 2.0
"""The visibility timeout of leases that begin while a consumer is frozen, if there were any."""
MAX_RECEIVES: Final = 3
MANNERS: Final = ("worker", "messages", "acks", "aio")


@pytest.fixture
def client(served: Served) -> Iterator[spoolrack.Client]:
    with spoolrack.connect(served.address, timeout=120) as client:
        client.create_queue("dead")
        client.create_queue(
            "jobs", visibility_timeout=VISIBILITY, max_receives=MAX_RECEIVES, dead_letter_queue="dead"
        )
        yield client


def start(crew: Crew, served: Served, manner: str) -> Member:
    return crew.start(f"handler by {manner}", "tests.proof.e2e.handler", served.address, "jobs", manner)


def wait_for_counts(client: spoolrack.Client, *, leased: int) -> None:
    while client.queue("jobs").info().counts.leased_count != leased:
        pass


@pytest.mark.parametrize("manner", MANNERS)
def test_a_frozen_consumer_is_counted_for_what_it_has_begun_and_goes_on_once_it_thaws(
    crew: Crew, served: Served, client: spoolrack.Client, manner: str
) -> None:
    jobs = client.queue("jobs")
    jobs.send_many(["patient", *["neighbour"] * (IN_FLIGHT - 1)])
    member = start(crew, served, manner)
    crew.hear(member, "begun patient 1")
    wait_for_counts(client, leased=IN_FLIGHT)
    crew.freeze(member)
    jobs.update(visibility_timeout=WHILE_FROZEN)
    for _ in crew.told(time.monotonic() + VISIBILITY + MAX_RECEIVES * WHILE_FROZEN):
        pass
    # It has let go of all, got nothing new, and one receive was counted.
    wait_for_counts(client, leased=0)
    assert client.queue("dead").info().counts.ready_count == 0
    assert sorted(message.receive_count for message in jobs.peek()) == [0] * (IN_FLIGHT - 1) + [1]
    jobs.update(visibility_timeout=VISIBILITY)
    crew.thaw(member)
    crew.say(member, "go on")
    # All come to it again, for the first time but for one.
    again = sorted(crew.hear(member, "begun") for _ in range(IN_FLIGHT))
    assert again == ["begun neighbour 1"] * (IN_FLIGHT - 1) + ["begun patient 2"]
    wait_for_counts(client, leased=0)
    crew.kill(member)


@pytest.mark.parametrize("manner", ["worker", "messages", "aio"])
def test_a_message_that_kills_its_consumers_takes_no_neighbour_along(
    crew: Crew, served: Served, client: spoolrack.Client, manner: str
) -> None:
    sent = client.queue("jobs").send_many(["fine", "fine", "poison", *["neighbour"] * (IN_FLIGHT - 1)])
    for _ in range(MAX_RECEIVES):
        member = start(crew, served, manner)
        crew.hear(member, "begun poison")
        member.wanted_dead = True
        assert member.process.wait(STUCK) == POISONED
        wait_for_counts(client, leased=0)
    while client.queue("dead").info().counts.ready_count == 0:
        pass
    (dead,) = client.queue("dead").peek()
    assert dead.id == sent[2].id
    neighbours = list(client.queue("jobs").peek())
    assert [message.receive_count for message in neighbours] == [0] * (IN_FLIGHT - 1)

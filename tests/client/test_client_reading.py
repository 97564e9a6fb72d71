"""Reads of a reservation through broken connections: each message once, none left out."""

from __future__ import annotations

import pytest
import spoolrack
from spoolrack import Queue, RetryPolicy
from spoolrack.errors import Draining, ReservationLost, Unreachable

from tests.client.lossy_root import LossyRoot

LETTERS = "abcdefghijklmnopqrst"


@pytest.fixture
def client(root: LossyRoot) -> spoolrack.Client:
    client = root.client()
    client.create_queue("jobs")
    jobs = client.queue("jobs")
    jobs.send_many(list(LETTERS))
    jobs.reserve("s", 0)
    return client


@pytest.fixture
def jobs(client: spoolrack.Client) -> Queue:
    return client.queue("jobs")


def test_a_broken_read_goes_on_where_it_was(root: LossyRoot, client: spoolrack.Client) -> None:
    found = []
    for message in client.reservations.read("s", 0):
        found.append(message.text)
        root.fail("read", Unreachable(), Draining())
    assert "".join(found) == LETTERS


def test_a_deleted_message_hides_none_from_a_read_that_goes_on(
    root: LossyRoot, client: spoolrack.Client, jobs: Queue
) -> None:
    ids = {message.text: message.id for message in jobs.peek()}
    for letter in "acf":
        jobs.delete_by_id(ids[letter])
    found = []
    for message in client.reservations.read("s", 0):
        found.append(message.text)
        root.fail("read", Unreachable())
        if message.text == "h":
            for letter in "bhikt":
                jobs.delete_by_id(ids[letter])
    assert "".join(letter for letter in found if letter not in "ikt") == "bdeghjlmnopqrs"
    assert len(found) == len(set(found))


def test_a_slice_that_goes_on_ends_where_it_should(
    root: LossyRoot, client: spoolrack.Client, jobs: Queue
) -> None:
    ids = {message.text: message.id for message in jobs.peek()}
    jobs.delete_by_id(ids["f"])
    found = []
    for message in client.reservations.read("s", 0, 4, 9):
        found.append(message.text)
        root.fail("read", Unreachable())
    assert "".join(found) == "eghi"


def test_a_read_that_is_taken_up_again_counts_once(root: LossyRoot, client: spoolrack.Client) -> None:
    for _ in client.reservations.read("s", 0):
        root.fail("read", Unreachable())
    (listed,) = client.reservations.list()
    assert listed.read_count == 1


def test_a_hold_that_ends_in_the_middle_is_told(root: LossyRoot, client: spoolrack.Client) -> None:
    reading = client.reservations.read("s", 0)
    next(reading)
    root.advance(60_000)
    root.fail("read", Unreachable())
    with pytest.raises(ReservationLost):
        list(reading)


def test_a_read_gives_up_as_any_call_does(root: LossyRoot) -> None:
    client = root.client(retry=RetryPolicy(attempts=2, initial=0.0))
    root.fail("read", Unreachable(), Unreachable(), Unreachable())
    with pytest.raises(Unreachable):
        list(client.reservations.read("s", 0))


def test_a_reserve_whose_answer_was_lost_is_found(root: LossyRoot, client: spoolrack.Client) -> None:
    client.queue("jobs").send("u")
    root.lose("reserve", Unreachable())
    reservation = client.queue("jobs").reserve("s", 1)
    assert reservation is not None
    assert [message.text for message in client.reservations.read("s", 1)] == ["u"]

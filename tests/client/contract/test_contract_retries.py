"""Releases with reasons, receives that don't count, rejections, and the queue's back-off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import spoolrack
from spoolrack import Client, Queue, Reject, Retry
from spoolrack.errors import NoDeadLetterQueue, StaleReceipt

from tests.client.contract.conftest import World
from tests.support.waiting import until

pytestmark = pytest.mark.needs("dead letters")


def made(client: Client, name: str, **settings: Any) -> Queue:
    client.create_queue(name, **settings)
    return client.queue(name)


@pytest.fixture
def worn(client: Client) -> Queue:
    """A queue whose messages die after three receives."""
    client.create_queue("jobs--dead")
    return made(client, "jobs--worn", max_receives=3, dead_letter_queue="jobs--dead")


def record_of(client: Client, count: int = 1) -> spoolrack.DeadLetterRecord:
    """Return how the one dead letter came to be one."""
    until(lambda: len(list(client.queue("jobs--dead").peek())) == count)
    letter, *_ = client.queue("jobs--dead").peek()
    return letter.dead_letter_records[-1]


def test_a_rejected_message_is_a_dead_letter_with_its_reason(client: Client, worn: Queue) -> None:
    worn.send("a")
    (message,) = worn.receive()
    message.reject("no customer: ü")
    record = record_of(client)
    assert (record.source_queue, record.reason, record.explanation, record.receive_count) == (
        "jobs--worn",
        "rejected",
        "no customer: ü",
        1,
    )
    assert list(worn.peek()) == []
    with pytest.raises(StaleReceipt):
        message.reject()


def test_many_are_rejected_each_with_a_result(client: Client, worn: Queue) -> None:
    worn.send_many(["a", "b", "c"])
    a, b, c = worn.receive(3)
    b.release()
    results = worn.reject_many([a, b, c.receipt], "broken")
    assert [result.ok for result in results] == [True, False, True]
    assert isinstance(results[1].error, StaleReceipt)
    until(lambda: sorted(each.text for each in client.queue("jobs--dead").peek()) == ["a", "c"])


def test_a_queue_without_dead_letters_refuses_a_rejection(jobs: Queue) -> None:
    jobs.send("a")
    (message,) = jobs.receive()
    with pytest.raises(NoDeadLetterQueue):
        message.reject("x")
    message.delete()


def test_the_reason_of_the_last_release_is_in_the_dead_letter_record(
    client: Client, worn: Queue
) -> None:
    worn.send("a")
    for number in range(3):
        (message,) = worn.receive()
        message.release(reason=f"failure {number}")
    record = record_of(client)
    assert (record.reason, record.explanation, record.receive_count) == ("max_receives", "failure 2", 3)


def test_a_receive_that_does_not_count_costs_a_message_nothing(worn: Queue) -> None:
    worn.send("a")
    for _ in range(5):
        (message,) = worn.receive()
        assert message.receive_count == 1
        message.release(count=False)
    (left,) = worn.peek()
    assert left.receive_count == 0


def test_a_release_without_a_delay_of_its_own_takes_the_queues_back_off(
    world: World, client: Client
) -> None:
    jobs = made(
        client, "jobs--slow", backoff_initial=10, backoff_factor=3, backoff_maximum=60, backoff_jitter=0
    )
    jobs.send("a")
    for delay in (10, 30, 60, 60):
        (message,) = jobs.receive()
        message.release(delay=None)
        world.advance(delay - 0.1)
        assert jobs.receive() == []
        world.advance(0.1)


def test_an_expired_lease_is_followed_by_the_back_off_where_the_queue_says_so(
    world: World, client: Client
) -> None:
    jobs = made(client, "jobs--slow", backoff_initial=10, backoff_jitter=0, backoff_at="lease_end")
    jobs.send("a")
    jobs.receive(visibility_timeout=5)
    world.advance(5)
    until(lambda: jobs.info().counts.delayed_count == 1)
    world.advance(9.9)
    assert jobs.receive() == []
    world.advance(0.1)
    assert len(jobs.receive()) == 1


def test_a_block_that_rejects_makes_a_dead_letter(client: Client, worn: Queue) -> None:
    worn.send("a")
    (message,) = worn.receive()
    with message:
        raise Reject("no customer")
    assert record_of(client).explanation == "no customer"


def test_a_block_whose_rejection_is_refused_says_so_and_ends_as_a_failure(jobs: Queue) -> None:
    jobs.send("a")
    (message,) = jobs.receive()
    with pytest.raises(NoDeadLetterQueue) as raised, message:
        raise Reject("no customer")
    assert isinstance(raised.value.__cause__, Reject)
    assert jobs.info().counts.delayed_count == 1


def test_a_block_that_fails_for_the_last_time_tells_its_error(client: Client) -> None:
    client.create_queue("jobs--dead")
    once = made(client, "jobs--once", max_receives=1, dead_letter_queue="jobs--dead")
    once.send("a")
    (message,) = once.receive()
    with pytest.raises(ZeroDivisionError), message:
        raise ZeroDivisionError("by zero")
    record = record_of(client)
    assert (record.reason, record.explanation) == ("max_receives", "ZeroDivisionError: by zero")


def test_an_error_that_can_not_be_told_is_told_by_its_kind(client: Client) -> None:
    class Untold(Exception):
        def __str__(self) -> str:
            raise ValueError

    client.create_queue("jobs--dead")
    once = made(client, "jobs--once", max_receives=1, dead_letter_queue="jobs--dead")
    once.send("a")
    (message,) = once.receive()
    with pytest.raises(Untold), message:
        raise Untold
    assert record_of(client).explanation == "Untold"


def work(
    queue: Queue, handler: Callable[[spoolrack.Message], object], ended: Callable[[], bool]
) -> list[Exception]:
    """Run a worker until `ended`; return the errors that it reported."""
    errors: list[Exception] = []
    worker = queue.worker(handler, on_error=lambda _, error: errors.append(error))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        until(ended)
    finally:
        worker.stop()
        thread.join(60)
    return errors


@pytest.mark.needs("streams")
def test_a_handler_that_rejects_is_not_called_again_and_reports_no_error(
    client: Client, worn: Queue
) -> None:
    worn.send("a")
    seen: list[str] = []

    def handler(message: spoolrack.Message) -> None:
        seen.append(message.text)
        raise Reject("no customer")

    errors = work(worn, handler, lambda: len(list(client.queue("jobs--dead").peek())) == 1)
    assert (seen, errors) == (["a"], [])
    assert record_of(client).explanation == "no customer"


@pytest.mark.needs("streams")
def test_a_rejection_that_is_refused_is_reported_and_ends_as_a_failure(
    client: Client, jobs: Queue
) -> None:
    jobs.send("a")

    def handler(message: spoolrack.Message) -> None:
        raise Reject("no customer")

    errors = work(jobs, handler, lambda: jobs.info().counts.delayed_count == 1)
    assert [type(error) for error in errors] == [NoDeadLetterQueue]


@pytest.mark.needs("streams")
def test_a_retry_that_does_not_count_is_tried_for_ever(world: World, worn: Queue) -> None:
    worn.send("a")
    counts: list[int] = []

    def handler(message: spoolrack.Message) -> None:
        counts.append(message.receive_count)
        if len(counts) < 6:
            raise Retry(after=0, count=False)

    errors = work(worn, handler, lambda: not list(worn.peek()))
    assert (counts, errors) == ([1] * 6, [])

"""Promises of every transport about streams of messages."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
import spoolrack
from spoolrack import Backoff, Client, MessageStream, Queue, Retry, Worker
from spoolrack.errors import ClientClosed, InvalidRequest, StaleReceipt

from tests.client.contract.conftest import World
from tests.support.waiting import until

pytestmark = pytest.mark.needs("streams")


def take(stream: MessageStream, count: int) -> list[spoolrack.Message]:
    return [next(stream) for _ in range(count)]


@pytest.mark.needs("receive counts", "news in still time")
def test_a_stream_gives_messages_in_order_as_they_come(jobs: Queue, other: Client) -> None:
    jobs.send_many(["a", "b"])
    with jobs.messages() as stream:
        first = take(stream, 2)
        other.queue("jobs").send("c")
        (third,) = take(stream, 1)
    assert [message.text for message in [*first, third]] == ["a", "b", "c"]
    assert third.receive_count == 1


def test_a_stream_leases_no_more_than_its_credits(jobs: Queue, other: Client) -> None:
    jobs.send_many(str(number) for number in range(10))
    with jobs.messages(max_in_flight=3) as stream:
        held = take(stream, 3)
        counts = other.queue("jobs").info().counts
        assert (counts.leased_count, counts.ready_count) == (3, 7)
        # Through another connection, by receipt and by id: each gives a credit back.
        other.queue("jobs").delete(held[0].receipt)
        other.queue("jobs").delete_by_id(held[1].id)
        assert [message.text for message in take(stream, 2)] == ["3", "4"]
        held[2].release()
        assert [message.text for message in take(stream, 1)] == ["2"]


@pytest.mark.needs("limits of bytes in flight")
def test_a_stream_leases_no_more_than_its_bytes_and_one_message(jobs: Queue, other: Client) -> None:
    jobs.send_many(str(number) * 10 for number in range(6))
    with jobs.messages(max_bytes_in_flight=35) as stream:
        held = take(stream, 4)
        counts = other.queue("jobs").info().counts
        assert (counts.leased_count, counts.ready_count) == (4, 2)
        jobs.delete_many(held)
        assert [message.text[0] for message in take(stream, 2)] == ["4", "5"]


def test_bytes_in_flight_that_are_no_bytes_are_refused(jobs: Queue) -> None:
    for wrong in (0, -1, 2**63, "1", 1.5, True):
        with pytest.raises(InvalidRequest, match="max_bytes_in_flight"):
            jobs.messages(max_bytes_in_flight=wrong)  # type: ignore[arg-type]


def test_a_stream_gives_what_has_come_and_waits_for_no_more(jobs: Queue) -> None:
    jobs.send_many(["a", "b", "c", "d", "e"])
    with jobs.messages() as stream:
        assert next(stream).text == "a"
        found: list[str] = []
        while len(found) < 4:
            some = [message.text for message in stream.receive(3)]
            assert 1 <= len(some) <= 3
            found += some
        assert found == ["b", "c", "d", "e"]
        assert stream.receive(3, wait=0) == stream.receive(3, wait=0.001) == []
        jobs.send("f")
        assert [message.text for message in stream.receive(3)] == ["f"]
    assert stream.receive(3) == []


@pytest.mark.needs("receive counts")
def test_an_expiry_gives_a_credit_back(jobs: Queue, world: World) -> None:
    jobs.send_many(["a", "b"])
    with jobs.messages(max_in_flight=1, visibility_timeout=5) as stream:
        (first,) = take(stream, 1)
        world.advance(5)
        (again,) = take(stream, 1)
        assert (again.id, again.receive_count) == (first.id, 2)


def test_a_closed_stream_gives_back_what_it_did_not_hand_out(jobs: Queue, other: Client) -> None:
    jobs.send_many(str(number) for number in range(10))
    stream = jobs.messages(max_in_flight=5)
    (first,) = take(stream, 1)
    until(lambda: other.queue("jobs").info().counts.leased_count == 5)
    stream.close()
    until(lambda: other.queue("jobs").info().counts.leased_count == 1)
    assert list(stream) == []
    first.delete()
    again = jobs.receive(10)
    assert [message.text for message in again] == [str(number) for number in range(1, 10)]


@pytest.mark.needs("receive counts")
def test_messages_that_a_closed_stream_did_not_hand_out_are_not_counted(
    jobs: Queue, other: Client
) -> None:
    jobs.send_many(["a", "b", "c"])
    for receives in range(1, 6):
        with jobs.messages() as stream:
            (first,) = take(stream, 1)
            until(lambda: other.queue("jobs").info().counts.leased_count == 3)
            assert first.receive_count == receives
            first.release()
        # The released message may have been on its way again.
        until(lambda: other.queue("jobs").info().counts.ready_count == 3)
    assert [message.receive_count for message in jobs.receive(3)] == [6, 1, 1]


@pytest.mark.needs("receive counts")
def test_messages_that_a_stopped_worker_did_not_begin_are_not_counted(
    jobs: Queue, other: Client
) -> None:
    jobs.send_many(["a", "b", "c"])
    for _ in range(3):
        begun, goes_on = threading.Event(), threading.Event()

        def handler(
            message: spoolrack.Message,
            begun: threading.Event = begun,
            goes_on: threading.Event = goes_on,
        ) -> None:
            begun.set()
            assert goes_on.wait(60)
            raise Retry(after=0)

        worker = jobs.worker(handler, concurrency=1, prefetch=5)
        with working(worker):
            assert begun.wait(60)
            until(lambda: other.queue("jobs").info().counts.leased_count == 3)
            worker.stop()
            goes_on.set()
        until(lambda: other.queue("jobs").info().counts.ready_count == 3)
    assert [message.receive_count for message in jobs.receive(3)] == [4, 1, 1]


@pytest.mark.needs("uncounted prefetch")
def test_prefetched_messages_whose_leases_expire_are_not_counted_and_come_again(
    jobs: Queue, world: World, other: Client
) -> None:
    with jobs.messages() as stream:
        # It is open from here on; a message that is taken is told to the server, as a sign of life.
        assert stream.receive(1, wait=0) == []
        jobs.send_many(["a", "b", "c"])
        until(lambda: other.queue("jobs").info().counts.leased_count == 3)
        world.advance(30)
        until(lambda: other.queue("jobs").info().counts.ready_count == 3)
        jobs.send("d")
        again = [(message.text, message.receive_count) for message in take(stream, 7)]
        assert again == [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("b", 1), ("c", 1), ("d", 1)]


@pytest.mark.needs("uncounted prefetch")
def test_a_worker_whose_prefetched_leases_expired_goes_on(
    jobs: Queue, world: World, other: Client
) -> None:
    jobs.send_many(["a", "b", "c"])
    begun, goes_on = threading.Event(), threading.Event()

    def handler(message: spoolrack.Message) -> None:
        begun.set()
        assert goes_on.wait(60)

    worker = jobs.worker(handler, concurrency=1, prefetch=5, visibility_timeout=1, on_error=ignore)
    with working(worker):
        assert begun.wait(60)
        until(lambda: other.queue("jobs").info().counts.leased_count == 3)
        world.advance(2)
        until(lambda: other.queue("jobs").info().counts.leased_count == 0)
        goes_on.set()
        until(lambda: not list(other.queue("jobs").peek()))


def test_a_forgotten_stream_gives_back_what_it_did_not_hand_out(jobs: Queue, other: Client) -> None:
    jobs.send_many(["a", "b", "c"])
    for message in jobs.messages():
        message.delete()
        break
    until(lambda: other.queue("jobs").info().counts.ready_count == 2)


def test_a_closed_client_ends_its_streams(jobs: Queue, world: World, other: Client) -> None:
    client = world.connect()
    stream = client.queue("jobs").messages()
    ended: list[list[spoolrack.Message]] = []
    waiting = threading.Thread(target=lambda: ended.append(list(stream)))
    jobs.send("a")
    waiting.start()
    until(lambda: other.queue("jobs").info().counts.leased_count == 1)
    client.close()
    waiting.join(60)
    assert not waiting.is_alive()
    with pytest.raises(ClientClosed):
        client.queue("jobs").send("b")


def test_threads_share_a_stream_and_no_message(jobs: Queue) -> None:
    jobs.send_many(str(number) for number in range(200))
    seen: list[str] = []

    def work(stream: MessageStream) -> None:
        for message in stream:
            with message:
                seen.append(message.text)
            if len(seen) == 200:
                stream.close()

    with jobs.messages(max_in_flight=20) as stream:
        threads = [threading.Thread(target=work, args=(stream,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(seen) == sorted(str(number) for number in range(200))
    assert jobs.receive(10) == []


@pytest.mark.needs("receive counts")
def test_a_context_deletes_on_success_and_puts_off_on_an_error(world: World, jobs: Queue) -> None:
    jobs.send_many(["good", "bad"])
    good, bad = jobs.receive(2)
    with good:
        pass
    with pytest.raises(ZeroDivisionError), bad:
        raise ZeroDivisionError
    world.advance(1)
    (again,) = jobs.receive(10)
    assert (again.text, again.receive_count) == ("bad", 2)


def test_a_context_does_nothing_twice(jobs: Queue) -> None:
    jobs.send_many(["a", "b"])
    a, b = jobs.receive(2)
    with a:
        a.release()
    with b:
        b.delete()
    assert [message.text for message in jobs.receive(10)] == ["a"]


def test_a_context_whose_lease_was_lost_says_so_at_its_end(jobs: Queue, world: World) -> None:
    jobs.send("a")
    (message,) = jobs.receive()

    def lose() -> None:
        with message:
            world.advance(30)

    with pytest.raises(StaleReceipt):
        lose()


def test_an_error_passes_a_context_whose_lease_was_lost(jobs: Queue, world: World) -> None:
    jobs.send("a")
    (message,) = jobs.receive()

    def lose_and_fail() -> None:
        with message:
            world.advance(30)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lose_and_fail()


class Broken(Exception):
    """An error of a handler."""


def ignore(message: spoolrack.Message, error: Exception) -> None:
    """Ignore the failures of a handler that is meant to fail."""


def fail_on(message: spoolrack.Message) -> None:
    with pytest.raises(Broken), message:
        raise Broken


def hidden(client: Client) -> int:
    counts = client.queue("jobs").info().counts
    return counts.leased_count + counts.delayed_count


def pause_of(jobs: Queue, message: spoolrack.Message) -> float:
    """Return the seconds until a message that was received a moment ago, for 30 s, comes back."""
    (found,) = [each for each in jobs.peek(["leased", "delayed"]) if each.id == message.id]
    end = found.deliver_at or found.lease_expires_at
    assert end is not None
    assert message.lease_expires_at is not None
    return (end - message.lease_expires_at).total_seconds() + 30


def test_a_message_that_was_failed_on_does_not_come_back_at_once(world: World, jobs: Queue) -> None:
    jobs.send("a")
    (message,) = jobs.receive(visibility_timeout=30)
    fail_on(message)
    assert 0.5 <= pause_of(jobs, message) <= 1.0
    assert jobs.receive() == []
    world.advance(1)
    assert [again.id for again in jobs.receive()] == [message.id]


@pytest.mark.needs("receive counts")
def test_the_pause_after_a_failure_doubles_up_to_five_minutes(world: World, jobs: Queue) -> None:
    jobs.send("a")
    for bound in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]:
        (message,) = jobs.receive(visibility_timeout=30)
        fail_on(message)
        assert bound / 2 <= pause_of(jobs, message) <= bound
        world.advance(bound)


def test_a_message_is_retried_after_the_delay_that_its_block_asks_for(
    world: World, jobs: Queue
) -> None:
    jobs.send("a")
    (message,) = jobs.receive(visibility_timeout=30)
    with message:
        raise Retry(after=5)
    assert pause_of(jobs, message) == 5
    world.advance(5)
    assert [again.id for again in jobs.receive()] == [message.id]


def test_a_retry_at_once_is_a_release(jobs: Queue) -> None:
    jobs.send("a")
    (message,) = jobs.receive()
    with message:
        raise Retry(after=0)
    assert len(jobs.receive()) == 1


def test_a_release_with_a_delay_brings_the_message_back_when_it_is_over(
    world: World, jobs: Queue
) -> None:
    jobs.send_many(["a", "b", "c"])
    a, b, c = jobs.receive(3)
    a.release(delay=5)
    jobs.release(b.receipt, delay=timedelta(seconds=5))
    assert [each.ok for each in jobs.release_many([c], delay=5)] == [True]
    world.advance(4.9)
    assert jobs.receive(3) == []
    world.advance(0.2)
    assert [message.text for message in jobs.receive(3)] == ["a", "b", "c"]
    with pytest.raises(StaleReceipt):
        a.release(delay=5)


def test_messages_released_with_a_delay_do_not_hold_up_a_stream(jobs: Queue) -> None:
    jobs.send_many(["a", "b", "c"])
    with jobs.messages(max_in_flight=1) as stream:
        for text in "abc":
            message = next(stream)
            assert message.text == text
            message.release(delay=60)


def test_a_release_has_no_pause(jobs: Queue) -> None:
    jobs.send("a")
    (message,) = jobs.receive()

    def release_and_fail() -> None:
        with message:
            message.release()
            raise Broken

    with pytest.raises(Broken):
        release_and_fail()
    assert len(jobs.receive()) == 1


def test_a_block_that_is_interrupted_gives_its_message_back_at_once(jobs: Queue) -> None:
    jobs.send("a")
    (message,) = jobs.receive()
    with pytest.raises(KeyboardInterrupt), message:
        raise KeyboardInterrupt
    assert len(jobs.receive()) == 1


def test_messages_that_were_failed_on_do_not_hold_up_a_stream(jobs: Queue, client: Client) -> None:
    jobs.send_many(["a", "b", "c", "d"])
    with jobs.messages(max_in_flight=2) as stream:
        for text in "abcd":
            message = next(stream)
            assert message.text == text
            fail_on(message)
        assert hidden(client) == 4


@pytest.mark.needs("receive counts")
def test_a_worker_deletes_what_succeeds_and_puts_off_what_fails(
    world: World, jobs: Queue, client: Client
) -> None:
    jobs.send_many(str(number) for number in range(30))
    failures: list[str] = []

    def handler(message: spoolrack.Message) -> None:
        if message.receive_count == 1 and int(message.text) % 3 == 0:
            raise ValueError(message.text)

    worker = jobs.worker(handler, on_error=lambda message, error: failures.append(str(error)))
    thread = threading.Thread(target=worker.run)
    thread.start()
    until(lambda: hidden(client) == 10 == len(failures))
    world.advance(1)
    until(lambda: not list(jobs.peek(max_body_bytes=0)))
    worker.stop()
    thread.join(60)
    assert sorted(map(int, failures)) == list(range(0, 30, 3))


@contextlib.contextmanager
def working(worker: Worker) -> Iterator[None]:
    """Run a worker in a thread of its own."""
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join(60)
        assert not thread.is_alive()


def test_a_worker_does_not_spin_on_a_message_that_its_handler_fails_on(
    world: World, jobs: Queue, client: Client
) -> None:
    jobs.send_many(["bad", "good"])
    seen: list[str] = []

    def handler(message: spoolrack.Message) -> None:
        seen.append(message.text)
        if message.text == "bad":
            raise Broken

    with working(jobs.worker(handler, concurrency=1, prefetch=0, on_error=ignore)):
        # Were it ready at once, it would come before its successor, and again and again.
        until(lambda: seen == ["bad", "good"])
        until(lambda: hidden(client) == 1)
        jobs.send("good")
        until(lambda: seen == ["bad", "good", "good"])
        world.advance(1)
        until(lambda: seen == ["bad", "good", "good", "bad"])


@pytest.mark.needs("receive counts")
def test_a_worker_retries_with_its_own_backoff(world: World, jobs: Queue, client: Client) -> None:
    jobs.send("a")
    seen: list[spoolrack.Message] = []

    def handler(message: spoolrack.Message) -> None:
        seen.append(message)
        raise Broken

    backoff = Backoff(initial=10, factor=2, maximum=timedelta(seconds=60), jitter=0)
    worker = jobs.worker(handler, retry=backoff, visibility_timeout=30, on_error=ignore)
    with working(worker):
        for number, delay in enumerate([10, 20, 40, 60, 60], 1):
            until(lambda: len(seen) == number)  # noqa: B023
            until(lambda: pause_of(jobs, seen[-1]) == delay)  # noqa: B023
            world.advance(delay)
        until(lambda: len(seen) == 6)


def test_a_handler_asks_for_a_retry_and_that_is_no_error(world: World, jobs: Queue) -> None:
    jobs.send("a")
    seen: list[spoolrack.Message] = []
    errors: list[Exception] = []

    def handler(message: spoolrack.Message) -> None:
        seen.append(message)
        if len(seen) == 1:
            raise Retry(after=20)

    worker = jobs.worker(
        handler, visibility_timeout=30, on_error=lambda message, error: errors.append(error)
    )
    with working(worker):
        until(lambda: bool(seen) and pause_of(jobs, seen[-1]) == 20)
        world.advance(20)
        until(lambda: not list(jobs.peek()))
    assert [message.text for message in seen] == ["a", "a"]
    assert errors == []


def test_a_worker_that_stops_ends_what_runs_and_releases_what_waits(
    jobs: Queue, client: Client
) -> None:
    jobs.send_many(str(number) for number in range(10))
    running, free = threading.Semaphore(0), threading.Event()
    done: list[str] = []

    def handler(message: spoolrack.Message) -> None:
        running.release()
        free.wait(60)
        done.append(message.text)

    worker = jobs.worker(handler, concurrency=2, prefetch=3)
    thread = threading.Thread(target=worker.run)
    thread.start()
    for _ in range(2):
        assert running.acquire(timeout=60)
    until(lambda: client.queue("jobs").info().counts.leased_count == 5)
    worker.stop()
    until(lambda: client.queue("jobs").info().counts.leased_count == 2)
    free.set()
    thread.join(60)
    assert sorted(done) == ["0", "1"]
    again = jobs.receive(10)
    assert [message.text for message in again] == [str(number) for number in range(2, 10)]


def test_a_worker_has_deleted_what_it_handled_when_it_has_stopped(jobs: Queue) -> None:
    jobs.send_many(str(number) for number in range(50))
    handled = threading.Semaphore(0)
    with working(jobs.worker(lambda message: handled.release(), on_error=ignore)):
        for _ in range(50):
            assert handled.acquire(timeout=60)
    assert list(jobs.peek()) == []


@pytest.mark.needs("receive counts")
def test_a_worker_tells_of_a_message_whose_lease_was_over_at_its_delete_and_gets_it_again(
    jobs: Queue, other: Client
) -> None:
    jobs.send("a")
    counts: list[int] = []
    errors: list[Exception] = []

    def handler(message: spoolrack.Message) -> None:
        counts.append(message.receive_count)
        if len(counts) == 1:
            other.queue("jobs").release(message.receipt)
        else:  # The first delete would succeed after the second.
            until(lambda: bool(errors))

    with working(jobs.worker(handler, on_error=lambda _, error: errors.append(error))):
        until(lambda: len(counts) == 2)
        until(lambda: not list(jobs.peek()))
    assert counts == [1, 2]
    assert [type(error) for error in errors] == [StaleReceipt]


@pytest.mark.needs("several queues")
def test_a_worker_raises_what_ends_its_stream(jobs: Queue, client: Client) -> None:
    client.delete_queue("jobs")
    with pytest.raises(spoolrack.errors.QueueNotFound):
        jobs.work(lambda message: None)

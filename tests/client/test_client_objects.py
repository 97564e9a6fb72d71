"""Objects of the client: what they show, how they compare, and what a second use of one does."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import spoolrack
from spoolrack import Message, Queue
from spoolrack.errors import InvalidRequest

from tests.client.lossy_root import LossyRoot


@pytest.fixture
def client(root: LossyRoot) -> Iterator[spoolrack.Client]:
    with root.client() as client:
        client.create_queue("jobs")
        yield client


@pytest.fixture
def jobs(client: spoolrack.Client) -> Queue:
    return client.queue("jobs")


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, type[BaseException] | None]]:
    """Return the client's lines: level, text, and the exception whose traceback is with it."""
    return [
        (record.levelname, record.getMessage(), record.exc_info[0] if record.exc_info else None)
        for record in caplog.records
        if record.name == "spoolrack"
    ]


def test_objects_show_what_they_are_of_and_their_state(client: spoolrack.Client, jobs: Queue) -> None:
    target = jobs._context.transport.target
    with jobs.messages() as stream, client.messages(["jobs", "mail*"]) as several:
        assert repr(stream) == "<spoolrack.MessageStream of jobs>"
        assert repr(several) == "<spoolrack.MessageStream of jobs, mail*>"
    assert repr(stream) == "<spoolrack.MessageStream of jobs, closed>"
    assert repr(several) == "<spoolrack.MessageStream of jobs, mail*, closed>"
    shown: list[str] = []

    def handle(message: Message) -> None:
        shown.append(repr(worker))
        worker.stop()

    worker = jobs.worker(handle, concurrency=2)
    assert repr(worker) == "<spoolrack.Worker of jobs, 2 at once, not yet run>"
    with client.batch() as batch:
        batch.send_to("jobs", "a")
        assert (batch.published, batch.expires_at, batch.in_doubt) == (None, None, False)
        assert repr(batch) == f"<spoolrack.Batch {batch.stage} at {target}, 1 messages, open>"
    assert repr(batch) == f"<spoolrack.Batch {batch.stage} at {target}, 1 messages, published>"
    assert batch.expires_at is not None
    with pytest.raises(KeyError), jobs.batch() as dropped:
        raise KeyError
    assert repr(dropped) == f"<spoolrack.Batch {dropped.stage} at {target}, 0 messages, ended>"
    worker.run()
    assert shown == ["<spoolrack.Worker of jobs, 2 at once, running>"]
    assert repr(worker) == "<spoolrack.Worker of jobs, 2 at once, stopping>"


async def test_objects_of_tasks_show_their_package(root: LossyRoot) -> None:
    async with root.aio_client() as client:
        await client.create_queue("jobs")
        jobs = client.queue("jobs")
        assert repr(jobs.messages()) == "<spoolrack.aio.MessageStream of jobs>"
        assert repr(jobs.worker(print)).startswith("<spoolrack.aio.Worker of jobs, ")  # type: ignore[arg-type]
        assert repr(jobs.batch()).startswith("<spoolrack.aio.Batch ")


def test_a_message_is_equal_to_itself_by_its_lease(client: spoolrack.Client, jobs: Queue) -> None:
    jobs.send_many(["a", "b"])
    first, second = jobs.receive(2)
    with jobs.messages() as stream:
        first.release()
        again = next(stream)
    peeked = next(iter(jobs.peek()))
    assert len({first, second, again, peeked}) == 4
    assert peeked == next(iter(jobs.peek()))
    assert hash(peeked) == hash(next(iter(jobs.peek())))
    assert peeked != first
    assert first != "a"


@pytest.mark.parametrize(("size", "shown"), [(60, repr(b"x" * 60)), (61, f"{b'x' * 57!r}... 61 bytes")])
def test_a_message_shows_a_short_body_whole_and_of_another_its_beginning(
    jobs: Queue, size: int, shown: str
) -> None:
    jobs.send(b"x" * size)
    (message,) = jobs.receive()
    assert repr(message) == f"<Message {message.id} of jobs: {shown}, leased, received 1x>"


def test_a_worker_runs_once(jobs: Queue) -> None:
    worker = jobs.worker(print)
    worker.stop()
    worker.run()
    with pytest.raises(RuntimeError, match=r"^this worker has run already: make another one"):
        worker.run()


def test_a_handler_and_an_on_error_that_fail_are_logged_and_the_worker_goes_on(
    root: LossyRoot, jobs: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    ids = [jobs.send(text) for text in ("first", "second", "last")]
    asked: list[tuple[str, str]] = []

    def handle(message: Message) -> None:
        if message.text == "last":
            worker.stop()
        else:
            raise OverflowError(message.text)

    def note(message: Message, error: Exception) -> None:
        asked.append((message.id, str(error)))
        raise ZeroDivisionError

    worker = jobs.worker(handle, concurrency=1)
    worker.run()
    assert told(caplog) == [
        ("ERROR", f"message {id} of jobs: the handler failed", OverflowError) for id in ids[:2]
    ]
    caplog.clear()
    root.advance(3_600_000)
    ids.append(jobs.send("last"))
    worker = jobs.worker(handle, concurrency=1, on_error=note)
    worker.run()
    assert asked == [(ids[0], "first"), (ids[1], "second")]
    assert told(caplog) == [
        ("ERROR", f"message {id} of jobs: on_error failed", ZeroDivisionError) for id in ids[:2]
    ]


def test_a_batch_says_what_it_can_not_take(client: spoolrack.Client, jobs: Queue) -> None:
    with client.batch() as batch:
        with pytest.raises(InvalidRequest, match=r"^This batch has no queue of its own: use send_to"):
            batch.send("a")
        for more in ({"deduplication_id": "1"}, {"deliver_at": datetime(2030, 1, 1, tzinfo=UTC)}):
            with pytest.raises(
                InvalidRequest, match=r"^A message of a batch can't have deliver_at or a dedup"
            ):
                batch.send_to("jobs", "a", **more)  # type: ignore[call-arg]
    assert batch.message_count == 0


def test_a_client_runs_a_worker_of_several_queues(client: spoolrack.Client, jobs: Queue) -> None:
    client.create_queue("mail").send("b")
    jobs.send("a")
    handled: list[str] = []

    def handle(message: Message) -> None:
        handled.append(message.text)
        if len(handled) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.work(["jobs", "mail"], handle, concurrency=1)
    assert sorted(handled) == ["a", "b"]

"""`spoolrack.connect("vsqs:///queue-directory")`: features of a client over a vsqs folder, and missing
ones. The contract tests show the rest."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
import spoolrack
from spoolrack import Client, MessageState, Outgoing, Queue, QueueSettings, aio, vsqs
from spoolrack._runtime import Threads, run
from spoolrack._transports import vsqs_calls
from spoolrack._transports.url import open_transport
from spoolrack.errors import (
    ClientClosed,
    DiskError,
    DiskFull,
    InvalidUrl,
    QueueFull,
    QueueNotFound,
    StaleReceipt,
    Unsupported,
)

from tests.support import STUCK
from tests.vsqs.vsqs_rig import Beside, Micros, files


@pytest.fixture
def url(folder: Path) -> str:
    return f"vsqs://{folder}"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with spoolrack.connect(url) as client:
        yield client


@pytest.fixture
def jobs(client: Client) -> Queue:
    client.create_queue("jobs")
    return client.queue("jobs")


# Where it leads.


@pytest.mark.parametrize(
    "url",
    [
        "vsqs://",
        "vsqs:///",
        "vsqs://relative/path",
        "vsqs://host/srv/jobs",
        "vsqs:///srv/jobs#1",
        "vsqs:///srv/jobs?capacity=0",
        "vsqs:///srv/jobs?capacity=many",
        "vsqs:///srv/jobs?visibility_timeout=-1",
        "vsqs:///srv/jobs?visibility_timeout=nan",
        "vsqs:///srv/jobs?size=5",
        "vsqs:///srv/j%00",
    ],
)
def test_a_url_that_names_no_folder_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl):
        spoolrack.connect(url)


def test_a_url_names_a_folder_and_how_this_program_uses_it(tmp_path: Path) -> None:
    (tmp_path / "my jobs").mkdir()
    url = f"vsqs://{tmp_path}/my%20jobs/?capacity=5&visibility_timeout=1.5"
    with spoolrack.connect(url) as client:
        info = client.queue("my jobs").info()
        assert info.settings == QueueSettings(
            max_messages=5, visibility_timeout=1.5, max_message_size=0, deduplication_window=0.0
        )
        assert "my jobs" in repr(client)


def test_a_folder_is_one_queue_and_no_other(client: Client, jobs: Queue, tmp_path: Path) -> None:
    assert [info.name for info in client.list_queues()] == ["jobs"]
    assert list(client.list_queues("x")) == []
    (tmp_path / "others").mkdir()
    with pytest.raises(QueueNotFound, match="folder of others"):
        client.queue("others").send("a")
    with pytest.raises(Unsupported, match="connect"):
        client.create_queue("others")


def test_a_folder_that_is_not_there_is_no_queue_until_it_is_made(client: Client, folder: Path) -> None:
    assert list(client.list_queues()) == []
    with pytest.raises(QueueNotFound, match="jobs"):
        client.queue("jobs").send("a")
    client.create_queue("jobs")
    client.queue("jobs").send("a")
    folder.joinpath(next(iter(files(folder)))).unlink()
    folder.rmdir()
    with pytest.raises(QueueNotFound):
        client.queue("jobs").receive()


# Shared features.


def test_it_shares_the_folder_with_the_module(jobs: Queue, folder: Path) -> None:
    with vsqs.Queue(folder) as queue:
        id = jobs.send("foo")
        assert queue.receive() == (id, b"foo")
        (message,) = jobs.peek()
        assert (message.id, message.state, message.receive_count) == (id, MessageState.LEASED, 0)
        jobs.delete_by_id(id)
        assert queue.size() == 0
        id = queue.publish(b"bar")
        with jobs.receive()[0] as received:
            assert (received.id, received.body) == (id, b"bar")
    assert files(folder) == {}


def test_a_lease_is_in_the_name_of_the_file(jobs: Queue, folder: Path, micros: Micros) -> None:
    jobs.send("foo")
    (message,) = jobs.receive(visibility_timeout=10)
    assert list(files(folder)) == ["1000000.11000000"]
    message.extend(60)
    assert list(files(folder)) == ["1000000.61000000"]
    message.release()
    assert list(files(folder)) == ["1000000"]


def test_a_receipt_proves_the_lease_in_another_process(jobs: Queue, url: str) -> None:
    jobs.send("foo")
    (message,) = jobs.receive()
    with spoolrack.connect(url) as other:
        other.queue("jobs").delete(message.receipt)
    assert list(jobs.peek()) == []


def test_after_an_extension_the_receipt_proves_it_in_this_process_only(jobs: Queue, url: str) -> None:
    jobs.send("foo")
    (message,) = jobs.receive()
    message.extend(100)
    with spoolrack.connect(url) as other, pytest.raises(StaleReceipt):
        other.queue("jobs").delete(message.receipt)
    message.extend(200)
    message.delete()
    assert list(jobs.peek()) == []


def test_a_lease_that_is_over_is_shown_as_ready(jobs: Queue, client: Client, micros: Micros) -> None:
    jobs.send("foo")
    jobs.receive(visibility_timeout=5)
    assert client.queue("jobs").info().counts.leased_count == 1
    micros.advance(5)
    counts = client.queue("jobs").info().counts
    assert (counts.ready_count, counts.leased_count, counts.byte_count, counts.oldest_age) == (
        1,
        0,
        3,
        5.0,
    )
    (message,) = jobs.peek(MessageState.READY)
    assert message.lease_expires_at is None


def test_a_capacity_refuses_until_there_is_room(url: str, jobs: Queue) -> None:
    with spoolrack.connect(url + "?capacity=2") as client:
        limited = client.queue("jobs")
        results = limited.send_many(["a", "b", "c"])
        assert [type(result.error) for result in results] == [type(None), type(None), QueueFull]
        waiting = Beside(lambda: limited.send("c", timeout=STUCK))
        with jobs.receive()[0]:
            assert not waiting.is_done(0.05)
        assert waiting.result()
        jobs.send("d")  # a capacity is each program's own


# Missing features.


def test_features_missing_in_vsqs_are_refused_by_name(jobs: Queue, client: Client) -> None:
    results = jobs.send_many(
        ["a", Outgoing(body="b", attributes={"n": "v"}), Outgoing(body="c", delay=5), "d"]
    )
    assert [type(result.error) for result in results] == [
        type(None),
        Unsupported,
        Unsupported,
        type(None),
    ]
    with pytest.raises(Unsupported, match="attributes"):
        jobs.send("a", attributes={"n": "v"})
    with pytest.raises(Unsupported, match="delayed"):
        jobs.send("a", delay=5)
    with pytest.raises(Unsupported, match="no group"):
        jobs.send("a", group="g")
    with pytest.raises(Unsupported, match="max_receives"):
        client.create_queue("jobs", max_receives=3)
    with pytest.raises(Unsupported, match="retention"):
        client.update_queue("jobs", retention=60)
    with pytest.raises(Unsupported, match="purge"):
        client.delete_queue("jobs")
    client.create_queue("jobs", visibility_timeout=30, max_messages=0)
    received = jobs.receive(10)
    assert [message.text for message in received] == ["a", "d"]
    with pytest.raises(Unsupported, match="allow_expired"):
        received[0].delete(allow_expired=True)
    with pytest.raises(Unsupported, match="allow_expired"):
        received[0].extend(5, allow_expired=True)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda jobs, client: client.create_queue("jobs", labels={"team": "a"}),
            "A vsqs folder keeps no labels: leave them out.",
        ),
        (
            lambda jobs, client: client.update_queue("jobs", if_version=1),
            "A vsqs folder has no versions: leave if_version out.",
        ),
        (
            lambda jobs, client: jobs.send("a", deliver_at=datetime(2030, 1, 1, tzinfo=UTC)),
            "A vsqs message can't be delayed, so it has no deliver_at.",
        ),
        (
            lambda jobs, client: jobs.send("a", priority=1),
            "A vsqs message has no priority: its folder has one order for all.",
        ),
        (
            lambda jobs, client: jobs.send("a", deduplication_id="1"),
            "A vsqs folder remembers no deduplication_id: a repeated send may be there twice.",
        ),
        (
            lambda jobs, client: next(jobs.messages(max_bytes_in_flight=1)),
            "A vsqs queue doesn't limit the bytes in flight.",
        ),
        (
            lambda jobs, client: jobs.reject(jobs.receive()[0]),
            "A folder of vsqs has no dead letters: delete or release the message.",
        ),
    ],
)
def test_a_refusal_says_what_vsqs_lacks(
    jobs: Queue, client: Client, call: Callable[[Queue, Client], object], told: str
) -> None:
    jobs.send("before")
    with pytest.raises(Unsupported) as refused:
        call(jobs, client)
    assert str(refused.value) == told
    assert [message.text for message in jobs.peek()] == ["before"]


def test_a_lease_that_is_over_ends_nothing(jobs: Queue, micros: Micros) -> None:
    jobs.send("a")
    (message,) = jobs.receive(visibility_timeout=5)
    micros.advance(5)
    for call in (message.delete, message.release, lambda: message.extend(5)):
        with pytest.raises(StaleReceipt, match=r"^The lease on message 1000000 is over\.$"):
            call()
    assert [message.state for message in jobs.peek()] == [MessageState.READY]


def test_an_extension_to_the_same_moment_needs_the_lease_too(
    jobs: Queue, url: str, micros: Micros
) -> None:
    jobs.send("a")
    (message,) = jobs.receive(visibility_timeout=5)
    message.extend(5)
    with spoolrack.connect(url) as other:
        other.queue("jobs").delete_by_id(message.id)
    with pytest.raises(StaleReceipt):
        message.extend(5)


def test_a_peek_of_more_than_a_page_shows_each_message_once(
    jobs: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vsqs_calls, "PAGE", 3)
    ids = [jobs.send(str(number)) for number in range(8)]
    assert [message.id for message in jobs.peek()] == ids


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_as_that(jobs: Queue, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(DiskFull, match=r"^The disk under /.*/jobs is full\.$"):
        jobs.send("a", timeout=0)


def test_a_disk_that_refuses_to_end_a_lease_costs_its_own_message_only(
    jobs: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.send_many(["a", "b"])
    messages = jobs.receive(2)
    rename, unlink = os.rename, os.unlink

    def refuse(work: Callable[..., None], source: object, *others: object, **more: object) -> None:
        if messages[0].id in str(source):
            raise PermissionError(errno.EACCES, "Permission denied")
        work(source, *others, **more)

    monkeypatch.setattr(os, "rename", partial(refuse, rename))
    monkeypatch.setattr(os, "unlink", partial(refuse, unlink))
    for results in (jobs.extend_many(messages, 60), jobs.release_many(messages)):
        assert [type(result.error) for result in results] == [DiskError, type(None)]
    deleted = jobs.delete_many([messages[0], jobs.receive()[0]])
    assert [type(result.error) for result in deleted] == [DiskError, type(None)]


def test_a_disk_that_refuses_is_said(jobs: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(DiskError, match="Permission denied"):
        jobs.send("a")


def test_a_closed_client_makes_no_calls(url: str, jobs: Queue) -> None:
    client = spoolrack.connect(url)
    waiting = Beside(lambda: client.queue("jobs").receive(wait=STUCK))
    assert not waiting.is_done(0.05)
    client.close()
    with pytest.raises(ClientClosed):
        waiting.result()
    with pytest.raises(ClientClosed):
        client.queue("jobs").send("a")


def test_a_stopped_stream_leases_nothing_more(url: str, jobs: Queue) -> None:
    jobs.send("a")
    transport = open_transport(url, Threads())
    deliveries = transport.stream(
        "jobs", max_in_flight=1, max_bytes_in_flight=0, visibility_timeout=None, concurrency=1
    )
    deliveries.stop()
    with pytest.raises(ClientClosed):
        run(deliveries.next())
    run(transport.close())
    assert [message.text for message in jobs.receive()] == ["a"]


def test_a_message_that_a_stream_extends_keeps_its_credit(jobs: Queue) -> None:
    jobs.send("a")
    with jobs.messages(max_in_flight=1) as stream:
        message = next(stream)
        message.extend(100)
        id = jobs.send("b")
        waiting = Beside(lambda: next(stream))
        assert not waiting.is_done(0.2)
        assert jobs.get(id).state is MessageState.READY
        message.delete()
        waiting.result()


def test_a_message_that_a_stream_releases_with_a_delay_frees_its_credit(jobs: Queue) -> None:
    jobs.send("a")
    with jobs.messages(max_in_flight=1) as stream:
        next(stream).release(delay=10 * STUCK)
        jobs.send("b")
        assert Beside(lambda: next(stream).text).result() == "b"


# With tasks.


async def test_a_cancelled_receive_leases_nothing(url: str, folder: Path) -> None:
    async with aio.connect(url) as client:
        await client.create_queue("jobs")
        jobs = client.queue("jobs")
        waiting = [asyncio.create_task(jobs.receive(wait=STUCK)) for _ in range(20)]
        for _ in waiting:
            await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await jobs.send("foo")
        (message,) = await jobs.receive(wait=STUCK)
        assert message.text == "foo"


@pytest.mark.parametrize("turns", range(8))
async def test_a_receive_that_is_cancelled_as_its_message_comes_gives_it_back(
    url: str, turns: int
) -> None:
    async with aio.connect(url) as client:
        await client.create_queue("jobs")
        jobs = client.queue("jobs")
        for _ in range(5):
            task = asyncio.create_task(jobs.receive(wait=STUCK, visibility_timeout=3600))
            await jobs.send("foo")
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                (message,) = await task
            except asyncio.CancelledError:
                (message,) = await jobs.receive(wait=STUCK)
            await message.delete()


async def test_many_tasks_wait_and_others_are_not_held_up(url: str) -> None:
    async with aio.connect(url) as client:
        await client.create_queue("jobs")
        jobs = client.queue("jobs")
        waiting = [asyncio.create_task(jobs.receive(wait=STUCK)) for _ in range(50)]
        ids = set(await asyncio.gather(*(jobs.send(f"{number}") for number in range(50))))
        received = await asyncio.gather(*waiting)
        assert {message.id for (message,) in received} == ids

"""`spoolrack.connect("file:///root")`: its own properties. The contract tests show the rest."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import spoolrack
from spoolrack import Client, Queue, aio
from spoolrack.errors import (
    ClientClosed,
    InvalidRequest,
    InvalidUrl,
    OutcomeUnknown,
    QueueNotFound,
    RootUnusable,
    StoreFailed,
    Timeout,
)
from spoolrack.testing import manual_clock, open_root
from spoolrack_store.files import layout


def owners(root: Path) -> int:
    return len(list((root / "owners").iterdir()))


# Where it leads.


@pytest.mark.parametrize(
    "url",
    [
        "file://",
        "file:///",
        "file://relative/path",
        "file:///srv/root#1",
        "file:///srv/root?group_access=perhaps",
        "file:///srv/root?peers=1",
        "file:///srv/r%00t",
    ],
)
def test_a_url_that_names_no_root_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl, match="file"):
        spoolrack.connect(url)


def test_a_root_may_have_any_name(tmp_path: Path) -> None:
    with spoolrack.connect(f"file://{tmp_path}/my%20%23%3Fröot/") as client:
        client.create_queue("jobs")
        assert (tmp_path / "my #?röot" / layout.FORMAT).exists()
        assert "my%20%23%3Fr%C3%B6ot>" in repr(client)


def test_only_the_creation_of_a_queue_makes_a_root(client: Client, root: Path) -> None:
    for call in (
        lambda: client.queue("jobs").info(),
        lambda: list(client.list_queues()),
        lambda: client.queue("jobs").send("a"),
        lambda: client.queue("jobs").receive(),
        lambda: next(client.queue("jobs").messages()),
    ):
        with pytest.raises(RootUnusable, match="create a queue"):
            call()
    assert not root.exists()
    client.create_queue("jobs")
    assert client.queue("jobs").receive() == []


def test_it_works_without_grpc(root: Path) -> None:
    script = f"""
import sys
sys.modules["grpc"] = sys.modules["google"] = None
import asyncio, spoolrack
with spoolrack.connect("file://{root}") as client:
    client.create_queue("jobs")
    client.queue("jobs").send("a")
    with next(client.queue("jobs").messages()) as message:
        print(message.text)

async def main():
    async with spoolrack.aio.connect("file://{root}") as client:
        print(await client.queue("jobs").receive())

asyncio.run(main())
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "a\n[]\n"), done.stderr


def test_a_request_has_the_bounds_that_a_server_has(jobs: Queue) -> None:
    for call in (
        lambda: jobs.receive(1_001),
        lambda: jobs.receive(-1),
        lambda: jobs.receive(wait=3_601),
        lambda: jobs.receive(visibility_timeout=0),
        lambda: jobs.receive(visibility_timeout=43_201),
        lambda: jobs.get("nonsense"),
        lambda: next(jobs.messages(max_in_flight=10_001)),
    ):
        with pytest.raises(InvalidRequest):
            call()


# One store for all clients.


def test_clients_of_a_root_share_a_store_that_is_closed_with_the_last(
    jobs: Queue, client: Client, root: Path, url: str
) -> None:
    with spoolrack.connect(url) as second, spoolrack.connect(f"{url}/./") as third:
        assert second.queue("jobs").info() == third.queue("jobs").info()
        assert owners(root) == 1
        client.close()
        second.queue("jobs").send("a")
        assert owners(root) == 1
        with pytest.raises(ClientClosed):
            jobs.send("b")
    assert owners(root) == 0


def test_many_threads_open_one_store(root: Path, url: str) -> None:
    with spoolrack.connect(url) as first:
        first.create_queue("jobs")
    seen: list[int] = []
    together = threading.Barrier(8)

    def use() -> None:
        with spoolrack.connect(url) as client:
            together.wait()
            client.queue("jobs").send("a")
            seen.append(owners(root))
            together.wait()

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen == [1] * 8
    assert owners(root) == 0


def test_a_client_that_was_forgotten_keeps_nothing_open(root: Path, url: str) -> None:
    spoolrack.connect(url).create_queue("jobs")
    gc.collect()
    left = threading.Event()
    for _ in range(1_000):
        if owners(root) == 0:
            return
        left.wait(0.01)
    raise AssertionError("it is still open")


def test_after_a_failed_sync_only_a_new_client_gets_a_new_store(
    jobs: Queue, root: Path, url: str
) -> None:
    jobs.send("a")
    (root / layout.FORMAT).rename(root / "elsewhere")  # a sync of everything looks for it first
    with pytest.raises(OutcomeUnknown):
        jobs.send_many(["b"] * 101)  # Up to 100 are one file, which is synced alone.
    (root / "elsewhere").rename(root / layout.FORMAT)
    with pytest.raises(StoreFailed):
        jobs.send("d", timeout=5)
    with spoolrack.connect(url) as fresh:
        assert fresh.queue("jobs").receive()[0].text == "a"
        fresh.queue("jobs").send_many(["e", "f"])


# Calls that end before they are answered.


def test_a_receive_that_is_not_answered_in_time_leases_nothing(root: Path) -> None:
    with open_root(root, clock=manual_clock()) as opened, opened.client() as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        with pytest.raises(Timeout):
            jobs.receive(wait=0.01, timeout=0.01)  # by a clock that stands still
        jobs.send("a")
        (message,) = jobs.receive()
        assert message.receive_count == 1


def test_a_root_of_a_test_ends_with_it_beside_a_client_that_was_left_open() -> None:
    with open_root() as opened:
        client = opened.client()
        jobs = client.create_queue("jobs")
    # The store of this client was the last that could write there.
    assert not Path(opened.root).exists()
    with pytest.raises(ClientClosed):
        jobs.send("a")
    client.close()


def test_a_client_that_is_closed_ends_a_receive_that_waits(
    jobs: Queue, client: Client, url: str
) -> None:
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(ClientClosed):
            jobs.receive(wait=3600)
        ended.set()

    with spoolrack.connect(url) as other:
        waiting = threading.Thread(target=wait)
        waiting.start()
        other.queue("jobs").info()
        client.close()
        assert ended.wait(60)
        waiting.join(60)
        other.queue("jobs").send("a")
        assert other.queue("jobs").receive()[0].receive_count == 1


async def test_a_cancelled_receive_leases_nothing(url: str) -> None:
    async with aio.connect(url) as client:
        await client.create_queue("jobs")
        jobs = client.queue("jobs")
        for _ in range(20):
            waiting = asyncio.create_task(jobs.receive(wait=3600))
            sending = asyncio.create_task(jobs.send("a"))
            for _ in range(3):
                await asyncio.sleep(0)
            waiting.cancel()
            outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
            await sending
            messages = outcome if isinstance(outcome, list) else await jobs.receive(wait=60)
            (message,) = messages
            assert message.receive_count == 1
            await message.delete()


async def test_a_loop_that_ends_leaves_the_root_to_others(root: Path, url: str) -> None:
    async with aio.connect(url) as client:
        await client.create_queue("jobs")
        with pytest.raises(QueueNotFound):
            await client.queue("none").info()
    assert owners(root) == 0

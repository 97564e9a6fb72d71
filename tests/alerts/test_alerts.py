"""Each alert fires when its fault is there, alone, and none does while all is well.

The faults are real, and so is what is scraped from the server that has them; promtool evaluates.
"""

from __future__ import annotations

import errno
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.app.application import Application
from spoolrack_server.app.background_tasks import BackgroundTasks
from spoolrack_server.app.health import Health
from spoolrack_server.gateway.gateway import Gateway
from spoolrack_server.metrics.observer import Observer
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.siblings.worker_processes import WorkerProcess
from spoolrack_server.system.logs import make_log
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.background_work import BackgroundWork
from spoolrack_store.model.errors import OutcomeUnknown
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.schedule_requests import CreateSchedule
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.alerts.promtool import ALERTS, firing, why_not
from tests.support.disk_filler import fill_bytes, fill_files
from tests.support.faulty_disk import FaultyDisk
from tests.support.loop_disk import LoopDisk
from tests.support.loop_disk import why_not as why_no_disk
from tests.support.real_server import RealServer
from tests.support.scrape import Scrape, scrape, scrape_at
from tests.support.server_rig import Client, connected

WHILE: Final = 30
"""Minutes: longer than any alert waits."""


@pytest.fixture(autouse=True)
def _promtool() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


def after(minutes: list[Scrape | None], folder: Path) -> set[str]:
    """Return the alerts that fire, but for those of this machine's own disk, which other tests
    check."""
    return firing(minutes, folder, ALERTS) - {"SpoolrackDiskLow", "SpoolrackInodesLow"}


async def test_a_scrape_has_nothing_that_promtool_objects_to(server: Server, client: Client) -> None:
    await client.create()
    await client.send(b"x")
    text = (await scrape(server)).text

    told = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=120
    )

    assert (told.returncode, told.stderr, told.stdout) == (0, "", "")


# All is well.


async def test_nothing_fires_while_messages_come_and_go(
    server: Server, client: Client, clock: ManualClock, tmp_path: Path
) -> None:
    await client.create("dead")
    await client.create("q", max_receives=3, dead_letter_queue="dead")
    minutes: list[Scrape | None] = []
    for _ in range(WHILE):
        await client.send(b"x", b"y")
        received = await client.receive(2)
        await client.delete(*(message.receipt for message in received))
        clock.advance(60_000)
        minutes.append(await scrape(server))

    assert after(minutes, tmp_path) == set()


async def test_nothing_fires_for_a_server_that_drains(tmp_path: Path) -> None:
    health = Health()
    health.finish("The server is shutting down.")
    async with gateway_over(tmp_path, health=health) as rig:
        minutes: list[Scrape | None] = [await rig.scrape()] * WHILE

    assert after(minutes, tmp_path) == set()


# Faults.


async def test_a_server_that_does_not_answer(server: Server, tmp_path: Path) -> None:
    minutes = [await scrape(server), None, None, None]
    assert after(minutes, tmp_path) == {"SpoolrackDown"}


async def test_a_shard_that_is_scraped_no_more(server: Server, tmp_path: Path) -> None:
    minutes: list[Scrape | None] = [await scrape(server)] * WHILE
    found = partial(firing, minutes, tmp_path, ["SpoolrackDown", "SpoolrackShardMissing"])
    assert found(minutes, are_shards=True) == set()
    assert found(minutes[:3], are_shards=True) == {"SpoolrackShardMissing"}
    # One of several servers over one root is not missed.
    assert found(minutes[:3]) == set()


class Rig:
    """A gateway over a disk that fails when a test wants it to."""

    def __init__(self, store: Store, disk: FaultyDisk, url: str) -> None:
        self.store = store
        self.disk = disk
        self.url = url

    async def scrape(self) -> Scrape:
        return await scrape_at(self.url)

    def send(self, count: int = 1) -> None:
        self.store.submit(Send(queue="q", bodies=[b"x"] * count)).result()


class Silent(WorkerProcess):
    """One of two processes, of which the other one doesn't answer."""

    async def others(self, what: str) -> dict[int, Any]:
        return {1: None}


@asynccontextmanager
async def gateway_over(
    folder: Path,
    *,
    health: Health | None = None,
    process: WorkerProcess | None = None,
    background: BackgroundWork | None = None,
    first: Callable[[Path], None] = lambda root: None,
) -> AsyncIterator[Rig]:
    """Open a gateway; call `first` with the root before the monitoring begins."""
    root = folder / "root"
    root.mkdir()
    disk, clock, health = FaultyDisk(root), ManualClock(), health or Health()
    with Store.open(root, clock=clock, disk=disk, background=background or BackgroundWork()) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        first(root)
        store.on_failure(lambda error: health.fail(str(error)))
        observer = Observer(health, clock, process)
        observer.begin(store.metrics, reaps=(background or BackgroundWork()).unlinks)
        tasks = BackgroundTasks(health, make_log())
        tasks.start("samples", observer.sample_slot)
        app = Application(store, clock, make_log())
        gateway = Gateway(app, health, clock, make_log(), observer=observer)
        port = await gateway.start("127.0.0.1", 0)
        try:
            yield Rig(store, disk, f"http://127.0.0.1:{port}")
        finally:
            await gateway.stop(0)
            await tasks.stop()
            await observer.end()


async def test_a_sync_that_failed(tmp_path: Path) -> None:
    async with gateway_over(tmp_path) as rig:
        well = await rig.scrape()
        rig.disk.fail(errno.EIO, "sync_file", "sync_folder", "sync_all")
        with pytest.raises(OutcomeUnknown):
            rig.send()
        failed = await rig.scrape()

    assert after([well], tmp_path) == set()
    assert after([well, failed], tmp_path) == {"SpoolrackSyncFailed"}
    assert after([well, *[failed] * 3], tmp_path) == {"SpoolrackSyncFailed", "SpoolrackNotServing"}


async def test_a_process_that_hangs(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, process=Silent(0)) as rig:
        minutes: list[Scrape | None] = [await rig.scrape()] * 4

    assert after(minutes, tmp_path) == {"SpoolrackProcessSilent"}


@contextmanager
def served_on_a_disk(folder: Path, **options: Any) -> Iterator[tuple[Path, str]]:
    """Yield a small disk of its own and the URL of a server on it; skip where there can be none."""
    reason = why_no_disk("ext4")
    if reason is not None:
        pytest.skip(reason)
    with LoopDisk("ext4", folder / "disk", **options) as disk:
        server = RealServer(disk.mount_point / "root", folder / "server.log")
        try:
            server.start()
            yield disk.mount_point, f"http://127.0.0.1:{server.http_port}"
        finally:
            server.kill()


async def test_a_disk_that_is_full(tmp_path: Path) -> None:
    with served_on_a_disk(tmp_path) as (place, url):
        well = await scrape_at(url)
        fill_bytes(place / "foreign")
        full = await scrape_at(url)

    assert firing([well] * WHILE, tmp_path, ALERTS) == set()
    assert firing([well, *[full] * WHILE], tmp_path, ALERTS) == {
        "SpoolrackDiskFull",
        "SpoolrackDiskLow",
    }


async def test_a_disk_that_has_no_inodes_left(tmp_path: Path) -> None:
    with served_on_a_disk(tmp_path, making=("-N", "3000")) as (place, url):
        fill_files(place / "foreign")
        full = await scrape_at(url)

    assert firing([full] * WHILE, tmp_path, ALERTS) == {"SpoolrackInodesLow"}


async def test_a_memory_that_stays_at_its_watermark(tmp_path: Path) -> None:
    settings = ServeSettings(root=str(tmp_path / "root"), memory_watermark=1)
    async with Server(settings, clock=ManualClock()) as server:
        well = await scrape(server)
        server._memory.check()
        full = await scrape(server)

    assert after([full, well] * WHILE, tmp_path) == set(), "a refusal that ends is none to wake for"
    assert after([full] * WHILE, tmp_path) == {"SpoolrackMemoryFull"}


async def test_a_queue_without_consumers(
    server: Server, client: Client, clock: ManualClock, tmp_path: Path
) -> None:
    await client.create()
    await client.send(b"x")
    await client.delete(*(message.receipt for message in await client.receive()))
    await client.send(b"waits")
    minutes: list[Scrape | None] = []
    for _ in range(WHILE):
        minutes.append(await scrape(server))
        clock.advance(60_000)

    assert after(minutes[:9], tmp_path) == set()
    assert after(minutes, tmp_path) == {"SpoolrackQueueBlocked"}


async def test_a_queue_that_only_another_server_gives_from_is_not_blocked(
    tmp_path: Path, clock: ManualClock
) -> None:
    """Through whichever server messages are received, each server over one root reports of the same old
    message."""
    mine: list[Scrape | None] = []
    theirs: list[Scrape | None] = []
    async with (
        Server(tmp_path / "root", clock=clock) as server,
        Server(tmp_path / "root", clock=clock) as peer,
        connected(server) as client,
    ):
        await client.create()
        await client.send(b"waits", b"taken")
        for _ in range(WHILE):
            (message,) = await client.receive()
            mine.append(await scrape(server))
            theirs.append(await scrape(peer))
            await client.release(message.receipt)
            clock.advance(60_000)

    assert "SpoolrackQueueBlocked" not in firing(mine, tmp_path, ALERTS, beside=theirs)
    assert "SpoolrackQueueBlocked" in firing(theirs, tmp_path, ALERTS), "without the one that receives"


async def test_a_queue_of_one_shard_is_blocked_whatever_is_received_from_another(
    tmp_path: Path, clock: ManualClock
) -> None:
    mine: list[Scrape | None] = []
    theirs: list[Scrape | None] = []
    # The queues without series of their own are `*` on each shard.
    some = {"http": ("127.0.0.1", 0), "metrics_queues": 0}
    async with (
        Server(ServeSettings(root=str(tmp_path / "mine"), **some), clock=clock) as server,
        Server(ServeSettings(root=str(tmp_path / "theirs"), **some), clock=clock) as peer,
        connected(server) as client,
        connected(peer) as other,
    ):
        for each in (client, other):
            await each.create()
            await each.send(b"waits", b"taken")
        for _ in range(WHILE):
            (message,) = await other.receive(1)
            mine.append(await scrape(server))
            theirs.append(await scrape(peer))
            await other.release(message.receipt)
            clock.advance(60_000)

    assert "SpoolrackQueueBlocked" in firing(mine, tmp_path, ALERTS, beside=theirs, are_shards=True)


async def test_a_queue_that_grows_older_although_it_is_received_from(
    server: Server, client: Client, clock: ManualClock, tmp_path: Path
) -> None:
    await client.create()
    minutes: list[Scrape | None] = []
    for _ in range(WHILE):
        await client.send(*[b"x"] * 10)
        await client.delete(*(message.receipt for message in await client.receive(1)))
        clock.advance(60_000)
        minutes.append(await scrape(server))

    assert after(minutes, tmp_path) == {"SpoolrackQueueFallsBehind"}


async def test_a_message_that_comes_back_again_and_again(
    server: Server, client: Client, clock: ManualClock, tmp_path: Path
) -> None:
    await client.create(visibility_timeout=Duration(seconds=30))
    await client.send(b"poison")
    minutes: list[Scrape | None] = []
    for _ in range(WHILE):
        await client.receive()
        clock.advance(60_000)
        await client.until_ready(1)
        minutes.append(await scrape(server))

    assert "SpoolrackMessageComesBack" in after(minutes, tmp_path)


async def test_dead_letters(server: Server, client: Client, clock: ManualClock, tmp_path: Path) -> None:
    await client.create("dead")
    await client.create("q", max_receives=1, dead_letter_queue="dead")
    well = await scrape(server)
    await client.send(b"poison")
    await client.receive()
    clock.advance(60_000)
    await client.receive()
    for _ in range(10_000):  # It is on its way when the receive finds none.
        dead = await scrape(server)
        if dead.value("spoolrack_dead_letters", queue="dead"):
            break

    assert after([well] * 5, tmp_path) == set()
    assert after([well, dead], tmp_path) == {"SpoolrackDeadLetters"}
    assert after([well, *[dead] * WHILE], tmp_path) == set(), "they don't grow any more"


async def test_quarantined_files(tmp_path: Path) -> None:
    root = tmp_path / "root"
    async with Server(root) as server, connected(server) as client:
        await client.create()
    (root / "queues" / "q" / "foreign").write_text("what is this?")
    async with Server(root) as server:
        for _ in range(10_000):
            found = await scrape(server)
            if "spoolrack_quarantine_items" in found.names():
                break

    assert after([found], tmp_path) == {"SpoolrackQuarantine"}


async def test_a_background_task_that_fails(tmp_path: Path) -> None:
    health = Health()
    async with gateway_over(tmp_path, health=health) as rig:
        health.background["samples"] = "a fault"
        found = await rig.scrape()
    assert after([found] * WHILE, tmp_path) == {"SpoolrackBackgroundFailing"}


async def test_a_schedule_that_rests(server: Server, client: Client, tmp_path: Path) -> None:
    await client.create()
    unusable = CreateSchedule(queue="q", name="s", cron="* * * * *", time_zone="Mars/Base")
    server.store.submit(unusable).result()
    while (found := await scrape(server)).value("spoolrack_resting_schedules") == 0:
        pass
    assert after([found] * WHILE, tmp_path) == {"SpoolrackScheduleRests"}


async def test_an_access_file_that_is_not_taken_over(server: Server, tmp_path: Path) -> None:
    server.observer.observe_access(lambda: {"tokens": 121.0})
    found = await scrape(server)
    assert after([found], tmp_path) == {"SpoolrackAccessFileStale"}


async def test_files_that_are_never_unlinked(tmp_path: Path) -> None:
    def leave(root: Path) -> None:
        for number in range(10_001):
            (root / "remove" / str(number)).touch()

    async with gateway_over(tmp_path, background=BackgroundWork(unlinks=False), first=leave) as rig:
        for _ in range(10_000):  # Counted now and then, beside the scrapes.
            found = await rig.scrape()
            if found.value("spoolrack_reaper_waiting") > 10_000:
                break

    assert after([found] * WHILE, tmp_path) == {"SpoolrackReaperLag"}


async def test_leases_that_are_never_ended(tmp_path: Path, clock: ManualClock) -> None:
    background = BackgroundWork(brings_back=False)
    async with Server(tmp_path / "root", clock=clock, background=background) as server:
        async with connected(server) as client:
            await client.create()
            await client.send(b"x")
            await client.receive()
        minutes: list[Scrape | None] = []
        for _ in range(WHILE):
            clock.advance(60_000)
            minutes.append(await scrape(server))

    assert after(minutes, tmp_path) == {"SpoolrackMoverLag"}


async def test_syncs_that_take_long(tmp_path: Path) -> None:
    async with gateway_over(tmp_path) as rig:
        # The disk isn't slow, but the watch by which it is measured is fast.
        seconds = iter(range(10_000_000))
        rig.store.metrics.statistics.watch = lambda: float(next(seconds))
        minutes: list[Scrape | None] = []
        for _ in range(WHILE):
            rig.send()
            minutes.append(await rig.scrape())

    assert after(minutes, tmp_path) == {"SpoolrackSlowSyncs"}


async def test_calls_that_fail_by_a_fault_of_the_server(tmp_path: Path, clock: ManualClock) -> None:
    async with Server(tmp_path / "root", clock=clock) as server, connected(server) as client:
        await client.create()
        (sent,) = await client.send(b"a whole body")
    (file,) = [path for path in (tmp_path / "root" / "queues" / "q").rglob("*") if path.is_file()]
    file.write_bytes(b"rot")
    minutes: list[Scrape | None] = []
    # The first server had the body in memory.
    async with Server(tmp_path / "root", clock=clock) as server, connected(server) as client:
        for _ in range(WHILE):
            with pytest.raises(grpc.aio.AioRpcError, match="DATA_LOSS"):
                await client.stub.GetMessage(rpc.GetMessageRequest(queue="q", id=sent))
            clock.advance(1_000)
            minutes.append(await scrape(server))

    assert "SpoolrackFaults" in after(minutes, tmp_path)

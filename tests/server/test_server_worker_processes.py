"""Several processes are watched as one: a scrape tells of all of them, and a probe asks them all."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import spoolrack
from spoolrack_server.app import health
from spoolrack_server.app.health import Health
from spoolrack_server.siblings.control_channel import ControlChannel
from spoolrack_server.siblings.worker_processes import METRIC_ROWS, WorkerProcess, WorkerProcesses
from spoolrack_server.system.loop_thread import LoopThread

from tests.support import STUCK
from tests.support.scrape import Scrape, scrape_at
from tests.support.serving import ANY_PORTS, Serving, serving

pytestmark = pytest.mark.timeout(300)  # It starts processes.


class Running:
    """A server of several processes."""

    def __init__(self, server: Serving) -> None:
        self.process = server.process
        self.grpc, self.http, self.probes = map(server.at, ("gRPC", "HTTP", "Probes"))

    def scrape(self) -> Scrape:
        return asyncio.run(scrape_at(self.http))

    def probe(self, what: str) -> tuple[int, str]:
        async def ask() -> tuple[int, str]:
            url = f"{self.probes}/-/health/{what}"
            async with aiohttp.ClientSession() as http, http.get(url) as answer:
                return answer.status, (await answer.json()).get("why", "")

        return asyncio.run(ask())

    def until(self, what: str, wanted: tuple[int, str]) -> None:
        end = time.monotonic() + STUCK
        while (found := self.probe(what)) != wanted:
            assert time.monotonic() < end, f"{what} is {found} and never {wanted}"


Serve = Callable[..., Running]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    with ExitStack() as stack:

        def serve(processes: int) -> Running:
            options = ("--data", tmp_path / "root", "--processes", processes)
            probes = ("--health", "127.0.0.1:0")
            return Running(stack.enter_context(serving(*options, *ANY_PORTS, *probes)))

        yield serve


def send(running: Running, count: int) -> None:
    for _ in range(count):
        with spoolrack.connect(f"grpc://{running.grpc}") as client:
            client.queue("q").send(b"x")


def test_a_scrape_tells_of_all_processes_whichever_of_them_it_comes_to(serve: Serve) -> None:
    running = serve(3)
    with spoolrack.connect(f"grpc://{running.grpc}") as client:
        client.create_queue("q")
    send(running, 12)

    for _ in range(6):  # The kernel deals them out.
        found = running.scrape()
        answered = found.families["spoolrack_process_answers"].samples
        assert {(each.labels["process"], each.value) for each in answered} == {
            ("0", 1.0),
            ("1", 1.0),
            ("2", 1.0),
        }
        sent = [
            sample.value
            for sample in found.families["spoolrack_messages"].samples
            if sample.labels["operation"] == "send"
        ]
        assert sum(sent) == 12
        assert found.value("spoolrack_queues") == 1
        assert found.labels("spoolrack_process_start_time_seconds", "process") == {"0", "1", "2"}


def test_probes_are_answered_for_all_processes_until_the_last_has_ended(serve: Serve) -> None:
    running = serve(2)
    assert (running.probe("live"), running.probe("ready")) == ((200, ""), (200, ""))
    assert running.probe("nothing")[0] == 404

    running.process.send_signal(signal.SIGTERM)
    running.process.communicate(timeout=STUCK)

    assert running.process.returncode == 0
    with pytest.raises(aiohttp.ClientConnectionError):
        running.probe("live")


def test_a_process_that_hangs_is_told_by_the_probe_for_life_and_by_a_scrape(serve: Serve) -> None:
    running = serve(2)
    hanging = members_of(running.process.pid)[0]

    os.kill(hanging, signal.SIGSTOP)
    status, why = running.probe("live")
    os.kill(hanging, signal.SIGCONT)

    assert status == 503
    assert why.startswith("no answer from ")
    running.until("live", (200, ""))
    running.until("ready", (200, ""))


def members_of(supervisor: int) -> list[int]:
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text()
    return [int(pid) for pid in children.split()]


def test_one_that_died_is_started_again_and_the_rest_is_ready(serve: Serve) -> None:
    running = serve(2)
    survivor, killed = members_of(running.process.pid)
    os.kill(killed, signal.SIGKILL)

    end = time.monotonic() + STUCK
    while len(members := {*members_of(running.process.pid)} - {killed}) < 2:
        assert time.monotonic() < end, "it isn't started again"
    assert survivor in members
    running.until("ready", (200, ""))
    running.until("live", (200, ""))


# Lines.


class Told:
    """Tells something of itself."""

    def __init__(self, state: str = "serving") -> None:
        self.state = state

    async def lives(self, loop: asyncio.AbstractEventLoop) -> bool:
        return True

    async def answer(self, what: str) -> Any:
        return [["spoolrack_serving", [], 1]] if what == METRIC_ROWS else f"asked for {what}"


async def lined(
    workers: WorkerProcesses, number: int, told: Told | None
) -> tuple[WorkerProcess, list[asyncio.Task[None]]]:
    """Return a member, and the tasks that serve its line."""
    ours, theirs = socket.socketpair()
    member = WorkerProcess(number)
    if told is not None:
        member.join(told)
    line = await ControlChannel.open(theirs, member.answer)
    member.begin(line)
    supervisors = await ControlChannel.open(ours, workers.answers_to(number))
    workers.add(number, supervisors)
    return member, [asyncio.create_task(each.run()) for each in (line, supervisors)]


async def test_members_hear_of_each_other_and_not_of_themselves() -> None:
    workers = WorkerProcesses()
    first, tasks = await lined(workers, 0, Told())
    _, more = await lined(workers, 1, Told("failed"))
    _, last = await lined(workers, 2, None)

    assert await first.others(METRIC_ROWS) == {1: [["spoolrack_serving", [], 1]], 2: []}
    assert await first.others("history q") == {1: "asked for history q", 2: []}
    assert await workers.states() == {0: "serving", 1: "failed", 2: "starting"}
    await end(*tasks, *more, *last)


async def end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_question_to_an_ended_worker_process_gets_no_answer() -> None:
    workers = WorkerProcesses()
    first, tasks = await lined(workers, 0, Told())
    _, others = await lined(workers, 1, Told())
    assert await first.others(METRIC_ROWS) == {1: [["spoolrack_serving", [], 1]]}
    await end(others[0])
    await others[1]  # Its end of the line is broken.

    assert await first.others(METRIC_ROWS) == {1: None}
    assert await workers.states() == {0: "serving", 1: None}
    await end(*tasks)


class Kept(Told):
    """Tells whether the loop that is kept from work waits for the disk."""

    def __init__(self) -> None:
        super().__init__("stalled")
        self.health = Health()

    async def lives(self, loop: asyncio.AbstractEventLoop) -> bool:
        return await self.health.lives(loop)


async def test_a_worker_process_that_the_disk_keeps_is_told_from_one_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A liveness probe restarts the one: a restart mends no disk."""
    monkeypatch.setattr(health, "LOOKS", 1)
    workers, kept, own, released = WorkerProcesses(), Kept(), LoopThread("own"), threading.Event()
    ours, theirs = socket.socketpair()
    member = WorkerProcess(0)
    member.join(kept)
    line = await ControlChannel.open(theirs, member.answer)

    async def begin() -> None:
        member.begin(line)

    async def wait() -> None:
        released.wait(STUCK)

    await own.run(begin())
    waiting = asyncio.create_task(own.run(wait()))
    await asyncio.sleep(0)
    supervisors = await ControlChannel.open(ours, workers.answers_to(0))
    workers.add(0, supervisors)
    tasks = [asyncio.create_task(each.run()) for each in (line, supervisors)]
    kept.health.stall = lambda: (1.0, "the disk")
    assert await workers.states() == {0: "stalled"}
    kept.health.stall = lambda: None
    assert await workers.states() == {0: None}
    released.set()
    await waiting
    assert await workers.states() == {0: "stalled"}
    await end(*tasks)
    own.end()


async def test_an_answer_may_be_longer_than_a_socket_holds() -> None:
    ours, theirs = socket.socketpair()

    async def tell(what: str) -> str:
        return what * 1_000_000

    ends = [await ControlChannel.open(each, tell) for each in (ours, theirs)]
    tasks = [asyncio.create_task(each.run()) for each in ends]

    found = await asyncio.gather(*(each.ask("x", STUCK) for each in ends for _ in range(3)))

    assert found == ["x" * 1_000_000] * 6
    await end(*tasks)


async def api(running: Running, path: str) -> Any:
    async with aiohttp.ClientSession() as http, http.get(f"{running.http}/{path}") as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


def test_the_memory_of_all_processes_is_told_whichever_of_them_is_asked(serve: Serve) -> None:
    running = serve(2)
    for _ in range(4):  # The kernel deals them out.
        processes = asyncio.run(api(running, "-/server/resources"))["processes"]
        assert [process["number"] for process in processes] == [0, 1]
        assert len({process["pid"] for process in processes}) == 2
        assert all(process["resident"] > 1024 * 1024 for process in processes)


def test_the_consumer_of_a_lease_is_told_whichever_process_is_asked(serve: Serve) -> None:
    running = serve(2)
    with spoolrack.connect(f"grpc://{running.grpc}") as client:
        client.create_queue("q")
        client.queue("q").send("x")
        client.queue("q").receive(1)
        for _ in range(4):  # The kernel deals them out.
            (lease,) = asyncio.run(api(running, "q"))["oldest_leases"]
            assert f"pid {os.getpid()}" in lease["consumer"]
            with spoolrack.connect(f"grpc://{running.grpc}") as other:
                (told,) = other.queue("q").info().oldest_leases
            assert told.consumer == lease["consumer"]


@pytest.mark.slow  # Each process takes a sample every ten seconds.
def test_the_history_adds_up_what_all_processes_have_done(serve: Serve) -> None:
    running = serve(3)
    with spoolrack.connect(f"grpc://{running.grpc}") as client:
        client.create_queue("q")

    def until(holds: Callable[[Any], bool]) -> Any:
        end = time.monotonic() + STUCK
        while not holds(told := asyncio.run(api(running, "-/queues/q/history"))):
            assert time.monotonic() < end, told
        return told

    # The samples of all processes are of the same slots, and from the second one on ten seconds apart.
    until(lambda told: len(told.get("entered", ())) > 1)
    send(running, 24)
    told = until(lambda told: round(10 * sum(rate or 0 for rate in told["entered"])) == 24)
    assert (told["silent"], told["partial_before"]) == ([], None)
    assert told["ready"][-1] == 24

"""The dashboard's monitoring over HTTP: the last hour, and the machine."""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path

from spoolrack_server.metrics.history import EVERY
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis

from tests.http.dashboard_rig import api, change
from tests.support.http_rig import MANY, Http, http_to


async def test_the_history_of_a_queue_is_told_with_its_rates_and_counts(
    http: Http, server: Server, clock: ManualClock
) -> None:
    await http.create()
    await server.observer.sample()
    for n in range(3):
        for _ in range(10 * n):
            await http.send()
        clock.advance(EVERY)
        await server.observer.sample()

    found = await api(http, "queues/q/history")

    assert (found["is_kept"], found["silent"], found["partial_before"]) == (True, [], None)
    assert found["every"] == EVERY
    last = clock.wall() // EVERY
    assert found["first"] + len(found["ready"]) - 1 == last
    assert found["ready"][-3:] == [0, 10, 30]
    assert found["entered"][-3:] == [0, 1.0, 2.0]
    assert found["left"][-1] == 0
    trends = await api(http, "trends")
    assert trends["queues"]["q"][-1] == 30


async def test_a_history_of_an_hour_is_an_answer_of_a_few_kilobytes(
    http: Http, server: Server, clock: ManualClock
) -> None:
    await http.create()
    for _ in range(400):
        clock.advance(EVERY)
        await server.observer.sample()
    answer = await http.ask("GET", "/-/api/queues/q/history", described=False)
    assert len(answer.json["ready"]) == 360
    assert len(answer.body) < 20_000


async def test_messages_left_by_deletes_are_in_the_rate(
    http: Http, server: Server, clock: ManualClock
) -> None:
    await http.create()
    ids = [await http.send() for _ in range(20)]
    clock.advance(EVERY)
    await server.observer.sample()
    await change(http, "messages/delete", {"queue": "q", "ids": ids})
    clock.advance(EVERY)
    await server.observer.sample()
    found = await api(http, "queues/q/history")
    assert (found["left"], found["ready"]) == ([0, 2.0], [20, 0])


async def test_the_machine_is_told(
    http: Http, server: Server, clock: ManualClock, tmp_path: Path
) -> None:
    clock.advance(90_000)
    found = await api(http, "resources")
    assert found["root"] == os.path.abspath(server.root)
    space = os.statvfs(server.root)
    assert found["disk"]["total"] == space.f_blocks * space.f_frsize
    assert 0 < found["disk"]["free"] <= found["disk"]["total"]
    assert found["disk"]["refuses_sends"] is False
    (process,) = found["processes"]
    assert (process["number"], process["pid"]) == (0, os.getpid())
    assert process["resident"] > 10 * 1024 * 1024
    assert process["uptime"] >= 90_000
    assert found["machine_memory"] > process["resident"]
    told = await api(http, "server")
    assert told["version"] == version("spoolrack")
    assert told["uptime"] >= 90_000


async def test_samples_are_taken_by_themselves_from_the_start_on(tmp_path: Path) -> None:
    # A millisecond before a slot begins: the server looks at the clock again after as long.
    clock = ManualClock(wall=Millis(1_700_000_000_000 + EVERY - 1))
    async with Server(tmp_path / "root", clock=clock) as server, http_to(server) as http:
        await http.create()
        clock.advance(1)
        for _ in range(MANY):
            found = await api(http, "queues/q/history")
            if found["is_kept"]:
                break
        assert found["ready"] == [0]
        assert found["first"] == clock.wall() // EVERY

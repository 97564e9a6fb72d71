"""Measurements and health over HTTP: the server and its machine, the last hour, ages."""

from __future__ import annotations

import asyncio
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from spoolrack_server.app.health import Health
from spoolrack_server.metrics.history import EVERY
from spoolrack_server.metrics.observer import Observer
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis

from tests.support.http_rig import MANY, Http, fragile, http_to


async def get(http: Http, path: str) -> Any:
    answer = await http.ask("GET", f"/-/{path}")
    assert answer.status == 200, answer
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return answer.json


async def test_the_history_of_a_queue_has_its_rates_and_counts(
    http: Http, server: Server, clock: ManualClock
) -> None:
    await http.create()
    await server.observer.sample()
    for n in range(3):
        for _ in range(10 * n):
            await http.send()
        clock.advance(EVERY)
        await server.observer.sample()

    found = await get(http, "queues/q/history")

    assert (found["is_kept"], found["silent"], found["partial_before"]) == (True, [], None)
    assert found["every"] == EVERY
    assert found["first"] + len(found["ready"]) - 1 == clock.wall() // EVERY
    assert found["ready"][-3:] == [0, 10, 30]
    assert found["entered"][-3:] == [0, 1.0, 2.0]
    assert found["left"][-1] == 0
    assert (await get(http, "trends"))["queues"]["q"][-1] == 30
    assert (await get(http, "trends?contains=x"))["queues"] == {}


async def test_a_history_of_an_hour_is_an_answer_of_a_few_kilobytes(
    http: Http, server: Server, clock: ManualClock
) -> None:
    await http.create()
    for _ in range(400):
        clock.advance(EVERY)
        await server.observer.sample()
    answer = await http.ask("GET", "/-/queues/q/history")
    assert len(answer.json["ready"]) == 360
    assert len(answer.body) < 20_000


async def test_samples_are_taken_by_themselves_from_the_start_on(tmp_path: Path) -> None:
    # A millisecond before a slot begins: the server looks at the clock again after as long.
    clock = ManualClock(wall=Millis(1_700_000_000_000 + EVERY - 1))
    async with Server(tmp_path / "root", clock=clock) as server, http_to(server) as http:
        # After the first sample, which one thread takes before it answers: it has no queue.
        assert not (await server.observer.history("q"))["is_kept"]
        await http.create()
        clock.advance(1)
        for _ in range(MANY):
            found = await get(http, "queues/q/history")
            if found["is_kept"]:
                break
        assert found["ready"] == [0]
        assert found["first"] == clock.wall() // EVERY


async def test_a_slot_that_begins_during_a_sample_is_sampled_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ManualClock(wall=Millis(1_700_000_000_000 + EVERY - 1))
    observer = Observer(Health(), clock)
    pauses = []

    async def sample() -> None:
        clock.advance(1)

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        raise asyncio.CancelledError

    monkeypatch.setattr(observer, "sample", sample)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await observer.sample_slot()
    # As long as it was to the next slot when the sample began: that one is there now.
    assert pauses == [0.001]


async def test_ages_are_counts_of_ready_messages_between_bounds_that_double(
    http: Http, clock: ManualClock
) -> None:
    for queue in ("jobs", "mail"):
        await http.create(queue)
        await http.send(queue=queue)
    clock.advance(20_000)
    found = await get(http, "ages")
    assert found["bounds"][:3] == [15.0, 30.0, 60.0]
    assert [(each["name"], each["counts"][:3]) for each in found["queues"]] == [
        ("jobs", [0, 1, 0]),
        ("mail", [0, 1, 0]),
    ]
    assert found["are_all"]
    (mail,) = (await get(http, "ages?contains=ai&first=1"))["queues"]
    assert (mail["name"], mail["counts"].index(1)) == ("mail", 5)
    assert (await get(http, "queues/mail/ages?first=300"))["queues"][0]["counts"][0] == 1


async def test_the_server_says_its_version_its_clock_and_what_its_caller_may_do(
    http: Http, server: Server, clock: ManualClock
) -> None:
    clock.advance(90_000)
    found = await get(http, "server")
    assert (found["status"], found["why"], found["identity"]) == ("SERVING", None, "")
    assert found["version"] == version("spoolrack")
    assert found["time"] == "2023-11-14T22:14:50.000Z"
    assert found["uptime"] == 90
    everything = ["send", "receive", "manage", "monitor"]
    assert found["permissions"] == {"all_queues": everything, "some_queues": everything}


async def test_the_server_tells_what_its_log_says_of_the_file_system(
    http: Http, server: Server
) -> None:
    server._health.doubt = None
    assert "doubt" not in await get(http, "server")
    server._health.doubt = "an ext4 without a journal (vda): after a power cut, messages may be lost"
    found = await get(http, "server")
    assert (found["status"], found["doubt"]) == ("SERVING", server._health.doubt)


async def test_the_machine_is_measured(http: Http, server: Server) -> None:
    found = await get(http, "server/resources")
    assert found["root"] == os.path.abspath(server.root)
    space = os.statvfs(server.root)
    assert found["disk"]["total"] == space.f_blocks * space.f_frsize
    assert 0 < found["disk"]["free"] <= found["disk"]["total"]
    assert found["disk"]["refuses_sends"] is False
    (process,) = found["processes"]
    assert (process["number"], process["pid"]) == (0, os.getpid())
    assert process["resident"] > 10 * 1024 * 1024
    assert found["machine_memory"] > process["resident"]
    (owner,) = found["owners"]
    assert owner["is_me"]
    assert owner["about"].startswith(f"pid {os.getpid()} on ")
    assert found["quarantined"] == 0


async def test_why_a_server_does_not_serve_is_said_and_its_queues_are_still_listed(
    tmp_path: Path,
) -> None:
    health = Health()
    async with fragile(tmp_path / "root", health) as rig:
        await rig.http.create()
        health.fail("A sync failed.")
        found = await get(rig.http, "server")
        assert (found["status"], found["why"]) == ("NOT_SERVING", "A sync failed.")
        assert len((await get(rig.http, "queues"))["queues"]) == 1


async def test_readiness_tells_of_the_watermark_of_memory(tmp_path: Path) -> None:
    settings = ServeSettings(root=str(tmp_path), memory_watermark=1)
    async with Server(settings, clock=ManualClock()) as server, http_to(server) as http:
        server._memory.check()
        answer = await http.ask("GET", "/-/health/ready")
    assert (answer.status, answer.json) == (200, {"status": "READY", "refuses_sends": ["memory"]})


@pytest.mark.parametrize(("least", "detail"), [(1 << 50, {"refuses_sends": ["disk"]}), (0, {})])
async def test_health_tells_of_the_watermark_of_the_disk(
    tmp_path: Path, least: int, detail: dict[str, list[str]]
) -> None:
    settings = ServeSettings(root=str(tmp_path), min_free_space=least)
    async with Server(settings, clock=ManualClock()) as server, http_to(server) as http:
        for path, status in (("health", "SERVING"), ("health/ready", "READY")):
            answer = await http.ask("GET", f"/-/{path}")
            assert (answer.status, answer.json) == (200, {"status": status, **detail})

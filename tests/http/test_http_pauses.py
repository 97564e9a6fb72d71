"""Pauses over HTTP: settings of a queue, and the refusal of a send."""

from __future__ import annotations

import re
from pathlib import Path

from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support.http_rig import Http, http_to
from tests.support.server_rig import Client


async def test_a_lease_tells_the_address_and_the_user_agent_of_its_consumer(
    http: Http, client: Client
) -> None:
    await http.create()
    await http.send(b"one")
    await http.send(b"two")
    agent = "worker/1 \u202e" + "x" * 1_000
    await http.ask("GET", "/q/messages", headers={"User-Agent": agent})
    await client.receive()
    over_http, over_grpc = (await http.ask("GET", "/q")).json["oldest_leases"]
    assert re.fullmatch(r"127\.0\.0\.1:\d+, worker/1 \?x{190}", over_http["consumer"])
    assert re.fullmatch(r"127\.0\.0\.1:\d+, grpc-python-asyncio/\S+", over_grpc["consumer"])


async def test_a_lease_from_before_a_restart_has_an_unknown_consumer(
    http: Http, server: Server, tmp_path: Path, clock: ManualClock
) -> None:
    await http.create()
    await http.send(b"held")
    await http.receive()
    await server.stop()
    async with Server(tmp_path / "root", clock=clock) as again, http_to(again) as http:
        (lease,) = (await http.ask("GET", "/q")).json["oldest_leases"]
        assert lease["consumer"] == "unknown to this process; no other has the root open"
        assert lease["receive_time"] is None

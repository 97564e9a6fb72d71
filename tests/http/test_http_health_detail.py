"""Health over HTTP tells at which watermarks sends are refused; the server is ready all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support.http_rig import http_to


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

"""A server refuses sends below the disk's watermark of its settings, and says so in its metrics."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support.server_rig import connected
from tests.support.statuses import reason_of, retry_millis_of


@pytest.mark.parametrize(
    ("setting", "is_refused"),
    [({"min_free_space": 1 << 50}, True), ({"min_free_space": 0}, False)],
    ids=["above what is free", "below"],
)
async def test_sends_are_refused_below_the_watermark_and_the_metrics_tell(
    tmp_path: Path, setting: dict[str, int], is_refused: bool
) -> None:
    settings = ServeSettings(root=str(tmp_path), **setting)  # type: ignore[arg-type]
    async with Server(settings, clock=ManualClock()) as server, connected(server) as client:
        await client.create("q")
        message = pb.OutgoingMessage(body=b"a")
        answer = await client.stub.Send(rpc.SendRequest(queue="q", messages=[message]))
        page, _ = await server.observer.page("")
        resources = await server.observer.resources()
    (result,) = answer.results
    assert reason_of(result.error) == ("DISK_FULL" if is_refused else "")
    assert (retry_millis_of(result.error) is not None) is is_refused
    assert f"spoolrack_disk_refuses_sends {float(is_refused)}".encode() in page
    assert resources["disk"]["refuses_sends"] is is_refused

"""`--json` of commands whose usual output is for readers."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from spoolrack import Client
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server

from tests.cli.cli_rig import Spoolrack
from tests.support.serving import PROGRAM, output_of


def told(result: Any) -> Any:
    assert result.code == 0, result
    (line,) = result.out.splitlines()
    return json.loads(line)


def test_a_send_tells_the_id_or_how_many_lines_were_sent(
    spoolrack: Spoolrack, client: Client, tmp_path: Path
) -> None:
    client.create_queue("jobs")
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    one = told(spoolrack("send", "jobs", "x", "--json"))
    assert one == {"queue": "jobs", "id": next(iter(client.queue("jobs").peek())).id}
    by_line = told(spoolrack("send", "jobs", "--lines", str(lines), "--json"))
    assert by_line == {"queue": "jobs", "sent_count": 2, "refused_lines": []}
    batch = ("send", "jobs", "--lines", str(lines), "--json", "--batch")
    assert told(spoolrack(*batch)) == {"queue": "jobs", "sent_count": 2, "stage": None}
    staged = told(spoolrack(*batch, "--no-publish"))
    (stage,) = client.staging.list()
    assert staged == {"queue": "jobs", "sent_count": 0, "stage": stage.name}
    assert spoolrack("send", "jobs", "x", "--json", "--quiet").code == 2


def test_a_refused_line_is_told_by_its_number(
    spoolrack: Spoolrack, client: Client, tmp_path: Path
) -> None:
    client.create_queue("small", max_message_size=1024)
    lines = tmp_path / "lines"
    lines.write_text(f"one\n{'x' * 2000}\ntwo\n")
    result = spoolrack("send", "small", "--lines", str(lines), "--json")
    assert result.code == 65
    assert json.loads(result.out) == {"queue": "small", "sent_count": 2, "refused_lines": [2]}


def test_describe_tells_what_show_tells(spoolrack: Spoolrack, client: Client) -> None:
    client.create_queue("jobs", receiving="paused")
    client.queue("jobs").send("x")
    described, shown = (
        re.sub('"oldest_age": [0-9.]+', "", spoolrack("queues", each, "jobs", "--json").out)
        for each in ("describe", "show")
    )
    assert described == shown
    assert '"RECEIVING_PAUSED"' in described


def test_a_try_and_an_estimate_are_numbers(spoolrack: Spoolrack, offline: Spoolrack) -> None:
    assert told(spoolrack("try", "--json"))["milliseconds"] > 0
    estimate = told(offline("size", "--rate", "100", "--json"))
    assert estimate.keys() == {"processors", "disk", "inodes", "memory", "syncs_per_second"}
    assert (estimate["syncs_per_second"], estimate["inodes"]) == (700, 150_000)


async def test_a_health_check_tells_the_servers_answer(tmp_path: Path) -> None:
    settings = ServeSettings(root=str(tmp_path / "root"), health=("127.0.0.1", 0))
    async with Server(settings) as server:
        assert server.health_url is not None
        address = server.health_url.removeprefix("http://")
        out = await asyncio.to_thread(
            output_of, *PROGRAM, "health", "--json", "--health", address, folder=tmp_path
        )
    assert json.loads(out) == {"status": "READY"}

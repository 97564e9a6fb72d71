"""docs/reference/http.md tells the truth: a shell runs its lines, and each prints what it should."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

import pytest
from spoolrack_server.http import http_errors, request_bodies
from spoolrack_server.process.server import Server

from tests import CHECKOUT
from tests.support.conversation import conversation, run
from tests.support.http_rig import DESCRIPTION

DOCS = CHECKOUT / "docs" / "reference"
HTTP = (DOCS / "http.md").read_text()


async def test_every_line_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: make system-tools installs it")
    # With a clock that goes: a message of the page is delayed for half a second.
    async with Server(tmp_path / "root") as server:
        names = {"http://localhost:8080": str(server.http_url)}
        await asyncio.to_thread(run, conversation(HTTP), tmp_path, names)


def test_the_page_lists_every_route() -> None:
    listed = set(re.findall(r"^\| `([A-Z]+) (\S+)` \|", HTTP, re.MULTILINE))
    described = {
        (method.upper(), path)
        for path, item in DESCRIPTION["paths"].items()
        for method in item
        if method not in ("head", "parameters")
    }
    assert listed == described


def test_the_page_knows_how_patient_the_server_is() -> None:
    http_limits = request_bodies.HttpLimits()
    section = HTTP.partition("## Timeouts of slow clients")[2].partition("## ")[0]
    for words in (
        f"{http_limits.idle:g} seconds",
        f"{http_limits.stall:g} seconds",
        f"{http_limits.bytes_per_second // 1024} KiB",
        f"{request_bodies.BLOCK // 1024} KiB",
        f"{http_limits.memory // 1024**2} MiB",
    ):
        assert words in " ".join(section.split()), words


def test_every_reason_of_its_own_is_in_the_list_of_errors() -> None:
    listed = re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", (DOCS / "errors.md").read_text(), re.MULTILINE)
    own = http_errors.GatewayError.__subclasses__()
    assert sorted(listed) == sorted((kind.reason, str(kind.http_code)) for kind in own)

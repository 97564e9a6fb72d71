"""docs/http.md tells the truth: its lines are typed into a shell, and say what it says they say."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from http_rig import DESCRIPTION, STUCK
from spoolrack_server.gateway import bodies, errors
from spoolrack_server.server import Server

DOCS = Path(__file__).resolve().parents[2] / "docs"
HTTP = (DOCS / "http.md").read_text()
BLOCKS = re.findall(r"```\n(\$ .*?)```", HTTP, re.DOTALL)
MARK = "=== next ==="


def told() -> list[tuple[str, list[str]]]:
    """Each command, and the lines that the page shows of its output."""
    lines = "".join(BLOCKS).splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("$ ")]
    return [
        (lines[start][2:], lines[start + 1 : end])
        for start, end in zip(starts, [*starts[1:], None], strict=True)
    ]


def matches(shown: str, line: str) -> bool:
    return re.fullmatch(re.escape(shown).replace("…", ".*"), line) is not None


async def test_every_line_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: make system-tools installs it")
    conversation = told()
    # With a clock that goes: a message of the page is delayed for half a second.
    async with Server(tmp_path / "root") as server:
        script = f"\necho; echo '{MARK}'\n".join(command for command, _ in conversation)
        script = script.replace("http://localhost:8080", str(server.http_url))
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-c", script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=STUCK,
            check=True,
        )
    outputs = done.stdout.split(MARK)
    for (command, shown), output in zip(conversation, outputs, strict=True):
        lines = [line.rstrip("\r") for line in output.splitlines()]
        for wanted in shown:
            assert any(matches(wanted, line) for line in lines), f"$ {command}\n{wanted}\n{output}"


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
    patience = bodies.Patience()
    section = HTTP.partition("## How slow a client may be")[2].partition("## ")[0]
    for words in (
        f"{patience.idle:g} seconds",
        f"{patience.stall:g} seconds",
        f"{patience.bytes_per_second // 1024} KiB",
        f"{bodies.BLOCK // 1024} KiB",
        f"{patience.memory // 1024**2} MiB",
    ):
        assert words in " ".join(section.split()), words


def test_every_reason_of_its_own_is_in_the_list_of_errors() -> None:
    listed = re.findall(r"^\| `([A-Z_]+)` \| (\d+) \|", (DOCS / "errors.md").read_text(), re.MULTILINE)
    own = errors.GatewayError.__subclasses__()
    assert sorted(listed) == sorted((kind.reason, str(kind.http_code)) for kind in own)

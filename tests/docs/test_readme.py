"""The README tells the truth: what it shows is typed, in its order, against a real server."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from conversation import conversation, run
from spoolrack_server.server import Server

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
STUCK = 60.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(tmp_path / "data") as server:
        yield server


def snippets() -> list[str]:
    """The Python of the page, but for what needs a session of Spark."""
    found = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    return [snippet for snippet in found if "spark." not in snippet]


async def _typed(server: Server, tmp_path: Path, *typed: str) -> tuple[str, str]:
    """What one interpreter prints to its two outputs when all of it is pasted, piece by piece."""
    text = "\n\n".join([*typed, ""]).replace("127.0.0.1:50051", server.grpc_address)
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-i", "-q", "-c", "import sys; sys.ps1 = sys.ps2 = ''"],
        input=text,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=STUCK,
        check=True,
    )
    return done.stdout, done.stderr


async def test_all_python_of_the_page_works_pasted_into_one_interpreter(
    server: Server, tmp_path: Path
) -> None:
    assert len(snippets()) >= 2
    out, err = await _typed(server, tmp_path, *snippets(), "print(client, 'at the end')")
    assert "Error" not in err, err
    assert re.search(r"^[0-9a-f-]{36} b'resize cat.jpg'$", out, re.MULTILINE), out
    assert out.endswith("at the end\n")


async def test_the_first_conversations_do_what_they_say(server: Server, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: make system-tools installs it")
    program = f"SPOOLRACK_URL={server.grpc_address} {sys.executable} -m spoolrack_server"
    names = {
        ".venv/bin/spoolrack": program,
        "http://localhost:8080": str(server.http_url),
        # A log that every machine has, and an end of what follows it.
        "journalctl --no-pager": "printf 'one\\ntwo\\n'",
        "--follow": "--max 2",
    }
    page = re.sub(r"```\n\$ [^`]*buf curl.*?```", "", README, flags=re.DOTALL)
    typed = [each for each in conversation(page) if not each.shown]
    assert len(typed) >= 10
    # With -e, and with what is piped: what fails ends it, and the lines after it are missed.
    typed[0] = typed[0]._replace(command=f"set -e -o pipefail; {typed[0].command}")
    await asyncio.to_thread(run, typed, tmp_path, names)

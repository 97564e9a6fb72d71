"""README.md and docs/tutorials/quickstart.md tell the truth: their examples run on a real server, and
with the tutorial in one folder."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import spoolrack.aio
from spoolrack_server.process.server import Server

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.conversation import Typed, conversation, run, section

QUICK_START = "docs/tutorials/quickstart.md"
TUTORIAL = "docs/tutorials/first-hour.md"
PAGES = {name: (CHECKOUT / name).read_text() for name in ("README.md", QUICK_START)}
_OF_MAKE = {"ARGS", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
COMMANDS = {"README.md": 3, QUICK_START: 10}
"""The least number of commands of a page."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(tmp_path / "data") as server:
        yield server


def snippets(page: str) -> list[str]:
    """Return the Python of a page, without the snippets that need a Spark session."""
    found = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return [snippet for snippet in found if "spark." not in snippet]


async def _typed(server: Server, tmp_path: Path, *typed: str) -> tuple[str, str]:
    """Return what one interpreter prints to its two outputs when all of it is pasted, piece by
    piece."""
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


async def test_all_python_of_the_quick_start_works_pasted_into_one_interpreter(
    server: Server, tmp_path: Path
) -> None:
    pasted = snippets(PAGES["docs/tutorials/quickstart.md"])
    assert len(pasted) >= 2
    out, err = await _typed(server, tmp_path, *pasted, "print(client, 'at the end')")
    assert "Error" not in err, err
    assert re.search(r"^[0-9a-f-]{36} b'resize cat.jpg'$", out, re.MULTILINE), out
    assert out.endswith("at the end\n")


async def test_the_example_of_the_index_works(server: Server, tmp_path: Path) -> None:
    (example,) = snippets((CHECKOUT / "docs" / "index.md").read_text())
    out, err = await _typed(server, tmp_path, example)
    assert out.splitlines()[-1] == "resize cat.jpg"
    assert "Error" not in err, err


async def test_the_worker_of_the_readme_handles_what_its_commands_sent(
    server: Server, tmp_path: Path
) -> None:
    program = f"SPOOLRACK_URL={server.grpc_address} {sys.executable} -m spoolrack_server "
    names = {". .venv/bin/activate": "true", "spoolrack ": program}
    await asyncio.to_thread(run, conversation(PAGES["README.md"]), tmp_path, names)
    (code,) = snippets(PAGES["README.md"])
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", code.replace("127.0.0.1:50051", server.grpc_address)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert worker.stdout is not None
    try:
        line = await asyncio.wait_for(worker.stdout.readline(), STUCK)
        assert re.fullmatch(r"[0-9a-f-]{36} b'resize cat.jpg'\n", line.decode())
        await gone(server, "jobs")
    finally:
        worker.terminate()
        _, said = await worker.communicate()
    assert (worker.returncode, said) == (0, b"")


async def gone(server: Server, queue: str) -> None:
    """Wait until the queue has no message, in any state."""
    async with spoolrack.aio.connect(server.grpc_address) as client, asyncio.timeout(STUCK):
        while (counts := (await client.queue(queue).info()).counts).ready_count or counts.leased_count:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("name", COMMANDS)
async def test_the_commands_of_the_page_succeed(server: Server, tmp_path: Path, name: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: make system-tools installs it")
    assert len(_commands(PAGES[name])) >= COMMANDS[name]
    await _type(server, tmp_path, PAGES[name])


@pytest.mark.parametrize("first", [QUICK_START, TUTORIAL])
async def test_a_reader_of_one_page_can_go_on_with_each_other_in_the_same_folder(
    server: Server, tmp_path: Path, first: str
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: make system-tools installs it")
    second = TUTORIAL if first == QUICK_START else QUICK_START
    for name in ("README.md", first, second):
        page = (CHECKOUT / name).read_text()
        if name == TUTORIAL:  # What comes before its worker runs.
            page = section(page, "## Two queues") + section(page, "## A worker")
        await _type(server, tmp_path, page)
        if name == QUICK_START:
            _, err = await _typed(server, tmp_path, *snippets(page))
            assert "Error" not in err, err


def _commands(page: str) -> list[Typed]:
    page = re.sub(r"```\n\$ [^`]*buf curl.*?```", "", page, flags=re.DOTALL)
    return [each for each in conversation(page) if not each.shown]


async def _type(server: Server, folder: Path, page: str) -> None:
    """Type all commands of a page; the first that fails ends it."""
    program = f"SPOOLRACK_URL={server.grpc_address} {sys.executable} -m spoolrack_server"
    names = {
        ". .venv/bin/activate": "true",
        "spoolrack ": f"{program} ",
        "http://localhost:8080": str(server.http_url),
        # A log that every machine has, and an end of what follows it.
        "journalctl --no-pager": "printf 'one\\ntwo\\n'",
        "--follow": "--max 2",
    }
    typed = _commands(page)
    # With -e and pipefail: a failure ends it, and the lines after it are missed.
    typed[0] = typed[0]._replace(command=f"set -e -o pipefail; {typed[0].command}")
    await asyncio.to_thread(run, typed, folder, names)


def test_the_two_commands_of_the_readme_are_what_ci_runs_and_what_serves(tmp_path: Path) -> None:
    """Type the first one as it stands, in a network of its own, and then the commands below it."""
    serve, test = (line.partition("#")[0].strip() for line in _block(PAGES["README.md"]))
    assert test == "make test"
    assert f"\n{test} " in (CHECKOUT / ".ci" / "run").read_text()
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "nsenter", "unshare"))):
        pytest.skip("needs root, and iproute2, to make a network in which the ports are free")
    if not (CHECKOUT / ".venv" / "set-up-for").exists():
        pytest.skip("needs root, and the environment that make test sets up")
    serving = subprocess.Popen(
        ["unshare", "--net", "--", "bash", "-c", f"ip link set lo up && exec {serve}"],
        cwd=CHECKOUT,
        # As in a terminal: without what the make that runs the tests gives to its own commands.
        env={
            **{name: os.environ[name] for name in os.environ.keys() - _OF_MAKE},
            "DATA": f"{tmp_path}/data",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert serving.stdout is not None
        said = []
        while (line := serving.stdout.readline()) and "127.0.0.1:50051" not in line:
            said.append(line)
        assert line, said
        typed = conversation(PAGES["README.md"])
        inside = f"nsenter --net --target {serving.pid} -- bash -ec"
        for each in typed[1:]:  # The first one makes their program found.
            command = f"{typed[0].command} && {each.command}"
            subprocess.run([*inside.split(), command], cwd=CHECKOUT, timeout=STUCK, check=True)
    finally:
        serving.terminate()  # make, which passes it on
        serving.communicate(timeout=STUCK)


def _block(page: str) -> list[str]:
    """Return the lines of a page's first block."""
    found = re.search(r"```\n(.*?)```", page, re.DOTALL)
    assert found is not None
    return found[1].splitlines()


def test_the_readme_has_at_most_400_words() -> None:
    assert len(PAGES["README.md"].split()) <= 400

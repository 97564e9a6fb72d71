"""docs/how-to/celery.md tells the truth: its app, its worker and its programs run on a real server."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack.testing import RunningServer, running_server

from tests import CHECKOUT
from tests.support.serving import PROGRAM, output_of

PAGE = (CHECKOUT / "docs/how-to/celery.md").read_text()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path / "data") as server:
        yield server


def snippets(server: RunningServer, folder: Path) -> list[str]:
    """Return the Python of the page, with the address and the folder of this test."""
    found = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    address = server.url.removeprefix("grpc://")
    (folder / "results").mkdir(exist_ok=True)
    return [
        each.replace("127.0.0.1:50051", address).replace("/var/tmp/results", f"{folder}/results")
        for each in found
    ]


def printed(program: str, folder: Path) -> list[str]:
    return output_of(sys.executable, "-c", program, folder=folder).splitlines()


def test_the_app_the_worker_and_the_program_of_the_page_work_together(
    server: RunningServer, tmp_path: Path
) -> None:
    tasks, program, _ = snippets(server, tmp_path)
    (tmp_path / "tasks.py").write_text(tasks)
    command = re.search(r"^celery (--app tasks worker.*)$", PAGE, re.MULTILINE)
    assert command is not None
    log = tmp_path / "worker.log"
    with log.open("w") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", *shlex.split(command[1])],
            cwd=tmp_path,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        assert printed(program, tmp_path) == ["small-cat.jpg", "small-dog.jpg"], log.read_text()
    finally:
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


def test_the_program_of_kombu_alone_prints_its_message(server: RunningServer, tmp_path: Path) -> None:
    *_, program = snippets(server, tmp_path)
    assert printed(program, tmp_path) == ["{'picture': 'cat.jpg'}"]


def test_the_commands_of_the_page_set_a_dead_letter_queue(server: RunningServer) -> None:
    commands = re.findall(r"^spoolrack (queues .*)$", PAGE, re.MULTILINE)
    assert len(commands) == 2
    with server.client() as client:
        for command in commands:
            output_of(*PROGRAM, *shlex.split(command), SPOOLRACK_URL=server.url)
        assert client.queue("celery").info().settings.dead_letter_queue == "celery-dead"


def test_the_command_that_lists_delayed_tasks_is_one(server: RunningServer) -> None:
    command = re.search(r"`spoolrack (\w+) --state delayed celery`", PAGE)
    assert command is not None
    with server.client() as client:
        client.create_queue("celery")
        client.queue("celery").send(b"later", delay=3600)
        words = (command[1], "celery", "--state", "delayed")
        assert "later" in output_of(*PROGRAM, *words, SPOOLRACK_URL=server.url)

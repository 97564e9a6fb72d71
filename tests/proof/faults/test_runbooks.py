"""The runbooks of docs/how-to/operating.md are typed while their fault is there, and do what they say.

`-s` shows how long each took.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from spoolrack.errors import DiskFull, MemoryLimit, SpoolrackError

from tests import CHECKOUT
from tests.support.conversation import Typed, conversation, run, section
from tests.support.loop_disk import MEBIBYTE
from tests.support.real_server import WELL, MakeDisk, RealServer
from tests.support.waiting import until

Serve = Callable[..., RealServer]
PAGE = (CHECKOUT / "docs" / "how-to" / "operating.md").read_text()
ROOT = "/srv/queues"
BODY = b"a body"


class Desk:
    """An operator's: a shell in which `spoolrack` and `systemctl` mean this server's."""

    def __init__(self, folder: Path, server: RealServer) -> None:
        self._server = server
        self._folder = folder
        self._programs = folder / "bin"
        self._programs.mkdir()
        self.names: dict[str, str] = {}
        self._program("spoolrack", f'exec {sys.executable} -m spoolrack_server "$@"')
        # Here is no systemd: its log is the server's, and who starts and stops it is this process.
        self._program("journalctl", f"cat {folder}/server-0.log")
        self._program("dmesg", "echo")

    def _program(self, name: str, script: str) -> None:
        path = self._programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def follow(self, heading: str, first: int = 0, last: int | None = None) -> None:
        """Type the section's commands, from one number up to another, as long as its fault is there."""
        typed = conversation(section(PAGE, f"### {heading}"))[first:last]
        assert typed
        began = time.monotonic()
        for part in self._parts(typed):
            run(part, self._folder, self._names(), self._env())
        print(f"{heading}, commands {first} to {last}: {time.monotonic() - began:.1f} s")

    def _parts(self, typed: list[Typed]) -> Iterator[list[Typed]]:
        """Yield what is typed between two commands to systemd, each of which is carried out."""
        part: list[Typed] = []
        for one in typed:
            if not one.command.startswith("systemctl "):
                part.append(one)
                continue
            if part:
                yield part
            part = []
            if one.command == "systemctl stop spoolrack":
                self._server.stop()
            else:
                assert one.command == "systemctl start spoolrack"
                self._server.start()
        if part:
            yield part

    def _names(self) -> Mapping[str, str]:
        url = f"http://127.0.0.1:{self._server.http_port}"
        return {"http://localhost:8080": url, ROOT: str(self._server.root), **self.names}

    def _env(self) -> Mapping[str, str]:
        path = f"{self._programs}{os.pathsep}{os.environ['PATH']}"
        return {**os.environ, "PATH": path, "SPOOLRACK_URL": f"127.0.0.1:{self._server.port}"}


def fill(server: RealServer, queue: str) -> None:
    """Send until the disk takes no message any more."""
    for size in (8 * MEBIBYTE, MEBIBYTE, 4_096, 1):
        sent = 0
        while True:
            try:
                server.queue(queue).send(bytes(size))
            except DiskFull:
                break
            sent += 1
            assert sent < 10_000


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.2f} s")


@pytest.mark.slow
def test_a_full_disk_is_made_room_on_without_a_restart(
    disk: MakeDisk, serve: Serve, tmp_path: Path
) -> None:
    made = disk("ext4")
    server = serve(made.mount_point / "root")
    for name in ("jobs", "idle"):
        server.client.create_queue(name, max_message_size=8 * MEBIBYTE)
    kept = [server.queue("jobs").send(BODY) for _ in range(10)]
    fill(server, "idle")
    desk = Desk(tmp_path, server)

    desk.follow("Full disk")

    assert server.health() == WELL
    assert [message.id for message in server.queue("jobs").peek()][:10] == kept


def test_a_full_disk_that_grows_needs_no_restart(disk: MakeDisk, serve: Serve) -> None:
    made = disk("xfs")
    server = serve(made.mount_point / "root")
    server.client.create_queue("jobs", max_message_size=8 * MEBIBYTE)
    fill(server, "jobs")
    with timed("a disk that grows"):
        made.grow(400 * MEBIBYTE)
        with server.connect() as patient:
            patient.queue("jobs").send(BODY)


def test_a_full_memory_is_told_from_a_small_one(serve: Serve, tmp_path: Path) -> None:
    server = serve(after=("--memory-watermark", "1MiB"))
    server.client.create_queue("jobs")
    refusal: MemoryLimit | None = None
    while refusal is None:
        try:
            server.queue("jobs").send(BODY)
        except MemoryLimit as error:
            refusal = error

    Desk(tmp_path, server).follow("Full memory")


def test_a_failed_sync_is_followed_by_a_look_at_the_disk_and_a_restart(
    disk: MakeDisk, serve: Serve, tmp_path: Path
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl: make system-tools installs it")
    made = disk("ext4")
    server = serve(made.mount_point / "root")
    server.client.create_queue("jobs")
    kept = [server.queue("jobs").send(BODY) for _ in range(100)]
    made.cut_power()
    with pytest.raises(SpoolrackError):
        server.queue("jobs").send(BODY)
    server.until_logged("the store failed")
    desk = Desk(tmp_path, server)
    desk.follow("Failed sync", 0, 3)
    server.kill()
    made.unmount()
    made.mount()
    server.start()

    desk.follow("Failed sync", 3)

    assert [message.id for message in server.queue("jobs").peek()] == kept


def test_a_damaged_message_is_put_aside_and_comes_back_from_a_backup(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve()
    server.client.create_queue("jobs")
    first, second, third = (server.queue("jobs").send(b"body %d" % n) for n in range(3))
    # A message is moved to its queue a moment after its send is answered.
    until(lambda: len(list((server.root / "queues" / "jobs").iterdir())) == 3)
    shutil.copytree(server.root, tmp_path / "backup")
    server.restart()  # It keeps what was just sent in memory.
    (damaged,) = (server.root / "queues" / "jobs").glob(f"{second}*")
    damaged.write_bytes(b"rotten")
    assert [message.id for message in server.queue("jobs").receive(3)] == [first, third]
    desk = Desk(tmp_path, server)
    desk.names |= {"/backup": str(tmp_path / "backup"), "MESSAGE": second}

    desk.follow("Corruption")

    assert [message.id for message in server.queue("jobs").receive(3)] == [second]


def test_a_queue_that_lost_its_settings_is_set_up_again(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    server.client.create_queue("broken")
    server.client.create_queue(
        "jobs", visibility_timeout=60, max_receives=3, dead_letter_queue="broken"
    )
    ids = [server.queue("jobs").send(BODY) for _ in range(3)]
    settings = server.client.queue("jobs").info().settings
    server.kill()  # A server that runs writes the settings again.
    for path in (server.root / "config").iterdir():
        path.unlink()
    server.start()
    server.until_logged("the settings of the queue jobs are lost")
    assert [queue.name for queue in server.client.list_queues()] == ["jobs"]

    Desk(tmp_path, server).follow("Lost settings")

    assert server.client.queue("jobs").info().settings == settings
    assert [message.id for message in server.queue("jobs").receive(5)] == ids


def test_a_queue_is_unblocked(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    server.client.create_queue("jobs", visibility_timeout=1)
    queue = server.queue("jobs")
    queue.send_many([BODY] * 10)
    assert queue.reserve("nightly", 0, max_messages=10, visibility_timeout=3600) is not None
    desk = Desk(tmp_path, server)

    desk.follow("Blocked queue")

    assert len(queue.receive(10)) == 10
    assert server.client.queue("jobs").info().settings.dead_letter_queue == "broken"


def test_a_queue_is_paused_and_resumed(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    server.client.create_queue("jobs")
    id = server.queue("jobs").send(BODY)

    Desk(tmp_path, server).follow("Paused queue")

    assert [message.id for message in server.queue("jobs").receive(5)] == [id]


def test_dead_letters_are_moved_back(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    server.client.create_queue("broken")
    server.client.create_queue("jobs", max_receives=1, dead_letter_queue="broken")
    queue = server.queue("jobs")
    ids = [queue.send(BODY) for _ in range(5)]
    for message in queue.receive(5):
        message.release()
    assert queue.receive(5) == []
    assert [message.id for message in server.queue("broken").peek()] == ids
    desk = Desk(tmp_path, server)

    desk.follow("Dead letters")

    assert [message.id for message in queue.receive(5, wait=60)] == ids


def test_a_lag_is_looked_into(serve: Serve, tmp_path: Path) -> None:
    Desk(tmp_path, serve()).follow("Lag")


def test_every_runbook_is_rehearsed() -> None:
    headings = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    assert set(re.findall(r'follow\("([^"]*)"', Path(__file__).read_text())) == set(headings)

"""The root that goes away, turns read-only, or may not be read any more, under a server at work."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import spoolrack
from spoolrack.errors import DiskError, OutcomeUnknown, SpoolrackError, StoreFailed

from tests.support import STUCK
from tests.support.loop_disk import KINDS
from tests.support.real_server import AS_MORTAL, WELL, MakeDisk, RealServer, slowly
from tests.support.waiting import until

Serve = Callable[..., RealServer]


def ids_in(server: RealServer) -> list[str]:
    return [message.id for message in server.queue().peek()]


def refusal_of(call: Callable[[], object]) -> SpoolrackError | None:
    try:
        call()
    except SpoolrackError as error:
        return error
    return None


def deleted(queue: spoolrack.Queue, id: str) -> str:
    queue.delete_by_id(id)
    return id


def remove(root: Path) -> None:
    """Remove all of it, also what a server that works on makes anew meanwhile."""
    while root.exists():
        shutil.rmtree(root, ignore_errors=True)


def wait_until_failed(server: RealServer) -> str:
    """Ask until it doesn't serve any more; why."""
    while True:
        health = server.health()
        if health != WELL:
            return server.is_failed()


# Removed.


def test_a_removed_root_is_noticed_and_nothing_is_acknowledged(serve: Serve) -> None:
    server = serve()
    server.client.create_queue("q")
    server.queue().send("gone")
    remove(server.root)
    for body in ("never", "never either"):
        with pytest.raises(SpoolrackError):
            server.queue().send(body)
    assert "No such file" in wait_until_failed(server)
    for call in (
        lambda: server.queue().send("never"),
        lambda: server.queue().receive(1),
        lambda: server.client.create_queue("other"),
        lambda: server.client.queue("q").purge(),
    ):
        with pytest.raises(StoreFailed):
            call()
    server.restart()
    assert server.health() == WELL
    assert list(server.client.list_queues()) == []
    server.client.create_queue("q")
    server.queue().send("kept")
    server.restart()
    assert [message.body for message in server.queue().receive(5)] == [b"kept"]


def test_a_removed_root_is_noticed_by_a_server_with_nothing_to_do(serve: Serve) -> None:
    server = serve()
    remove(server.root)
    assert "No such file" in wait_until_failed(server)


def test_a_root_that_was_moved_away_is_still_the_root(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    server.client.create_queue("q")
    sent = [server.queue().send("before")]
    server.root.rename(tmp_path / "elsewhere")
    server.root.mkdir()
    sent.append(server.queue().send("after"))
    sent += [result.id or "" for result in server.queue().send_many(["a", "batch"])]
    assert [message.id for message in server.queue().receive(1)] == sent[:1]
    assert server.health() == WELL
    assert server.stop() == 0
    assert list(server.root.iterdir()) == []
    moved = serve(tmp_path / "elsewhere")
    assert ids_in(moved) == sent


@pytest.mark.parametrize("folder", ["queues/q", *slowly("new", "delay", "remove", "queues", "config")])
def test_a_removed_folder_costs_only_what_was_in_it(folder: str, serve: Serve) -> None:
    server = serve()
    server.client.create_queue("q")
    server.queue().send("one")
    shutil.rmtree(server.root / folder)
    for call in (
        lambda: server.queue().send("two"),
        lambda: server.queue().receive(1),
        lambda: server.queue().delete_by_id("01900000-0000-7000-8000-000000000000"),
    ):
        error = refusal_of(call)
        assert error is None or error.reason not in ("INTERNAL_ERROR", "UNKNOWN"), error
    server.kill()
    server.start()
    assert server.health() == WELL
    server.client.create_queue("q")
    id = server.queue().send("three")
    server.restart()
    assert id in ids_in(server)


# Read-only.


def abort(mount_point: Path) -> None:
    """ext4 after an error that it can't recover from: no more changes, at once."""
    subprocess.run(["mount", "-o", "remount,abort", str(mount_point)], check=True, timeout=STUCK)


def test_a_file_system_that_turns_read_only_gets_nothing_acknowledged_until_a_restart(
    disk: MakeDisk, serve: Serve
) -> None:
    made = disk("ext4")
    server = serve(made.mount_point / "root")
    server.client.create_queue("q", visibility_timeout=600)
    sent = [server.queue().send(f"{number}") for number in range(3)]
    (held,) = server.queue().receive(1)
    abort(made.mount_point)
    with pytest.raises((OutcomeUnknown, StoreFailed)):
        server.queue().send("never")
    for call in (
        lambda: server.queue().send("never"),
        lambda: held.delete(),
        lambda: server.queue().receive(1),
        lambda: server.client.create_queue("never"),
    ):
        with pytest.raises(StoreFailed):
            call()
    assert server.is_failed()
    assert ids_in(server) == sent, "messages can still be listed"
    code, said = RealServer(made.mount_point / "root", made.image.parent / "log").refuse_start()
    assert code != 0
    assert said.splitlines()[-1].startswith("spoolrack: ")
    server.stop()
    made.unmount()
    made.mount()
    server.start()
    assert server.health() == WELL
    assert ids_in(server) == sent
    assert [message.id for message in server.queue().receive(5)] == sent[1:]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_system_that_is_shut_down_is_noticed(kind: str, disk: MakeDisk, serve: Serve) -> None:
    made = disk(kind)
    server = serve(made.mount_point / "root")
    server.client.create_queue("q")
    sent = server.queue().send("kept")
    made.cut_power()
    for _ in range(2):
        with pytest.raises(SpoolrackError):
            server.queue().send("never")
    wait_until_failed(server)
    server.kill()
    made.unmount()
    made.mount()
    server.start()
    assert ids_in(server) == [sent]


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_on_a_read_only_file_system_says_so_and_does_not_start(
    kind: str, disk: MakeDisk, serve: Serve
) -> None:
    made = disk(kind)
    server = serve(made.mount_point / "root")
    server.client.create_queue("q")
    sent = server.queue().send("kept")
    with pytest.raises(OSError, match="busy"):
        made.remount("ro")  # The server's lock keeps an operator from doing this by mistake.
    assert server.stop() == 0
    made.remount("ro")
    code, said = server.refuse_start()
    assert code == os.EX_CANTCREAT
    assert "Read-only file system" in said.splitlines()[-1]
    made.remount("rw")
    server.start()
    assert ids_in(server) == [sent]


# Forbidden.


@contextmanager
def forbidden(folder: Path, mode: int) -> Iterator[None]:
    before = folder.stat().st_mode & 0o777
    folder.chmod(mode)
    try:
        yield
    finally:
        folder.chmod(before)


@pytest.fixture
def mortal(serve: Serve) -> RealServer:
    """A server for which permissions hold, with a queue of two messages and a lease."""
    server = serve(before=AS_MORTAL if os.geteuid() == 0 else ())
    server.client.create_queue("q", visibility_timeout=600)
    return server


def use_while_forbidden(mortal: RealServer, folder: str, mode: int) -> list[str]:
    """Try everything; the ids of what must be there afterwards."""
    queue = mortal.queue()
    there = [queue.send(f"{number}") for number in range(3)]
    (held,) = queue.receive(1)
    # What is still in new/ would be received and deleted from there.
    until(lambda: not list((mortal.root / "new").iterdir()))
    calls: list[Callable[[], object]] = [
        lambda: there.append(queue.send("meanwhile")),
        lambda: queue.receive(1),
        lambda: held.extend(900),
        lambda: there.remove(deleted(queue, there[1])),
        lambda: mortal.client.create_queue(f"with-{folder}".replace("/", "-")),
    ]
    with forbidden(mortal.root / folder, mode):
        refusals = [error for call in calls if (error := refusal_of(call)) is not None]
    for error in refusals:
        assert type(error) is DiskError
        assert error.retryable
        assert "Permission denied" in str(error)
    assert refusals, folder
    return there


@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_forbidden_folder_costs_nothing_but_the_calls_that_need_it(
    mode: int, mortal: RealServer
) -> None:
    left: list[str] = []
    for folder in ("new", "queues", "queues/q", "delay", "remove", "config"):
        left += use_while_forbidden(mortal, folder, mode)
        assert mortal.health() == WELL
    mortal.restart()
    assert ids_in(mortal) == left


@pytest.mark.parametrize("folder", ["new", "queues/q", *slowly("delay", "remove", "config")])
def test_a_start_with_a_forbidden_folder_loses_nothing(folder: str, mortal: RealServer) -> None:
    sent = [mortal.queue().send(f"{number}") for number in range(3)]
    sent += [result.id or "" for result in mortal.queue().send_many(["a", "batch"])]
    mortal.queue().receive(1)
    assert mortal.stop() == 0
    with forbidden(mortal.root / folder, 0o000):
        # Of a queue's folder, too: it may hold what counts of a batch that is also elsewhere.
        code, said = mortal.refuse_start()
        assert code in (os.EX_IOERR, os.EX_CANTCREAT), said
        assert said.splitlines()[-1].startswith("spoolrack: ")
        assert "Permission denied: " in said
        assert f"'{folder}" in said
    mortal.start()
    assert ids_in(mortal) == sent


def test_a_message_that_may_not_be_read_waits_and_the_others_go_on(mortal: RealServer) -> None:
    sent = [mortal.queue().send(f"{number}") for number in range(3)]
    mortal.restart()  # A message sent a moment ago isn't read at all.
    (file,) = (path for path in (mortal.root / "queues/q").iterdir() if path.name.startswith(sent[0]))
    file.chmod(0o000)
    assert [message.id for message in mortal.queue().receive(5)] == sent[1:]
    file.chmod(0o600)
    # It was never leased, and is tried again without a restart.
    assert [message.id for message in mortal.queue().receive(5, wait=20)] == sent[:1]

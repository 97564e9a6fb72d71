"""Foreign things of every kind in every folder of a root, before a start and under a server at work."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest
from spoolrack.errors import DiskError, OutcomeUnknown, StoreFailed

from tests.support.real_server import WELL, RealServer

Serve = Callable[..., RealServer]
FOLDERS = (
    *(".", "config", "owners", "new", "queues", "queues/q", "delay", "remove"),
    *("staged", "published", "reserved", "redrives", "keys", "quarantine"),
)
MINE = b"not a message"


def make_file(path: Path) -> None:
    path.write_bytes(MINE + path.name.encode())


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "inside").write_bytes(MINE + path.name.encode())


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def make_folder_link(path: Path) -> None:
    path.symlink_to("/etc")


def make_hard_link(path: Path) -> None:
    source = path.parent / f"{path.name}-source"
    source.write_bytes(MINE + path.name.encode())
    os.link(source, path)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # A socket's path may have 107 bytes.
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


KINDS = (make_file, make_folder, make_link, make_folder_link, make_hard_link, make_pipe, make_socket)
DUE, TOKEN = "1700000000000", "0123456789abc"
OUR_NAMES = {
    "new": ("q:{id}", "q:{id},s4,c00000000,oabcdefgh", "q:{id},n2,oabcdefgh", "q:{id},s4,c0@" + DUE),
    "queues": ("other",),
    "queues/q": ("{id},s4,c00000000", "{id},n2", "{id}"),
    "delay": (f"q:{{id}},s4,c00000000@{DUE}~{TOKEN}", f"q:{{id}},n2@{DUE}"),
    "config": ("other.1.json", "q.7.json"),
    "owners": ("abcdefgh",),
    "reserved": ("stream.1", f"stream.2@{DUE}"),
    "redrives": ("{id},m0,f0", "{id},m0,f0,oabcdefgh"),
}
"""Names that the store might give, for foreign files. Such a file in remove/ is deleted, and in keys/
torn."""


def plant(root: Path) -> None:
    """Everything of no name of ours, everywhere; and what has one and is no file."""
    numbers = count()
    for folder in FOLDERS:
        for make in KINDS:
            make(root / folder / f"stranger {make.__name__}")
        for name in OUR_NAMES.get(folder, ()):
            for make in KINDS[1:] if "{id}" in name else KINDS[1:2]:
                make(root / folder / name.format(id=f"01900000-0000-7000-8000-{next(numbers):012}"))


def use(server: RealServer, there: list[str]) -> list[str]:
    """Take messages through every state; the ids of what is in the queue then, in order."""
    queue = server.queue()
    sent = [queue.send("alone") for _ in range(4)]
    sent += [result.id or "" for result in queue.send_many(["in", "a", "batch"])]
    sent.append(queue.send("delayed", delay=600))
    held = queue.receive(3, visibility_timeout=600)
    while len(held) < 3:  # Foreign files before them went to quarantine.
        held += queue.receive(3 - len(held), visibility_timeout=600, wait=20)
    held[0].extend(900)
    held[1].release()
    held[2].delete()
    queue.delete_by_id(sent[6])
    server.client.create_queue("short", max_receives=1, dead_letter_queue="dead")
    short = server.queue("short")
    buried = short.send("poison")
    (poison,) = short.receive(1)
    poison.release()
    assert [message.id for message in server.queue("dead").receive(1)] == [buried]
    short.send("purged")
    assert server.client.queue("short").purge() == 1
    server.client.delete_queue("short")
    return [id for id in [*there, *sent] if id not in (held[2].id, sent[6])]


def ids_in(server: RealServer) -> list[str]:
    return [message.id for message in server.queue().peek()]


def bystanders(root: Path) -> set[bytes]:
    """Foreign contents that are still somewhere under the root.

    A link with the name of an unanswered send may go, but not the file.
    """
    return {
        content
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink() and path.name != "RESERVE"
        if (content := path.read_bytes()).startswith(MINE)
    }


def test_foreign_files_everywhere_cost_no_message_and_are_kept(serve: Serve) -> None:
    server = serve()
    server.client.create_queue("dead")
    server.client.create_queue("q", visibility_timeout=600)
    left = use(server, [server.queue().send("before")])
    # At work: the index is not fed by what lies in the folders.
    plant(server.root)
    planted = bystanders(server.root)
    left = use(server, left)
    assert ids_in(server) == left
    assert server.health() == WELL
    # At a start: put aside, or left where it is.
    server.restart()
    assert ids_in(server) == left
    left = use(server, left)
    assert ids_in(server) == left
    assert server.health() == WELL
    assert bystanders(server.root) == planted, "nothing is destroyed"
    for folder in ("config", "new", "queues", "queues/q", "delay", "remove"):
        assert not list((server.root / folder).glob("stranger*")), folder
    server.restart()
    assert ids_in(server) == left
    assert "Traceback" not in server.log


@pytest.mark.parametrize("make", [make_file, make_pipe])
def test_a_foreign_entry_in_a_queue_s_place_costs_no_acknowledged_message(
    make: Callable[[Path], None], serve: Serve
) -> None:
    server = serve()
    server.client.create_queue("q")
    (server.root / "queues/q").rmdir()
    make(server.root / "queues/q")
    sent = list(send_what_goes(server))
    server.kill()
    server.start()
    assert ids_in(server) == sent


def test_a_link_in_a_queues_place_is_noticed_and_what_went_through_it_is_not_destroyed(
    serve: Serve, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    server = serve()
    server.client.create_queue("q")
    (server.root / "queues/q").rename(elsewhere)
    (server.root / "queues/q").symlink_to(elsewhere)
    sent: list[str] = []

    def use_until_failed() -> None:
        while True:
            sent.extend(send_what_goes(server))
            server.queue().receive(1)

    # The next sync of that folder doesn't follow the link. It may be of a commit of the store's own.
    with pytest.raises((OutcomeUnknown, StoreFailed)):
        use_until_failed()
    assert sent
    server.is_failed()
    server.kill()
    (server.root / "queues/q").unlink()
    elsewhere.rename(server.root / "queues/q")
    server.start()
    assert [id for id in ids_in(server) if id in sent] == sent


def send_what_goes(server: RealServer) -> Iterator[str]:
    """Yield the ids of what is acknowledged."""
    with contextlib.suppress(DiskError):
        yield server.queue().send("one")
        for result in server.queue().send_many(["a", "b"]):
            if result.id is not None:
                yield result.id

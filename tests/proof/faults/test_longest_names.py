"""Names at their longest, in a root that lies as deep as a path can: everything works with them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import spoolrack

from tests.support import STUCK
from tests.support.real_server import MakeDisk, RealServer, slowly

Serve = Callable[..., RealServer]
QUEUE, DEAD = "Q" * 80, "D" * 80
LONGEST_PATH = 4095
ATTRIBUTES = {"k" * 100: "v" * 10_000}
BODY = bytes(1_000_000)


def deep(folder: Path, *, room: int) -> Path:
    """Return a folder below, with `room` bytes of the longest path left."""
    missing = LONGEST_PATH - room - len(str(folder))
    while missing > 256:
        folder /= "d" * 200
        missing -= 201
    return folder / ("d" * max(1, missing - 1))


def longest_name(root: Path) -> int:
    # The longest paths can't be opened: each folder is entered, as the store does.
    found = subprocess.run(
        ["find", ".", "-printf", "%f\\n"], cwd=root, capture_output=True, timeout=STUCK, check=True
    )
    return max(map(len, found.stdout.splitlines()))


def damage(root: Path, queue: str, id: str) -> None:
    """Cut the message's file short."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    opened = os.open(f"queues/{queue}", os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
    os.close(at)
    (name,) = (name for name in os.listdir(opened) if name.startswith(id))
    file = os.open(name, os.O_WRONLY, dir_fd=opened)
    os.truncate(file, 10)
    os.close(file)
    os.close(opened)


@pytest.mark.parametrize("kind", ["ext4", *slowly("xfs")])
def test_the_longest_names_go_through_every_operation(kind: str, disk: MakeDisk, serve: Serve) -> None:
    root = deep(disk(kind).mount_point, room=60)
    server = serve(root)
    server.client.create_queue(DEAD)
    server.client.create_queue(QUEUE, max_receives=3, dead_letter_queue=DEAD, visibility_timeout=43_200)
    queue = server.queue(QUEUE)
    message = spoolrack.Outgoing(body=BODY, attributes=ATTRIBUTES)
    delayed = queue.send(BODY, attributes=ATTRIBUTES, delay=900)
    alone = queue.send(BODY, attributes=ATTRIBUTES)
    batch = [result.id or "" for result in queue.send_many([message] * 3)]
    longest = longest_name(root)
    for receives in (1, 2, 3):
        queue = server.queue(QUEUE)
        held = queue.receive(10)
        assert [each.id for each in held] == [alone, *batch]
        assert all((each.receive_count, each.body) == (receives, BODY) for each in held)
        assert dict(held[0].attributes) == ATTRIBUTES
        held[0].extend(43_000)
        longest = max(longest, longest_name(root))
        if receives == 3:  # Leases of names that have everything are found again.
            server.kill()
            server.start()
        server.queue(QUEUE).release_many(held)
    while len(dead := [each.id for each in server.queue(DEAD).peek()]) < 4:
        assert server.queue(QUEUE).receive(10) == []
    assert dead == [alone, *batch]
    server.restart()  # It keeps what it has just read in memory.
    damage(root, DEAD, alone)
    letters = server.queue(DEAD)
    held = letters.receive(10)
    assert [each.id for each in held] == batch
    longest = max(longest, longest_name(root))
    assert 190 < longest <= 255
    held[0].delete()
    letters.delete_by_id(batch[1])
    server.queue(QUEUE).delete_by_id(delayed)
    assert server.client.queue(DEAD).purge() == 1
    server.client.delete_queue(QUEUE)
    server.restart()
    assert [each.name for each in server.client.list_queues()] == [DEAD]
    assert server.client.queue(DEAD).info().counts.ready_count == 0

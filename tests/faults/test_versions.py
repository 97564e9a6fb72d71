"""Upgrade and rollback: an older version and this one serve the same root in turn, and nothing is lost.

The older one comes out of the project's own history.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import spoolrack
from real_server import RealServer

OLDER = "7b45bfcf"
"""The last one without stages, reservations and deduplication ids."""
PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the older version's code."""
    archive = tmp_path_factory.mktemp("older") / "older.tar"
    made = subprocess.run(
        ["git", "-C", str(PROJECT), "archive", "--output", str(archive), OLDER, "client", "server"],
        capture_output=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip("needs the project's history: clone it whole")
    folder = archive.parent
    subprocess.run(["tar", "-xf", str(archive), "-C", str(folder)], check=True)
    return folder


@contextmanager
def serving(root: Path, log: Path, code: Path) -> Iterator[RealServer]:
    path = os.pathsep.join(str(code / part) for part in ("client", "server"))
    server = RealServer(root, log, before=("env", f"PYTHONPATH={path}"))
    server.start()
    try:
        yield server
        assert server.stop() == 0
    finally:
        server.kill()


def ids(server: RealServer, state: str = "ready") -> list[str]:
    return [message.id for message in server.queue("jobs").peek([state])]


def test_an_upgrade_and_a_rollback_lose_nothing(older: Path, tmp_path: Path) -> None:
    root, log = tmp_path / "root", tmp_path / "log"
    with serving(root, log, older) as server:
        server.client.create_queue("broken")
        server.client.create_queue(
            "jobs", visibility_timeout=600, max_receives=3, dead_letter_queue="broken"
        )
        queue = server.queue("jobs")
        ready = [queue.send(b"single")]
        ready += [result.id for result in queue.send_many([b"together"] * 20)]
        delayed = queue.send(b"delayed", delay=600)
        (leased,) = queue.receive(1)

    with serving(root, log, PROJECT) as server:
        assert (ids(server), ids(server, "leased")) == (ready[1:], [leased.id])
        assert ids(server, "delayed") == [delayed]
        queue = server.queue("jobs")
        once = queue.send(b"once", deduplication_id="order 17")
        server.client.stage("batch", 0, "jobs", [spoolrack.Outgoing(body=b"staged")])
        reserved = queue.reserve("reader", 0, max_messages=5, hold=600)
        assert reserved is not None
        assert reserved.messages == 5

    with serving(root, log, older) as server:
        assert ids(server) == [*ready[6:], once]
        assert sorted(ids(server, "leased")) == sorted([leased.id, *ready[1:6]])
        queue = server.queue("jobs")
        later = queue.send(b"later")
        queue.delete_by_id(ready[-1])

    with serving(root, log, PROJECT) as server:
        assert ids(server) == [*ready[6:-1], once, later]
        queue = server.queue("jobs")
        assert queue.send(b"once", deduplication_id="order 17") == once
        assert server.client.publish("batch", 0, ["batch"]).messages == 1
        assert [len(list(server.client.read_reservation("reader", 0)))] == [5]
        assert server.client.commit_reservations("reader", 0).messages == 5
        leased_now = queue.receive(30)
        assert [message.body for message in leased_now].count(b"staged") == 1
        for message in leased_now:
            message.delete()
        queue.delete_by_id(leased.id)
        queue.delete_by_id(delayed)
        assert [ids(server, state) for state in ("ready", "leased", "delayed")] == [[], [], []]

"""A root of an older version that has another format loses nothing by an upgrade that is tried.

The older one comes out of the project's own history.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.real_server import RealServer

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


def test_a_root_of_format_1_is_refused_and_left_to_the_version_that_wrote_it(
    older: Path, tmp_path: Path
) -> None:
    root, log = tmp_path / "root", tmp_path / "log"
    with serving(root, log, older) as server:
        server.client.create_queue("jobs", visibility_timeout=600)
        queue = server.queue("jobs")
        ready = [queue.send(b"single")]
        ready += [result.id for result in queue.send_many([b"together"] * 20)]
        delayed = queue.send(b"delayed", delay=600)
        (leased,) = queue.receive(1)
    before = sorted(map(str, root.rglob("*")))

    code, said = RealServer(root, tmp_path / "refused").refuse_start()

    assert code == os.EX_CANTCREAT, said
    assert "it has format 1" in said
    assert "spoolrack export" in said
    assert sorted(map(str, root.rglob("*"))) == before
    with serving(root, log, older) as server:
        assert (ids(server), ids(server, "leased")) == (ready[1:], [leased.id])
        assert ids(server, "delayed") == [delayed]

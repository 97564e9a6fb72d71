"""Modes of a server's files: for its user alone, or for its group with --group-access."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import spoolrack
from spoolrack.testing import running_server
from spoolrack_store.model.errors import RootUnusable
from spoolrack_store.store import Store


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=lambda umask: f"umask {umask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def use_everything(root: Path) -> None:
    """Leave as many kinds of files behind as a few calls can."""
    with running_server(root) as server, server.client() as client:
        client.create_queue("dead")
        client.create_queue("q", max_receives=1, dead_letter_queue="dead", visibility_timeout=0.001)
        client.create_queue("held")
        queue = client.queue("q")
        queue.send("one", attributes={"a": "b"})
        queue.send("two", delay=3600, deduplication_id="id")
        queue.send_many([f"{number}" for number in range(20)])
        for _ in range(2):
            queue.receive(max_messages=5)
        client.queue("held").send_many(["x", "y"])
        assert client.queue("held").reserve("stream", 0) is not None
        client.staging.stage("left", 0, "q", ["staged"])
        with queue.batch() as batch:
            batch.send("three")
        client.create_queue("done")
        client.queue("done").send_many(["x", "y", "z"])
        for found in client.queue("done").receive(max_messages=2):
            found.delete()
    # Also the files that a running store alone makes.
    with Store.open(root):
        check(root, folder=0o700, file=0o600)


def check(root: Path, *, folder: int, file: int) -> None:
    kinds = {"folders": 0, "files": 0}
    for path in [root, *root.rglob("*")]:
        found = path.lstat()
        is_folder = stat.S_ISDIR(found.st_mode)
        kinds["folders" if is_folder else "files"] += 1
        mode = stat.S_IMODE(found.st_mode)
        assert mode == (folder if is_folder else file), f"{path} has {mode:04o}"
    assert kinds["folders"] > 5
    assert kinds["files"] > 3


def test_all_that_is_made_is_its_users_alone(tmp_path: Path, umask: int) -> None:
    use_everything(tmp_path / "root")
    check(tmp_path / "root", folder=0o700, file=0o600)


def test_all_that_is_made_is_its_groups_where_that_is_said(tmp_path: Path, umask: int) -> None:
    root = tmp_path / "root"
    with spoolrack.connect(f"file://{root}?group_access=true") as client:
        client.create_queue("q")
        client.queue("q").send_many(["one", "two"])
        client.queue("q").receive()
        check(root, folder=0o2770, file=0o660)
    check(root, folder=0o2770, file=0o660)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a folder away")
def test_a_root_of_another_user_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    with Store.open(root):
        assert "belongs to user" not in caplog.text
    os.chown(root, 12_345, 12_345)
    with Store.open(root):
        assert f"{root} belongs to user 12345, who can read and change all messages" in caplog.text


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o703, 0o2777])
def test_a_world_writable_root_is_refused(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(mode)
    with pytest.raises(RootUnusable, match="every user of this machine may write into it: chmod o-w"):
        Store.open(root)
    assert not list(root.iterdir())
    root.chmod(mode & ~0o002)
    Store.open(root).close()


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o775, 0o2770, 0o2775])
def test_a_root_that_others_may_read_or_its_group_write_is_taken(tmp_path: Path, mode: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    root.chmod(mode)
    Store.open(root).close()

"""A root that is only looked at stays as it is, to the last byte, and shows what a start would find."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from spoolrack_store import read_only_root
from spoolrack_store.files.changes import LOCK, PATH
from spoolrack_store.files.disk import FolderEntry
from spoolrack_store.files.layout import NEW
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.background_work import BackgroundWork
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import QueueNotFound, RootUnusable
from spoolrack_store.model.names import parse
from spoolrack_store.model.operations import ChangeVisibility, CreateQueue, DeleteQueue, Receive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.read_only_root import (
    has_owners,
    may_have_owners,
    open_read_only,
    owners_changed_ns,
)
from spoolrack_store.snapshot import take_snapshot
from spoolrack_store.store import Store

from tests.store.front_rig import FrontRig, bodies_of, opened, taken_lock
from tests.support.listing import messages_in

TORN = "q:01a205ab-c259-76a3-96ae-f0c1e48b5000,s200,c7ecb6ba6,odead"


def state_of(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Return all that there is to see of a tree: inodes, modification times and contents."""
    found = {}
    for path in sorted(root.rglob("*")):
        about = path.stat()
        content = path.read_bytes() if path.is_file() else b""
        found[str(path)] = (about.st_ino, about.st_mtime_ns, content)
    return found


def bodies(store: Store, queue: str = "q") -> list[bytes]:
    return [message.body for message in messages_in(store, queue)]


def fill(rig: FrontRig) -> None:
    rig.send(b"one")
    rig.send(b"two", b"three", b"four")
    rig.delete(*rig.receive())
    rig.ask(Receive(queue="q", visibility_timeout=Millis(5_000)))
    rig.ask(CreateQueue(name="gone", settings=QueueSettings()))
    rig.send(b"x", queue="gone")
    rig.in_turn()


def test_a_look_at_a_root_at_rest_changes_nothing_and_shows_all(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        fill(rig)
    before = state_of(tmp_path)
    with open_read_only(tmp_path, clock=clock) as store:
        assert bodies(store) == [b"two", b"three", b"four"]
        counts = store.queue("q").counts
        assert (counts.ready_count, counts.leased_count) == (2, 1)
        assert [queue.name for queue in store.queues()] == ["gone", "in-turn", "q", "relaxed"]
    assert state_of(tmp_path) == before


def test_a_look_beside_a_server_shows_what_is_there_and_keeps_it_from_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock, BackgroundWork(unlinks=False)) as rig:
        fill(rig)
        before = state_of(tmp_path)
        with open_read_only(tmp_path, clock=clock) as store:
            assert state_of(tmp_path) == before
            assert bodies(store) == [b"two", b"three", b"four"]
            assert bodies_of(rig.receive(9)) == [b"three", b"four"]
            assert store.queue("q").counts.ready_count == 2, "as it was"
        rig.send(b"more")


def test_decisions_of_a_start_are_shown_and_not_done(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        fill(rig)
    sent = "01a205ab-c259-76a3-96ae-f0c1e48b5abc,s5,c3610a686"
    (tmp_path / "new" / f"q:{sent},odead").write_bytes(b"hello")
    (tmp_path / "new" / TORN).write_bytes(b"x" * 199)
    (lost,) = (tmp_path / "config").glob("gone.*")
    lost.write_bytes(b"{")
    clock.advance(5_000)
    before = state_of(tmp_path)
    with open_read_only(tmp_path, clock=clock) as store:
        assert bodies(store) == [b"two", b"three", b"four", b"hello"]
        assert store.queue("q").counts.ready_count == 4, "the due message is ready"
        assert bodies(store, "gone") == [b"x"], "with the default settings"
    assert state_of(tmp_path) == before
    with opened(tmp_path, clock) as rig:
        rig.in_turn()
        assert bodies(rig.store) == [b"two", b"three", b"four", b"hello"]
        assert not (tmp_path / "new" / TORN).exists()


def test_a_queue_whose_tombstone_is_there_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        fill(rig)
    with opened(tmp_path) as rig:
        rig.ask(DeleteQueue(name="gone"))
        with open_read_only(tmp_path, clock=rig.clock) as store, pytest.raises(QueueNotFound):
            store.queue("gone")


def test_the_dead_and_the_living_are_told_apart(tmp_path: Path) -> None:
    with opened(tmp_path):
        assert has_owners(tmp_path)
        assert may_have_owners(tmp_path)
        before = owners_changed_ns(tmp_path)
    assert owners_changed_ns(tmp_path) != before
    assert not may_have_owners(tmp_path)
    (tmp_path / "owners" / "dead1234").touch()
    assert may_have_owners(tmp_path)
    assert not has_owners(tmp_path)
    with open_read_only(tmp_path):
        assert (tmp_path / "owners" / "dead1234").exists()


def test_a_look_at_a_snapshot_warns_of_no_other_process_unless_one_has_it_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path / "root") as rig:
        rig.send(b"a")
    take_snapshot(tmp_path / "root", tmp_path / "copy")
    with open_read_only(tmp_path / "copy") as store:
        assert store.queue("q").counts.ready_count == 1
    assert "may be missing" not in caplog.text
    (tmp_path / "copy" / "owners" / "other").touch()
    with open_read_only(tmp_path / "copy"):
        assert "may be missing" in caplog.text


def test_a_folder_that_is_no_root_is_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(RootUnusable, match="none yet"):
        open_read_only(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_look_waits_for_the_commit_under_way(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
    disk = LocalDisk(tmp_path)
    held = disk.lock(LOCK)
    assert held is not None
    found: list[Store] = []
    thread = threading.Thread(target=lambda: found.append(open_read_only(tmp_path)))
    thread.start()
    thread.join(0.1)
    assert not found
    held.release()
    thread.join(60)
    with found[0] as store:
        assert bodies(store) == [b"a"]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that other users reach."""
    with TemporaryDirectory() as path:
        yield Path(path)


def test_a_root_that_may_only_be_read_can_be_looked_at(public_folder: Path) -> None:
    if os.geteuid():
        pytest.skip("needs another user")
    root = public_folder / "root"
    with opened(root) as rig:
        rig.send(b"a")
    for path in (public_folder, root, *root.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (root / PATH).chmod(0o600)
    code = (
        "import os, sys; from spoolrack_store.read_only_root import open_read_only\n"
        "from spoolrack_store.model.operations import MessageFilter\n"
        "open_read_only(sys.argv[1]).close(); os.setuid(65534)  # Python's own files may be private.\n"
        "with open_read_only(sys.argv[1]) as store:\n"
        "    print(store.page('q', MessageFilter()).messages[0].body)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(root)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert told.stdout == "b'a'\n", told.stderr


class CountingDisk(LocalDisk):
    scans = 0

    def is_lock_free(self) -> bool:
        lock = self.lock(LOCK)
        if lock is not None:
            lock.release()
        return lock is not None


@pytest.mark.parametrize("offset", range(6))
def test_a_look_beside_a_server_needs_no_lock_and_finds_each_message_that_moves_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offset: int
) -> None:
    with opened(tmp_path) as rig:
        rig.ask(CreateQueue(name="lone", settings=QueueSettings(messages_per_file=1)))
        rig.send(*[b"x"] * 40, queue="lone")
        leased = rig.receive(20, queue="lone")
        receipts = [each for delivery in leased for each in delivery.receipts]

        class Moving(CountingDisk):
            """Beside whose listings another process moves one message after the other."""

            def scan(self, path: str) -> list[FolderEntry]:
                found = super().scan(path)
                if path != "owners" and self.is_lock_free():
                    at = Moving.scans = Moving.scans + 1
                    if at % 6 == offset and receipts:
                        rig.ask(
                            ChangeVisibility(
                                queue="lone", receipts=[receipts.pop()], visibility_timeout=Millis(0)
                            )
                        )
                    elif at % 6 == (offset + 3) % 6:
                        rig.ask(Receive(queue="lone", visibility_timeout=Millis(60_000)))
                return found

        members = (tmp_path / PATH).read_bytes()[:4096].count(b"\n")
        monkeypatch.setattr(read_only_root, "disk_of", Moving)
        with open_read_only(tmp_path, clock=rig.clock) as store:
            counts = store.queue("lone").counts
            assert (tmp_path / PATH).read_bytes()[:4096].count(b"\n") == members == 1
        assert Moving.scans > 20
        assert counts.ready_count + counts.leased_count == 40


def test_a_look_beside_a_server_waits_for_no_lock(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
        held = taken_lock(tmp_path)
        with open_read_only(tmp_path, clock=rig.clock) as store:
            assert bodies(store) == [b"a"]
        held.release()


def test_a_look_shows_a_message_that_is_published_as_soon_as_it_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
        rig.in_turn()
        sent = parse("new/q:01a205ab-c259-76a3-96ae-f0c1e48b5abc,s5,c3610a686,oliving")
        (tmp_path / sent.path).write_bytes(b"hello")

        class Publishing(CountingDisk):
            """Beside whose last listing another process publishes what it has sent."""

            def scan(self, path: str) -> list[FolderEntry]:
                found = super().scan(path)
                Publishing.scans += path == NEW
                if Publishing.scans == 2:
                    published = replace(sent, state=State.READY, version=1, owner="")
                    (tmp_path / sent.path).rename(tmp_path / published.path)
                    Publishing.scans += 1
                return found

        monkeypatch.setattr(read_only_root, "disk_of", Publishing)
        with open_read_only(tmp_path, clock=rig.clock) as store:
            assert store.queue("q").counts.ready_count == 2
        assert Publishing.scans == 3
        assert "stays in new/" not in caplog.text

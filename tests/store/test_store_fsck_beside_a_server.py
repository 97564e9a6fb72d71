"""An inspection raises no false alarm beside a running store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack_store.files.disk import FolderEntry
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.fsck.inspection import inspect
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import ChangeVisibility, Delete, Delivery, Receive, Send
from spoolrack_store.model.transitions import State

from tests.support.engines import commit
from tests.support.root_rig import Still, make_root, opened, single, stem_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


class RestlessDisk(LocalDisk):
    """Something happens to the root each time that a folder or file is looked at."""

    def __init__(self, root: Path, happens: Callable[[str], None]) -> None:
        super().__init__(root)
        self._happens = happens

    def scan(self, path: str) -> list[FolderEntry]:
        self._happens(path)
        return super().scan(path)

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        self._happens(path)
        return super().read(path, limit, afresh=afresh)


@pytest.mark.parametrize("moves", [1, 2])
def test_a_message_that_moves_on_is_looked_for_and_counted_once(root: Path, moves: int) -> None:
    path = single(root)
    away = root / "delay" / f"q:{stem_of(path)},v3,r1,f1700000000000@1700000001000~0123456789abc"
    back = root / "queues" / "q" / f"{stem_of(path)},v4,r1,f1700000000000"
    left = [(path, away), (away, back)][:moves]

    def move(looked_at: str) -> None:
        if left and looked_at in ("queues/q", "delay"):
            source, target = left.pop(0)
            source.rename(target)

    report = inspect(RestlessDisk(root, move), Still())
    assert not report.problems
    assert report.unchecked == 0
    counts = report.queues["q"].counts
    assert counts[State.READY] + counts[State.LEASED] == 7


def test_a_file_that_is_gone_when_it_is_read_is_looked_for_again(root: Path) -> None:
    path = single(root)
    left = [path.with_name(f"{stem_of(path)},v3")]

    def move(looked_at: str) -> None:
        if left and looked_at == str(path.relative_to(root)):
            path.rename(left.pop())

    report = inspect(RestlessDisk(root, move), Still())
    assert not report.problems
    assert not left
    assert report.queues["q"].counts[State.READY] == 6


def test_a_queue_that_never_rests_is_reported_as_unchecked(root: Path) -> None:
    path = single(root)
    stem, at = stem_of(path), [path]

    def move(looked_at: str) -> None:
        if looked_at == "new":
            version = int(at[0].name.rpartition(",v")[2]) + 1
            at[0] = at[0].rename(path.with_name(f"{stem},v{version}"))

    report = inspect(RestlessDisk(root, move), Still())
    assert not report.problems
    assert report.unchecked == 1


@pytest.mark.parametrize("listings", [1, 2])
def test_a_name_that_listings_missed_makes_no_problem(root: Path, listings: int) -> None:
    """A part of the batch is moved from a folder that wasn't listed yet to one that was."""
    path = next(each for each in (root / "queues" / "q").iterdir() if ",n5" in each.name)
    stem = stem_of(path)
    ready = path.rename(root / "queues" / "q" / f"{stem},v3,i0-2")
    at, version = [root / "delay" / f"q:{stem},v4,i3-4,r1,f1@1700000001000~0123456789abc"], [4]
    at[0].hardlink_to(ready)
    left = ["delay", *["new", "delay"] * (listings - 1)]

    def move(looked_at: str) -> None:
        if not left or looked_at != left[0]:
            return
        version[0] += 1
        name = f"q:{stem},v{version[0]},i3-4"
        if left.pop(0) == "delay":
            at[0] = at[0].rename(root / "new" / f"{name},oabc")
        else:
            at[0] = at[0].rename(root / "delay" / f"{name},r1,f1@1700000001000~0123456789abc")

    report = inspect(RestlessDisk(root, move), Still())
    assert not left
    assert report.problems == []


@pytest.mark.parametrize("folder", ["queues", "queues/dead", "config"])
def test_a_queue_that_is_deleted_while_it_is_listed_is_no_problem(root: Path, folder: str) -> None:
    def delete(looked_at: str) -> None:
        if looked_at == folder and (root / "queues" / "dead").exists():
            (root / "queues" / "dead").rmdir()
            (root / "config" / "dead.1.json").unlink()

    report = inspect(RestlessDisk(root, delete), Still())
    assert report.problems == []
    assert report.queues.keys() == {"q"}


def test_settings_that_are_replaced_while_they_are_read_are_not_lost(root: Path) -> None:
    old, new = root / "config" / "q.1.json", root / "config" / "q.2.json"
    reads = [0]

    def replace(looked_at: str) -> None:
        reads[0] += looked_at == "config/q.1.json"
        if reads[0] == 2 and old.exists():
            old.rename(new)

    report = inspect(RestlessDisk(root, replace), Still())
    assert new.exists()
    assert report.problems == []


def test_beside_an_engine_at_work_no_problem_is_told(root: Path) -> None:
    engine = opened(root)
    busy = [0]

    def work(looked_at: str) -> None:
        busy[0] += 1
        commit(
            engine, Send(queue="q", bodies=[b"more %d" % number for number in range(busy[0] % 7 + 1)])
        )
        (found,) = commit(engine, Receive(queue="q", max_messages=5))
        assert isinstance(found, list)
        receipts = [
            receipt for each in found if isinstance(each, Delivery) for receipt in each.receipts
        ]
        commit(engine, ChangeVisibility(queue="q", receipts=receipts[:2], visibility_timeout=Millis(0)))
        commit(engine, Delete(queue="q", receipts=receipts[2:]))

    report = inspect(RestlessDisk(root, work), Still())
    assert report.problems == []
    assert busy[0] > 20

"""A watcher tells what happens in folders, or says "list again": no change passes unseen."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spoolrack_store.files import mounts
from spoolrack_store.files.watcher import Change, Inotify, Watcher
from spoolrack_store.model.clock import Millis

STUCK = Millis(60_000)
SOON = Millis(20)


class FullInotify(Inotify):
    """A kernel with no room for `missing` watches."""

    missing = 1

    def add(self, path: str) -> int:
        if self.missing:
            self.missing -= 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().add(path)


def no_inotify() -> Inotify:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "inotify")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Watcher]]:
    watchers: list[Watcher] = []

    def open_one(**settings: object) -> Watcher:
        watchers.append(Watcher(tmp_path, **settings))  # type: ignore[arg-type]
        return watchers[-1]

    yield open_one
    for watcher in watchers:
        watcher.close()


@pytest.fixture
def watcher(opened: Callable[..., Watcher]) -> Watcher:
    """Of the root itself."""
    watcher = opened()
    watcher.watch(".")
    return watcher


def told(watcher: Watcher) -> list[tuple[str, bool]]:
    changes = watcher.changes()
    assert changes is not None
    return [(change.name, change.appeared) for change in changes]


def until_lost(watcher: Watcher) -> None:
    """Return once it says "list again"."""
    for _ in range(1_000):
        if watcher.changes(STUCK) is None:
            return
    raise AssertionError("it never said so")


def test_names_that_come_and_go_are_told_in_order(watcher: Watcher, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "a").rename(tmp_path / "b.é")
    (tmp_path / "b.é").unlink()
    (tmp_path / "c").mkdir()
    assert told(watcher) == [("a", True), ("a", False), ("b.é", True), ("b.é", False), ("c", True)]
    assert told(watcher) == []
    assert watcher.hears_all


def test_several_folders_are_told_apart_by_their_paths(
    opened: Callable[..., Watcher], tmp_path: Path
) -> None:
    watcher = opened()
    for folder in ("new", "queues/jobs"):
        (tmp_path / folder).mkdir(parents=True)
        watcher.watch(folder)
        watcher.watch(folder)
    (tmp_path / "new" / "x").touch()
    (tmp_path / "new" / "x").rename(tmp_path / "queues" / "jobs" / "x")
    (tmp_path / "queues" / "unwatched").touch()
    assert watcher.changes() == [
        Change("new", "x", True),
        Change("new", "x", False),
        Change("queues/jobs", "x", True),
    ]


def test_a_waiting_call_wakes_up_on_a_change(watcher: Watcher, tmp_path: Path) -> None:
    other = threading.Thread(target=(tmp_path / "a").touch)
    other.start()
    assert watcher.changes(STUCK) == [Change(".", "a", True)]
    other.join()


def test_a_waiting_call_wakes_up_when_told_to(watcher: Watcher) -> None:
    other = threading.Thread(target=watcher.wake)
    other.start()
    assert watcher.changes(None) == []
    other.join()
    for _ in range(100_000):  # more than the pipe holds
        watcher.wake()
    assert watcher.changes(None) == []


def test_a_call_that_waits_in_vain_ends_in_time(watcher: Watcher) -> None:
    assert watcher.changes(SOON) == []


def test_a_closed_watcher_can_be_woken(opened: Callable[..., Watcher]) -> None:
    watcher = opened()
    watcher.close()
    watcher.close()
    watcher.wake()


def test_more_changes_than_the_kernel_keeps_are_not_passed_over(
    watcher: Watcher, tmp_path: Path
) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].touch()
    for number in range(limit // 2 + 1):
        os.rename(paths[number % 2], paths[1 - number % 2])
    assert watcher.changes() is None
    assert told(watcher) == []
    (tmp_path / "c").touch()
    assert told(watcher) == [("c", True)]


def test_a_removed_folder_that_nobody_watches_from_above_is_listed_again(
    opened: Callable[..., Watcher], tmp_path: Path
) -> None:
    folder = tmp_path / "queues" / "jobs"
    folder.mkdir(parents=True)
    watcher = opened()
    watcher.watch("queues/jobs")
    folder.rmdir()
    assert watcher.changes() is None
    folder.mkdir()
    watcher.watch("queues/jobs")
    (folder / "x").touch()
    assert watcher.changes() == [Change("queues/jobs", "x", True)]


def test_a_removed_folder_is_told_by_the_one_above_it(
    opened: Callable[..., Watcher], tmp_path: Path
) -> None:
    folder = tmp_path / "queues" / "jobs"
    folder.mkdir(parents=True)
    watcher = opened()
    for path in ("queues", "queues/jobs"):
        watcher.watch(path)
    folder.rmdir()
    assert watcher.changes() == [Change("queues", "jobs", False)]


def test_a_folder_that_was_made_again_is_watched_again_and_listed(
    watcher: Watcher, tmp_path: Path
) -> None:
    tmp_path.rmdir()
    tmp_path.mkdir()
    assert watcher.changes() is None
    (tmp_path / "x").touch()
    assert told(watcher) == [("x", True)]


def test_a_folder_that_was_renamed_is_not_heard_under_its_old_path(
    opened: Callable[..., Watcher], tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    watcher = opened()
    watcher.watch("old")
    old.rename(new)
    assert watcher.changes() is None
    (new / "x").touch()
    assert watcher.changes() == []
    watcher.watch("new")
    (new / "y").touch()
    assert watcher.changes() == [Change("new", "y", True)]


def test_a_folder_that_is_watched_under_its_new_path_before_the_rename_is_heard_stays_watched(
    opened: Callable[..., Watcher], tmp_path: Path
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    watcher = opened()
    watcher.watch("old")
    old.rename(new)
    watcher.watch("new")
    assert watcher.changes() is None
    (new / "x").touch()
    assert watcher.changes() == [Change("new", "x", True)]


def test_a_folder_that_is_not_there_yet_makes_no_trouble(
    opened: Callable[..., Watcher], tmp_path: Path
) -> None:
    watcher = opened()
    watcher.watch("later")
    assert watcher.hears_all
    assert watcher.changes() == []
    (tmp_path / "later").mkdir()
    watcher.watch("later")
    (tmp_path / "later" / "x").touch()
    assert watcher.changes() == [Change("later", "x", True)]


def test_without_inotify_it_says_every_so_often_that_one_must_look(
    opened: Callable[..., Watcher], caplog: pytest.LogCaptureFixture
) -> None:
    watcher = opened(kernel=no_inotify, look_again=SOON)
    watcher.watch(".")
    assert not watcher.hears_all
    assert "max_user_instances" in caplog.text
    for _ in range(3):
        until_lost(watcher)


def test_a_folder_for_which_there_is_no_watch_is_looked_at_until_there_is_one(
    opened: Callable[..., Watcher], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = FullInotify()
    kernel.missing = 2
    watcher = opened(kernel=lambda: kernel, look_again=SOON)
    watcher.watch(".")
    assert not watcher.hears_all
    assert "max_user_watches" in caplog.text
    for _ in range(2):
        until_lost(watcher)
    assert watcher.hears_all
    (tmp_path / "x").touch()
    assert told(watcher) == [("x", True)]


def test_where_other_hosts_write_it_both_listens_and_looks(
    opened: Callable[..., Watcher], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = tmp_path.stat().st_dev
    table = tmp_path / "mountinfo"
    table.write_text(
        f"36 35 {os.major(device)}:{os.minor(device)} / /mnt rw shared:1 - nfs4 server:/export rw\n"
    )
    monkeypatch.setattr(mounts, "_MOUNTS", table)
    watcher = opened(look_again=STUCK)
    watcher.watch(".")
    assert not watcher.hears_all
    (tmp_path / "x").touch()
    assert told(watcher) == [("x", True)]
    often = opened(look_again=SOON)
    often.watch(".")
    until_lost(often)


def test_a_local_file_system_is_not_written_by_other_hosts(tmp_path: Path) -> None:
    assert not mounts.is_written_by_other_hosts(tmp_path)

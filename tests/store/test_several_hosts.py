"""A root that several hosts have open: its disk, its log, its leases, and where it may lie."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store.engine.context import MARGIN
from spoolrack_store.engine.engine import Engine
from spoolrack_store.files import hosts_disk
from spoolrack_store.files.changes import Change, ChangeKind, Changes
from spoolrack_store.files.disk import SyncFailed, explained
from spoolrack_store.files.hosts_disk import HostsDisk, disk_of, require_fencing
from spoolrack_store.files.local_disk import LocalDisk, RunningProcess
from spoolrack_store.files.root import Root
from spoolrack_store.fsck.commands import check
from spoolrack_store.model.clock import Millis, SystemClock
from spoolrack_store.model.errors import RootUnusable
from spoolrack_store.model.operations import CreateQueue, Receive, Send, messages_of
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.read_only_root import open_read_only
from spoolrack_store.snapshot import take_snapshot
from spoolrack_store.store import Store

from tests.support import engines
from tests.support.engine_story import Clock
from tests.support.engines import commit
from tests.support.root_rig import Bytes

ELSEWHERE = RunningProcess(1, "elsewhere", "another-boot")


class HostClock(Clock):
    """The clock of a host that is so many milliseconds ahead, and was started at another time."""

    def __init__(self, ahead: int = 0, since_boot: int = 1_600_000_000_000) -> None:
        super().__init__()
        self.ahead, self.since_boot = ahead, since_boot

    def wall(self) -> Millis:
        return Millis(self.now + self.ahead)

    def monotonic(self) -> Millis:
        return Millis(self.now - self.since_boot)


def opened(path: Path, clock: Any, process: RunningProcess | None = None) -> tuple[Root, Engine]:
    return engines.opened(path, clock, process, HostsDisk)


def test_processes_of_two_hosts_share_a_root_that_was_made_for_several(tmp_path: Path) -> None:
    _, one = opened(tmp_path, Clock())
    _, other = opened(tmp_path, Clock(), ELSEWHERE)
    commit(one, CreateQueue(name="q", settings=QueueSettings()))
    commit(other, Send(queue="q", bodies=[b"hello"]))
    commit(other)
    (got,) = commit(one, Receive(queue="q", max_messages=1, max_bytes=100))
    assert [message.body for message in messages_of(got)] == [b"hello"]
    assert (tmp_path / "FORMAT").read_text() == "spoolrack 4 several hosts\n"


def test_a_file_system_that_one_host_can_mount_holds_no_root_of_several(tmp_path: Path) -> None:
    with pytest.raises(
        RootUnusable, match=r"one host at a time can mount .*: leave out --hosts several"
    ):
        Store.open(tmp_path / "root", hosts="several")
    assert not (tmp_path / "root" / "FORMAT").exists()


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("fuse.glusterfs", "goes on writing"),
        ("fuse", "MooseFS.* within 45 s"),
        ("nfs4", "not its renames"),
        ("ceph", "mount it by ceph-fuse"),
        ("fuse.sshfs", "fuse.sshfs isn't known to keep out"),
    ],
)
def test_a_file_system_that_does_not_fence_is_refused_with_the_reason(
    tmp_path: Path, kind: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts_disk, "kind_of", lambda root: kind)
    with pytest.raises(RootUnusable, match=f"{why}.*CephFS, mounted by ceph-fuse"):
        require_fencing(tmp_path)


def test_a_root_is_opened_as_it_was_made_and_refused_to_another_choice(tmp_path: Path) -> None:
    one, several = tmp_path / "one", tmp_path / "several"
    Store.open(one).close()
    Store.open(one, hosts="one").close()
    opened(several, Clock())[0].close()
    assert isinstance(disk_of(several), HostsDisk)
    assert not disk_of(one).several_hosts
    with pytest.raises(RootUnusable, match="was made for one host: leave out --hosts several"):
        Store.open(one, hosts="several")
    with pytest.raises(RootUnusable, match="was made for several hosts: leave out --hosts one"):
        Store.open(several, hosts="one")


def test_a_rename_keeps_what_has_the_name(tmp_path: Path) -> None:
    disk = HostsDisk(tmp_path)
    for name in ("a", "b"):
        disk.create(name, [name.encode()], sync=False)
    with pytest.raises(FileExistsError):
        disk.rename_new("a", "b")
    disk.link("a", "c")
    with pytest.raises(FileExistsError):
        disk.rename_new("a", "c")
    disk.rename_new("a", "d")
    assert {each.name: disk.read(each.name) for each in disk.scan(".")} == {
        "b": b"b",
        "c": b"a",
        "d": b"a",
    }


def test_what_one_process_writes_into_shared_bytes_another_one_reads_past_the_cache(
    tmp_path: Path,
) -> None:
    (tmp_path / "CHANGES").write_bytes(bytes(3 * 4096))
    one, other = (HostsDisk(tmp_path).map("CHANGES", 3 * 4096) for _ in range(2))
    for offset in (0, 5, 4_090, 8_191):
        one.write(offset, b"0123456789")
        assert other.read(offset, 10) == b"0123456789"
    assert other.read(0, 3 * 4096) == (tmp_path / "CHANGES").read_bytes()
    os.truncate(tmp_path / "CHANGES", 4096)
    with pytest.raises(SyncFailed, match="shorter"):
        other.read(4096, 1)


def test_times_in_the_log_are_those_of_no_host() -> None:
    memory, here, there = Bytes(), HostClock(), HostClock(since_boot=1_699_999_000_000)
    writer, reader = Changes(memory, "a", clock=here), Changes(memory, "b", clock=there)
    writer.begin_anew()
    reader.read_header()
    reader.join()
    writer.read_header()
    writer.intend(Change(ChangeKind.LINK, "x", "y", here.monotonic() + 30_000))
    writer.intend(Change(ChangeKind.LINK, "x", "z"))
    writer.finish()
    reader.read_header()
    assert [each.due for each in reader.news()] == [there.monotonic() + 30_000, 0]


@pytest.mark.parametrize("joins_late", [False, True])
def test_a_host_ends_a_lease_of_another_one_a_margin_late_and_no_later(
    tmp_path: Path, joins_late: bool
) -> None:
    """Its clock may be ahead by as much: the consumer still holds the message until its time."""
    here, there = HostClock(), HostClock(ahead=MARGIN, since_boot=1_699_999_000_000)
    _, one = opened(tmp_path, here)
    commit(one, CreateQueue(name="q", settings=QueueSettings(visibility_timeout=Millis(10_000))))
    others = [] if joins_late else [opened(tmp_path, there, ELSEWHERE)[1]]
    commit(one, Send(queue="q", bodies=[b"hello"]))
    commit(one)
    assert commit(one, Receive(queue="q", max_messages=1, max_bytes=100))[0]
    other = others[0] if others else opened(tmp_path, there, ELSEWHERE)[1]

    def received_after(span: int) -> list[Any]:
        there.now = 1_700_000_000_000 + span
        commit(other)  # The leases that are over.
        (got,) = commit(other, Receive(queue="q", max_messages=1, max_bytes=100))
        return list(got)

    assert not received_after(9_999)
    assert received_after(10_000 + MARGIN)


@pytest.mark.parametrize("code", [errno.ESHUTDOWN, errno.ENOTCONN, errno.EROFS])
def test_a_file_system_that_takes_no_more_changes_of_this_host_ends_the_store(code: int) -> None:
    with pytest.raises(SyncFailed, match=os.strerror(code)):
        explained(OSError(code, os.strerror(code), "new"))


def test_a_sync_that_fails_stops_the_other_host_before_it_builds_on_it(tmp_path: Path) -> None:
    root, one = opened(tmp_path, Clock())
    _, other = opened(tmp_path, Clock(), ELSEWHERE)
    commit(one, CreateQueue(name="q", settings=QueueSettings()))
    commit(other)

    def failing(path: str) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    assert isinstance(root.disk, LocalDisk)
    root.disk.sync_folder = failing  # type: ignore[method-assign]
    with pytest.raises(SyncFailed, match="Input/output error"):
        one.apply([Send(queue="q", bodies=[b"lost"])])
    with pytest.raises(SyncFailed, match="another process"):
        other.apply([])


def test_a_root_of_several_hosts_can_be_looked_at_checked_and_linked(tmp_path: Path) -> None:
    _, engine = opened(tmp_path / "root", SystemClock())
    commit(engine, CreateQueue(name="q", settings=QueueSettings()))
    commit(engine, Send(queue="q", bodies=[b"hello"]))
    commit(engine)
    with open_read_only(tmp_path / "root") as store:
        assert store.queue("q").counts.ready_count == 1
    take_snapshot(tmp_path / "root", tmp_path / "copy")
    assert not check(tmp_path / "copy").problems
    assert isinstance(disk_of(tmp_path / "copy"), HostsDisk)

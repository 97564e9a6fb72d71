"""No name gets too long for a file system, and a file system without hard links is refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from spoolrack_store.files.changes import Memory
from spoolrack_store.files.disk import Lock
from spoolrack_store.files.local_disk import LocalDisk, space_of, this_process
from spoolrack_store.files.root import RootDisk, open_root, require_operations
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.disk_watermark import DiskWatermark
from spoolrack_store.model.errors import RootUnusable, StaleReceipt
from spoolrack_store.model.members import MOST
from spoolrack_store.model.names import MAX_BYTES
from spoolrack_store.model.operations import ChangeVisibility, Delete, Receive, Send
from spoolrack_store.model.transitions import State

from tests.store.trouble_rig import PickyDisk, Rig
from tests.support.linked_disk import made
from tests.support.power_disk import Model

pytestmark = pytest.mark.timeout(300)

LONGEST = "q" * 80


@pytest.mark.parametrize("seed", range(2))
def test_the_longest_names_go_through_every_state(seed: int) -> None:
    chance = Random(seed)
    rig = Rig(made(["q"], can_sync_all=True, model=Model.ANY_SUBSET), cache_bytes=1 << 24)
    rig.add(LONGEST)
    rig.engine.moves.owner = "o" * 16
    attributes: dict[int, Any] = {place: {"a": "b" * 100} for place in range(MOST)}
    receive = Receive(queue=LONGEST, max_messages=MOST, visibility_timeout=Millis(30_000))
    send = Send(queue=LONGEST, bodies=[b"x" * 500] * MOST, attributes=attributes)
    sent, _ = rig.commit(send, receive)
    receipts: dict[str, str] = {}
    left = set(sent.results)
    longest = 0
    for _ in range(20):
        rig.advance(chance.choice((1, 30_000)))
        chosen = chance.sample(sorted(receipts), min(len(receipts), chance.randint(1, 300)))
        named = [receipts[id] for id in chosen]
        changed, deleted, deliveries = rig.commit(
            ChangeVisibility(
                queue=LONGEST,
                receipts=named[::3],
                visibility_timeout=Millis(chance.choice((0, 30_000))),
            ),
            Delete(queue=LONGEST, receipts=named[1::9]),
            Receive(
                queue=LONGEST,
                max_messages=chance.choice((1, 7, MOST)),
                visibility_timeout=Millis(30_000),
            ),
        )
        for result in (*changed, *deleted):
            assert result is None or isinstance(result, int | StaleReceipt)
        left -= {id for id, result in zip(chosen[1::9], deleted, strict=True) if result is None}
        for each in deliveries:
            receipts.update(zip(each.ids, each.receipts, strict=True))
        names = [path.rpartition("/")[2] for path in rig.paths("new", "delay", "remove")]
        longest = max([longest, *map(len, names)])
    assert MAX_BYTES - 60 < longest <= MAX_BYTES
    counts = rig.engine.index.queue(LONGEST).counts
    assert sum(counts.values()) == len(left)
    assert counts[State.DELAYED] == 0
    rig.advance(30_000)
    while counts[State.LEASED]:
        rig.commit()  # Leases that end at once come back in slices.
    rig.check()


def _an_owner(root: Path) -> Path:
    for folder in ("new", "owners"):
        (root / folder).mkdir()
    (root / "owners" / "p1").write_text("pid 7 on a boot b\n")
    return root


def test_a_file_system_with_all_operations_is_taken_and_nothing_is_left(tmp_path: Path) -> None:
    require_operations(LocalDisk(_an_owner(tmp_path)), str(tmp_path), "p1")
    assert list((tmp_path / "new").iterdir()) == []
    # Shared memory is tried on the owner's own file, whose line stays.
    assert (tmp_path / "owners" / "p1").read_text() == "pid 7 on a boot b\n"


@pytest.mark.parametrize(
    ("call", "code", "name"),
    [
        ("link", errno.EPERM, "hard links"),
        ("link", errno.EOPNOTSUPP, "hard links"),
        ("rename_new", errno.EINVAL, "RENAME_NOREPLACE"),
        ("sync_folder", errno.EINVAL, "sync of a folder"),
        ("map", errno.ENODEV, "memory that processes share"),
        ("lock", errno.ENOLCK, "locks"),
        ("lock", errno.ENOSYS, "locks"),
    ],
)
def test_a_file_system_without_one_is_refused_by_its_name_with_what_to_do(
    tmp_path: Path, call: str, code: int, name: str
) -> None:
    disk = PickyDisk(LocalDisk(_an_owner(tmp_path)))
    disk.fail(code, call)
    told = (
        rf"file system \(picky\) has no .*{name}.*: {errno.errorcode[code]}, .*: use one such as ext4"
    )
    with pytest.raises(RootUnusable, match=told):
        require_operations(cast(RootDisk, disk), str(tmp_path), "p1")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_disk_that_fails_is_not_taken_for_one_without_the_operation(tmp_path: Path) -> None:
    disk = PickyDisk(LocalDisk(_an_owner(tmp_path)))
    disk.fail(errno.EIO, "link")
    with pytest.raises(OSError, match="Input/output error"):
        require_operations(cast(RootDisk, disk), str(tmp_path), "p1")


def test_a_file_system_that_looks_at_the_flag_only_when_the_name_is_free_is_refused(
    tmp_path: Path,
) -> None:
    """GlusterFS finds the name taken before it looks at the flag that it doesn't know: the answer is
    EEXIST, as it should be, and EINVAL for each message that is published."""

    class Flagless(LocalDisk):
        def rename_new(self, source: str, target: str) -> None:
            code = errno.EEXIST if (tmp_path / target).exists() else errno.EINVAL
            raise OSError(code, os.strerror(code), source)

    for _ in range(2):
        with pytest.raises(RootUnusable, match="RENAME_NOREPLACE"):
            open_root(Flagless(tmp_path), str(tmp_path), Random(), this_process())
    assert not (tmp_path / "FORMAT").exists()
    assert [*(tmp_path / "new").iterdir(), *(tmp_path / "owners").iterdir()] == []


def test_a_root_that_was_moved_to_such_a_file_system_is_refused_too(tmp_path: Path) -> None:
    open_root(LocalDisk(tmp_path), str(tmp_path), Random(), this_process()).close()

    class Linkless(LocalDisk):
        def link(self, source: str, target: str) -> None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), source)

    with pytest.raises(RootUnusable, match="hard links"):
        open_root(Linkless(tmp_path), str(tmp_path), Random(), this_process())


def test_a_file_system_that_replaces_what_it_must_not_is_refused(tmp_path: Path) -> None:
    class Replacing(LocalDisk):
        def rename_new(self, source: str, target: str) -> None:
            self.rename(source, target)
            if (tmp_path / source).exists():  # rename(2) leaves two links of one file as they are
                (tmp_path / source).unlink()

    with pytest.raises(RootUnusable, match="replaces"):
        require_operations(Replacing(_an_owner(tmp_path)), str(tmp_path), "p1")


def test_a_file_system_whose_locks_exclude_nobody_is_refused(tmp_path: Path) -> None:
    class Free:
        def is_held(self) -> bool:
            return True

        def release(self) -> None: ...

    class Lockless(LocalDisk):
        def lock(self, path: str) -> Lock | None:
            return Free()

    with pytest.raises(RootUnusable, match="exclude no other process"):
        require_operations(Lockless(_an_owner(tmp_path)), str(tmp_path), "p1")


def test_a_file_system_whose_shared_memory_is_stale_is_refused(tmp_path: Path) -> None:
    class Stale(LocalDisk):
        def map(self, path: str, size: int) -> Memory:
            memory = super().map(path, size)
            memory.write = lambda offset, content: None  # type: ignore[method-assign]
            return memory

    with pytest.raises(RootUnusable, match="doesn't show what was written"):
        require_operations(Stale(_an_owner(tmp_path)), str(tmp_path), "p1")
    assert list((tmp_path / "new").iterdir()) == []


def test_a_start_makes_one_file_and_no_other(tmp_path: Path) -> None:
    """A disk without inodes may have one: that of the process which died, or of the reserve."""
    open_root(LocalDisk(tmp_path), str(tmp_path), Random(), this_process()).close()

    class Nearly(LocalDisk):
        def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
            if list((tmp_path / "owners").iterdir()):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            super().create(path, parts, sync=sync)

    root = open_root(Nearly(tmp_path), str(tmp_path), Random(), this_process())
    assert [each.name for each in (tmp_path / "owners").iterdir()] == [root.owner]
    root.close()


def test_a_disk_without_room_for_a_name_is_opened_and_keeps_its_reserve(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The deletes that make room need an open root. On tmpfs each further name takes an inode."""
    open_root(LocalDisk(tmp_path), str(tmp_path), Random(), this_process()).close()
    (tmp_path / "RESERVE").write_bytes(bytes(100))
    disk = PickyDisk(LocalDisk(tmp_path))
    disk.fail(errno.ENOSPC, "link")
    open_root(cast(RootDisk, disk), str(tmp_path), Random(), this_process()).close()
    assert "the disk is full: links and renames" in caplog.text
    assert (tmp_path / "RESERVE").stat().st_size == 100


@pytest.mark.parametrize("free", [-1, 2**64 - 1])
def test_a_file_system_that_does_not_know_its_free_files_has_no_limit_of_them(free: int) -> None:
    # ceph-fuse answers so: it isn't full, and no send may be refused for it.
    facts = [4096, 4096, 9000, 8000, 8000, 500, free, free, 0, 255]
    space = space_of(os.statvfs_result(facts))
    assert space.files is None
    assert not space.is_below(DiskWatermark(bytes=0, files=10))

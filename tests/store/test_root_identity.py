"""A root has an identity from its first start on, which its copies have, too."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from spoolrack_store import fsck
from spoolrack_store.files.layout import IDENTITY
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.model.errors import StoreFailed
from spoolrack_store.model.message_ids import is_id
from spoolrack_store.model.sealed import seal_text
from spoolrack_store.read_only_root import open_read_only
from spoolrack_store.snapshot import take_snapshot
from spoolrack_store.store import Store


def identity(root: Path) -> str:
    with Store.open(root) as store:
        return store.root_id


class RecordingDisk(LocalDisk):
    """It notes what is synced, and may refuse that."""

    synced: list[str]
    refuses = False

    def create(self, path: str, parts: object, *, sync: bool) -> None:
        super().create(path, parts, sync=sync)  # type: ignore[arg-type]
        if sync:
            self.synced.append(path)

    def sync_file(self, path: str) -> None:
        super().sync_file(path)
        self.synced.append(path)

    def sync_folder(self, path: str) -> None:
        if self.refuses and IDENTITY in self.synced:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        super().sync_folder(path)
        self.synced.append(path)


def recording(root: Path, *, refuses: bool = False) -> RecordingDisk:
    root.mkdir(mode=0o700, exist_ok=True)
    disk = RecordingDisk(root)
    disk.synced, disk.refuses = [], refuses
    return disk


def test_each_root_has_an_identity_of_its_own_that_outlives_restarts(tmp_path: Path) -> None:
    one = identity(tmp_path / "one")

    assert is_id(one)
    assert (tmp_path / "one" / IDENTITY).read_bytes() == seal_text(one)
    assert identity(tmp_path / "one") == one
    assert identity(tmp_path / "two") != one
    with Store.open(tmp_path / "one") as first, Store.open(tmp_path / "one") as second:
        assert first.root_id == second.root_id == one


@pytest.mark.parametrize("torn", [None, b"", b"0f5c", b"\0" * 37])
def test_a_root_of_before_or_with_a_torn_identity_gets_one_at_its_next_start(
    tmp_path: Path, torn: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    before = identity(tmp_path / "root")
    (tmp_path / "root" / IDENTITY).unlink()
    if torn is not None:
        (tmp_path / "root" / IDENTITY).write_bytes(torn)

    drawn = identity(tmp_path / "root")

    assert is_id(drawn)
    assert drawn != before
    assert ("was never written whole, and is drawn anew" in caplog.text) == (torn is not None)
    assert identity(tmp_path / "root") == drawn


@pytest.mark.parametrize("is_there", [False, True])
def test_an_identity_is_durable_before_it_is_told(tmp_path: Path, is_there: bool) -> None:
    """The process that drew it may have been killed before that."""
    root = tmp_path / "root"
    if is_there:
        identity(root)
    disk = recording(root)
    Store.open(root, disk=disk).close()
    assert IDENTITY in disk.synced
    assert "." in disk.synced[disk.synced.index(IDENTITY) :]

    with pytest.raises(StoreFailed):
        Store.open(root, disk=recording(root, refuses=True))


def test_a_start_that_died_before_the_format_goes_on(tmp_path: Path) -> None:
    before = identity(tmp_path / "root")
    (tmp_path / "root" / "FORMAT").unlink()

    assert identity(tmp_path / "root") == before


def test_a_snapshot_has_the_identity_of_its_root_and_loses_it_on_request(tmp_path: Path) -> None:
    before = identity(tmp_path / "root")
    take_snapshot(tmp_path / "root", tmp_path / "copy")
    take_snapshot(tmp_path / "root", tmp_path / "other")
    (tmp_path / "other" / IDENTITY).unlink()

    assert identity(tmp_path / "copy") == before
    assert identity(tmp_path / "other") != before
    assert identity(tmp_path / "root") == before


def test_a_look_draws_no_identity(tmp_path: Path) -> None:
    before = identity(tmp_path / "root")
    assert fsck.check(tmp_path / "root").identity == before
    (tmp_path / "root" / IDENTITY).unlink()

    open_read_only(tmp_path / "root").close()
    report = fsck.check(tmp_path / "root")

    assert report.identity == ""
    assert "IDENTITY is missing" in report.leftovers[0].why
    assert not report.problems
    assert not (tmp_path / "root" / IDENTITY).exists()

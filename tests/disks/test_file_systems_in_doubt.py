"""A file system that may not keep a promise: a start warns of it, or relies on less."""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path

import pytest
from spoolrack_store.files.mounts import doubt_about, kind_of, passes_on_syncfs
from spoolrack_store.store import Store

from tests.support.loop_disk import LoopDisk, why_not

_LOG = "spoolrack_store.files.mounts"


@pytest.mark.parametrize("has_journal", [True, False])
def test_a_start_warns_of_an_ext4_without_a_journal(
    has_journal: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server that ran in this process before may have turned the log.
    monkeypatch.setattr(logging.getLogger("spoolrack_store"), "propagate", True)
    caplog.set_level(logging.WARNING, "spoolrack_store")
    missing = why_not("ext4")
    if missing is not None:
        pytest.skip(missing)
    making = () if has_journal else ("-O", "^has_journal")

    with LoopDisk("ext4", tmp_path / "disk", making=making) as disk:
        store = Store.open(disk.mount_point / "root")
        doubt = store.doubt
        store.close()
        del store
        gc.collect()  # A closed store keeps its folder open until it is collected.

    found = [record for record in caplog.records if record.name == _LOG]
    assert ["without a journal" in record.getMessage() for record in found] == [True] * (
        not has_journal
    )
    assert (doubt is None) is has_journal
    assert all(record.levelno == logging.WARNING for record in found)


def test_a_device_without_a_name_is_not_accused_of_a_missing_journal(tmp_path: Path) -> None:
    """Some containers have no /sys, which names the device: that is no evidence against its journal."""
    missing = why_not("ext4")
    if missing is not None:
        pytest.skip(missing)
    (tmp_path / "sys").mkdir()
    with LoopDisk("ext4", tmp_path / "disk", making=("-O", "^has_journal")) as disk:
        assert "without a journal" in (doubt_about(disk.mount_point) or "")
        assert doubt_about(disk.mount_point, tmp_path / "sys") is None


@pytest.mark.parametrize(
    ("kind", "passes_on"),
    [("fuse", False), ("fuse.mergerfs", False), ("fuseblk", False), ("ext4", True), ("virtiofs", True)],
)
def test_a_sync_of_the_whole_file_system_is_not_relied_on_behind_fuse(
    tmp_path: Path, kind: str, passes_on: bool
) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts.write_text(f"36 35 {number} / / rw,relatime shared:1 - {kind} source rw\n")

    assert passes_on_syncfs(kind_of(tmp_path, mounts)) is passes_on

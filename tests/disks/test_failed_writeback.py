"""Data that a disk never got is not taken for durable, though memory shows it whole."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack_store.files.local_disk import LocalDisk

from tests.support.disk_filler import fill_bytes
from tests.support.loop_disk import MEBIBYTE, LoopDisk, why_not

BODY = b"x" * 64 * 4_096


@pytest.fixture
def hollow(tmp_path: Path) -> Iterator[tuple[LoopDisk, Path]]:
    """A disk whose image has holes, in a folder that has less room than it would need to fill them."""
    reason = why_not("ext4")
    if reason is not None:
        pytest.skip(reason)
    below = tmp_path / "below"
    below.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={24 * MEBIBYTE}", "none", below], check=True)
    try:
        with LoopDisk("ext4", below / "disk", is_hollow=True, making=("-J", "size=4")) as disk:
            yield disk, below
    finally:
        subprocess.run(["umount", below], check=True)


def test_pages_that_a_failed_sync_did_not_write_are_not_read_afresh(
    hollow: tuple[LoopDisk, Path],
) -> None:
    made, below = hollow
    disk = LocalDisk(made.mount_point)
    try:
        disk.create("synced", [b"on the disk"], sync=True)
        os.sync()
        fill_bytes(below / "filling")
        disk.create("lost", [BODY], sync=False)
        with pytest.raises(OSError, match=r"No space left|Input/output error"):
            disk.sync_file("lost")

        assert disk.read("lost") == BODY, "memory shows it, or there is nothing to test"
        assert disk.read("lost", afresh=True) != BODY
        assert disk.read("synced", afresh=True) == b"on the disk"
    finally:
        disk.close()


def test_a_failed_writeback_is_reported_to_each_open_handle(hollow: tuple[LoopDisk, Path]) -> None:
    made, below = hollow
    one, other = LocalDisk(made.mount_point), LocalDisk(made.mount_point)
    try:
        one.create("FORMAT", [b"of a root"], sync=True)
        os.sync()
        fill_bytes(below / "filling")
        one.create("lost", [BODY], sync=False)
        for disk in (one, other):
            with pytest.raises(OSError, match=r"No space left|Input/output error"):
                disk.sync_all()
    finally:
        one.close()
        other.close()


def test_dirty_pages_are_read_afresh_all_the_same(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    disk.create("waiting", [BODY], sync=False)
    assert disk.read("waiting", afresh=True) == BODY
    disk.close()

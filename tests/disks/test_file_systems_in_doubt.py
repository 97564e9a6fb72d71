"""A start warns of a file system on which a rename isn't atomic across a power cut."""

from __future__ import annotations

import gc
import logging
from pathlib import Path

import pytest
from spoolrack_store.store import Store

from tests.support.loop_disk import LoopDisk, why_not

_LOG = "spoolrack_store.files.mounts"


@pytest.mark.parametrize("has_journal", [True, False])
def test_a_start_warns_of_an_ext4_without_a_journal(
    has_journal: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A server that ran in this process before may have turned the log.
    monkeypatch.setattr(logging.getLogger("spoolrack_store"), "propagate", True)
    caplog.set_level(logging.WARNING, "spoolrack_store")
    missing = why_not("ext4")
    if missing is not None:
        pytest.skip(missing)
    making = () if has_journal else ("-O", "^has_journal")

    with LoopDisk("ext4", tmp_path / "disk", making=making) as disk:
        Store.open(disk.mount_point / "root").close()
        gc.collect()  # A closed store keeps its folder open until it is collected.

    found = [record for record in caplog.records if record.name == _LOG]
    assert ["without a journal" in record.getMessage() for record in found] == [True] * (
        not has_journal
    )
    assert all(record.levelno == logging.WARNING for record in found)

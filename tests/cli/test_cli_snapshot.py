"""`spoolrack snapshot`: its output and exit codes; the copy is tested with the store."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.cli_rig import Spoolrack
from tests.support.root_rig import make_root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


def test_a_snapshot_is_a_root_without_problems(
    on_root: Spoolrack, offline: Spoolrack, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    taken = on_root("snapshot", str(copy))
    assert (taken.code, taken.err) == (0, "")
    assert re.fullmatch(
        rf"{re.escape(str(copy))}: \d+ files linked; calls waited for \d+ ms\.\n", taken.out
    )
    checked = offline("fsck", str(copy))
    assert checked.code == 0
    assert "2 queues, 8 whole messages" in checked.out


def test_a_target_that_is_there_is_refused_in_a_line(on_root: Spoolrack, tmp_path: Path) -> None:
    refused = on_root("snapshot", str(tmp_path))
    assert refused.code not in (0, 1)
    assert refused.err.count("\n") == 1
    told = "can't become a snapshot: it is there already: choose another name, or remove it."
    assert f"{tmp_path} {told}" in refused.err


def test_a_folder_that_is_no_root_is_refused(offline: Spoolrack, tmp_path: Path) -> None:
    refused = offline("snapshot", str(tmp_path / "copy"), "--root", str(tmp_path / "none"))
    assert refused.code not in (0, 1)
    assert "can't be a root of Spoolrack: it is none" in refused.err
    assert not (tmp_path / "copy").exists()

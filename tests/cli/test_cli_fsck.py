"""`spoolrack fsck`: its output and exit codes; its findings are tested with the store."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from spoolrack_store.store import Store

from tests.cli.cli_rig import Spoolrack
from tests.support.root_rig import bodies, delayed, make_root, single


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


def test_a_clean_root_exits_with_0(offline: Spoolrack, root: Path) -> None:
    result = offline("fsck", str(root))
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[0].split() == [
        *("QUEUE", "READY", "LEASED", "DELAYED", "SENT", "REMOVED", "BYTES")
    ]
    assert result.out.splitlines()[2].split()[:5] == ["q", "6", "1", "1", "0"]
    assert "2 queues, 8 whole messages" in result.out
    assert result.out.endswith("No problems.\n")
    assert offline("fsck", str(root), "--quiet").out == ""


def test_the_folder_can_come_from_where_serve_has_it(
    offline: Spoolrack, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert offline("fsck", "--data", str(root)).code == 0
    monkeypatch.setenv("SPOOLRACK_DATA", str(root))
    assert offline("fsck").code == 0


def test_problems_are_listed_and_exit_with_1_until_they_are_mended(
    offline: Spoolrack, root: Path
) -> None:
    size = single(root).stat().st_size
    os.truncate(single(root), 3)
    path = single(root).relative_to(root)
    found = offline("fsck", str(root), "--quiet")
    assert found.code == 1
    assert found.out == f"{path}: it has 3 bytes instead of {size}\n"
    told = offline("fsck", str(root)).out
    assert told.endswith("1 problem: stop the server and use --repair.\n")
    mended = offline("fsck", str(root), "--repair")
    assert (mended.code, mended.err) == (0, "")
    assert f"{path}: it has 3 bytes instead of {size}: put into quarantine" in mended.out
    assert mended.out.endswith("No problems left.\n")
    assert "served by" not in mended.out, "it doesn't take itself for another process"
    clean = offline("fsck", str(root), "--verbose")
    assert clean.code == 0
    assert f"quarantine/q:{path.name[:36]}" in clean.out
    assert "it has 3 bytes" in clean.out


def test_damage_beyond_repair_is_found_and_left(offline: Spoolrack, root: Path) -> None:
    (root / "published").rmdir()
    (root / "published").write_text("")
    for arguments in ([], ["--repair"]):
        left = offline("fsck", str(root), *arguments)
        assert left.code == 1
        assert left.out.endswith("1 problem.\n"), "nothing here mends it"
    assert (root / "published").is_file()


def test_a_name_does_a_terminal_no_harm(offline: Spoolrack, root: Path) -> None:
    (root / "new" / os.fsdecode(b"\x1b[31m\xff\n")).write_text("")
    result = offline("fsck", str(root), "--quiet")
    assert result.code == 1
    assert result.out.isprintable() or result.out.rstrip("\n").isprintable()
    assert json.loads(offline("fsck", str(root), "--json").out)["problems"]


def test_the_report_is_also_json(offline: Spoolrack, root: Path) -> None:
    os.truncate(single(root), 3)
    report = json.loads(offline("fsck", str(root), "--repair", "--json").out)
    assert report["queues"]["q"]["ready"] == 5
    assert [each["remedy"] for each in report["mended"]] == ["quarantine"]
    assert report["problems"] == []


def test_a_message_is_restored_by_its_id(offline: Spoolrack, root: Path) -> None:
    path = delayed(root)
    path.rename(path.with_name(path.name.partition("@")[0]))
    offline("fsck", str(root), "--repair")
    id = path.name.partition(":")[2][:36]
    restored = offline("fsck", str(root), "--restore", id)
    assert restored.code == 0
    assert restored.out.startswith(f"queues/q/{id}")
    assert b"delayed" in bodies(root)
    again = offline("fsck", str(root), "--restore", id)
    assert (again.code, again.out) == (1, "")
    assert id in again.err


@pytest.mark.parametrize("arguments", [["--repair"], ["--restore", "x"]])
def test_a_repair_of_a_root_in_use_fails_at_once(
    offline: Spoolrack, root: Path, arguments: list[str]
) -> None:
    with Store.open(root):
        result = offline("fsck", str(root), *arguments)
    assert (result.code, result.out) == (75, "")
    assert "is served by another process" in result.err


def test_a_folder_that_is_no_root_exits_above_1(offline: Spoolrack, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        result = offline("fsck", str(path))
        assert (result.code, result.out) == (66, "")
        assert len(result.err.splitlines()) == 1

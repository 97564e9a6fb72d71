"""The comparison of file systems runs, leaves nothing behind, and says what it has found."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.file_system_loads import WORKLOADS
from benchmarks.file_systems import BEGIN, END, VARIANTS, FileSystemResults, FileSystemRound, text_of
from tests import CHECKOUT
from tests.support.loop_disk import why_not
from tests.support.serving import output_of

pytestmark = pytest.mark.slow

PAGE = CHECKOUT / "docs" / "reference" / "file-systems.md"


def found_by_a_run() -> FileSystemResults:
    rates = {"ext4": 1_000.0, "xfs": 1_500.0}
    return FileSystemResults(
        began="today",
        machine={"cores": "4", "processor": "X", "memory": "8 GiB", "kernel": "6", "python": "3"},
        mebibytes=2048,
        seconds=1.0,
        variants=[asdict(each) for each in VARIANTS if each.name in rates],
        missing={"ext4-1k": "mkfs.ext4 ended with 1"},
        rounds=[
            FileSystemRound(
                variant=variant, workload="tens", round=round, messages=1, rate=rate * (1 + round / 10)
            )
            for variant, rate in rates.items()
            for round in range(3)
        ],
    )


def test_the_table_says_rates_and_ratios_and_exactly_what_was_made() -> None:
    text = text_of(found_by_a_run())
    assert "| file system | tens |" in text
    assert "| ext4 | 1,100 |" in text
    assert "| xfs | 1,650 (1.50) |" in text
    assert "| ext4 | `mkfs.ext4 -b 4096 -i 4096` |" in text
    assert "tens ± 9%" in text
    assert "- Not measured: ext4-1k; mkfs.ext4 ended with 1." in text
    assert text.startswith(BEGIN)
    assert text.endswith(f"{END}\n")


def test_the_guide_has_a_place_for_the_table_and_names_every_kind_of_option() -> None:
    guide = PAGE.read_text()
    assert guide.count(BEGIN) == guide.count(END) == 1
    for word in ("-J size=", "fast_commit", "data=writeback", "noatime", "lazytime", "inline_data"):
        assert word in guide


@pytest.mark.skipif(why_not("ext4") is not None, reason=why_not("ext4") or "")
def test_each_workload_runs_on_each_and_nothing_is_left(tmp_path: Path) -> None:
    folder, found, page = tmp_path / "here", tmp_path / "found.json", tmp_path / "page.md"
    folder.mkdir()
    page.write_text("# Mine\n\nKept.\n")
    output_of(
        *(sys.executable, "-m", "benchmarks.file_systems", "--variants", "ext4,ext4-journal,ext4-1k"),
        *("--rounds", "1", "--seconds", "0.01", "--mebibytes", "64"),
        *("--folder", folder, "--json", found, "--page", page),
        folder=CHECKOUT,
    )
    told = json.loads(found.read_text())
    assert {(each["variant"], each["workload"]) for each in told["rounds"]} == {
        (variant, workload.name) for variant in ("ext4", "ext4-1k") for workload in WORKLOADS
    }
    # Its journal is larger than the disk.
    assert list(told["missing"]) == ["ext4-journal"]
    assert page.read_text().startswith(f"# Mine\n\nKept.\n\n{BEGIN}")
    assert not any(folder.iterdir())
    assert str(folder) not in Path("/proc/mounts").read_text()

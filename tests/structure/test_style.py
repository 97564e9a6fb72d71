"""The code keeps its own rules: formatted, free of lint, and typed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


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

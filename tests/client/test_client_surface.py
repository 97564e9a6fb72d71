"""What the packages of the Python client offer, and nothing else."""

from __future__ import annotations

import tomllib
from pathlib import Path

import spoolrack

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_package_knows_its_version() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert spoolrack.__version__ == project["version"]

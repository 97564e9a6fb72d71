"""A crew and a server for each test, which end with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from crew import Crew, Served


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


@pytest.fixture
def served(crew: Crew, tmp_path: Path) -> Served:
    return Served(crew, tmp_path / "root")

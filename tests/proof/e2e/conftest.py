"""Processes, a server and a load for each test, which end with it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random, randrange

import pytest

from tests.support.load import Load
from tests.support.run_processes import Crew, Served


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


@pytest.fixture
def served(crew: Crew, tmp_path: Path) -> Served:
    return Served(crew, tmp_path / "root")


@pytest.fixture
def random() -> Random:
    seed = os.environ.get("SPOOLRACK_TEST_SEED") or str(randrange(1 << 32))
    print(f"SPOOLRACK_TEST_SEED={seed}")
    return Random(seed)


@pytest.fixture
def load(crew: Crew, served: Served, random: Random) -> Load:
    return Load(crew, served, random, in_sets=True)

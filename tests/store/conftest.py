"""A store on a real folder, for the tests that make no engine of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.front_rig import FrontRig, opened


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FrontRig]:
    with opened(tmp_path / "root") as rig:
        yield rig

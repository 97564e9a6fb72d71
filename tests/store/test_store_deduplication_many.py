"""A million deduplication ids: each is refused after a restart, from names and from segments alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.deduplication import STEPS, step


@pytest.mark.parametrize("ids", [5_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_every_repetition_is_refused_after_a_restart_and_after_all_is_unlinked(
    tmp_path: Path, ids: int
) -> None:
    found = {name: step(name, tmp_path / "root", ids) for name in STEPS}

    # A line is an id, a key, the queue's name and what stands between them.
    assert ids * 69 <= found["clear"]["disk"] <= ids * 70

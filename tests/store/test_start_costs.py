"""A start of many queues costs each of them the same."""

from __future__ import annotations

import cProfile
import pstats
from pathlib import Path
from random import Random

from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.model.settings import QueueSettings, Record, encode

from tests.support.root_rig import NOW, Bytes, Still, lay_out


def _calls(root: Path, queues: int) -> int:
    """Return how many functions the start of a root calls."""
    lay_out(root)
    record = encode(Record(settings=QueueSettings(), created_at=NOW, salt="salt"))
    for number in range(queues):
        (root / "config" / f"queue-{number:06d}.1.json").write_bytes(record)
        (root / "queues" / f"queue-{number:06d}").mkdir()
    engine = Engine(
        LocalDisk(root), Bytes(), clock=Still(), random=Random(7), owner="p1", is_living=lambda _: False
    )
    profile = cProfile.Profile()
    profile.enable()
    assert engine.open()
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_the_start_of_ten_times_as_many_queues_takes_ten_times_as_many_calls(tmp_path: Path) -> None:
    assert _calls(tmp_path / "many", 500) < 11 * _calls(tmp_path / "few", 50)

"""Sends stop at the watermarks of the disk's free room, and go on once more is free."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.disk import Space
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.model.disk_watermark import DiskWatermark
from spoolrack_store.model.errors import DiskFull
from spoolrack_store.model.operations import Send
from spoolrack_store.model.settings import MIB
from spoolrack_store.model.stage_requests import Stage

from tests.support.engines import commit, start
from tests.support.root_rig import SETTINGS, Bytes, Still, lay_out

ROOMY = Space(bytes=100 * MIB, files=10_000)
LOW = [Space(bytes=50 * MIB - 1, files=10_000), Space(bytes=100 * MIB, files=999)]


class RoomDisk(LocalDisk):
    """A folder that reports the free room that a test sets."""

    room = ROOMY

    def space(self) -> Space:
        return self.room


@pytest.fixture
def disk(tmp_path: Path) -> RoomDisk:
    lay_out(tmp_path / "root")
    return RoomDisk(tmp_path / "root")


@pytest.fixture
def engine(disk: RoomDisk) -> Engine:
    low = DiskWatermark(bytes=50 * MIB, files=1_000)
    return start(disk, Bytes(), clock=Still(), random=Random(7), queues=SETTINGS, watermark=low)


@pytest.mark.parametrize("low", LOW, ids=["bytes", "files"])
def test_sends_and_chunks_stop_at_a_watermark_and_go_on_by_themselves(
    engine: Engine, disk: RoomDisk, low: Space
) -> None:
    disk.room = low
    sent, staged = commit(
        engine, Send(queue="q", bodies=[b"no"]), Stage(stage="s", chunk=0, queue="q", bodies=[b"no"])
    )
    assert isinstance(sent.results[0], DiskFull)
    assert isinstance(staged, DiskFull)
    disk.room = ROOMY
    (sent,) = commit(engine, Send(queue="q", bodies=[b"yes"]))
    assert isinstance(sent.results[0], str)


def test_a_watermark_is_never_below_the_room_that_deletes_need() -> None:
    watermark = DiskWatermark(bytes=0, files=0)
    assert Space(bytes=MIB, files=10_000).is_below(watermark)
    assert Space(bytes=100 * MIB, files=1).is_below(watermark)

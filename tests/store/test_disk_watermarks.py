"""Sends stop at the watermarks of the disk's free room, and go on once more is free."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.disk import Space
from spoolrack_store.files.layout import NEW
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import MINUTE
from spoolrack_store.model.disk_watermark import DiskWatermark
from spoolrack_store.model.errors import DiskFull
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.settings import MIB, QueueSettings
from spoolrack_store.model.stage_requests import Stage
from spoolrack_store.store import Store

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
        engine,
        Send(queue="q", bodies=[b"no"]),
        Stage(stage="s", chunk_number=0, queue="q", bodies=[b"no"]),
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


class QuotaDisk(RoomDisk):
    """A folder whose user has used up a quota, while the disk has room."""

    is_used_up = False

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        if self.is_used_up and path.startswith(NEW):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), path)
        super().create(path, parts, sync=sync)


def test_a_quota_that_refuses_sends_is_told_as_a_full_disk_is(tmp_path: Path) -> None:
    """The free space of the disk says nothing of a quota."""
    clock = ManualClock()
    root = tmp_path / "root"
    root.mkdir(mode=0o700)
    disk = QuotaDisk(root)
    with Store.open(root, clock=clock, disk=disk) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()

        def is_refused() -> bool:
            (sent,) = store.submit(Send(queue="q", bodies=[b"x"])).result().results
            return isinstance(sent, DiskFull)

        assert not is_refused()
        assert not store.metrics.refuses_sends(ROOMY)
        disk.is_used_up = True
        assert is_refused()
        assert store.metrics.refuses_sends(ROOMY)
        disk.is_used_up = False
        assert not is_refused()
        assert not store.metrics.refuses_sends(ROOMY)
        disk.is_used_up = True
        assert is_refused()
        clock.advance(MINUTE)
        assert not store.metrics.refuses_sends(ROOMY), "nothing was sent for a minute"

"""An inspection raises no false alarm: not beside a running store, and not after any crash."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack_store.files.disk import Found
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.fsck.inspection import KNOWN, inspect
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import ChangeVisibility, Delete, Delivery, Receive, Send
from spoolrack_store.model.settings import Record, encode
from spoolrack_store.model.transitions import State

from tests.support.engine_story import QUEUES, SETTINGS, Story
from tests.support.power_disk import Model
from tests.support.root_rig import Still, done, make_root, opened, single, stem_of

pytestmark = pytest.mark.timeout(300)
SEEDS = max(1, int(os.environ.get("SPOOLRACK_STORIES", "50")) // 5)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


class RestlessDisk(LocalDisk):
    """Something happens to the root each time that a folder or file is looked at."""

    def __init__(self, root: Path, happens: Callable[[str], None]) -> None:
        super().__init__(root)
        self._happens = happens

    def scan(self, path: str) -> list[Found]:
        self._happens(path)
        return super().scan(path)

    def read(self, path: str, limit: int | None = None, *, afresh: bool = False) -> bytes:
        self._happens(path)
        return super().read(path, limit, afresh=afresh)


@pytest.mark.parametrize("moves", [1, 2])
def test_a_message_that_moves_on_is_looked_for_and_counted_once(root: Path, moves: int) -> None:
    path = single(root)
    away = root / "delay" / f"q:{stem_of(path)},v3,r1,f1700000000000@1700000001000~0123456789abc"
    back = root / "queues" / "q" / f"{stem_of(path)},v4,r1,f1700000000000"
    left = [(path, away), (away, back)][:moves]

    def move(looked_at: str) -> None:
        if left and looked_at in ("queues/q", "delay"):
            source, target = left.pop(0)
            source.rename(target)

    report = inspect(RestlessDisk(root, move), Still())
    assert not report.problems
    assert report.unchecked == 0
    counts = report.queues["q"].counts
    assert counts[State.READY] + counts[State.LEASED] == 7


def test_a_file_that_is_gone_when_it_is_read_is_looked_for_again(root: Path) -> None:
    path = single(root)
    left = [path.with_name(f"{stem_of(path)},v3")]

    def move(looked_at: str) -> None:
        if left and looked_at == str(path.relative_to(root)):
            path.rename(left.pop())

    report = inspect(RestlessDisk(root, move), Still())
    assert not report.problems
    assert not left
    assert report.queues["q"].counts[State.READY] == 6


def test_a_queue_that_never_rests_is_reported_as_unchecked(root: Path) -> None:
    path = single(root)
    stem, at = stem_of(path), [path]

    def move(looked_at: str) -> None:
        if looked_at == "new":
            version = int(at[0].name.rpartition(",v")[2]) + 1
            at[0] = at[0].rename(path.with_name(f"{stem},v{version}"))

    report = inspect(RestlessDisk(root, move), Still())
    assert not report.problems
    assert report.unchecked == 1


@pytest.mark.parametrize("listings", [1, 2])
def test_a_name_that_listings_missed_makes_no_problem(root: Path, listings: int) -> None:
    """A part of the batch is moved from a folder that wasn't listed yet to one that was."""
    path = next(each for each in (root / "queues" / "q").iterdir() if ",n5" in each.name)
    stem = stem_of(path)
    ready = path.rename(root / "queues" / "q" / f"{stem},v3,i0-2")
    at, version = [root / "delay" / f"q:{stem},v4,i3-4,r1,f1@1700000001000~0123456789abc"], [4]
    at[0].hardlink_to(ready)
    left = ["delay", *["new", "delay"] * (listings - 1)]

    def move(looked_at: str) -> None:
        if not left or looked_at != left[0]:
            return
        version[0] += 1
        name = f"q:{stem},v{version[0]},i3-4"
        if left.pop(0) == "delay":
            at[0] = at[0].rename(root / "new" / f"{name},oabc")
        else:
            at[0] = at[0].rename(root / "delay" / f"{name},r1,f1@1700000001000~0123456789abc")

    report = inspect(RestlessDisk(root, move), Still())
    assert not left
    assert report.problems == []


def test_beside_an_engine_at_work_no_problem_is_told(root: Path) -> None:
    engine = opened(root)
    busy = [0]

    def work(looked_at: str) -> None:
        busy[0] += 1
        done(engine, Send(queue="q", bodies=[b"more %d" % number for number in range(busy[0] % 7 + 1)]))
        (found,) = done(engine, Receive(queue="q", max_messages=5))
        assert isinstance(found, list)
        receipts = [
            receipt for each in found if isinstance(each, Delivery) for receipt in each.receipts
        ]
        done(engine, ChangeVisibility(queue="q", receipts=receipts[:2], visibility=Millis(0)))
        done(engine, Delete(queue="q", receipts=receipts[2:]))

    report = inspect(RestlessDisk(root, work), Still())
    assert report.problems == []
    assert busy[0] > 20


class InspectedStory(Story):
    """Each step, each death and each power cut leaves a root without a problem."""

    inspected = 0

    def _check(self, engine: object) -> None:
        super()._check(engine)  # type: ignore[arg-type]
        self._inspect()

    def _power_cut(self, cut: object) -> None:
        super()._power_cut(cut)  # type: ignore[arg-type]
        self._inspect()

    def _inspect(self) -> None:
        there = {found.name for found in self.disk.scan(".")}
        for folder in KNOWN:
            if folder not in there:
                self.disk.make_folder(folder)
        for queue in QUEUES:
            content = encode(Record(settings=SETTINGS[queue], created_at=Millis(1)))
            try:
                self.disk.create(f"config/{queue}.1.json", [content], sync=True)
            except FileExistsError:
                continue
        report = inspect(self.disk, self.clock)  # type: ignore[arg-type]
        assert report.problems == [], report.problems
        assert report.unchecked == 0
        self.inspected += 1


@pytest.mark.parametrize("processes", [1, 3])
@pytest.mark.parametrize("model", list(Model))
def test_no_crash_leaves_a_problem(model: Model, processes: int) -> None:
    inspected = 0
    for seed in range(SEEDS):
        story = InspectedStory(seed, model, processes=processes)
        story.run(40)
        inspected += story.inspected
    assert inspected > 10 * SEEDS

"""What was put into quarantine comes back, if it is whole, and nothing else does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fsck_rig import READY, batch, bodies, delayed, make_root, single
from spoolrack_store import fsck
from spoolrack_store.fsck import NotRestorable


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


def put_aside(root: Path) -> str:
    """The id in quarantine of a message that only its name has brought there."""
    path = delayed(root)
    path.rename(path.with_name(path.name.partition("@")[0]))
    fsck.repair(root)
    (aside,) = fsck.check(root).aside
    return aside.id


def test_a_whole_message_comes_back_and_is_delivered(root: Path) -> None:
    path = fsck.restore(root, put_aside(root))
    assert (root / path).is_file()
    report = fsck.check(root)
    assert report.is_clean
    assert not report.aside
    assert list((root / "quarantine").iterdir()) == []
    assert bodies(root) == [READY[0], b"delayed", *READY[1:]]


def test_it_is_also_found_by_its_own_id(root: Path) -> None:
    put_aside(root)
    (aside,) = fsck.check(root).aside
    fsck.restore(root, aside.name.partition(":")[2][:36])
    assert b"delayed" in bodies(root)


def test_it_can_come_back_into_another_queue(root: Path) -> None:
    id = put_aside(root)
    (root / "config" / "other.1.json").write_text('{"created_at": 1}')
    fsck.restore(root, id, queue="other")
    assert bodies(root, "other") == [b"delayed"]


def test_a_whole_batch_comes_back(root: Path) -> None:
    path = batch(root)
    path.rename(root / "delay" / f"q:{path.name}")
    fsck.repair(root)
    (aside,) = fsck.check(root).aside
    fsck.restore(root, aside.id)
    assert fsck.check(root).is_clean
    assert bodies(root) == READY


def test_a_damaged_message_stays_in_quarantine(root: Path) -> None:
    os.truncate(single(root), 2)
    fsck.repair(root)
    (aside,) = fsck.check(root).aside
    with pytest.raises(NotRestorable, match="not whole"):
        fsck.restore(root, aside.id)
    assert fsck.check(root).aside == [aside]


def test_a_message_that_is_there_already_does_not_come_twice(root: Path) -> None:
    id = put_aside(root)
    (aside,) = fsck.check(root).aside
    kept = root / "quarantine" / id / aside.name
    (root / "queues" / "q" / aside.name.partition(":")[2]).write_bytes(kept.read_bytes())
    with pytest.raises(NotRestorable, match="already"):
        fsck.restore(root, id)


@pytest.mark.parametrize("queue", ["missing", "../q", ""])
def test_it_does_not_come_back_to_a_queue_that_is_none(root: Path, queue: str) -> None:
    id = put_aside(root)
    if not queue:
        (note,) = (root / "quarantine" / id).glob("*.why")
        note.unlink()
        (kept,) = (root / "quarantine" / id).iterdir()
        kept.rename(kept.with_name(kept.name.partition(":")[2]))
    with pytest.raises(NotRestorable):
        fsck.restore(root, id, queue=queue or None)
    assert fsck.check(root).aside


def test_what_is_not_there_cannot_be_restored(root: Path) -> None:
    with pytest.raises(NotRestorable, match="nothing"):
        fsck.restore(root, "01890000-0000-7000-8000-000000000000")


def test_a_foreign_file_is_not_made_a_message(root: Path) -> None:
    (root / "queues" / "q" / "foreign").write_text("x")
    fsck.repair(root)
    (aside,) = fsck.check(root).aside
    with pytest.raises(NotRestorable, match="not the name of a message"):
        fsck.restore(root, aside.id)

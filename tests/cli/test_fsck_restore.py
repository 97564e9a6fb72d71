"""What was put into quarantine comes back, if it is whole, and nothing else does."""

from __future__ import annotations

import json
import os
import shutil
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


# A queue's whole folder.


def put_the_queue_aside(root: Path, *, settings: bool = False) -> str:
    """The id in quarantine of the folder of `q`, as a start used to put it there without settings."""
    if not settings:
        for path in (root / "config").iterdir():
            path.unlink()
    place = root / "quarantine" / "01890000-0000-7000-8000-000000000001"
    place.mkdir()
    (root / "queues" / "q").rename(place / "q")
    (place / "q.why").write_text("'queues/q': there are no settings of a queue 'q'\n")
    return place.name


@pytest.mark.parametrize("named", ["by the queue's name", "by its folder's"])
@pytest.mark.parametrize("settings", [False, True])
def test_a_queues_folder_comes_back_with_all_its_messages(
    root: Path, named: str, settings: bool
) -> None:
    id = put_the_queue_aside(root, settings=settings)
    path = fsck.restore(root, "q" if named == "by the queue's name" else id)
    assert path == "queues/q"
    report = fsck.check(root)
    assert report.is_clean
    assert list((root / "quarantine").iterdir()) == []
    assert bodies(root) == READY


def test_a_queue_that_comes_back_without_settings_has_a_salt_of_its_own(root: Path) -> None:
    put_the_queue_aside(root)
    fsck.restore(root, "q")
    (path,) = (root / "config").iterdir()
    assert json.loads(path.read_text())["salt"]


def test_a_queues_folder_comes_back_into_another_queue(root: Path) -> None:
    put_the_queue_aside(root, settings=True)
    with pytest.raises(NotRestorable, match="no queue other"):
        fsck.restore(root, "q", queue="other")
    (root / "config" / "other.1.json").write_text('{"created_at": 1}')
    assert fsck.restore(root, "q", queue="other") == "queues/other"
    assert bodies(root, "other") == READY


def test_a_queues_folder_does_not_come_back_while_the_queue_is_being_deleted(root: Path) -> None:
    put_the_queue_aside(root)
    (root / "config" / "q.2.json").write_text('{"created_at": 1, "deleted": true}')
    with pytest.raises(NotRestorable, match="being deleted"):
        fsck.restore(root, "q")
    assert len(fsck.check(root).aside) == 1


def test_a_queues_folder_that_is_not_whole_stays_and_says_what_to_move_out_of_it(root: Path) -> None:
    os.truncate(single(root), 2)
    (root / "queues" / "q" / "stranger").write_text("x")
    id = put_the_queue_aside(root)
    folder = root / "quarantine" / id / "q"
    for number in range(2):
        with pytest.raises(NotRestorable, match=f"Move it out of quarantine/{id}/q") as caught:
            fsck.restore(root, "q")
        (bad,) = (path for path in folder.iterdir() if path.name in str(caught.value))
        bad.rename(root.parent / f"bad-{number}")
    fsck.restore(root, "q")
    assert bodies(root) == READY[1:]


def test_a_queues_folder_with_a_message_that_is_there_already_stays(root: Path) -> None:
    path = single(root)
    twin = path.read_bytes()
    put_the_queue_aside(root, settings=True)
    (root / "queues" / "q").mkdir()
    path.write_bytes(twin)
    with pytest.raises(NotRestorable, match="already"):
        fsck.restore(root, "q")
    path.unlink()
    fsck.restore(root, "q")
    assert bodies(root) == READY


def test_an_empty_folder_in_quarantine_makes_no_queue(root: Path) -> None:
    id = put_the_queue_aside(root)
    shutil.rmtree(root / "quarantine" / id / "q")
    (root / "quarantine" / id / "q").mkdir()
    with pytest.raises(NotRestorable, match="no message"):
        fsck.restore(root, "q")

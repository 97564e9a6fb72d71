"""Quarantined files come back, if they are whole, and no others."""

from __future__ import annotations

import errno
import os
import zlib
from pathlib import Path

import pytest
from spoolrack_store import fsck
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.fsck import NotRestorable, receipts_of
from spoolrack_store.fsck.findings import QuarantinedFile
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.errors import DiskError, RootUnusable
from spoolrack_store.model.operations import ChangeVisibility, Delete, Receive
from spoolrack_store.model.sealed import seal

from tests.support.engines import commit
from tests.support.root_rig import (
    NOW,
    READY,
    Still,
    batch,
    bodies,
    delayed,
    leased,
    make_root,
    opened,
    settle,
    single,
    stem_of,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


def in_quarantine(root: Path) -> list[QuarantinedFile]:
    return fsck.check(root, clock=Still()).quarantined


def restore(root: Path, id: str, queue: str | None = None) -> str:
    return fsck.restore(root, id, queue=queue, clock=Still())


def put_a_part_aside(root: Path) -> str:
    """Return messages 1 and 2 of the batch go to quarantine; return the batch's id."""
    path = batch(root)
    os.link(path, root / "quarantine" / f"q:{stem_of(path)},v3,i1-2")
    return path.name[:36]


def test_messages_of_a_batch_come_back_one_by_one_and_are_delivered(root: Path) -> None:
    id = put_a_part_aside(root)
    (file,) = in_quarantine(root)
    assert (file.id, file.why) == (id, "whole: it can be restored")
    assert bodies(root) == [READY[0], READY[1], *READY[4:]]
    restore(root, f"{id[:-3]}002")
    (file,) = in_quarantine(root)
    assert file.id == f"{id[:-3]}001"
    assert (root / restore(root, file.id)).is_file()
    report = fsck.check(root, clock=Still())
    assert not report.problems
    assert report.quarantined == []
    assert sorted(bodies(root)) == sorted([READY[2], READY[3]])


def test_all_of_a_batch_that_lies_there_comes_back_by_its_id(root: Path) -> None:
    id = put_a_part_aside(root)
    restore(root, id)
    assert in_quarantine(root) == []
    assert bodies(root) == READY


def test_messages_can_come_back_into_another_queue(root: Path) -> None:
    restore(root, put_a_part_aside(root), queue="dead")
    assert bodies(root, "dead") == READY[2:4]
    assert not fsck.check(root, clock=Still()).problems


def test_a_restored_message_survives_a_start_and_a_delete_of_it_counts(root: Path) -> None:
    id = put_a_part_aside(root)
    restore(root, id)
    engine = opened(root)
    settle(engine)
    (found,) = commit(engine, Delete(queue="q", ids=[f"{id[:-3]}001"]))
    assert found == [None]
    assert bodies(root) == [each for each in READY if each != READY[2]]


def test_a_damaged_message_stays_in_quarantine_and_its_neighbours_come_back(root: Path) -> None:
    path = batch(root)
    path.write_bytes(path.read_bytes().replace(b"batch 2", b"batch x"))
    id = put_a_part_aside(root)
    with pytest.raises(NotRestorable, match="not whole"):
        restore(root, id)
    with pytest.raises(NotRestorable, match="not whole"):
        restore(root, f"{id[:-3]}002")
    restore(root, f"{id[:-3]}001")
    assert bodies(root) == [each for each in READY if each != READY[3]]


def test_a_torn_file_stays_in_quarantine(root: Path) -> None:
    os.truncate(single(root), 2)
    fsck.repair(root, clock=Still())
    (file,) = in_quarantine(root)
    with pytest.raises(NotRestorable, match="bytes instead of"):
        restore(root, file.id)
    assert in_quarantine(root) == [file]


def test_a_message_that_another_file_has_already_does_not_come_twice(root: Path) -> None:
    path = single(root)
    id = path.name[:36]
    (root / "quarantine" / f"q:{id},s4,c3e6db5d4").write_bytes(b"twin")
    with pytest.raises(NotRestorable):
        restore(root, id)
    twin = root / "quarantine" / f"q:{id},s4,c{zlib.crc32(b'twin'):08x}"
    twin.write_bytes(b"twin")
    (root / "quarantine" / f"q:{id},s4,c3e6db5d4").unlink()
    with pytest.raises(NotRestorable, match="already"):
        restore(root, id)
    path.unlink()
    restore(root, id)
    assert bodies(root)[0] == b"twin"


@pytest.mark.parametrize("queue", ["missing", "../q", ".q"])
def test_messages_do_not_come_back_to_a_queue_that_is_none(root: Path, queue: str) -> None:
    id = put_a_part_aside(root)
    with pytest.raises(NotRestorable):
        restore(root, id, queue=queue)
    assert len(in_quarantine(root)) == 1


def test_messages_do_not_come_back_to_a_queue_that_is_being_deleted(root: Path) -> None:
    id = put_a_part_aside(root)
    (root / "config" / "q.2.json").write_bytes(seal({"created_at": 1, "deleted": True}))
    with pytest.raises(NotRestorable, match="no queue q"):
        restore(root, id)


@pytest.mark.parametrize("id", ["01890000-0000-7000-8000-000000000000", "", "..", "nothing-0g0"])
def test_a_missing_file_cannot_be_restored(root: Path, id: str) -> None:
    with pytest.raises(NotRestorable, match="nothing with the id"):
        restore(root, id)


# Files that lay where they don't belong.


def test_a_delayed_message_without_its_due_comes_back_to_its_queue(root: Path) -> None:
    path = delayed(root)
    path.rename(path.with_name(path.name.partition("@")[0]))
    fsck.repair(root, clock=Still())
    (file,) = in_quarantine(root)
    assert (root / restore(root, file.id)).is_file()
    assert list((root / "quarantine").iterdir()) == []
    assert not fsck.check(root, clock=Still()).problems
    assert bodies(root) == [READY[0], b"delayed", *READY[1:]]


def test_a_restore_whose_folder_the_disk_keeps_says_so_and_the_message_is_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = delayed(root)
    path.rename(path.with_name(path.name.partition("@")[0]))
    fsck.repair(root, clock=Still())
    (file,) = in_quarantine(root)

    def refused(disk: LocalDisk, at: str) -> None:
        raise OSError(errno.EIO, "Input/output error", at)

    with monkeypatch.context() as patched:
        patched.setattr(LocalDisk, "remove_folder", refused)
        with pytest.raises(DiskError, match=f"quarantine/{file.id}"):
            restore(root, file.id)
    assert bodies(root) == [READY[0], b"delayed", *READY[1:]]


def test_a_ready_message_that_was_moved_to_a_foreign_folder_needs_its_queue(root: Path) -> None:
    path = single(root)
    path.rename(root / "remove" / path.name)
    fsck.repair(root, clock=Still())
    (file,) = in_quarantine(root)
    with pytest.raises(NotRestorable, match="name the queue"):
        restore(root, file.id)
    restore(root, file.id, queue="q")
    assert bodies(root) == READY


@pytest.mark.parametrize("content", [b"same", b"other"])
def test_a_foreign_file_with_a_message_that_is_there_already_stays(root: Path, content: bytes) -> None:
    path = single(root)
    name = stem_of(path)
    if content == b"other":
        name = f"{name[:36]},s5,c{zlib.crc32(content):08x}"
        (root / "remove" / name).write_bytes(content)
    else:
        (root / "remove" / name).write_bytes(path.read_bytes())
    fsck.repair(root, clock=Still())
    (file,) = in_quarantine(root)
    with pytest.raises(NotRestorable, match="already"):
        restore(root, file.id, queue="q")
    assert bodies(root) == READY


def test_a_foreign_file_is_not_made_a_message(root: Path) -> None:
    (root / "queues" / "q" / "it's foreign").write_text("x")
    fsck.repair(root, clock=Still())
    (file,) = in_quarantine(root)
    assert file.source == "queues/q/it's foreign"
    with pytest.raises(NotRestorable, match="not the name of a message"):
        restore(root, file.id)


def test_a_link_with_a_messages_name_is_not_made_a_message(root: Path) -> None:
    path = single(root)
    content = root.parent / "elsewhere"
    path.rename(content)
    path.symlink_to(content)
    fsck.repair(root, clock=Still())
    (file,) = in_quarantine(root)
    with pytest.raises(NotRestorable, match="not a message's file"):
        restore(root, file.id)


# Receipts of leases.


def test_an_id_leads_to_the_receipt_of_its_lease(root: Path) -> None:
    id = leased(root).name.partition(":")[2][:36]
    ready = single(root).name[:36]
    found = receipts_of(root, "q", {id, ready})
    assert found.keys() == {id}
    engine = opened(root)
    (changed,) = commit(
        engine, ChangeVisibility(queue="q", receipts=[found[id]], visibility_timeout=Millis(2 * HOUR))
    )
    assert changed == [NOW + 2 * HOUR]
    # The lease's old name may still be there: the one that holds the message counts.
    assert receipts_of(root, "q", {id}) == found
    assert receipts_of(root, "dead", {id}) == {}


def test_of_a_batch_each_message_has_its_own_receipt(root: Path) -> None:
    (found,) = commit(opened(root), Receive(queue="q", max_messages=100))
    told = {id: r for each in found for id, r in zip(each.ids, each.receipts, strict=True)}  # type: ignore[attr-defined]
    assert len(told) == len(READY)
    assert receipts_of(root, "q", set(told)) == told


def test_a_folder_that_is_no_root_has_no_receipts_to_tell(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RootUnusable):
            receipts_of(folder, "q", set())

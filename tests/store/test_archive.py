"""A queue's archive keeps the files of what has left it, for as long as its setting says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack_store import fsck
from spoolrack_store.archive_reader import ArchivedMessage, read_archive
from spoolrack_store.engine.effort import FILES
from spoolrack_store.files.disk import FolderEntry
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.fsck.findings import Remedy
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import DAY, HOUR, Millis
from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    DeleteQueue,
    Purge,
    Receive,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.settings import QueueSettings

from tests.store.front_rig import GIVE_UP, FrontRig, opened

LAST = Millis(1 << 46)
LOOKS = 2_000
PAUSE = threading.Event()


def keep(rig: FrontRig, days: int = 7) -> None:
    rig.ask(CreateQueue(name="kept", settings=QueueSettings(archive_retention=Millis(days * DAY))))


def send(rig: FrontRig, *bodies: bytes, queue: str = "kept") -> None:
    rig.ask(Send(queue=queue, bodies=bodies))


def take(rig: FrontRig, most: int, queue: str = "kept") -> None:
    for delivery in rig.ask(Receive(queue=queue, max_messages=most)):
        answers = rig.ask(Delete(queue=queue, receipts=delivery.receipts))
        assert answers == [None] * len(delivery.receipts)


def archived(
    root: Path, queue: str = "kept", since: int = 0, until: int = LAST
) -> list[ArchivedMessage]:
    problems: list[tuple[str, str]] = []
    folder = root / "archive" / queue
    if not folder.exists():
        return []
    found = list(
        read_archive(folder, Millis(since), Millis(until), lambda *told: problems.append(told))
    )
    assert problems == []
    return found


def bodies(root: Path, queue: str = "kept") -> list[bytes]:
    return [message.body for message in archived(root, queue)]


def until_removed(rig: FrontRig) -> None:
    """Return when nothing is left in `remove/`: it is the reaper's thread that empties it."""
    for _ in range(LOOKS):
        rig.in_turn()
        if not any((rig.path / "remove").iterdir()):
            return
        PAUSE.wait(GIVE_UP / LOOKS)
    raise AssertionError("remove/ isn't emptied")


def days(root: Path, queue: str = "kept") -> list[str]:
    folder = root / "archive" / queue
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_deleted_message_is_in_the_archive_with_all_its_fields(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        keep(rig)
        rig.ask(Send(queue="kept", bodies=[b"a", b"b"], attributes={1: {"k": "v"}}, groups={0: "g"}))
        sent = rig.ask(Receive(queue="kept", max_messages=2))
        for delivery in sent:
            rig.ask(Delete(queue="kept", receipts=delivery.receipts))
        until_removed(rig)

        first, second = archived(tmp_path)
        assert (first.body, first.attributes, first.group) == (b"a", {}, "g")
        assert (second.body, second.attributes, second.group) == (b"b", {"k": "v"}, "")
        assert [first.id, second.id] == sorted(id for each in sent for id in each.ids)


def test_a_queue_without_the_setting_keeps_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        rig.send(b"a")
        rig.delete(*rig.receive())
        until_removed(rig)

        assert list((tmp_path / "archive").iterdir()) == []


def test_a_batch_is_kept_once_when_the_last_of_it_is_deleted(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        keep(rig)
        send(rig, b"a", b"b", b"c")
        take(rig, 1)
        take(rig, 1)
        rig.in_turn()
        assert bodies(tmp_path) == []
        take(rig, 1)
        until_removed(rig)

        assert bodies(tmp_path) == [b"a", b"b", b"c"]


def test_purged_and_expired_messages_are_archived(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        keep(rig)
        send(rig, b"purged")
        rig.ask(Purge(queue="kept"))
        changes = {"retention": Millis(HOUR)}
        rig.ask(UpdateQueue(name="kept", changes=changes))
        send(rig, b"old")
        clock.advance(2 * HOUR)
        rig.in_turn()
        until_removed(rig)

        assert bodies(tmp_path) == [b"purged", b"old"]


def test_a_day_is_kept_for_the_retention_after_its_end(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        keep(rig, days=2)
        send(rig, b"a")
        take(rig, 1)
        until_removed(rig)
        (day,) = days(tmp_path)

        clock.advance(2 * DAY)
        rig.in_turn()
        assert days(tmp_path) == [day]
        clock.advance(DAY + HOUR)
        rig.in_turn()
        assert days(tmp_path) == []


def test_no_more_of_a_day_is_listed_than_is_unlinked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day may have millions of files: 200,000 took 374 ms and 30 MiB."""
    left = 0
    most: list[int] = []

    def listing(disk: LocalDisk, path: str) -> Iterator[FolderEntry]:
        nonlocal left
        left = 0
        for each in honest(disk, path):
            left += 1
            yield each

    def unlink(disk: LocalDisk, path: str) -> None:
        nonlocal left
        unlink_honestly(disk, path)
        if path.startswith("archive/kept/"):
            most.append(left)
            left -= 1

    honest, unlink_honestly, clock = LocalDisk.listing, LocalDisk.unlink, ManualClock()
    with opened(tmp_path, clock) as rig:
        keep(rig, days=0)
        day = tmp_path / "archive/kept/2020-01-01"
        day.mkdir(parents=True)
        for number in range(2 * FILES):
            (day / f"{number}").write_bytes(b"")
        monkeypatch.setattr(LocalDisk, "listing", listing)
        monkeypatch.setattr(LocalDisk, "unlink", unlink)
        clock.advance(HOUR)
        for _ in range(LOOKS):
            if days(tmp_path) == []:
                break
            rig.in_turn()
        assert days(tmp_path) == []
    assert most == [1] * 2 * FILES


def test_names_that_a_listing_passes_over_beside_the_unlinks_go_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listing(disk: LocalDisk, path: str) -> Iterator[FolderEntry]:
        yield from list(honest(disk, path))[::2]

    honest, clock = LocalDisk.listing, ManualClock()
    with opened(tmp_path, clock) as rig:
        keep(rig, days=0)
        day = tmp_path / "archive/kept/2020-01-01"
        day.mkdir(parents=True)
        for number in range(5):
            (day / f"{number}").write_bytes(b"")
        monkeypatch.setattr(LocalDisk, "listing", listing)
        clock.advance(HOUR)
        rig.in_turn()
        assert days(tmp_path) == []


def test_the_archive_of_a_queue_that_keeps_no_more_goes_when_its_day_is_over(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        keep(rig)
        send(rig, b"a")
        take(rig, 1)
        until_removed(rig)
        rig.ask(DeleteQueue(name="kept"))
        clock.advance(HOUR)
        rig.in_turn()
        assert len(days(tmp_path)) == 1

        clock.advance(HOUR)
        rig.in_turn()

        assert days(tmp_path) == []


def test_a_foreign_folder_in_the_archive_is_left_alone(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        keep(rig, days=0)
        for name in ("notes", "20260101", "2026-13-01"):
            (tmp_path / "archive" / "kept" / name).mkdir(parents=True)
        (tmp_path / "archive" / "file").write_bytes(b"")
        clock.advance(400 * DAY)
        rig.in_turn()

        assert days(tmp_path) == ["2026-13-01", "20260101", "notes"]


def test_a_message_that_was_kept_once_is_not_kept_twice(tmp_path: Path) -> None:
    """A crash may leave another name of the file in `remove/`: the next start finds it."""
    with opened(tmp_path) as rig:
        keep(rig)
        send(rig, b"a")
        take(rig, 1)
        until_removed(rig)
        (kept,) = (tmp_path / "archive" / "kept").glob("*/*")
    (tmp_path / "remove" / f"kept:{kept.name},v3").hardlink_to(kept)

    with opened(tmp_path) as rig:
        until_removed(rig)
        assert bodies(tmp_path) == [b"a"]
        assert rig.ask(Receive(queue="kept", max_messages=1)) == []


def test_the_archive_is_read_by_the_time_of_the_sends_and_in_their_order(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path, clock) as rig:
        keep(rig)
        for body in (b"first", b"second", b"third"):
            send(rig, body)
            clock.advance(1_000)
        for _ in range(3):
            take(rig, 1)
        until_removed(rig)

        first, second, third = archived(tmp_path)
        assert [each.body for each in archived(tmp_path, since=second.sent_at)] == [b"second", b"third"]
        between = archived(tmp_path, since=first.sent_at, until=third.sent_at)
        assert [each.body for each in between] == [b"first", b"second"]


def test_a_damaged_file_costs_its_own_messages(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        keep(rig)
        for body in (b"first", b"second"):
            send(rig, body)
            take(rig, 1)
        until_removed(rig)
    damaged, _ = sorted((tmp_path / "archive" / "kept").glob("*/*"))
    damaged.write_bytes(b"other")
    (damaged.parent / "foreign").write_bytes(b"")

    problems: list[str] = []
    found = read_archive(
        tmp_path / "archive" / "kept", Millis(0), LAST, lambda path, why: problems.append(why)
    )
    assert [message.body for message in found] == [b"second"]
    assert len(problems) == 2
    # A check reads the archive, too. It leaves to a person what a replay passes over; a repair moves
    # what is no file of an archive to quarantine.
    told = {problem.path: problem.remedy for problem in fsck.check(tmp_path).problems}
    folder = damaged.parent.relative_to(tmp_path)
    assert told == {
        f"{folder}/{damaged.name}": Remedy.HAND,
        f"{folder}/foreign": Remedy.QUARANTINE,
    }


def test_a_message_that_two_files_of_an_archive_list_is_read_once(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        keep(rig)
        send(rig, b"a", b"b", b"c")
        take(rig, 3)
        until_removed(rig)
        ((file,),) = (list(day.iterdir()) for day in (rig.path / "archive" / "kept").iterdir())
        (file.parent / f"{file.name},i1-2").hardlink_to(file)
        assert bodies(rig.path) == [b"a", b"b", b"c"]

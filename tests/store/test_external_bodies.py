"""A body that is sent as a file stays in a file of its own, from its send to its end."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from spoolrack_store import fsck
from spoolrack_store.archive_reader import read_archive
from spoolrack_store.model.clock import DAY, Millis
from spoolrack_store.model.errors import DiskError, InvalidRequest, MessageDamaged, StoreError
from spoolrack_store.model.names import body_path, parse
from spoolrack_store.model.operations import (
    MAX_BODY_IN_MEMORY,
    CreateQueue,
    Delete,
    Delivery,
    Message,
    Receive,
    RejectMessages,
    Send,
    SendResults,
    WrittenBody,
    messages_of,
)
from spoolrack_store.model.settings import MAX_MESSAGE_SIZE, QueueSettings
from spoolrack_store.snapshot import take_snapshot

from tests.store.front_rig import GIVE_UP, FrontRig, opened
from tests.store.test_archive import PAUSE, until_removed
from tests.support.listing import messages_in

LOOKS = 2_000
LAST = Millis(1 << 46)
CONTENT = b"a body in a file\n" * 1_000
HUGE = MAX_BODY_IN_MEMORY + 4_096


def sent(rig: FrontRig, written: WrittenBody, **more: object) -> str:
    """Send a body in a file; return its message's id, once the message is in its queue's folder."""
    stored: SendResults = rig.ask(Send(queue="files", bodies=[b""], written=written, **more))  # type: ignore[arg-type]
    rig.store.discard_body(written)
    (id,) = stored.results
    assert isinstance(id, str), id
    rig.in_turn()
    return id


def written(rig: FrontRig, content: bytes = CONTENT) -> WrittenBody:
    file = rig.store.begin_body(expected=len(content))
    for at in range(0, len(content), 1_000):
        file.write(content[at : at + 1_000])
    return file.finish()


def linked(rig: FrontRig, size: int = HUGE, name: str = "large") -> WrittenBody:
    """Link a file with a hole in it, which takes no time to make."""
    path = rig.path.parent / name
    path.write_bytes(b"begin")
    os.truncate(path, size)
    return rig.store.link_body(path)


def create(rig: FrontRig, **settings: object) -> None:
    made = QueueSettings(max_message_size=MAX_MESSAGE_SIZE, **settings)  # type: ignore[arg-type]
    rig.ask(CreateQueue(name="files", settings=made))


def received(rig: FrontRig, queue: str = "files") -> list[Message]:
    deliveries: list[Delivery] = rig.ask(Receive(queue=queue, max_messages=10))
    return [message for delivery in deliveries for message in delivery.messages()]


def delete(rig: FrontRig, message: Message) -> None:
    assert rig.ask(Delete(queue=message.queue, receipts=[message.receipt or ""])) == [None]


def bodies(rig: FrontRig) -> list[str]:
    return sorted(os.listdir(rig.path / "bodies"))


def until(rig: FrontRig, holds: Callable[[], bool]) -> None:
    """Return when something holds that a thread does."""
    for _ in range(LOOKS):
        rig.in_turn()
        if holds():
            return
        PAUSE.wait(GIVE_UP / LOOKS)
    raise AssertionError


def test_a_body_is_in_a_file_of_its_own_until_its_message_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        create(rig)
        id = sent(rig, written(rig), attributes={0: {"k": "v"}}, groups={0: "g"}, priorities={0: 3})
        assert bodies(rig) == [id]
        assert (rig.path / body_path(id)).read_bytes() == CONTENT
        (name,) = os.listdir(rig.path / "queues" / "files")
        stem = parse(f"queues/files/{name}").stem
        assert stem.is_external
        assert (stem.size, stem.length) == (len(CONTENT), stem.line)
        assert rig.store.queue("files").counts.byte_count == len(CONTENT) + len("kv")
        assert fsck.check(rig.path).problems == []
        looked = rig.store.message("files", id)
        assert (looked.body, looked.body_size, looked.body_path) == (
            CONTENT,
            len(CONTENT),
            body_path(id),
        )
        (message,) = received(rig)
        assert (message.body, message.body_size, message.id) == (CONTENT, len(CONTENT), id)
        assert (dict(message.attributes), message.group, message.priority) == ({"k": "v"}, "g", 3)
        delete(rig, message)
        until_removed(rig)
        assert bodies(rig) == []


def test_a_linked_file_is_not_copied(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        create(rig)
        (tmp_path / "mine").write_bytes(CONTENT)
        id = sent(rig, rig.store.link_body(tmp_path / "mine"))
        assert (rig.path / body_path(id)).samefile(tmp_path / "mine")
        (message,) = received(rig)
        assert message.body == CONTENT
        delete(rig, message)
        until_removed(rig)
        assert (tmp_path / "mine").read_bytes() == CONTENT
        assert fsck.check(rig.path).problems == []


def test_a_link_holds_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(CONTENT)
    with opened(tmp_path / "root") as rig:
        before = len(os.listdir("/proc/self/fd"))
        linked_bodies = [rig.store.link_body(tmp_path / "mine") for _ in range(50)]
        assert len(os.listdir("/proc/self/fd")) < before + 50
        for body in linked_bodies:
            rig.store.discard_body(body)
        assert bodies(rig) == []


def test_a_body_too_large_for_memory_is_left_out_and_read_from_its_file(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        create(rig)
        id = sent(rig, linked(rig))
        (message,) = received(rig)
        assert (message.body, message.body_size, message.body_path) == (b"", HUGE, body_path(id))
        assert rig.store.message("files", id).body == b""
        (shown,) = messages_in(rig.store, "files", max_body_bytes=7)
        assert (shown.body, shown.body_size) == (b"begin\0\0", HUGE)
        opened_message = rig.store.open_message("files", id)
        with opened_message.file as file:
            assert (opened_message.offset, file.read(5)) == (0, b"begin")
            assert file.seek(0, 2) == HUGE


def test_a_dead_letter_shares_the_body_until_the_last_of_both_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.ask(CreateQueue(name="dead", settings=QueueSettings()))
        create(rig, dead_letter_queue="dead", max_receives=5)
        id = sent(rig, linked(rig), attributes={0: {"k": "v"}})
        (message,) = received(rig)
        rig.ask(RejectMessages(queue="files", receipts=[message.receipt or ""], reason="no"))
        until(rig, lambda: not os.listdir(rig.path / "remove"))
        assert bodies(rig) == [id]
        (letter,) = received(rig, "dead")
        assert (letter.id, letter.body_size, letter.body_path) == (id, HUGE, body_path(id))
        assert (dict(letter.attributes), letter.dead_letter_records[0].explanation) == (
            {"k": "v"},
            "no",
        )
        assert fsck.check(rig.path).problems == []
        delete(rig, letter)
        until_removed(rig)
        assert bodies(rig) == []


def test_a_body_stays_when_the_earlier_of_two_names_of_its_message_goes(tmp_path: Path) -> None:
    """A power cut may leave both names of a rename."""
    folder = tmp_path / "root/queues/files"
    with opened(tmp_path / "root") as rig:
        create(rig)
        id = sent(rig, written(rig))
        (name,) = os.listdir(folder)
    earlier = parse(f"queues/files/{name}")
    later = replace(earlier, version=earlier.version + 1)
    os.link(folder / name, folder.parent.parent / later.path)
    with opened(tmp_path / "root") as rig:
        until(rig, lambda: os.listdir(folder) == [Path(later.path).name])
        sent(rig, written(rig))
        message, next_one = received(rig)
        delete(rig, next_one)
        until(rig, lambda: len(bodies(rig)) == 1)  # What was given to the reaper before is done, too.
        assert bodies(rig) == [id]
        delete(rig, message)
        until(rig, lambda: not bodies(rig))


def test_a_message_whose_body_was_removed_goes_to_quarantine(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        create(rig)
        id = sent(rig, written(rig))
        (rig.path / body_path(id)).unlink()
        with pytest.raises(MessageDamaged, match="its body is not there any more"):
            rig.store.message("files", id)
        (problem,) = fsck.check(rig.path).problems
        assert problem.why == "its body is not there any more"
        assert received(rig) == []
        assert len(os.listdir(rig.path / "quarantine")) == 1


def test_a_body_that_was_changed_is_found(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        create(rig)
        id = sent(rig, written(rig))
        with (rig.path / body_path(id)).open("r+b") as file:
            file.write(b"A")
        (problem,) = fsck.check(rig.path).problems
        assert problem.why == "the checksum of its body differs"
        with pytest.raises(MessageDamaged, match="checksum"):
            rig.store.message("files", id)
        assert messages_in(rig.store, "files", max_body_bytes=len(CONTENT)) == []
        os.truncate(rig.path / body_path(id), 3)
        (problem,) = fsck.check(rig.path).problems
        assert problem.why == f"its body has 3 bytes instead of {len(CONTENT)}"
        assert received(rig) == []


def test_a_body_goes_to_the_archive_with_its_message(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        create(rig, archive_retention=Millis(7 * DAY))
        ids = [sent(rig, written(rig)), sent(rig, linked(rig))]
        for message in received(rig) + received(rig):
            delete(rig, message)
        until_removed(rig)
        assert bodies(rig) == []
        told: list[str] = []
        small, large = read_archive(
            rig.path / "archive" / "files", Millis(0), LAST, lambda path, why: told.append(why)
        )
        assert (small.id, small.body, small.body_path) == (ids[0], CONTENT, None)
        assert (large.id, large.body) == (ids[1], b"")
        assert large.body_path is not None
        assert Path(large.body_path).stat().st_size == HUGE
        assert told == []


def test_a_body_that_a_power_cut_has_brought_back_goes_to_the_archive_once_more(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        create(rig, archive_retention=Millis(7 * DAY))
        id = sent(rig, written(rig))
        delete(rig, *received(rig))
        until_removed(rig)
        until(rig, lambda: bodies(rig) == [])
        (archived,) = (rig.path / "archive").glob("files/*/*.body")
    archived.rename(tmp_path / "root" / body_path(id))
    (tmp_path / "root/archive/notes.txt").write_bytes(b"mine")
    with opened(tmp_path / "root") as rig:
        until(rig, lambda: bodies(rig) == [])
    assert archived.read_bytes() == CONTENT


def test_a_snapshot_has_the_bodies(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        create(rig)
        id = sent(rig, written(rig))
        take_snapshot(rig.path, tmp_path / "copy", clock=rig.clock)
        delete(rig, *received(rig))
        until_removed(rig)
    with opened(tmp_path / "copy") as copy:
        (message,) = received(copy)
        assert (message.id, message.body) == (id, CONTENT)


def test_a_start_unlinks_a_body_without_a_message_and_puts_aside_what_is_none(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        create(rig)
        kept = sent(rig, written(rig))
        left = kept[:-1] + ("0" if kept[-1] != "0" else "1")
        (rig.path / "bodies" / left).write_bytes(b"no message")
        (rig.path / "bodies" / "notes.txt").write_bytes(b"mine")
        report = fsck.check(rig.path)
        assert [leftover.path for leftover in report.leftovers] == [f"bodies/{left}"]
        assert [problem.path for problem in report.problems] == ["bodies/notes.txt"]
    with opened(tmp_path / "root") as rig:
        until(rig, lambda: bodies(rig) == [kept])
        assert fsck.check(rig.path).problems == []
        (aside,) = (rig.path / "quarantine").iterdir()
        assert (aside / "notes.txt").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/dev/null", "must be a regular file"),
        ("nowhere", "must be there"),
        (".", "must be a regular file"),
    ],
)
def test_a_file_that_cannot_be_linked_is_refused(tmp_path: Path, path: str, why: str) -> None:
    with opened(tmp_path / "root") as rig, pytest.raises(InvalidRequest, match=why):
        rig.store.link_body(tmp_path / path)


def test_a_file_of_another_file_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*arguments: object, **more: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    (tmp_path / "mine").write_bytes(CONTENT)
    with opened(tmp_path / "root") as rig:
        monkeypatch.setattr(os, "link", link)
        with pytest.raises(InvalidRequest, match="must be on the file system of the root"):
            rig.store.link_body(tmp_path / "mine")


def test_a_file_that_cannot_be_made_durable_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fsync(file: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "mine").write_bytes(CONTENT)
    with opened(tmp_path / "root") as rig:
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(DiskError, match="Input/output error"):
            rig.store.link_body(tmp_path / "mine")
        monkeypatch.undo()
        assert (bodies(rig), os.listdir(rig.path / "new")) == ([], [])


def test_a_body_that_is_not_stored_leaves_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.ask(CreateQueue(name="files", settings=QueueSettings(max_message_size=100)))
        body = written(rig)
        (result,) = rig.ask(Send(queue="files", bodies=[b""], written=body)).results
        assert isinstance(result, StoreError)
        rig.store.discard_body(body)
        assert (bodies(rig), os.listdir(rig.path / "new")) == ([], [])


@pytest.mark.parametrize("is_external", [True, False])
def test_a_large_body_is_checked_and_left_out_for_a_receive_that_sends_the_file(
    tmp_path: Path, is_external: bool
) -> None:
    content = CONTENT * 20

    def send(rig: FrontRig) -> str:
        if is_external:
            return sent(rig, written(rig, content))
        stored: SendResults = rig.ask(Send(queue="files", bodies=[content]))
        return str(stored.results[0])

    def received_without(rig: FrontRig) -> list[Message]:
        return messages_of(rig.ask(Receive(queue="files", max_messages=10, with_large_bodies=False)))

    with opened(tmp_path / "root") as rig:
        create(rig)
        send(rig)
        rig.ask(Send(queue="files", bodies=[b"small"]))
        large, small = received_without(rig)
        assert (large.body, large.body_size) == (b"", len(content))
        assert (small.body, small.body_size) == (b"small", 5)
        for message in (large, small):
            delete(rig, message)
        until_removed(rig)
        id = send(rig)
    # What isn't what was sent is no message: it must not be handed out from its file either.
    (path,) = [each for each in rig.path.rglob("*") if each.is_file() and content in each.read_bytes()]
    flipped = bytearray(path.read_bytes())
    flipped[1_000] ^= 1
    path.write_bytes(flipped)
    with opened(tmp_path / "root") as rig:
        assert received_without(rig) == []
        assert list((rig.path / "quarantine").rglob(f"*{id}*"))

"""An inspection finds what was done to a root behind the store's back, and a repair puts it aside."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import socket
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store import fsck
from spoolrack_store.engine.moves import Moves
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.fsck.findings import Mended, Problem, Remedy, Report
from spoolrack_store.model.errors import RootInUse, RootUnusable, UnknownFormat
from spoolrack_store.model.members import to_text
from spoolrack_store.model.names import parse
from spoolrack_store.model.operations import MessageFilter
from spoolrack_store.model.sealed import seal, unseal
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store

from tests.support.root_rig import (
    HOUR,
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

ID = "018bcfe5-6800-7194-90e5-78aa9611a000"


RECORD = {
    "source_queue": "q",
    "reason": "rejected",
    "receives": 1,
    "first_receive_ms": None,
    "died_at_ms": 1_700_000_000_000,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


def check(root: Path) -> Report:
    return fsck.check(root, clock=Still())


def repair(root: Path) -> tuple[list[Mended], list[Problem]]:
    _, mended, left = fsck.repair(root, clock=Still())
    return mended, left


def files_under(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_bytes_behind_the_length_that_a_name_says_are_no_damage_and_are_not_delivered(
    root: Path,
) -> None:
    for path in (single(root), batch(root), leased(root), delayed(root)):
        with path.open("ab") as file:
            file.write(bytes(700) + b"the rest of a file that was made before\n")
    assert check(root).problems == []
    assert repair(root) == ([], [])
    assert bodies(root) == READY
    with Store.open(root) as store:
        page = store.page("q", MessageFilter())
    assert sorted(each.body for each in page.messages) == sorted([*READY, b"single 1", b"delayed"])


def test_a_root_that_a_store_has_left_is_clean(root: Path) -> None:
    report = check(root)
    assert report.problems == []
    tally = report.queues["q"]
    counts = {state: count for state, count in tally.counts.items() if state is not State.REMOVED}
    assert counts == {State.READY: 6, State.LEASED: 1, State.DELAYED: 1}
    assert report.leftovers == []
    assert tally.bytes == sum(map(len, READY)) + len(b"single 1") + len(b"delayed")
    assert report.checked >= 8
    assert report.unchecked == 0
    assert report.bytes > tally.bytes


def test_a_check_changes_nothing(root: Path) -> None:
    single(root).write_bytes(b"damaged")
    before = files_under(root)
    assert check(root).problems
    assert files_under(root) == before


def test_progress_is_told_up_to_the_end(root: Path) -> None:
    told: list[tuple[int, int]] = []
    fsck.check(root, progress=lambda done, total: told.append((done, total)))
    assert told
    assert told[-1][0] == told[-1][1]


# Messages that are damaged.


def flip_a_byte(root: Path) -> Path:
    path = single(root)
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    return path


def flip_a_byte_of_the_attributes(root: Path) -> Path:
    path = leased(root)
    content = path.read_bytes()
    path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    return path


def truncate(root: Path) -> Path:
    os.truncate(delayed(root), 3)
    return delayed(root)


def lengthen(root: Path) -> Path:
    path = batch(root)
    path.write_bytes(path.read_bytes() + b"more")
    return path


def make_huge(root: Path) -> Path:
    os.truncate(single(root), 1 << 40)
    return single(root)


DAMAGES = [flip_a_byte, flip_a_byte_of_the_attributes, truncate, lengthen, make_huge]


@pytest.mark.parametrize(
    ("call", "path"),
    [("read", "queues/q/"), ("facts", "queues/q/"), ("scan", "queues/q"), ("read", "config/")],
)
def test_what_the_disk_refuses_to_show_is_left_to_the_operator(
    root: Path, monkeypatch: pytest.MonkeyPatch, call: str, path: str
) -> None:
    passed = getattr(LocalDisk, call)

    def refused(disk: LocalDisk, at: str, *rest: Any, **named: Any) -> Any:
        if at.startswith(path):
            raise OSError(errno.EIO, "Input/output error")
        return passed(disk, at, *rest, **named)

    before = files_under(root)
    monkeypatch.setattr(LocalDisk, call, refused)
    problems = check(root).problems
    assert {each.remedy for each in problems} == {Remedy.HAND}
    assert all("can't be " in each.why and "Input/output error" in each.why for each in problems)
    monkeypatch.undo()
    assert files_under(root) == before


def test_a_damaged_message_that_is_deleted_is_no_problem(root: Path) -> None:
    path = single(root)
    os.truncate(path, 1)
    path.rename(root / "remove" / f"q:{stem_of(path)},v9")
    assert not check(root).problems


def test_of_a_copied_root_whose_links_became_files_each_is_read(root: Path) -> None:
    lease = root / "delay" / f"q:{stem_of(batch(root))},v3,i0-1,r1,f{NOW}@{NOW + 1000}~0123456789abc"
    shutil.copy(batch(root), lease)
    assert not check(root).problems
    lease.write_bytes(lease.read_bytes().replace(b"batch 1", b"batch x"))
    (problem,) = check(root).problems
    assert problem.path == str(lease.relative_to(root))
    assert problem.members == 0b10


def test_of_a_damaged_copy_the_file_with_the_other_names_is_whole(root: Path) -> None:
    """A file system that allows no more links makes the store copy the file."""
    stem = stem_of(batch(root))
    copy = (
        root
        / "delay"
        / f"q:{stem},v1,{to_text(1)},r1,f{NOW}@{NOW + 1000}~0123456789abc".replace(",v1", "")
    )
    shutil.copy(batch(root), copy)
    first = batch(root).rename(root / "queues" / "q" / f"{stem},v3,i1-4")
    (root / "remove" / f"q:{stem},v2,i4").hardlink_to(first)
    os.link(first, root.parent / "another link")
    whole = copy.read_bytes()
    copy.write_bytes(whole.replace(b"batch 1", b"batch x"))
    assert not check(root).problems, "of this message another name decides, whose file is whole"
    copy.write_bytes(whole.replace(b"batch 0", b"batch x"))
    (problem,) = check(root).problems
    assert problem.path == str(copy.relative_to(root))


# Foreign things.


def write(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def link(path: Path) -> Path:
    path.unlink(missing_ok=True)
    path.symlink_to("/etc/passwd")
    return path


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def listen(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(path))
    return path


def folder(path: Path) -> Path:
    path.mkdir()
    return path


NO_TEXT = os.fsdecode(b"new/q:\xff\xfe\x1b[31m")
NAMED = f"queues/q/{ID},s1,c00000000"
FOREIGN: dict[str, Callable[[Path], Path]] = {
    "a link": lambda root: link(root / "queues/q/passwd"),
    "a link instead of a message": lambda root: link(single(root)),
    "a file": lambda root: write(root / "delay/notes.txt", "mine"),
    "a name that is no text": lambda root: write(root / NO_TEXT, "mine"),
    "a pipe": lambda root: pipe(root / NAMED),
    "a socket": lambda root: listen(root / "queues/q/s"),
    "a folder instead of a message": lambda root: folder(root / NAMED),
    "a batch folder of format 1": lambda root: folder(root / f"queues/q/{ID},n3"),
    "a name without size and checksum": lambda root: single(root).rename(root / f"queues/q/{ID}"),
    "a name without its due": lambda root: delayed(root).rename(str(delayed(root)).rpartition("@")[0]),
    "a file among the queues": lambda root: write(root / "queues/README", ""),
    "a foreign settings file": lambda root: write(root / "config/q.json.bak", "{}"),
    "damaged newer settings": lambda root: write(
        root / "config/q.2.json", '{"created_at": 1}\n0000000\n'
    ),
    "a file among the sets": lambda root: write(root / "reserved/stranger", ""),
    "a folder among the sets": lambda root: folder(root / "reserved/reader.0"),
    "a file among the chunks": lambda root: write(root / "staged/stranger", ""),
    "a folder among the chunks": lambda root: folder(root / "staged/nightly"),
    "a file among the manifests": lambda root: write(root / "published/stranger", ""),
    "a file by hand for no queue": lambda root: write(root / f"new/no queue:{ID}", ""),
    "a link among the owners": lambda root: link(root / "owners/0123abcd"),
}

INSPECTED: dict[str, Callable[[Path], object]] = {
    **{damage.__name__: damage for damage in DAMAGES},
    **FOREIGN,
    "no damage": lambda root: None,
    "a damaged batch": lambda root: batch(root).write_bytes(
        batch(root).read_bytes().replace(b"batch 2", b"batch x").replace(b"batch 4", b"batch y")
    ),
    "no folder of a queue": lambda root: shutil.rmtree(root / "queues/q"),
    "no folder of leases": lambda root: shutil.rmtree(root / "delay"),
    "no settings": lambda root: (root / "config/q.1.json").unlink(),
    "no identity": lambda root: (root / "IDENTITY").write_text("mine"),
    "a folder in place of an identity": lambda root: (
        (root / "IDENTITY").unlink(),
        folder(root / "IDENTITY"),
    ),
    "a lease for years": lambda root: leased(root).rename(
        str(leased(root)).replace(f"@{leased(root).name.partition('@')[2][:13]}", "@9999999999999")
    ),
    "two names of one state": lambda root: os.link(
        single(root), root / "delay" / f"q:{stem_of(single(root))},v9@{NOW + HOUR}"
    ),
    "strangers": lambda root: [
        write(root / place / "stranger", "")
        for place in (
            "dead_letters",
            "staged",
            "published",
            "reserved",
            "redrives",
            "keys",
            "bodies",
            "new",
        )
    ],
    "torn records": lambda root: [
        write(root / path, "")
        for path in (f"dead_letters/{ID[:36]}.0123uv", f"keys/{ID}", f"redrives/{ID}", "owners/0123")
    ],
}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_foreign_things_are_found_where_they_are_and_put_aside_as_they_are(
    root: Path, foreign: str
) -> None:
    spoiled = FOREIGN[foreign](root)
    facts = spoiled.lstat()
    (problem,) = check(root).problems
    assert problem.path == str(spoiled.relative_to(root))
    assert problem.remedy is Remedy.QUARANTINE
    (mended,), left = repair(root)
    assert mended.problem == problem
    assert not left
    report = check(root)
    assert not report.problems
    (file,) = report.quarantined
    assert (file.name, file.source, file.why) == (spoiled.name, problem.path, problem.why)
    kept = (root / file.path).lstat()
    assert (kept.st_ino, kept.st_mode, kept.st_size) == (facts.st_ino, facts.st_mode, facts.st_size)
    gone = {"a link instead of a message", "a name without size and checksum"}
    assert bodies(root) == (READY[1:] if foreign in gone else READY)


@pytest.mark.parametrize("foreign", [each for each in FOREIGN if "owners" not in each])
def test_a_start_puts_aside_what_a_check_has_found(root: Path, foreign: str) -> None:
    FOREIGN[foreign](root)
    (problem,) = check(root).problems
    settle(opened(root))
    report = check(root)
    assert not report.problems
    (file,) = report.quarantined
    assert (file.source, file.why) == (problem.path, problem.why)


def test_a_start_finishes_what_a_check_tells_as_unfinished(root: Path) -> None:
    write(root / "new" / "queues-q-x.copy", "half")
    write(root / "new" / "abc-1.body", "half")
    write(root / "bodies" / ID, "no message's")
    write(root / f"dead_letters/{ID}.aaaaaa", "")
    write(root / "reserved" / f"reader.0@{NOW + 1000}", "")
    write(root / "config" / "q.2.json", "")
    (root / "queues" / "nobody").mkdir()
    told = {each.path for each in check(root).leftovers}
    assert len(told) == 7
    assert all((root / path).exists() for path in told)
    engine = opened(root)
    settle(engine)
    engine.moves.removed_files.unlink()
    assert [path for path in told if (root / path).exists()] == []
    report = check(root)
    assert (report.problems, report.leftovers) == ([], [])


# Several names of one batch.


def test_messages_that_no_name_lists_are_found_and_kept_in_quarantine(root: Path) -> None:
    path = batch(root)
    rest = path.rename(path.with_name(f"{stem_of(path)},v3,{to_text(0b11001)}"))
    (problem,) = check(root).problems
    assert problem.path == str(rest.relative_to(root))
    assert "1-2" in problem.why
    repair(root)
    report = check(root)
    assert not report.problems
    (file,) = report.quarantined
    assert file.why == "whole: it can be restored"
    assert bodies(root) == [READY[0], READY[1], *READY[4:]]
    fsck.restore(root, file.id, clock=Still())
    assert bodies(root) == READY[2:4]


def test_a_batch_of_which_all_names_are_in_remove_is_on_its_way_out(root: Path) -> None:
    path = batch(root)
    path.rename(root / "remove" / f"q:{stem_of(path)},v3,{to_text(0b11001)}")
    assert not check(root).problems


def test_two_files_with_the_same_messages_are_found_and_one_is_put_aside(root: Path) -> None:
    path = single(root)
    id = path.name.partition(",")[0]
    twin = root / "queues" / "q" / f"{id},s4,c98eb26fb"
    twin.write_bytes(b"twin")
    (problem,) = check(root).problems
    assert problem.path in {str(path.relative_to(root)), str(twin.relative_to(root))}
    repair(root)
    assert not check(root).problems
    assert len(bodies(root)) == len(READY)


def test_a_damaged_twin_does_not_win_over_the_whole_file(root: Path) -> None:
    path = single(root)
    id = path.name.partition(",")[0]
    (root / "queues" / "q" / f"{id},s9,cffffffff").write_bytes(b"nine byte")
    repair(root)
    assert bodies(root) == READY


def test_an_unsent_file_is_unfinished_and_no_problem(root: Path) -> None:
    torn = root / "new" / f"q:{ID},s10,c00000000,oabc"
    torn.write_bytes(b"half")
    part = root / "new" / f"q:{ID[:-4]}b000,n2,s4,c00000000,m4,i0,oabc"
    part.write_bytes(b"whole so")
    report = check(root)
    assert not report.problems
    assert [each.path for each in report.leftovers] == sorted(
        str(path.relative_to(root)) for path in (torn, part)
    )
    assert all("never sent" in each.why for each in report.leftovers)
    assert State.SENT not in report.queues["q"].counts


def test_messages_sent_by_a_dead_process_are_counted_and_unfinished(root: Path) -> None:
    path = single(root)
    path.rename(root / "new" / f"q:{path.name},oabc")
    report = check(root)
    assert not report.problems
    assert report.queues["q"].counts[State.SENT] == 1
    assert "gone" in report.leftovers[0].why
    (root / "owners" / "abc").write_text("pid 1\n")
    report = check(root)
    assert report.leftovers == []
    assert report.owners == ["pid 1"]
    assert bodies(root) == READY


def test_a_file_put_in_by_hand_waits_to_be_adopted(root: Path) -> None:
    (root / "new" / f"q:{uuid.uuid4()}").write_text("by hand")
    report = check(root)
    assert not report.problems
    assert "adopted" in report.leftovers[0].why


def test_a_copy_that_was_being_made_is_unfinished(root: Path) -> None:
    (root / "new" / "queues-q-x.copy").write_bytes(b"half")
    report = check(root)
    assert not report.problems
    assert "copy" in report.leftovers[0].why


# Times.


def test_of_a_lease_that_is_too_long_the_damaged_messages_are_not_made_ready(root: Path) -> None:
    path = batch(root)
    lease = root / "delay" / f"q:{stem_of(path)},v3,r1,f{NOW}@{NOW + 50_000_000}~0123456789abc"
    path.rename(lease)
    lease.write_bytes(lease.read_bytes().replace(b"batch 2", b"batch x"))
    assert len(check(root).problems) == 2
    repair(root)
    assert not check(root).problems
    assert bodies(root) == [body for body in READY if body != b"batch 2"]


def test_a_delay_may_be_longer_than_a_lease(root: Path) -> None:
    path = delayed(root)
    path.rename(path.with_name(path.name.replace(f"@{NOW + 3_600_000}", f"@{NOW + 50_000_000}")))
    assert not check(root).problems


def test_a_message_from_the_future_is_left_to_a_person(root: Path) -> None:
    clock = Still(type(NOW)(NOW - 3 * 24 * 3_600_000))
    problems = fsck.check(root, clock=clock).problems
    assert {problem.remedy for problem in problems} == {Remedy.HAND, Remedy.READY}
    assert all("it was sent 3" in p.why for p in problems if p.remedy is Remedy.HAND)
    _, _, left = fsck.repair(root, clock=clock)
    assert {problem.remedy for problem in left} == {Remedy.HAND}


# Queues and the root itself.


def test_a_queue_that_lost_its_settings_keeps_its_messages(root: Path) -> None:
    (root / "config" / "q.1.json").unlink()
    (problem,) = check(root).problems
    assert (problem.path, problem.remedy) == ("queues/q", Remedy.SETTINGS)
    assert "8 messages" in problem.why
    repair(root)
    assert not check(root).problems
    assert '"salt"' in (root / "config" / "q.1.json").read_text()
    assert bodies(root) == READY


def test_a_queue_whose_settings_are_damaged_keeps_its_messages(root: Path) -> None:
    (root / "config" / "q.1.json").write_text('{"created_at":1}\n00000000\n')
    remedies = {problem.remedy for problem in check(root).problems}
    assert remedies == {Remedy.QUARANTINE, Remedy.SETTINGS}
    repair(root)
    assert not check(root).problems
    assert bodies(root) == READY


def test_a_queue_that_is_being_deleted_or_was_never_made_is_unfinished(root: Path) -> None:
    (root / "config" / "dead.2.json").write_bytes(seal({"created_at": 1, "deleted": True}))
    (root / "config" / "q.2.json").write_text("")
    (root / "queues" / "nobody").mkdir()
    report = check(root)
    assert not report.problems
    paths = [each.path for each in report.leftovers]
    assert paths == ["config/dead.2.json", "config/q.2.json", "queues/nobody"]
    assert report.queues["dead"].is_being_deleted


def test_a_queue_that_is_being_deleted_needs_no_folder(root: Path) -> None:
    tombstone = {**unseal((root / "config" / "q.1.json").read_bytes()), "deleted": True}
    (root / "config" / "q.2.json").write_bytes(seal(tombstone))
    shutil.rmtree(root / "queues" / "q")
    assert not check(root).problems


def test_files_beside_the_folders_are_left_alone(root: Path) -> None:
    (root / "notes.txt").write_text("mine")
    (root / "lost+found").mkdir()
    (root / "RESERVE").unlink()
    report = check(root)
    assert not report.problems
    assert [each.path for each in report.leftovers] == ["FORMAT", "notes.txt"]
    assert "RESERVE" in report.leftovers[0].why
    repair(root)
    assert (root / "notes.txt").read_text() == "mine"


def test_a_folder_that_is_no_root_or_of_another_format_is_refused(tmp_path: Path, root: Path) -> None:
    with pytest.raises(RootUnusable):
        fsck.check(tmp_path / "nowhere")
    with pytest.raises(RootUnusable, match="FORMAT"):
        fsck.check(tmp_path)
    for number in (1, 2, 3):
        (root / "FORMAT").write_text(f"spoolrack {number}\n")
        with pytest.raises(UnknownFormat, match=f"'spoolrack {number}'"):
            fsck.repair(root)
    (root / "FORMAT").write_text("spoolrack 5\n")
    with pytest.raises(UnknownFormat, match=r"'spoolrack 5'.*'spoolrack 4'"):
        fsck.repair(root)


def test_a_repair_is_refused_while_a_process_has_the_root_open(root: Path) -> None:
    (root / "owners" / "p1").write_text("pid 77 on here\n")
    with open(root / "owners" / "p1") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        with pytest.raises(RootInUse, match="pid 77"):
            repair(root)
        with pytest.raises(RootInUse):
            fsck.restore(root, ID)
    with open(root / "LOCK") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(RootInUse):
            repair(root)
    repair(root)


def test_a_repair_keeps_processes_from_starting(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(root / "delay/notes.txt", "mine")
    quarantine = Moves.quarantine

    def interrupted(*arguments: object) -> bool:
        with pytest.raises(AssertionError):
            settle(opened(root))
        return quarantine(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Moves, "quarantine", interrupted)
    repair(root)
    assert not path.exists()


def test_dead_letter_files_that_are_damaged_missing_or_of_no_message_are_told(root: Path) -> None:
    ready = batch(root)
    stem = parse(str(ready.relative_to(root))).stem.text
    dead = root / "queues" / "dead" / f"{stem},v9,i0,h0123uv"
    os.link(ready, dead)
    folder = root / "dead_letters"
    (folder / f"{ID}.aaaaaa").write_bytes(seal({"deaths": [RECORD]}))
    (folder / f"{ID}.bbbbbb").write_bytes(b"no record\n")
    report = check(root)
    told = {problem.path: (problem.remedy, problem.why) for problem in report.problems}
    assert told.keys() == {str(each.relative_to(root)) for each in (dead, folder / f"{ID}.bbbbbb")}
    remedy, why = told[str(dead.relative_to(root))]
    assert remedy is Remedy.HAND
    assert f"dead_letters/{ready.name[:36]}.0123uv" in why
    assert f"dead_letters/{ID}.aaaaaa" in {each.path for each in report.leftovers}

    (folder / f"{ready.name[:36]}.0123uv").write_bytes(seal({"deaths": [RECORD]}))
    repair(root)
    assert check(root).problems == []
    assert not (folder / f"{ID}.bbbbbb").exists()

"""A snapshot is the root at one instant, and a root of its own."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from spoolrack_store import fsck
from spoolrack_store.engine.adoption import UNCHANGED_FOR
from spoolrack_store.files import hard_links
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.errors import RootInUse, RootUnusable, TargetUnusable
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.snapshot import take_snapshot
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP, FrontRig, bodies_of, opened, taken_lock
from tests.store.working_rig import Worker
from tests.support.listing import messages_in

pytestmark = pytest.mark.timeout(300)
SNAPSHOTS = int(os.environ.get("SPOOLRACK_SNAPSHOTS", "5"))


def fill(rig: FrontRig) -> None:
    """Fill a queue with messages that are deleted, leased, delayed and ready."""
    rig.send(*(b"%d" % n for n in range(10)))
    rig.delete(*rig.receive(3))
    rig.receive(2)
    rig.ask(Send(queue="q", bodies=[b"late"], delays={0: 60_000}))


def states(root: Path, clock: ManualClock) -> dict[State, list[bytes]]:
    with opened(root, clock) as rig:
        return states_of(rig)


def states_of(rig: FrontRig) -> dict[State, list[bytes]]:
    found: dict[State, list[bytes]] = {}
    for message in messages_in(rig.store, "q"):
        found.setdefault(message.state, []).append(message.body)
    return found


def test_a_snapshot_has_what_the_root_had_in_the_same_states(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path / "root", clock) as rig:
        fill(rig)
        taken = take_snapshot(tmp_path / "root", tmp_path / "copy")
        rig.send(b"afterwards")

    report = fsck.check(tmp_path / "copy")
    assert report.problems == []
    found = states(tmp_path / "copy", clock)
    assert {state: sorted(each) for state, each in found.items()} == {
        State.READY: [b"5", b"6", b"7", b"8", b"9"],
        State.LEASED: [b"3", b"4"],
        State.DELAYED: [b"late"],
    }
    assert taken.files >= 4


@pytest.mark.parametrize("most", [5, 8])
def test_a_file_that_can_have_no_more_links_is_copied_once_for_all_its_names(
    tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ext4 allows 65,000: 1,000 dead letters of one send failed each snapshot after the 64th."""
    clock, link = ManualClock(), os.link

    def linked(source: str | Path, target: Path, *, follow_symlinks: bool) -> None:
        if os.stat(source).st_nlink >= most:
            raise OSError(errno.EMLINK, "Too many links", str(source))
        link(source, target, follow_symlinks=follow_symlinks)

    with opened(tmp_path / "root", clock) as rig:
        rig.send(*(b"%d" % n for n in range(12)))
        for _ in range(4):
            rig.receive(1)  # Each has a name of its own.
        expected = states_of(rig)
        monkeypatch.setattr(hard_links.os, "link", linked)
        taken = take_snapshot(tmp_path / "root", tmp_path / "copy")
        monkeypatch.undo()
    names = [*(tmp_path / "copy/delay").iterdir(), *(tmp_path / "copy/queues/q").iterdir()]
    assert (len(names), taken.copied) == (5, 1)
    # Of eight links three were left.
    assert len({path.stat().st_ino for path in names}) == (1 if most == 5 else 2)
    assert fsck.check(tmp_path / "copy").problems == []
    assert states(tmp_path / "copy", clock) == expected


def test_commits_go_on_while_names_are_linked_and_the_snapshot_is_the_root_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was 7.8 s for 100,000 files on a busy machine. Each link here waits for a commit, which would
    wait for ever if the lock were held."""
    clock, link, links = ManualClock(), os.link, 0

    def linked(source: str | Path, target: Path, *, follow_symlinks: bool) -> None:
        nonlocal links
        links += 1
        if links <= 8:
            rig.send(b"meanwhile %d" % links)
            rig.delete(*rig.receive(2))
            rig.receive(1)
        link(source, target, follow_symlinks=follow_symlinks)

    with opened(tmp_path / "root", clock) as rig:
        for n in range(20):
            rig.send(b"%d" % n)
        fill(rig)
        with monkeypatch.context() as patched:
            patched.setattr(hard_links.os, "link", linked)
            take_snapshot(tmp_path / "root", tmp_path / "copy")
        expected = states_of(rig)

    assert links > 8
    assert fsck.check(tmp_path / "copy").problems == []
    assert states(tmp_path / "copy", clock) == expected


def test_root_and_snapshot_do_not_touch_each_other(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path / "root", clock) as rig:
        rig.send(b"a", b"b")
        take_snapshot(tmp_path / "root", tmp_path / "copy")
        rig.delete(*rig.receive(2))

        with opened(tmp_path / "copy", clock) as copy:
            assert bodies_of(copy.receive(10)) == [b"a", b"b"]
            copy.send(b"c")
        assert rig.receive(10) == []

    with opened(tmp_path / "root", clock) as rig:
        assert rig.receive(10) == []


def test_a_snapshot_of_a_root_at_rest_serves_after_the_root_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.send(b"a")
    take_snapshot(tmp_path / "root", tmp_path / "copy")
    shutil.rmtree(tmp_path / "root")

    with opened(tmp_path / "copy") as copy:
        assert bodies_of(copy.receive()) == [b"a"]


def test_a_file_that_is_put_in_by_hand_is_adopted_though_a_snapshot_was_taken(tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(tmp_path / "root", clock) as rig:
        (tmp_path / "root" / "new" / f"q:{uuid4()}").write_bytes(b"by hand")
        body = rig.store.begin_body(expected=1)
        take_snapshot(tmp_path / "root", tmp_path / "copy")
        assert list((tmp_path / "copy" / "new").iterdir()) == []
        body.discard()
        for _ in range(3):
            rig.in_turn()
            clock.advance(UNCHANGED_FOR)
        rig.in_turn()
        assert bodies_of(rig.receive()) == [b"by hand"]


def test_snapshots_under_load_lose_nothing_and_bring_nothing_back(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with Store.open(root) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result(GIVE_UP)
    workers = [Worker(root, name) for name in ("one", "two")]
    taken: list[tuple[Path, int, int]] = []
    try:
        for number in range(SNAPSHOTS):
            for worker in workers:
                worker.has_told(100)
            began = time.monotonic_ns()
            take_snapshot(root, tmp_path / f"copy-{number}")
            taken.append((tmp_path / f"copy-{number}", began, time.monotonic_ns()))
        for worker in workers:
            worker.has_told(20)
    finally:
        for worker in workers:
            worker.kill()

    told = [each for worker in workers for each in worker.told]
    for copy, began, ended in taken:
        assert fsck.check(copy).problems == []
        sent = {body for word, moment, body in told if word == "sent" and moment < began}
        going = {body for word, moment, body in told if word == "deletes" and moment < ended}
        gone = {body for word, moment, body in told if word == "deleted" and moment < began}
        with Store.open(copy) as store:
            there = set(_bodies(store))
        assert sent - going <= there, "a message that was sent is missing"
        assert not gone & there, "a message that was deleted is back"


def _bodies(store: Store) -> Iterator[str]:
    last = ""
    while page := messages_in(store, "q", after=last):
        yield from (message.body.decode() for message in page)
        last = page[-1].id


def test_a_process_that_is_stopped_with_the_lock_is_named(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with Store.open(root) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result(GIVE_UP)
        lock = taken_lock(root)
        try:
            with pytest.raises(RootInUse, match=rf"process {os.getpid()} .*holds the lock"):
                take_snapshot(root, tmp_path / "copy", tries=3)
        finally:
            lock.release()
        assert [path.name for path in tmp_path.iterdir()] == ["root"]
        take_snapshot(root, tmp_path / "copy")


def test_a_link_in_the_root_stays_a_link_in_the_snapshot(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/mine").write_bytes(b"mine")
    with opened(tmp_path / "root"):
        (tmp_path / "root/quarantine/link").symlink_to(tmp_path / "outside")
        take_snapshot(tmp_path / "root", tmp_path / "copy")
    assert (tmp_path / "copy/quarantine/link").is_symlink()


def test_a_snapshot_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.send(b"a")
    archive = tmp_path / "root" / "archive"
    away = archive.rename(tmp_path / "away")

    with pytest.raises(RootUnusable, match="No such file"):
        take_snapshot(tmp_path / "root", tmp_path / "copy")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["away", "root"]
    away.rename(archive)
    take_snapshot(tmp_path / "root", tmp_path / "copy")


def test_the_rest_of_an_interrupted_snapshot_is_named(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.send(b"a")
    (tmp_path / "copy.partial").mkdir()

    with pytest.raises(TargetUnusable, match=r"copy\.partial can't .* it is there already"):
        take_snapshot(tmp_path / "root", tmp_path / "copy")


def test_a_target_that_can_not_be_one_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.send(b"a")
    (tmp_path / "there").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())

    for target, why in (
        (tmp_path / "there", "is there already"),
        (tmp_path / "root" / "copy", "it lies in the root"),
        (tmp_path / "none" / "copy", "No such file or directory"),
    ):
        with pytest.raises(TargetUnusable, match=why):
            take_snapshot(tmp_path / "root", target)
    with pytest.raises(RootUnusable, match="it is none"):
        take_snapshot(tmp_path / "there", tmp_path / "copy")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_another_file_system_is_refused_with_what_to_do(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")
    if not elsewhere.is_dir() or elsewhere.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system at /dev/shm")
    with opened(tmp_path / "root") as rig:
        rig.send(b"a")
    with pytest.raises(TargetUnusable, match=r"another file system .* rsync -aH"):
        take_snapshot(tmp_path / "root", elsewhere / f"copy-{os.getpid()}")
    assert list(elsewhere.glob(f"*copy-{os.getpid()}*")) == []

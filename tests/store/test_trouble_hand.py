"""Files that are put into the root by hand: messages are adopted, anything else is put into quarantine
and stops no start."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterator
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
from spoolrack_store.engine.adoption import NAMES_LIKE_A_FILE
from spoolrack_store.engine.effort import FILES
from spoolrack_store.files.disk import Facts, FileKind, FolderEntry, SyncFailed
from spoolrack_store.files.disk_room import RESERVE_BYTES, STEP_BYTES
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.files.root import FOLDERS
from spoolrack_store.model.background_work import BackgroundWork
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.settings import QueueSettings

from tests.store.trouble_rig import Bytes, Rig
from tests.support.engine_story import StillClock
from tests.support.engines import applied, start
from tests.support.steps import slices_of, steps_of

ID = "018bcfe5-6800-76c6-91b7-584a2265b000"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    path.mkdir()
    for folder in (*FOLDERS, "queues/q"):
        (path / folder).mkdir()
    for name in ("FORMAT", "LOCK"):
        (path / name).write_text("spoolrack 4\n")
    return path


@pytest.fixture
def rig(root: Path) -> Rig:
    return Rig(LocalDisk(root))


def put(root: Path, content: bytes, queue: str = "q") -> Path:
    """Write a file as `mv` does: the whole file appears at once."""
    outside = root.parent / "outside"
    outside.write_bytes(content)
    target = root / f"new/{queue}:{uuid4()}"
    outside.rename(target)
    return target


def rest(rig: Rig, *, looks: int = 5) -> None:
    for _ in range(looks):
        rig.tick()
        rig.advance(1_000)


def bodies(rig: Rig, queue: str = "q") -> list[bytes]:
    return [body for _, body in rig.receive(queue=queue).values()]


# Adoption.


def test_a_file_that_rested_for_two_seconds_becomes_a_message(root: Path, rig: Rig) -> None:
    rig.clock.ticks = False
    path = put(root, b"from a shell")
    rig.tick()
    rig.advance(1_999)
    rig.tick()
    assert rig.receive() == {}
    rig.advance(1)
    rig.tick()
    assert bodies(rig) == [b"from a shell"]
    assert not path.exists()
    rig.check()
    assert rig.engine.moves.quarantined == 0


def test_an_adopted_message_stands_behind_those_that_were_sent_before(root: Path, rig: Rig) -> None:
    put(root, b"adopted")
    rest(rig, looks=1)
    rig.send(b"sent")
    rest(rig, looks=3)
    assert bodies(rig) == [b"sent", b"adopted"]


def test_a_file_that_still_grows_is_left_alone(root: Path, rig: Rig) -> None:
    path = put(root, b"")
    for at in range(6):
        with path.open("ab") as file:
            file.write(b"more")
        os.utime(path, ns=(at, at))  # Another change time, whatever the clock's grain is.
        rest(rig, looks=1)
    assert rig.receive() == {}
    rest(rig)
    assert bodies(rig) == [b"more" * 6]


def test_a_file_with_a_second_name_is_left_alone_until_that_is_gone(root: Path, rig: Rig) -> None:
    path = put(root, b"linked")
    second = root.parent / "second"
    second.hardlink_to(path)
    rest(rig)
    assert rig.receive() == {}
    second.unlink()
    rest(rig)
    assert bodies(rig) == [b"linked"]


@pytest.mark.parametrize("size", [0, 10, 11])
def test_a_file_of_any_size_that_the_queue_takes_is_adopted_and_a_larger_one_put_aside(
    root: Path, rig: Rig, size: int
) -> None:
    rig.add("small", max_message_size=10)
    put(root, b"x" * size, "small")
    rest(rig)
    taken = size <= 10
    assert len(rig.receive(queue="small")) == taken
    assert rig.engine.moves.quarantined == (not taken)


def test_links_pipes_and_folders_are_never_adopted(root: Path, rig: Rig) -> None:
    (root / f"new/q:{uuid4()}").symlink_to("/etc/passwd")
    (root / f"new/q:{uuid4()}").mkdir()
    os.mkfifo(root / f"new/q:{uuid4()}")
    rest(rig)
    assert rig.receive() == {}
    assert len(os.listdir(root / "new")) == 3
    rig.start()
    rig.commit()
    assert rig.engine.moves.quarantined == 3


def test_a_file_that_came_while_no_process_ran_is_adopted_after_the_start(root: Path, rig: Rig) -> None:
    put(root, b"early")
    rig.start()
    rest(rig)
    assert bodies(rig) == [b"early"]


def test_a_file_for_a_queue_that_does_not_exist_yet_waits_for_it(root: Path, rig: Rig) -> None:
    put(root, b"patient", "later")
    rest(rig)
    rig.add("later")
    rest(rig)
    assert bodies(rig, "later") == [b"patient"]


def test_many_files_are_adopted_in_slices_and_each_look_is_one_commit(root: Path, rig: Rig) -> None:
    for number in range(60):
        put(root, b"%d" % number)
    rig.tick()
    rig.advance(2_000)
    slices = slices_of(lambda: rig.engine.index.queue("q").total, rig.commit, 60)
    assert max(slices) <= 15
    assert len(slices) < 20


class CrowdedDisk(LocalDisk):
    """Has `strange` names in `new/`, beside the files; counts what is listed and looked at."""

    strange: Collection[str] = ()
    listed = looked = 0

    def listing(self, path: str) -> Iterator[FolderEntry]:
        for each in super().listing(path):
            self.listed += 1
            yield each
        for name in self.strange if path == "new" else ():
            self.listed += 1
            yield FolderEntry(name, FileKind.FILE)

    def facts(self, path: str) -> Facts:
        self.looked += 1
        if path.removeprefix("new/") in self.strange:
            return Facts(kind=FileKind.FILE, size=1, links=2, changed_ns=1)
        return super().facts(path)


@pytest.mark.parametrize("queue", ["q", "nowhere"])
def test_a_commit_lists_and_looks_at_few_of_many_files_put_in(root: Path, queue: str) -> None:
    """100,000 files held a commit for 1.1 s, and all others waited."""
    disk = CrowdedDisk(root)
    disk.strange = dict.fromkeys(f"{queue}:{uuid4()}" for _ in range(10_000))
    rig = Rig(disk)
    rig.tick()
    listed, looked = [disk.listed], [disk.looked]
    while disk.listed < 10_000:
        rig.commit()
        listed.append(disk.listed)
        looked.append(disk.looked)
        assert len(listed) < 1_000, "the listing stands still"
    most = FILES // 2
    assert max(after - before for before, after in pairwise([0, *listed])) <= most * NAMES_LIKE_A_FILE
    assert max(after - before for before, after in pairwise([0, *looked])) <= most + 10


def test_a_message_is_adopted_behind_many_strange_files(root: Path) -> None:
    disk = CrowdedDisk(root)
    disk.strange = dict.fromkeys(f"nowhere:{uuid4()}" for _ in range(10_000))
    rig = Rig(disk)
    put(root, b"from a shell")
    rest(rig, looks=20)
    assert bodies(rig) == [b"from a shell"]


def test_a_start_parses_no_name_of_a_file_put_in(root: Path, rig: Rig) -> None:
    costs = []
    for count in (10, 110):
        while len(os.listdir(root / "new")) < count:
            put(root, b"x")
        costs.append(steps_of(rig.start))
    # Each is listed twice: for the index, and for deduplication keys. They were 29 lines.
    assert (costs[1] - costs[0]) / 100 < 20


def test_the_names_of_other_processes_are_parsed_and_no_file_put_in_is(root: Path, rig: Rig) -> None:
    """A reaper beside another process looks for them in each commit, and so does a send to a queue with
    a limit."""
    rig.send(b"sent")
    costs = []
    for count in (10, 110):
        while len(os.listdir(root / "new")) < count:
            put(root, b"x")
        costs.append(steps_of(lambda: list(rig.engine.moves.names_sent())))
    assert len(list(rig.engine.moves.names_sent())) == 1
    # The listing is left. They were 13 lines.
    assert (costs[1] - costs[0]) / 100 < 6, costs


def test_a_look_at_files_that_are_not_to_be_adopted_is_not_repeated_at_once(
    root: Path, rig: Rig
) -> None:
    rig.clock.ticks = False
    put(root, b"young")
    rig.tick()
    rig.advance(1_000)
    now = rig.clock.monotonic()
    assert rig.engine.next_work(now) == (False, now + 1_000)
    rig.advance(1_000)
    (root / "new").joinpath(os.listdir(root / "new")[0]).write_bytes(b"changed")
    rig.commit()
    now = rig.clock.monotonic()
    assert rig.engine.next_work(now) == (False, now + 2_000)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ENOENT])
@pytest.mark.parametrize("name", ["read", "facts", "rename_new"])
def test_a_file_that_cannot_be_adopted_stops_nothing(
    root: Path, rig: Rig, name: str, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = put(root, b"stubborn")
    rig.disk.fail(code, name, path=path.name)
    rest(rig)
    assert code == errno.ENOENT or f"{path.name}' can't be adopted" in caplog.text
    rig.send(b"a")
    assert bodies(rig) == [b"a"]
    rig.disk.heal()
    rest(rig)
    assert bodies(rig) == [b"stubborn"]
    rig.check()


def test_of_several_processes_one_adopts_a_file_and_the_others_hear_of_it(root: Path) -> None:
    changes = Bytes()
    clock = StillClock()
    engines = [
        start(
            LocalDisk(root),
            changes,
            clock=clock,
            owner=owner,
            is_living=lambda owner: True,
            queues={"q": QueueSettings()},
        )
        for owner in ("p1", "p2", "p3")
    ]
    path = put(root, b"one of a kind")
    for _ in range(4):
        for engine in engines:
            applied(engine, tick=True)
        clock.now += 1_000
    assert not path.exists()
    assert len(os.listdir(root / "queues/q")) == 1
    assert [engine.index.queue("q").total for engine in engines] == [1, 1, 1]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_of_a_file_ends_all_promises_instead_of_being_repeated(
    root: Path, rig: Rig, code: int
) -> None:
    path = put(root, b"not on the disk")
    rig.disk.fail(code, "sync_file", path=path.name, times=1)
    with pytest.raises(SyncFailed):
        rest(rig)
    assert path.exists()


def test_a_mover_of_what_is_due_adopts_nothing(root: Path, rig: Rig) -> None:
    rig.options["background"] = BackgroundWork(adopts=False, unlinks=False)
    rig.start()
    path = put(root, b"from a shell")
    rest(rig, looks=10)
    assert rig.receive() == {}
    assert path.exists()


def test_a_mover_with_a_delay_adopts_nothing_before_it_is_over(root: Path, rig: Rig) -> None:
    rig.clock.ticks = False
    rig.options["background"] = BackgroundWork(brings_back=False, unlinks=False, wait=Millis(60_000))
    rig.start()
    put(root, b"from a shell")
    rig.tick()
    rig.advance(59_999)
    rig.tick()
    assert rig.receive() == {}
    rig.advance(2_000)
    rig.tick()
    assert bodies(rig) == [b"from a shell"]


# Quarantine.

KINDS: dict[str, Callable[[Path], object]] = {
    "file": lambda path: path.write_bytes(b"foreign"),
    "folder": lambda path: path.mkdir(),
    "full folder": lambda path: (path.mkdir(), (path / "inside").write_bytes(b"x")),
    "link": lambda path: path.symlink_to("/etc/passwd"),
    "pipe": os.mkfifo,
}


@pytest.mark.parametrize(
    "folder",
    ["new", "queues/q", "delay", "remove", "config", "keys", "redrives", "dead_letters", "bodies"],
)
def test_a_foreign_file_goes_to_quarantine(root: Path, rig: Rig, folder: str) -> None:
    ids = rig.send(b"a", b"b")
    rig.commit()
    for kind, make in KINDS.items():
        make(root / folder / kind)
    rig.start()
    rig.commit()
    kept = {path.name: path for place in (root / "quarantine").iterdir() for path in place.iterdir()}
    for kind in KINDS:
        assert not os.path.lexists(root / folder / kind)
        assert kind in kept
        assert f"{folder}/{kind}" in kept[f"{kind}.why"].read_text()
    assert rig.engine.moves.quarantined == len(KINDS)
    assert list(rig.receive()) == ids
    rig.check()
    assert rig.engine.moves.quarantined == 0, "once is enough"


@pytest.mark.parametrize(
    "name",
    [
        "a" * 255,
        "\u00e4" * 127,
        "new line\n",
        "\udcff\udcfe",
        f"q:{ID}",
        f"q:{ID},s1,c00000000,x7",
        f"q:{ID},s1,c00000000@17",
        f"q:{ID},n1001,s1,c00000000@1700000000000",
        f"{ID},s1,c00000000@1700000000000",
    ],
)
def test_a_strange_name_is_put_aside(root: Path, rig: Rig, name: str) -> None:
    (root / "delay" / name).write_bytes(b"x")
    rig.start()
    rig.commit()
    assert rig.paths("delay") == []
    (place,) = (root / "quarantine").iterdir()
    assert (place / name).read_bytes() == b"x"


@pytest.mark.parametrize("kind", ["folder", "link", "pipe"])
def test_a_folder_with_a_message_s_name_goes_to_quarantine(root: Path, rig: Rig, kind: str) -> None:
    KINDS[kind](root / f"queues/q/{ID},s1,c00000000")
    rig.start()
    rig.commit()
    assert rig.engine.moves.quarantined == 1
    assert rig.receive() == {}
    rig.check()


def test_many_foreign_files_go_to_quarantine_in_slices(root: Path, rig: Rig) -> None:
    for number in range(60):
        (root / f"delay/foreign-{number}").write_bytes(b"x")
    rig.start()
    at_start = rig.engine.moves.quarantined
    slices = [at_start, *slices_of(lambda: rig.engine.moves.quarantined, rig.commit, 60)]
    assert max(slices) <= 15
    assert len(slices) < 20


def test_a_foreign_entry_among_the_queues_goes_to_quarantine(root: Path, rig: Rig) -> None:
    (root / "queues/file").write_bytes(b"x")
    (root / "queues/no queue/inside").mkdir(parents=True)
    rig.start()
    rig.commit()
    assert rig.engine.moves.quarantined == 2
    assert rig.paths("queues") == ["queues/q"]


def test_a_message_in_new_of_a_missing_queue_goes_to_quarantine(root: Path, rig: Rig) -> None:
    (id,) = rig.send(b"a")
    del rig.queues["q"]
    (root / "queues/q").rmdir()
    for path in (root / "config").iterdir():
        path.unlink()
    rig.start()
    rig.commit()
    (name,) = os.listdir(root / "quarantine")
    assert name.startswith(f"q:{id},")
    assert not (root / "queues/q").exists()


@pytest.mark.parametrize("call", ["make_folder", "rename_new"])
def test_a_foreign_file_goes_to_quarantine_on_a_full_disk(root: Path, rig: Rig, call: str) -> None:
    rig.tick()
    (root / "delay/stranger").write_bytes(b"x")
    rig.disk.fail(errno.ENOSPC, call, path="stranger" if call == "rename_new" else "", times=1)
    rig.start()
    rig.commit()
    assert rig.engine.moves.quarantined == 1
    assert rig.disk.facts("RESERVE").size == RESERVE_BYTES - STEP_BYTES


def test_a_copy_of_a_process_that_died_is_unlinked(root: Path, rig: Rig) -> None:
    (root / f"new/delay-q:{ID}.copy").write_bytes(b"x")
    rig.start()
    rig.commit()
    assert rig.paths("new", "quarantine") == []

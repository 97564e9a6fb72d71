"""Spare files: a send over one is durable by its data, and found under its name whatever happens."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO

import pytest
from spoolrack_store import fsck
from spoolrack_store.engine.engine import Engine
from spoolrack_store.files.layout import spare_owner
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.files.spares import ASKED, MOST_OF_SIZE, SEAL_BYTES, Spares
from spoolrack_store.fsck.findings import Remedy
from spoolrack_store.model.operations import CreateQueue, Purge, Receive, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.snapshot import take_snapshot
from spoolrack_store.store import Store

from tests.proof.format.second_reader import Root as SecondReader
from tests.support.cuts import Bytes, Cut, Keep
from tests.support.engine_story import StillClock
from tests.support.engines import applied, commit, start
from tests.support.linked_disk import LinkedDisk, Memory, made
from tests.support.power_disk import Model
from tests.support.root_rig import SETTINGS, Still, lay_out, settle
from tests.support.root_rig import Bytes as InMemory


def one(body: bytes = b"body") -> Send:
    return Send(queue="q", bodies=[body])


class Rig:
    """A disk that overwrites in place, and a process alone on it that has four spares."""

    def __init__(self) -> None:
        self.disk = made(["q"], can_sync_all=True, model=Model.ANY_SUBSET)
        self.disk.overwrites = True
        self.clock = StillClock()
        self.living: set[str] = set()
        self.engine = self.start("p1")
        self.engine.moves.spares._wanted[4096] = 4
        self.engine.moves.spares.make()

    def start(self, owner: str, disk: LinkedDisk | None = None) -> Engine:
        self.living.add(owner)
        disk = disk or self.disk
        return start(
            disk,
            Memory(disk),
            clock=self.clock,
            owner=owner,
            is_living=self.living.__contains__,
            queues={"q": QueueSettings()},
        )

    def restarted(self, cut: Cut) -> Engine:
        """Return a process on what a power cut leaves."""
        found = self.disk.cut(cut)
        assert isinstance(found, LinkedDisk)
        self.living.clear()
        return self.start("p9", found)

    def spares(self) -> list[str]:
        return [each.name for each in self.disk.scan("new") if spare_owner(each.name)]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def received(engine: Engine) -> list[bytes]:
    for _ in range(3):
        commit(engine)
    (found,) = commit(engine, Receive(queue="q", max_messages=10, max_bytes=10**6))
    return [body for delivery in found for body in delivery.bodies]


def test_a_send_over_a_spare_survives_each_cut_once_its_data_are_synced(rig: Rig) -> None:
    work = applied(rig.engine, one())
    assert work.in_spares
    assert work.barrier is not None
    work.barrier.sync()
    rig.engine.finish(work)
    commit(rig.engine)  # It is published, and that isn't durable.
    for number in range(20):
        assert received(rig.restarted(Cut(Keep.SOME, (number,), tuple(Bytes)))) == [b"body"]


def test_a_send_over_a_spare_that_was_not_synced_is_whole_or_was_never_sent(rig: Rig) -> None:
    applied(rig.engine, one(b"x" * 2_000))
    found = [received(rig.restarted(Cut(Keep.NONE, (), (kind,)))) for kind in Bytes]
    assert [b"x" * 2_000] in found
    assert all(bodies in ([], [b"x" * 2_000]) for bodies in found)


def test_what_was_sent_in_a_spare_has_its_name_and_length_when_its_end_is_cut_off(rig: Rig) -> None:
    commit(rig.engine, one())
    commit(rig.engine)
    (path,) = (f"queues/q/{each.name}" for each in rig.disk.scan("queues/q"))
    assert rig.disk.facts(path).size == 4096
    rig.engine.moves.spares.make()
    assert rig.disk.read(path) == b"body"


def test_a_commit_with_anything_but_sends_over_spares_syncs_names(rig: Rig) -> None:
    for others in (
        [Receive(queue="q", max_messages=1, max_bytes=100)],
        [Send(queue="q", bodies=[b"key"], deduplication_ids={0: "once"})],
        [Send(queue="q", bodies=[b"grouped"], groups={0: "g"})],
        [Send(queue="q", bodies=[bytes(max(MOST_OF_SIZE))])],
    ):
        work = applied(rig.engine, one(), *others)
        assert not work.in_spares
        assert work.barrier is not None
        work.barrier.sync()
        rig.engine.finish(work)


def test_a_delivery_from_a_spare_has_its_body(rig: Rig) -> None:
    (_, found) = commit(rig.engine, one(), Receive(queue="q", max_messages=1, max_bytes=100))
    assert [delivery.bodies for delivery in found] == [[b"body"]]


def test_a_process_that_joins_finds_what_is_in_a_spare_of_a_living_one(rig: Rig) -> None:
    commit(rig.engine, one())
    other = rig.start("p2")
    assert commit(other, Purge(queue="q")) == [1]
    commit(rig.engine, one(b"later"))
    assert received(rig.engine) == [b"later"]


def test_while_others_have_the_root_open_no_spare_is_used(rig: Rig) -> None:
    rig.start("p2")
    commit(rig.engine, one())
    assert len(rig.spares()) == 4
    assert len(rig.disk.scan("new")) == 5, "the message has a name that others see"


def test_a_process_that_dies_leaves_its_message_and_no_spare(rig: Rig) -> None:
    other = rig.start("p2")
    other.close()
    rig.living.discard("p2")
    commit(rig.engine)
    commit(rig.engine, one())
    rig.disk.free_locks()
    rig.living.clear()
    assert received(rig.start("p3")) == [b"body"]
    assert rig.spares() == []


def test_a_spare_that_was_removed_by_hand_is_not_used(rig: Rig) -> None:
    for name in rig.spares():
        rig.disk.unlink(f"new/{name}")
    commit(rig.engine, one())
    assert received(rig.engine) == [b"body"]


def test_a_process_that_leaves_has_no_spares_and_files_of_their_length(rig: Rig) -> None:
    commit(rig.engine, one())
    assert rig.engine.close()
    rig.engine.moves.spares.close()
    assert rig.spares() == []
    (path,) = (f"queues/q/{each.name}" for each in rig.disk.scan("queues/q"))
    assert rig.disk.read(path) == b"body"


def test_spares_are_made_for_those_that_send_and_more_of_them_while_they_do_not_last(rig: Rig) -> None:
    spares = Spares(rig.disk, "p5")
    for _ in range(ASKED - 1):
        assert spares.take(10) is None
    spares.make()
    assert spares.take(10) is None, "few sends are worth no spares"
    spares.make()
    while spares.take(10) is not None:
        pass
    counts = []
    for _ in range(4):
        spares.make()
        counts.append(len(list(iter(lambda: spares.take(10), None))))
    assert counts[0] < counts[1]
    assert counts[-1] == MOST_OF_SIZE[4096]
    assert spares.take(4096 - SEAL_BYTES + 1) is None, "another size"
    assert spares.take(max(MOST_OF_SIZE)) is None


def test_a_disk_that_refuses_spares_is_asked_no_more(rig: Rig) -> None:
    rig.disk.can_sync_all = False
    spares = Spares(rig.disk, "p5")
    for _ in range(ASKED):
        spares.take(10)
    before = rig.spares()
    spares.make()
    assert not spares.is_on
    assert rig.spares() == before


class LocalSpares(LocalDisk):
    """As on ext4, wherever the test runs."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        super().__init__(root)
        self.overwrites = self.can_sync_all


def opened(root: Path, owner: str) -> Engine:
    return start(LocalSpares(root), InMemory(), clock=Still(), owner=owner, queues=SETTINGS)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A root whose process was killed after a send over a spare, and before its name."""
    root = tmp_path / "root"
    lay_out(root)
    engine = opened(root, "p1")
    engine.moves.spares._wanted[4096] = 2
    engine.moves.spares.make()
    commit(engine, one(b"in a spare"))
    assert not list((root / "queues" / "q").iterdir())
    return root


def test_a_second_reader_finds_what_is_in_a_spare(killed: Path) -> None:
    messages = SecondReader(killed).messages.values()
    assert [(each.queue, each.state, each.body) for each in messages] == [("q", "ready", b"in a spare")]


def test_an_inspection_tells_of_spares_that_are_left_and_a_start_leaves_none(killed: Path) -> None:
    report = fsck.check(killed, clock=Still())
    assert report.problems == []
    told = [each.why for each in report.leftovers if each.path.endswith(".spare")]
    assert len(told) == 2
    assert sum("gives it the name new/q:" in why for why in told) == 1
    settle(opened(killed, "p2"))
    assert [path.read_bytes()[:10] for path in (killed / "queues" / "q").iterdir()] == [b"in a spare"]
    assert not list((killed / "new").iterdir())


def test_a_spare_that_the_disk_refuses_to_show_is_left_to_the_operator(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = LocalDisk.open

    def refused(disk: LocalDisk, path: str) -> BinaryIO:
        if path.endswith(".spare"):
            raise OSError(errno.EIO, "Input/output error")
        return passed(disk, path)

    monkeypatch.setattr(LocalDisk, "open", refused)
    problems = fsck.check(killed, clock=Still()).problems
    assert len(problems) == 2
    assert {each.remedy for each in problems} == {Remedy.HAND}


def test_a_snapshot_copies_what_is_in_a_spare_and_links_no_spare(killed: Path, tmp_path: Path) -> None:
    take_snapshot(killed, tmp_path / "copy")
    (path,) = (tmp_path / "copy" / "new").iterdir()
    assert path.read_bytes() == b"in a spare"
    assert path.stat().st_nlink == 1
    with Store.open(tmp_path / "copy"):
        pass
    assert [each.body for each in SecondReader(tmp_path / "copy").messages.values()] == [b"in a spare"]


def test_a_store_that_sends_over_spares_leaves_files_as_any_other(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with Store.open(root, disk=LocalSpares(root)) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        spares = store._engine.moves.spares
        spares._wanted[4096] = 8
        spares.make()
        for number in range(20):
            store.submit(one(b"%d" % number)).result()
    files = sorted((root / "queues" / "q").iterdir())
    assert [path.read_bytes() for path in files] == [b"%d" % number for number in range(20)]
    assert not list((root / "new").iterdir())

"""What one process leaves to others: it works without them, and whoever comes late finds it all."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.engine.reaper import Reaper
from spoolrack_store.engine.sweep import SWEEP_EVERY
from spoolrack_store.files.disk import Found
from spoolrack_store.files.segments import Segments
from spoolrack_store.model.chores import ALL_CHORES, Chores
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreFailed
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    CreateQueue,
    Delete,
    DeleteQueue,
    Message,
    Outgoing,
    Receive,
    Send,
    Sent,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from spoolrack_store.sweeper import Sweeper
from spoolrack_store.testing import ManualClock
from store_rig import GIVE_UP

SERVER_ALONE = Chores(unlinks=False, ticks=False)
"""Of `serve --no-mover --no-reaper`."""
MOVER_OF_NEW = Chores(brings_back=False, unlinks=False)
MOVER_OF_DELAY = Chores(adopts=False, unlinks=False)
LOOKS = 10_000
FOREIGN = "0199a000-0000-7000-8000-000000000000"


class Root:
    """A folder, a clock, and whoever opens it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = ManualClock()

    def open(self, chores: Chores = ALL_CHORES) -> Store:
        return Store.open(self.path, clock=self.clock, chores=chores)

    def names(self, folder: str) -> list[str]:
        return sorted(path.name for path in (self.path / folder).iterdir())

    def until(self, folder: str, count: int, *, ms: int = 500) -> None:
        """Let time go by until so many names are in a folder."""
        pause = threading.Event()
        for _ in range(LOOKS):
            if len(self.names(folder)) == count:
                return
            self.clock.advance(Millis(ms))
            pause.wait(0.002)
        raise AssertionError(f"{folder} has {self.names(folder)}")


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


def create(store: Store, **settings: object) -> None:
    store.submit(CreateQueue(name="q", settings=QueueSettings().changed(settings))).result(GIVE_UP)


def send(store: Store, *bodies: bytes) -> list[str]:
    request = Send(queue="q", messages=[Outgoing(body=body) for body in bodies])
    return [sent.id for sent in store.submit(request).result(GIVE_UP) if isinstance(sent, Sent)]


def receive(store: Store, most: int = 1) -> list[Message]:
    return store.submit(Receive(queue="q", max_messages=most)).result(GIVE_UP)


def delete(store: Store, *messages: Message) -> None:
    targets = [ByReceipt(str(message.receipt)) for message in messages]
    assert store.submit(Delete(queue="q", targets=targets)).result(GIVE_UP) == [None] * len(messages)


def test_without_mover_and_reaper_a_store_sends_receives_and_deletes(root: Root) -> None:
    with root.open(SERVER_ALONE) as store:
        create(store, visibility_timeout=5_000, retention=1_000_000)
        send(store, b"a", b"b")
        first = receive(store, 2)
        assert [message.body for message in first] == [b"a", b"b"]
        assert receive(store) == []
        root.clock.advance(Millis(5_000))
        again = receive(store, 2)
        assert [message.receives for message in again] == [2, 2], "a receive finds what is due"
        delete(store, *again)
        send(store, b"old")
        root.clock.advance(Millis(1_000_000))
        assert receive(store) == [], "nor does it deliver what is too old"
        store.submit(DeleteQueue(name="q")).result(GIVE_UP)
        create(store)
        assert receive(store) == []
    assert root.names("remove"), "nobody has unlinked anything"


def test_who_waits_for_a_message_gets_what_is_due_without_a_mover(root: Root) -> None:
    with root.open(SERVER_ALONE) as store:
        create(store, visibility_timeout=5_000)
        send(store, b"a")
        receive(store)
        waiting = store.submit(Receive(queue="q", wait=None))
        for _ in range(LOOKS):
            if waiting.done():
                break
            root.clock.advance(Millis(100))
            threading.Event().wait(0.002)
        assert [message.body for message in waiting.result(GIVE_UP)] == [b"a"]


def test_a_mover_that_comes_late_finds_what_was_there_before(root: Root) -> None:
    with root.open(SERVER_ALONE) as store:
        create(store, visibility_timeout=5_000, retention=3_600_000)
        send(store, b"leased", b"leased, too")
        receive(store, 2)
    (root.path / "new" / f"q:{FOREIGN}").write_bytes(b"by hand")
    (root.path / "new" / f"q:{FOREIGN[:-1]}1,s4,c00000000,odead").write_bytes(b"to")
    root.clock.advance(Millis(60_000))
    with root.open(MOVER_OF_NEW):
        root.until("new", 0)
    assert len(root.names("delay")) == 1, "that is another mover's"
    with root.open(MOVER_OF_DELAY):
        root.until("delay", 0)
    with root.open(SERVER_ALONE) as store:
        assert sorted(message.body for message in receive(store, 9)) == [
            *(b"by hand", b"leased", b"leased, too")
        ]
    root.clock.advance(Millis(3_600_000 + 60_000))
    with root.open(MOVER_OF_DELAY):
        root.until("delay", 0)
        root.until("queues/q", 0)


def test_a_mover_of_one_folder_leaves_the_other_alone(root: Root) -> None:
    with root.open(SERVER_ALONE) as store:
        create(store, visibility_timeout=5_000)
        send(store, b"a")
        receive(store)
        (root.path / "new" / f"q:{FOREIGN}").write_bytes(b"by hand")
        with root.open(MOVER_OF_DELAY):
            root.until("delay", 0)
            root.clock.advance(Millis(60_000))
        assert root.names("new") == [f"q:{FOREIGN}"]


def test_a_mover_with_a_delay_moves_nothing_before_it_is_over(root: Root) -> None:
    # The server has ended: a commit of its own for whatever reason would bring back what is due.
    with root.open(SERVER_ALONE) as store:
        create(store, visibility_timeout=5_000)
        send(store, b"a")
        receive(store)
        root.clock.advance(Millis(4_000))
    with root.open(Chores(adopts=False, unlinks=False, wait=Millis(100_000))):
        for _ in range(50):
            root.clock.advance(Millis(1_900))
            threading.Event().wait(0.002)
        assert len(root.names("delay")) == 1
        root.until("delay", 0)


def test_several_movers_and_reapers_do_each_thing_once(root: Root) -> None:
    with root.open(SERVER_ALONE) as store:
        create(store, visibility_timeout=5_000)
        for n in range(30):
            send(store, *(b"%d %d" % (n, m) for m in range(1 + n % 3)))
        assert len(receive(store, 100)) == 60
        with root.open(MOVER_OF_DELAY), root.open(MOVER_OF_DELAY), root.open(MOVER_OF_DELAY):
            root.until("delay", 0)
        again = receive(store, 100)
        assert {message.receives for message in again} == {2}
        delete(store, *again)
        sweepers = [Sweeper.open(root.path) for _ in range(3)]
        threads = [threading.Thread(target=sweeper.sweep) for sweeper in sweepers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert root.names("remove") == []
        assert sum(sweeper.unlinked for sweeper in sweepers) == 60
        assert not any(sweeper._reaper.refused for sweeper in sweepers)


def test_a_reaper_that_comes_late_finds_what_lies_in_remove(root: Root) -> None:
    with root.open(SERVER_ALONE) as store:
        create(store)
        send(store, *(b"%d" % n for n in range(50)))
        send(store, b"alone")
        delete(store, *receive(store, 51))
        assert len(root.names("remove")) == 2
        (root.path / "remove" / "not one of ours").touch()
        sweeper = Sweeper.open(root.path)
        sweeper.sweep()
        sweeper.sweep()
        assert root.names("remove") == ["not one of ours"]
        assert sweeper.unlinked == 51
        assert len(root.names("owners")) == 1, "a reaper is no owner"


def test_a_reaper_that_is_alone_lets_the_root_be_recovered_first(root: Root) -> None:
    with root.open(SERVER_ALONE) as store:
        create(store)
        send(store, b"a")
        (gone,) = receive(store)
        delete(store, gone)
    (removed,) = root.names("remove")
    # As a file system whose renames aren't atomic may be found: in both folders.
    entry = removed.removeprefix("q:")
    (root.path / "queues" / "q" / entry).write_bytes(b"a")
    sweeper = Sweeper.open(root.path)
    sweeper.sweep()
    assert root.names("remove") == []
    with root.open() as store:
        assert receive(store) == [], "a deleted message has come back"


def test_a_reaper_unlinks_nothing_that_may_not_be_durable(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    with root.open(SERVER_ALONE) as store:
        create(store)
        send(store, b"a")
        delete(store, *receive(store))
        sweeper = Sweeper.open(root.path)

        def fails() -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(sweeper._disk, "sync_all", fails)
        with pytest.raises(StoreFailed):
            sweeper.sweep()
        assert len(root.names("remove")) == 1


def test_a_history_that_another_process_has_written_goes_with_its_message(root: Root) -> None:
    with root.open(SERVER_ALONE) as one:
        one.submit(CreateQueue(name="dead", settings=QueueSettings())).result(GIVE_UP)
        create(one, visibility_timeout=5_000, max_receives=1, dead_letter_queue="dead")
        with root.open() as other:
            (id,) = send(one, b"a")
            receive(one)
            root.clock.advance(Millis(5_000))
            assert receive(one) == []
            assert root.names("history") == [f"dead:{id}"]
            found = one.submit(Receive(queue="dead", wait=None)).result(GIVE_UP)
            assert [message.id for message in found] == [id]
            (result,) = other.submit(Delete(queue="dead", targets=[ById(id)])).result(GIVE_UP)
            assert result is None
            root.until("remove", 0, ms=0)
            root.until("history", 0, ms=0)


def test_whoever_reaps_finds_in_time_what_others_have_left(root: Root) -> None:
    with root.open(SERVER_ALONE) as one, root.open():
        create(one)
        send(one, b"a")
        delete(one, *receive(one))
        assert len(root.names("remove")) == 1
        root.until("remove", 0, ms=SWEEP_EVERY // 20)


def test_a_folder_that_others_reap_at_the_same_time_is_reaped_to_the_end() -> None:
    """Between the listing and the unlinking of each name, somebody else may be faster."""

    class Raced(MemoryDisk):
        def scan(self, path: str) -> list[Found]:
            found = super().scan(path)
            if path.startswith("remove/"):
                self.unlink(f"{path}/{found[0].name}")
            return found

    disk = Raced()
    disk.make_folder("remove")
    folder = f"remove/q:{FOREIGN},n3"
    disk.make_folder(folder)
    for n in range(3):
        disk.create(f"{folder}/{FOREIGN[:-1]}{n},s1,c00000000", [b"x"], sync=False)
    reaper = Reaper(disk, set(), Segments(disk, "me"), lambda queue: 0)
    reaper.give([folder])
    assert reaper.reap(10) == 1
    assert disk.scan("remove") == []
    assert reaper.unlinked == 2
    assert not reaper.refused


def test_a_file_that_may_not_be_unlinked_is_told_as_that_and_left_for_the_next_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = FaultyDisk(MemoryDisk())
    disk.make_folder("remove")
    path = f"remove/q:{FOREIGN},s1,c00000000"
    disk.create(path, [b"x"], sync=False)
    disk.fail(errno.EPERM, "unlink")
    reaper = Reaper(disk, set(), Segments(disk, "me"), lambda queue: 0)
    reaper.give([path])
    assert reaper.reap(10) == 1
    assert reaper.refused == {path}
    assert reaper.unlinked == 0
    assert "Operation not permitted" in caplog.text

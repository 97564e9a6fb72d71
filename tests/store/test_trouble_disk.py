"""A refused disk call fails the requests that needed it, and nothing else."""

from __future__ import annotations

import errno

import pytest
from spoolrack_store.credits import Credits
from spoolrack_store.files.disk import Space, SyncFailed
from spoolrack_store.files.disk_room import RESERVE_BYTES, STEP_BYTES
from spoolrack_store.files.root import FOLDERS
from spoolrack_store.files.syncer import Syncer
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import DiskError, DiskFull, StaleReceipt
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Purge,
    Receive,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State

from tests.store.trouble_rig import PickyDisk, Rig
from tests.support.cuts import Cut, Keep
from tests.support.engines import applied
from tests.support.linked_disk import made
from tests.support.memory_disk import File
from tests.support.power_disk import Model

MOVES = ("link", "rename_new")


@pytest.fixture
def rig() -> Rig:
    return Rig()


# No room.


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b", b"c"]])
def test_a_full_disk_costs_that_send_only_and_leaves_nothing(
    rig: Rig, code: int, bodies: list[bytes]
) -> None:
    rig.disk.fail(code, "create", path="new/", times=1)
    assert [type(each) for each in rig.send(*bodies)] == [DiskFull] * len(bodies)
    assert rig.paths("new") == []
    rig.send(b"later")
    assert [body for _, body in rig.receive().values()] == [b"later"]
    rig.check()


def test_everything_but_sends_works_when_nothing_can_be_created(rig: Rig) -> None:
    rig.clock.ticks = False
    ids = rig.send(*[b"x"] * 5)
    rig.send(b"y")
    rig.disk.fail(errno.ENOSPC, "create", "make_folder", "set_aside")
    receipts = [receipt for receipt, _ in rig.receive().values()]
    assert len(receipts) == 6
    rig.ask(ChangeVisibility(queue="q", receipts=receipts[:1], visibility_timeout=Millis(0)))
    end = rig.ask(ChangeVisibility(queue="q", receipts=receipts[1:2], visibility_timeout=Millis(5_000)))
    assert end == [rig.clock.wall() + 5_000]
    deleted = rig.ask(Delete(queue="q", receipts=[receipts[1], receipts[5]], ids=[ids[0]]))
    assert deleted == [None] * 3
    rig.advance(30_000)
    assert sorted(rig.receive()) == ids[2:]
    assert rig.ask(Purge(queue="q")) == 3
    rig.check()


def test_a_move_on_a_full_disk_gets_as_much_of_the_reserve_as_it_needs_and_a_send_none(
    rig: Rig,
) -> None:
    rig.tick()
    assert rig.disk.facts("RESERVE").size == RESERVE_BYTES
    rig.send(b"a")
    ((_, (receipt, _)),) = rig.receive().items()
    rig.disk.fail(errno.ENOSPC, "create", times=2)  # What the short way is refused is tried again.
    assert isinstance(rig.send(b"b")[0], DiskFull)
    assert rig.disk.facts("RESERVE").size == RESERVE_BYTES
    rig.disk.fail(errno.ENOSPC, *MOVES, times=3)
    assert rig.delete(receipt) == [None]
    assert rig.disk.facts("RESERVE").size == RESERVE_BYTES - 3 * STEP_BYTES
    rig.tick()
    assert rig.disk.facts("RESERVE").size == RESERVE_BYTES


def test_deleted_files_are_unlinked_at_once_where_a_full_disk_refuses_a_file(rig: Rig) -> None:
    rig.reaps = False
    receipts = [receipt for _ in range(3) if rig.send(b"a") for receipt, _ in rig.receive().values()]
    rig.delete(*receipts)
    rig.commit()
    assert len(rig.paths("remove")) == 3
    rig.disk.fail(errno.ENOSPC, "create", times=1)
    rig.ask(CreateQueue(name="other", settings=QueueSettings()))
    assert rig.paths("remove") == []
    # It is tried again once for what was unlinked, and not for ever.
    rig.disk.fail(errno.ENOSPC, "create")
    with pytest.raises(DiskFull):
        rig.ask(CreateQueue(name="third", settings=QueueSettings()))


def test_sends_leave_room_for_deletes(rig: Rig) -> None:
    (id,) = rig.send(b"a")
    rig.disk.disk.room = Space(bytes=1 << 20, files=1 << 20)
    assert isinstance(rig.send(b"b")[0], DiskFull)
    rig.disk.disk.room = Space(bytes=1 << 40, files=100)
    assert isinstance(rig.send(b"b")[0], DiskFull)
    rig.disk.disk.room = Space(bytes=1 << 40, files=None)
    rig.send(b"c")
    assert rig.ask(Delete(queue="q", ids=[id])) == [None]


def test_a_delete_on_a_disk_without_any_room_says_so_and_the_message_stays(rig: Rig) -> None:
    rig.send(b"a", b"b")
    receipts = [receipt for receipt, _ in rig.receive().values()]
    rig.disk.fail(errno.ENOSPC, *MOVES)
    assert [type(each) for each in rig.delete(*receipts)] == [DiskFull, DiskFull]
    rig.disk.heal()
    assert rig.delete(*receipts) == [None, None]
    rig.check()


def test_room_of_the_reserve_counts_only_once_it_is_synced(rig: Rig) -> None:
    rig.tick()
    rig.send(b"a")
    ((_, (receipt, _)),) = rig.receive().items()
    rig.disk.fail(errno.ENOSPC, *MOVES, times=1)
    rig.disk.fail(errno.EIO, "sync_file", path="RESERVE")
    with pytest.raises(SyncFailed):
        rig.delete(receipt)


# Messages that can't be moved, or not any more.


def test_a_read_only_file_system_ends_all_promises(rig: Rig) -> None:
    rig.send(b"a")
    rig.disk.fail(errno.EROFS, "create", *MOVES)
    with pytest.raises(SyncFailed):
        rig.commit(Send(queue="q", bodies=[b"b"]))


def test_a_lost_root_ends_all_promises(rig: Rig) -> None:
    rig.send(b"a")
    for path in ("FORMAT", *rig.paths("new")):
        rig.disk.unlink(path)
    for folder in ("new", "queues/q", "queues"):
        rig.disk.remove_folder(folder)
    with pytest.raises(SyncFailed):
        rig.commit(Send(queue="q", bodies=[b"b"]))


def test_a_message_that_is_leased_as_it_is_sent_and_cannot_be_handed_out_is_delivered_later(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    receive = Receive(queue="q", max_messages=10, visibility_timeout=Millis(30_000))
    rig.disk.fail(errno.EIO, *MOVES, path="delay/")
    sent, received = rig.commit(Send(queue="q", bodies=[b"a"]), receive)
    assert received == []
    assert "1 files have to wait in new/" in caplog.text
    rig.disk.heal()
    rig.commit()
    rig.advance(30_000)
    assert list(rig.receive()) == sent.results
    rig.check()


@pytest.mark.parametrize("folder", ["new", "queues/q", "delay", "remove"])
def test_a_folder_that_was_removed_by_hand_is_made_again(rig: Rig, folder: str) -> None:
    rig.disk.remove_folder(folder)
    ids = [*rig.send(b"a"), *rig.send(b"b", b"c")]
    receipts = [receipt for receipt, _ in rig.receive().values()]
    assert len(receipts) == len(ids)
    assert rig.delete(*receipts) == [None] * 3
    rig.check()


def test_a_purge_that_fails_for_one_name_deletes_the_others(rig: Rig) -> None:
    rig.send(b"a")
    rig.send(b"b", b"c")
    rig.commit()
    rig.disk.fail(errno.EIO, *MOVES, path="remove/", times=1)
    with pytest.raises(DiskError):
        rig.ask(Purge(queue="q"))
    rig.disk.heal()
    rig.send(b"d")
    assert [body for _, body in rig.receive().values()] == [b"a", b"d"]
    rig.check()


def test_a_message_whose_lease_was_released_for_the_last_time_is_dead_in_that_commit(rig: Rig) -> None:
    rig.add("dead")
    rig.add("r", max_receives=1, dead_letter_queue="dead")
    (id,) = rig.send(b"a", queue="r")
    receipt = rig.receive(queue="r")[id][0]
    found = []
    for visibility in (0, 30_000, 0):
        change = ChangeVisibility(queue="r", receipts=[receipt], visibility_timeout=Millis(visibility))
        found += rig.ask(change)
    assert [isinstance(each, StaleReceipt) for each in found] == [False, True, True]
    assert list(rig.receive(queue="dead")) == [id]
    assert rig.engine.index.queue("r").total == 0
    rig.check()


# Files removed by hand.


def test_all_folders_are_synced_in_place_of_one_that_was_taken_away() -> None:
    disk = PickyDisk(made(["q", "r"], can_sync_all=False, model=Model.ANY_SUBSET))
    disk.make_folder("staged/s")
    syncer = Syncer(disk)
    syncer.folder_changed("queues/gone")
    syncer.begin().sync()
    synced = {arguments[0] for name, arguments in disk.called if name == "sync_folder"}
    assert synced == {*FOLDERS, ".", "queues/gone", "queues/q", "queues/r", "staged/s"}


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b", b"c"]])
def test_a_message_moved_away_by_hand_is_not_delivered_and_not_counted(
    rig: Rig, bodies: list[bytes]
) -> None:
    rig.send(*bodies)
    rig.commit()
    (path,) = rig.paths("queues/q")
    rig.disk.unlink(path)
    (later,) = rig.send(b"later")
    assert list(rig.receive()) == [later]
    assert rig.engine.index.queue("q").total == 1
    rig.check()


def test_two_receives_in_one_commit_that_meet_what_was_moved_away_get_nothing(rig: Rig) -> None:
    rig.send(b"a", b"b", b"c")
    rig.commit()
    (path,) = rig.paths("queues/q")
    rig.disk.unlink(path)
    once = Receive(queue="q", max_messages=1)
    longer = Receive(queue="q", max_messages=1, visibility_timeout=Millis(60_000))
    assert rig.commit(once, longer) == [[], []]
    assert rig.engine.index.queue("q").total == 0
    rig.check()


def test_of_a_batch_one_of_whose_names_was_moved_away_the_others_decide(rig: Rig) -> None:
    ids = rig.send(b"a", b"b", b"c")
    rig.commit()
    work = applied(rig.engine, Receive(queue="q", max_messages=1, visibility_timeout=Millis(30_000)))
    (receipt,) = work.outcomes[0][0].receipts
    (path,) = rig.paths("delay")
    rig.disk.unlink(path)
    # The older name lists the message, too: it is ready, as a start would have it.
    work = applied(rig.engine, Delete(queue="q", receipts=[receipt]))
    assert isinstance(work.outcomes[0][0], StaleReceipt)
    rig.commit()
    assert list(rig.receive()) == ids
    rig.check()


def test_a_deleted_message_stays_deleted_when_its_name_in_remove_is_unlinked_by_hand(rig: Rig) -> None:
    rig.send(b"a", b"b", b"c")
    receipts = [receipt for receipt, _ in rig.receive().values()]
    rig.delete(receipts[0])
    (path,) = rig.paths("remove")
    rig.disk.unlink(path)
    rig.delete(receipts[1])
    rig.advance(30_000)
    assert [body for _, body in rig.receive().values()] == [b"c"]
    rig.check()


# Unreadable files.


def test_a_file_that_cannot_be_read_waits_and_the_others_go_on(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    first = rig.send(b"a", b"b")
    (later,) = rig.send(b"later")
    credits = Credits(10, lambda: None)
    rig.disk.fail(errno.EIO, "read", path=first[0])
    assert list(rig.receive(credits=credits)) == [later]
    assert "can't be read, its messages have to wait" in caplog.text
    assert credits.in_flight == 1
    assert rig.engine.index.queue("q").counts[State.READY] == 2
    assert rig.engine.next_work(rig.clock.monotonic())[1] is not None
    rig.disk.heal()
    assert rig.receive() == {}, "it is tried again after a while"
    rig.advance(1_000)
    assert list(rig.receive()) == first
    assert rig.engine.moves.quarantined == 0
    rig.check()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_lack_of_handles_leases_nothing(rig: Rig, code: int) -> None:
    ids = rig.send(b"a", b"b")
    rig.commit()
    rig.disk.fail(code, "read")
    with pytest.raises(DiskError):
        rig.receive()
    rig.disk.heal()
    (delivery,) = rig.ask(Receive(queue="q", max_messages=10))
    assert (delivery.ids, delivery.receive_count) == (ids, 1)
    rig.check()


def test_a_damaged_message_costs_itself_only_also_when_it_cannot_be_put_aside(rig: Rig) -> None:
    ids = rig.send(b"aa", b"bb", b"cc")
    rig.commit()
    (path,) = rig.paths("queues/q")
    node = rig.disk.disk.node(path)
    assert isinstance(node, File)
    node.content = node.content.replace(b"bb", b"bX", 1)
    rig.start()
    rig.disk.fail(errno.EIO, *MOVES, path="quarantine/")
    assert list(rig.receive()) == [ids[0], ids[2]]
    rig.disk.heal()
    rig.advance(30_000)
    assert list(rig.receive()) == [ids[0], ids[2]]
    assert rig.engine.moves.quarantined == 1
    rig.check()


# More names than the file system gives to a file.


def test_a_file_that_can_have_no_more_links_is_copied(rig: Rig) -> None:
    ids = rig.send(b"a", b"b", b"c")
    rig.commit()
    rig.disk.fail(errno.EMLINK, "link")
    work = applied(rig.engine, Receive(queue="q", max_messages=1, visibility_timeout=Millis(30_000)))
    assert work.outcomes[0][0].ids == ids[:1]
    assert rig.paths("new") == []
    work.barrier.sync()
    rig.engine.finish(work)
    found = rig.disk.disk.cut(Cut(Keep.NONE))
    rig.disk.disk = found
    rig.start()
    rig.advance(30_000)
    assert [body for _, body in rig.receive().values()] == [b"a", b"b", b"c"]
    rig.check()


# Starts.


@pytest.mark.parametrize("folder", ["new", "queues", "queues/q", "delay", "remove"])
def test_a_start_that_cannot_list_a_folder_is_refused_and_another_one_finds_everything(
    rig: Rig, folder: str
) -> None:
    ids = rig.send(b"a", b"b")
    rig.disk.fail(errno.EACCES, "scan", path=folder)
    with pytest.raises(DiskError):
        rig.start()
    rig.disk.heal()
    rig.start()
    rig.commit()
    assert list(rig.receive()) == ids
    rig.check()


# Queues.


def _settle(rig: Rig) -> None:
    for _ in range(8):
        rig.tick()


def test_a_queue_that_could_not_be_created_is_not_there_after_a_restart(rig: Rig) -> None:
    rig.disk.fail(errno.ENOSPC, "create", path="config/")
    with pytest.raises(DiskFull):
        rig.ask(CreateQueue(name="new", settings=QueueSettings()))
    rig.disk.heal()
    rig.start()
    assert set(rig.engine.catalog.records) == {"q"}
    assert rig.paths("queues") == ["queues/q"]


def test_an_update_that_could_not_be_written_changes_nothing(rig: Rig) -> None:
    rig.disk.fail(errno.ENOSPC, "create", path="config/")
    update = UpdateQueue(name="q", changes={"max_message_size": 5})
    with pytest.raises(DiskFull):
        rig.ask(update)
    assert rig.engine.catalog.records["q"].settings == QueueSettings()
    rig.disk.heal()
    rig.ask(update)
    rig.start()
    assert rig.engine.catalog.records["q"].settings.max_message_size == 5


@pytest.mark.parametrize("path", ["config/q.1", "config/q.2", "queues/q"])
def test_a_deletion_goes_on_once_the_disk_lets_files_and_folders_go(rig: Rig, path: str) -> None:
    rig.send(b"a", b"b")
    rig.commit()
    rig.disk.fail(errno.EIO, "unlink", "remove_folder", path=path)
    rig.ask(DeleteQueue(name="q"))
    _settle(rig)
    assert "q" not in rig.engine.catalog.records
    rig.disk.heal()
    rig.advance(10_000)
    _settle(rig)
    assert rig.paths("config", "queues", "remove", "delay") == []
    rig.add("q")
    (id,) = rig.send(b"c")
    rig.commit()
    rig.start()
    assert list(rig.receive()) == [id]


def test_a_start_that_cannot_read_what_was_sent_serves_the_rest_and_publishes_it_later(
    rig: Rig,
) -> None:
    (old,) = rig.send(b"old")
    rig.commit()
    (id,) = rig.send(b"a")
    rig.disk.fail(errno.EIO, "read", path=id)
    rig.start()
    assert list(rig.receive()) == [old]
    rig.disk.heal()
    rig.commit()
    assert list(rig.receive()) == [id]
    rig.check()

"""What is not plain, and what is to be done first, is left by the short way to the general one."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest
from spoolrack_store.engine import short_way
from spoolrack_store.engine.effort import FILES
from spoolrack_store.engine.engine import Engine, NotEntered
from spoolrack_store.engine.short_way import UNPUBLISHED, UNREAPED
from spoolrack_store.files import changes
from spoolrack_store.files.disk import Space, SyncFailed
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.disk_watermark import DiskWatermark
from spoolrack_store.model.errors import DiskFull, QueueBeingDeleted, SendingPaused, StoreError
from spoolrack_store.model.operations import (
    Delete,
    DeleteQueue,
    Message,
    Receive,
    Send,
    Unfinished,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.settings import MIB, QueueSettings

from tests.support.engine_rig import EngineRig
from tests.support.engine_story import StillClock
from tests.support.engines import applied

QUEUES: Final = {"q": QueueSettings(), "single": QueueSettings(messages_per_file=1)}


@pytest.fixture
def rig() -> EngineRig:
    return EngineRig(QUEUES, clock=StillClock())


def send(rig: EngineRig, *bodies: bytes, engine: Any = None) -> list[Any]:
    return list(rig.ask(Send(queue="q", bodies=bodies), engine).results)


def receive(rig: EngineRig, most: int = 1, engine: Any = None) -> list[Message]:
    return messages_of(rig.ask(Receive(queue="q", max_messages=most), engine))


def delete(rig: EngineRig, *messages: Message, engine: Any = None) -> None:
    receipts = [each.receipt or "" for each in messages]
    assert rig.ask(Delete(queue="q", receipts=receipts), engine) == [None] * len(receipts)


def take_over(rig: EngineRig) -> None:
    """End the process without a word, and start another one, which does nothing yet."""
    rig.living.clear()
    rig.disk.free_locks()
    rig.engine = rig.join()


# What must be done first.


def test_what_a_dead_process_has_sent_is_received_before_what_is_sent_now(rig: EngineRig) -> None:
    send(rig, b"before")
    take_over(rig)
    send(rig, b"now")
    assert [each.body for each in receive(rig)] == [b"before"]


def test_a_lease_that_is_over_is_received_before_what_was_sent_later(rig: EngineRig) -> None:
    send(rig, b"first")
    rig.ask(Receive(queue="q", visibility_timeout=Millis(10)))
    send(rig, b"second")
    rig.clock.now += 10
    assert [each.body for each in receive(rig)] == [b"first"]


def test_a_delay_that_is_over_is_received_before_what_was_sent_later(rig: EngineRig) -> None:
    rig.ask(Send(queue="q", bodies=[b"first"], delays={0: Millis(10)}))
    send(rig, b"second")
    rig.clock.now += 10
    assert [each.body for each in receive(rig)] == [b"first"]


def test_a_queue_that_expires_is_used_by_what_takes_the_short_way() -> None:
    span = Millis(60_000)
    rig = EngineRig({"q": QueueSettings(expires=span)}, clock=StillClock())
    rig.settle()
    rig.clock.now += span // 5  # Between two looks at it.
    send(rig, b"x")
    (message,) = receive(rig)
    work = rig.engine.apply_alone(Delete(queue="q", receipts=[message.receipt or ""]))
    assert work is not None
    assert work.barrier is not None
    work.barrier.sync()
    assert rig.engine.finish(work) == [[None]]
    rig.clock.now += span // 4 - span // 5
    for _ in range(3):  # It is looked at four times in its span.
        rig.settle()
        rig.clock.now += span // 4
    rig.settle()
    assert "q" in rig.engine.catalog.records
    rig.clock.now += span // 4
    rig.settle()
    assert "q" not in rig.engine.catalog.records


def test_a_send_that_is_not_synced_is_leased_by_nothing(rig: EngineRig) -> None:
    applied(rig.engine, Send(queue="q", bodies=[b"x"]))
    assert receive(rig) == []


def test_a_send_stays_behind_an_earlier_one_of_its_queue_that_needs_more_commits(
    rig: EngineRig,
) -> None:
    many = Send(queue="single", bodies=[b"x"] * FILES)
    (unfinished,) = rig.commit(many)
    (later,) = rig.commit(Send(queue="single", bodies=[b"later"]))
    assert isinstance(unfinished, Unfinished)
    assert isinstance(later, Unfinished)


def test_a_send_of_nothing_stores_nothing(rig: EngineRig) -> None:
    assert send(rig) == []
    assert rig.names("new") == []


def test_a_closed_store_takes_no_request(rig: EngineRig) -> None:
    assert rig.engine.close()
    rig.engine.sharing.is_over = True  # As `Store.close` leaves it.
    with pytest.raises(SyncFailed):
        rig.engine.apply([Send(queue="q", bodies=[b"x"])])
    assert rig.names("new") == []


def test_files_in_new_are_published_at_last_however_many_sends_follow_each_other(
    rig: EngineRig,
) -> None:
    for _ in range(3 * UNPUBLISHED):
        send(rig, b"x")
        assert len(rig.names("new")) <= UNPUBLISHED + 2


def test_deleted_files_are_unlinked_at_last_however_many_deletes_follow_each_other(
    rig: EngineRig,
) -> None:
    for _ in range(3 * UNREAPED):
        send(rig, b"x")
        delete(rig, *receive(rig))
        assert len(rig.names("remove")) <= UNREAPED + 2


def test_waiting_messages_are_packed_at_last_however_many_deletes_follow_each_other(
    rig: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_way, "UNPUBLISHED", 1_000)
    monkeypatch.setattr(short_way, "TO_PACK", 10)
    rig.engine.index.unpacked = 10
    for _ in range(60):
        send(rig, b"x")
        receive(rig)
    assert len(rig.engine.index.batches) <= 25


def test_a_receive_leaves_nothing_to_publish_of_a_message_that_it_leased_as_it_was_sent(
    rig: EngineRig,
) -> None:
    send(rig, b"x")
    receive(rig)
    assert not rig.engine.wants_commit


# Several names, several files.


def test_messages_with_two_names_are_gone_for_good_once_they_are_deleted(rig: EngineRig) -> None:
    leased: list[Message] = []
    for body in (b"1", b"2", b"3"):
        send(rig, body)
        rig.settle()
        (name,) = rig.names("queues/q")
        leased += receive(rig)
        (held,) = (each for each in rig.names("delay") if each.startswith(f"q:{leased[-1].id}"))
        rig.disk.link(f"delay/{held}", f"staged/{name}")
    for name in rig.names("staged"):
        rig.disk.rename(f"staged/{name}", f"queues/q/{name}")  # A power cut has kept both.
    take_over(rig)
    rig.engine.moves.effort.files = 1  # A commit unlinks one of them.
    for each in leased:
        delete(rig, each)
    rig.engine.moves.effort.files = FILES
    rig.settle()
    take_over(rig)
    assert (rig.names("queues/q"), receive(rig)) == ([], [])


def test_a_delete_of_a_part_of_a_file_leaves_the_rest(rig: EngineRig) -> None:
    send(rig, b"a", b"b", b"c")
    first, *rest = receive(rig, 3)
    delete(rig, first)
    delete(rig, *rest)
    rig.settle()
    assert rig.engine.index.queues["q"].total == 0


def test_a_receive_takes_all_files_that_it_has_room_for(rig: EngineRig) -> None:
    send(rig, b"a")
    send(rig, b"b")
    assert [each.body for each in receive(rig, 2)] == [b"a", b"b"]


# What the disk says.


def test_a_file_that_cannot_be_read_is_not_leased(rig: EngineRig) -> None:
    send(rig, b"x")
    rig.settle()
    take_over(rig)  # No body is in memory.
    rig.settle()
    rig.disk.refused = ("read queues/q", "read new/")
    assert receive(rig) == []
    rig.disk.refused = ()
    rig.clock.now += 60_000
    assert [each.receive_count for each in receive(rig)] == [1]


def test_a_send_stops_at_the_watermark_and_goes_on_once_there_is_room() -> None:
    rig = EngineRig(QUEUES, clock=StillClock(), watermark=DiskWatermark(bytes=50 * MIB, files=1_000))
    low, high = (Space(bytes=50 * MIB + more, files=10_000) for more in (-1, MIB))
    for room, stored in ((low, DiskFull), (high, str), (low, DiskFull)):
        rig.disk.room = room
        assert isinstance(send(rig, b"x")[0], stored)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_what_the_disk_refuses_has_not_happened(rig: EngineRig, code: int) -> None:
    send(rig, b"a")
    (message,) = receive(rig)
    send(rig, b"b")
    rig.disk.refused, rig.disk.code = ("create new/", "make "), code
    assert not isinstance(send(rig, b"c")[0], str)
    (delivered,) = rig.commit(Receive(queue="q"))
    assert delivered == [] or isinstance(delivered, StoreError)
    assert rig.ask(Delete(queue="q", receipts=[message.receipt or ""])) != [None]
    rig.disk.refused = ()
    delete(rig, message)
    assert [each.body for each in receive(rig)] == [b"b"]


def test_a_caller_may_change_its_attributes_once_it_has_its_answer(rig: EngineRig) -> None:
    attributes = {"a": "sent"}
    rig.ask(Send(queue="q", bodies=[b"x"], attributes={0: attributes}))
    attributes["a"] = "changed"
    (message,) = receive(rig)
    assert message.attributes == {"a": "sent"}


def test_a_repeated_deduplication_id_stores_nothing(rig: EngineRig) -> None:
    request = Send(queue="q", bodies=[b"x"], deduplication_ids={0: "once"})
    first, again = rig.ask(request), rig.ask(replace(request))
    assert (again.results, again.duplicates) == (first.results, {0})


def test_a_delivery_time_is_kept(rig: EngineRig) -> None:
    rig.ask(Send(queue="q", bodies=[b"x"], deliver_at={0: Millis(rig.clock.now + 10)}))
    assert receive(rig) == []
    rig.clock.now += 10
    assert [each.body for each in receive(rig)] == [b"x"]


# Other processes.


def _send(rig: EngineRig, leased: Message) -> None:
    send(rig, b"more")


def _receive(rig: EngineRig, leased: Message) -> None:
    assert receive(rig)


def _delete(rig: EngineRig, leased: Message) -> None:
    delete(rig, leased)


PLAIN: Final = [_send, _receive, _delete]
Plain = Callable[[EngineRig, Message], None]


@pytest.mark.parametrize("after", PLAIN)
@pytest.mark.parametrize("before", PLAIN)
def test_a_process_that_joins_between_two_requests_sees_what_was_done_before_and_after(
    rig: EngineRig, before: Plain, after: Plain
) -> None:
    for body in (b"a", b"b", b"c", b"d", b"e"):
        send(rig, body)
    leased = [receive(rig)[0], receive(rig)[0]]
    before(rig, leased[0])
    other = rig.join()
    after(rig, leased[1])
    rig.settle()
    there = len(receive(rig, 9, other))
    done = [before, after]
    assert there == 3 + done.count(_send) - done.count(_receive)
    assert receive(rig, 9) == []
    counts = [dict(engine.index.queues["q"].counts) for engine in (rig.engine, other)]
    assert counts[0] == counts[1]
    assert sum(counts[0].values()) == 5 + done.count(_send) - done.count(_delete)


@pytest.mark.parametrize("after", PLAIN)
@pytest.mark.parametrize("before", PLAIN)
def test_what_a_process_sent_and_moved_is_there_for_one_that_joins_after_its_death(
    rig: EngineRig, before: Plain, after: Plain
) -> None:
    for body in (b"a", b"b", b"c", b"d", b"e"):
        send(rig, body)
    leased = [receive(rig)[0], receive(rig)[0]]
    before(rig, leased[0])
    other = rig.join()
    after(rig, leased[1])
    rig.living.discard("p1")
    rig.disk.free_locks()
    rig.settle(other)
    done = [before, after]
    assert len(receive(rig, 9, other)) == 3 + done.count(_send) - done.count(_receive)
    assert other.index.queues["q"].total == 5 + done.count(_send) - done.count(_delete)


def leave(rig: EngineRig, other: Engine) -> None:
    assert other.close()
    rig.living.discard("p2")


def test_what_a_process_did_that_came_and_went_between_two_requests_is_known(rig: EngineRig) -> None:
    send(rig, b"x")
    other = rig.join()
    rig.ask(DeleteQueue(name="q"), other)
    leave(rig, other)
    with pytest.raises(QueueBeingDeleted):
        send(rig, b"y")


def test_a_root_that_could_not_be_listed_is_listed_before_the_next_request(
    rig: EngineRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "RING", 1_600)
    other = rig.join()
    for _ in range(10):
        send(rig, b"x", engine=other)
        delete(rig, *receive(rig, engine=other), engine=other)
    rig.ask(DeleteQueue(name="q"), other)
    leave(rig, other)
    rig.disk.refused = ("scan ",)
    with pytest.raises(NotEntered):
        send(rig, b"y")
    rig.disk.refused = ()
    with pytest.raises(QueueBeingDeleted):
        send(rig, b"y")


def test_settings_that_could_not_be_read_are_read_before_the_next_request(rig: EngineRig) -> None:
    other = rig.join()
    rig.ask(UpdateQueue(name="q", changes={"sending": "paused"}), other)
    leave(rig, other)
    rig.disk.refused = ("read config/",)
    assert receive(rig) == []
    rig.disk.refused = ()
    with pytest.raises(SendingPaused):
        send(rig, b"x")


def test_what_others_did_is_synced_by_a_general_commit(rig: EngineRig) -> None:
    """It takes a sync of the whole file system, for which no caller's thread waits."""
    other = rig.join()
    send(rig, b"x", engine=other)
    receive(rig, engine=other)
    leave(rig, other)
    assert receive(rig) == []
    assert rig.engine.sharing.rests_on_others
    assert rig.engine.apply_alone(Send(queue="q", bodies=[b"y"])) is None
    send(rig, b"y")
    assert rig.engine.apply_alone(Send(queue="q", bodies=[b"z"])) is not None

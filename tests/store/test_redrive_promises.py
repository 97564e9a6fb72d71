"""Dead letters go back: which of them, to where, how fast, and what is told about it."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest
from spoolrack_store.engine.leaser import LOOKS
from spoolrack_store.engine.redriver import AT_ONCE, STAND_BY
from spoolrack_store.files.changes import Poisoned
from spoolrack_store.model.clock import MINUTE, Millis
from spoolrack_store.model.errors import (
    MessageNotFound,
    RedriveNotFound,
    StoreError,
)
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Purge,
    Receive,
    RejectMessages,
    Send,
)
from spoolrack_store.model.redrive_requests import REDRIVE_MEMORY, RedriveState
from spoolrack_store.model.sealed import seal
from spoolrack_store.model.settings import QueueSettings

from tests.support.dead_letter_rig import DYING, LEASE, QUEUES, Rig, is_done
from tests.support.engines import applied
from tests.support.linked_disk import reap

UNKNOWN = "018bcfe5-6800-7000-8000-000000000000"


@pytest.fixture
def rig() -> Rig:
    return Rig()


# Where they go.


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b", b"c"]], ids=["alone", "in a batch"])
@pytest.mark.parametrize("group_order", ["fair", "strict"])
def test_a_message_that_is_back_before_its_first_file_is_gone_is_received(
    group_order: str, bodies: list[bytes]
) -> None:
    settings = QueueSettings(
        max_receives=1, dead_letter_queue="dead", dead_letter_at="receive", group_order=group_order
    )
    rig = Rig(QUEUES | {"q": settings})
    rig.ask(Send(queue="q", bodies=bodies, groups=dict.fromkeys(range(len(bodies)), "g")))
    rig.settle()
    rig.fail_all()
    assert rig.ask(Receive(queue="q", max_messages=9)) == []  # They die, and go back in one commit.
    rig.after(1)
    rig.start()
    rig.settle()
    assert rig.ids("dead") == []
    received: list[bytes] = []
    while found := rig.receive():
        received += [bytes(body) for each in found for body in each.bodies]
        for each in found:
            assert rig.ask(Delete(queue="q", receipts=each.receipts)) == [None] * len(each.receipts)
    assert received == bodies
    assert rig.engine.index.queue("q").total == 0


# Dead-letter records.


def test_a_death_in_a_dead_letter_queue_is_told_too() -> None:
    last = QueueSettings(max_receives=1, dead_letter_queue="last")
    rig = Rig({"q": DYING, "dead": last, "last": QueueSettings()})
    (id,) = rig.bury(b"a")
    rig.fail_all("dead")
    assert [each.source_queue for each in rig.deaths(id)] == ["q", "dead"]
    rig.redrive("last")
    assert rig.ids("dead") == [id]


def test_a_message_that_dies_for_ever_keeps_its_last_deaths(rig: Rig) -> None:
    rig.clock.ticks = False
    (id,) = rig.bury(b"a")
    for _ in range(21):
        rig.after(1)
        rig.redrive()
        rig.fail_all()
    told = rig.deaths(id)
    assert len(told) == 20
    assert told[-1].dead_lettered_at == rig.clock.wall()


# Which of them.


def test_a_process_that_leaves_counts_what_it_has_moved(rig: Rig) -> None:
    rig.bury(b"a", b"b", b"c")
    redrive = rig.start(max_messages_per_second=1)
    other = rig.join("p2")
    rig.after(1_000)
    rig.ask()
    assert len(rig.ids("dead")) == 2
    assert rig.engine.close()
    for _ in range(3):
        rig.after(STAND_BY)
        other.ask(tick=True)
        other.settle()
    assert (other.shown(redrive).moved_count, is_done(other.shown(redrive))) == (3, True)


@pytest.mark.parametrize("back", [0, 900_000], ids=["", "when the clock steps back"])
def test_a_message_dead_lettered_again_is_not_redriven_twice(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, back: int
) -> None:
    ids = rig.bury(b"a", b"b", b"c")
    redrive = rig.start(max_messages_per_second=1)
    wall = rig.clock.wall
    monkeypatch.setattr(rig.clock, "wall", lambda: Millis(wall() - back))
    for _ in range(20):
        rig.after(1_000)
        rig.ask()
        rig.settle()
        rig.fail_all()
    assert rig.ids("dead") == ids
    assert (rig.shown(redrive).moved_count, is_done(rig.shown(redrive))) == (3, True)


def test_a_dead_letter_of_a_clock_that_was_ahead_is_redriven(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = rig.bury(b"a")
    wall = rig.clock.wall
    monkeypatch.setattr(rig.clock, "wall", lambda: Millis(wall() - 900_000))
    assert rig.redrive().moved_count == 1
    assert rig.ids("q") == ids


def test_a_later_dead_letter_is_no_part_of_a_redrive_after_a_restart_either(rig: Rig) -> None:
    ids = rig.bury(b"a", b"b", b"c")
    redrive = rig.start(max_messages_per_second=1)
    later = rig.bury(b"d", queue="other")
    rig = rig.restart()
    assert len(rig.ids("dead")) > 1, "the redrive was done before"
    for _ in range(5):
        rig.after(1_000)
        rig.ask()
        rig.settle()
    assert (rig.shown(redrive).moved_count, is_done(rig.shown(redrive))) == (3, True)
    assert (rig.ids("q"), rig.ids("dead")) == (ids, later)


# Dead letters that can't be moved.


def test_a_message_whose_queue_is_missing_stays_and_the_others_go(rig: Rig) -> None:
    mine, others = rig.bury(b"a"), rig.bury(b"b", queue="other")
    del rig.engine.catalog.records["q"]
    redrive = rig.redrive()
    assert (redrive.moved_count, redrive.failed_count, is_done(redrive)) == (1, 1, True)
    assert redrive.last_failure.startswith("the queue q is missing")
    assert (rig.ids("dead"), rig.ids("other")) == (mine, others)


@pytest.mark.parametrize("content", [None, b"no", seal({"deaths": [{"source_queue": "../q"}]})])
def test_a_message_whose_history_cannot_be_believed_stays_and_the_others_go(
    rig: Rig, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = rig.send(b"a")
    (lease,) = rig.receive()
    rig.ask(RejectMessages(queue="q", receipts=lease.receipts, reason="why"))
    whole = rig.bury(b"b", queue="other")
    (file,) = rig.disk.scan("dead_letters")
    path = f"dead_letters/{file.name}"
    rig.disk.unlink(path)
    if content is not None:
        rig.disk.create(path, [content], sync=True)
    rig = rig.restart()
    redrive = rig.redrive()
    assert (redrive.moved_count, redrive.failed_count, is_done(redrive)) == (1, 1, True)
    assert redrive.last_failure.startswith("its history can't be read")
    assert "died can't be told" in caplog.text
    assert (rig.ids("dead"), rig.ids("other")) == (damaged, whole)
    assert rig.redrive(destination="third").moved_count == 1


def test_a_dead_letter_deleted_or_received_meanwhile_is_not_redriven(rig: Rig) -> None:
    deleted, received, moved = rig.bury(b"a", b"b", b"c")
    redrive = rig.start(max_messages_per_second=10)
    assert rig.ask(Delete(queue="dead", ids=[deleted])) == [None]
    (delivery,) = rig.receive("dead", 1)
    assert delivery.ids == [received]
    rig.after(100)
    rig.ask()
    rig.settle()
    assert (rig.ids("q"), rig.ids("dead")) == ([moved], [])
    assert (rig.shown(redrive).moved_count, rig.shown(redrive).failed_count) == (1, 0)


def test_a_destination_that_goes_while_the_redrive_runs_costs_no_message(rig: Rig) -> None:
    ids = rig.bury(b"a", b"b", b"c")
    redrive = rig.start(destination="third", max_messages_per_second=1)
    rig.after(1_000)
    rig.ask()
    assert rig.ids("third") == ids[:1]
    rig.ask(DeleteQueue(name="third"))
    for _ in range(3):
        rig.after(1_000)
        rig.ask()
        rig.settle()
    done = rig.shown(redrive)
    assert (done.moved_count, done.failed_count, is_done(done)) == (1, 2, True)
    assert rig.ids("dead") == ids[1:]


# Ages. At Amazon a redriven message is a new one, and its retention begins anew.


@pytest.mark.parametrize("has_died", [True, False])
def test_a_message_that_is_older_than_its_queue_keeps_them_goes_back_and_lives_there_as_a_new_one(
    rig: Rig, has_died: bool
) -> None:
    ids = rig.bury(b"a", b"b") if has_died else rig.send(b"a", b"b", queue="dead")
    rig.after(MINUTE)
    rig.set("third", QueueSettings(retention=MINUTE))
    redrive = rig.redrive(destination="third")
    assert (redrive.moved_count, redrive.failed_count) == (2, 0)
    rig.after(MINUTE - 1_000)
    rig.ask(tick=True)
    assert rig.ids("third") == ids
    rig = rig.restart()  # The name tells it.
    rig.set("third", QueueSettings(retention=MINUTE))
    rig.ask(tick=True)
    assert rig.ids("third") == ids
    rig.after(1_000)
    rig.ask(tick=True)
    rig.settle()
    assert rig.ids("third") == []


def test_a_message_that_dies_again_is_as_old_as_its_redrive(rig: Rig) -> None:
    """At Amazon a death keeps a message's time, which is that of its last redrive."""
    ids = rig.bury(b"a")
    rig.after(MINUTE)
    rig.redrive()
    rig.set("dead", QueueSettings(retention=Millis(LEASE + MINUTE)))
    rig.fail_all()
    assert len(rig.deaths(ids[0])) == 2
    rig.after(MINUTE - 1_000)
    rig.ask(tick=True)
    assert rig.ids("dead") == ids
    rig.after(1_000)
    rig.ask(tick=True)
    assert rig.ids("dead") == []


@pytest.mark.parametrize("order", ["strict", "fair"])
@pytest.mark.parametrize("explanation", ["", "no such customer"])
def test_the_age_of_a_dead_letter_begins_with_its_death_if_its_queue_had_a_strict_order(
    rig: Rig, order: str, explanation: str
) -> None:
    rig.set("q", replace(DYING, group_order=order))
    rig.set("dead", QueueSettings(retention=MINUTE))
    ids = rig.send(b"a")
    rig.after(MINUTE)
    (lease,) = rig.receive()
    rig.ask(RejectMessages(queue="q", receipts=lease.receipts, reason=explanation))
    rig.ask(tick=True)
    assert rig.ids("dead") == (ids if order == "strict" else [])
    if order == "strict":
        assert [each.redriven_at for each in rig.deaths(ids[0])] == [None]
        rig.after(MINUTE)
        rig.ask(tick=True)
        assert rig.ids("dead") == []


def test_messages_past_their_retention_leave_from_behind_those_that_came_back(rig: Rig) -> None:
    rig.set("dead", QueueSettings(messages_per_file=1))
    old = rig.send(*[b"old"] * (LOOKS + 50), queue="dead")
    rig.after(MINUTE)
    rig.set("third", QueueSettings(retention=MINUTE))
    later = rig.send(b"later", queue="third")
    rig.redrive(destination="third")
    rig.after(MINUTE // 2)
    rig.redrive("third", destination="dead", message_ids=old)  # They begin anew once more.
    rig.redrive("dead", destination="third", message_ids=old)
    rig.after(MINUTE // 2)
    rig.ask(tick=True)
    assert rig.ids("third") == sorted([*old, *later])  # It has looked at a part of them.
    rig.ask(tick=True)
    assert rig.ids("third") == old


def test_a_message_past_its_retention_is_received_by_no_consumer_though_it_stands_behind_others(
    rig: Rig,
) -> None:
    rig.set("dead", QueueSettings(messages_per_file=1))
    ids = rig.send(*[b"old"] * (LOOKS + 50), queue="dead")
    rig.set("third", QueueSettings(retention=MINUTE, messages_per_file=1))
    late = rig.send(b"late", queue="third")
    rig.after(MINUTE)
    rig.redrive(destination="third")
    received = [id for each in rig.receive("third", most=1_000) for id in each.ids]
    assert received == ids
    assert late[0] not in rig.ids("third")


@pytest.mark.parametrize(
    "limit", [{"max_messages": 1}, {"max_bytes": 1}], ids=lambda limit: next(iter(limit))
)
def test_a_full_queue_is_waited_for_and_never_overfilled(rig: Rig, limit: dict[str, Any]) -> None:
    first, second = rig.bury(b"a", b"b")
    rig.set("q", replace(DYING, **limit))
    redrive = rig.redrive()
    assert (rig.ids("q"), rig.ids("dead")) == ([first], [second])
    assert (redrive.state, redrive.moved_count, redrive.failed_count) == (RedriveState.RUNNING, 1, 0)
    rig.ask(Delete(queue="q", ids=[first]))
    rig.after(1_000)
    rig.settle()
    assert is_done(rig.shown(redrive))
    assert rig.ids("q") == [second]


def test_a_full_queue_stands_in_no_other_ones_way(rig: Rig) -> None:
    rig.bury(b"a", b"b")
    others = rig.bury(b"c", queue="other")
    rig.set("q", replace(DYING, max_messages=1))
    rig.redrive()
    assert rig.ids("other") == others


def test_sends_and_a_redrive_that_meet_overfill_no_queue(rig: Rig) -> None:
    ids = rig.bury(b"a")
    rig.set("q", replace(DYING, max_messages=1))
    rig.start()
    (sent,) = rig.ask(Send(queue="q", bodies=[b"b"])).results
    assert isinstance(sent, StoreError) != (rig.ids("dead") == ids)


def test_a_redrive_that_the_disk_refuses_is_tried_again_and_is_no_failure(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ids = rig.bury(b"a")
    redrive = rig.start()
    with monkeypatch.context() as broken:
        broken.setattr(rig.disk, "rename_new", _refused)
        rig.settle()
    assert (rig.ids("dead"), rig.shown(redrive).failed_count) == (ids, 0)
    assert f"the redrive {redrive.id} has to wait: " in caplog.text
    rig.after(1_000)
    rig.settle()
    assert (rig.ids("q"), is_done(rig.shown(redrive))) == (ids, True)


def test_a_redrive_that_cannot_be_read_stands_in_no_other_ones_way(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.bury(b"a", b"b")
    rig.send(b"c", queue="other")
    redrive = rig.start(max_messages_per_second=1)
    other = rig.start("other", destination="third", max_messages_per_second=1)
    read = rig.disk.read

    def refused(path: str, *rest: Any, **named: Any) -> bytes:
        if path.startswith(f"redrives/{redrive.id}"):
            raise OSError(errno.EIO, "Input/output error")
        return read(path, *rest, **named)

    with monkeypatch.context() as broken:
        broken.setattr(rig.disk, "read", refused)
        rig = rig.restart()
        for _ in range(2):
            rig.after(1_000)
            rig.ask()
            rig.settle()
    assert is_done(rig.shown(other))
    assert len(rig.ids("third")) == 1
    rig = rig.restart("p10")
    for _ in range(4):
        rig.after(1_000)
        rig.ask()
        rig.settle()
    assert (is_done(rig.shown(redrive)), len(rig.ids("q"))) == (True, 2)


def test_a_redrive_whose_record_was_removed_is_over_and_stands_in_no_other_ones_way(rig: Rig) -> None:
    rig.bury(b"a", b"b")
    rig.send(b"c", b"d", queue="other")
    redrive, other = (
        rig.start(max_messages_per_second=1),
        rig.start("other", destination="third", max_messages_per_second=1),
    )
    (record,) = (each.name for each in rig.disk.scan("redrives") if each.name.startswith(redrive.id))
    rig.disk.unlink(f"redrives/{record}")
    for _ in range(4):
        rig.after(1_000)
        rig.settle()
    assert is_done(rig.shown(other))
    with pytest.raises(RedriveNotFound):
        rig.shown(redrive)
    # Another one can be started in its place.
    rig.redrive()
    assert len(rig.ids("q")) == 2


def test_the_folder_of_redrives_is_made_again_when_it_is_gone(rig: Rig) -> None:
    ids = rig.bury(b"a")
    rig.disk.remove_folder("redrives")
    rig = rig.restart()
    rig.redrive()
    assert rig.ids("q") == ids


def _refused(*_: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


# The requests.


def test_an_ended_redrive_is_remembered_for_a_while(rig: Rig) -> None:
    rig.clock.ticks = False
    redrive = rig.redrive()
    rig.after(REDRIVE_MEMORY - 1)
    rig.ask(tick=True)
    assert is_done(rig.shown(redrive))
    rig.after(1)
    rig.ask(tick=True)
    with pytest.raises(RedriveNotFound):
        rig.shown(redrive)
    assert not list(rig.disk.scan("redrives"))


def test_a_purge_ends_a_redrive_and_nothing_that_was_purged_comes_back(rig: Rig) -> None:
    rig.bury(b"a", b"b")
    redrive = rig.start(max_messages_per_second=1)
    assert rig.ask(Purge(queue="dead")) == 2
    rig.after(1_000)
    rig.settle()
    assert is_done(rig.shown(redrive))
    assert rig.ids("q") == []


def test_the_queues_deletion_ends_it_also_if_the_queue_is_made_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    redrive = rig.start(destination="q", max_messages_per_second=1)
    wall = rig.clock.wall
    monkeypatch.setattr(rig.clock, "wall", lambda: Millis(wall() - 900_000))
    rig.ask(DeleteQueue(name="dead"))
    for _ in range(6):
        rig.ask()
        reap(rig.engine)
    rig.ask(CreateQueue(name="dead", settings=QueueSettings()))
    ids = rig.send(b"a", queue="dead")
    rig.after(1_000)
    rig.settle()
    assert (rig.shown(redrive).moved_count, is_done(rig.shown(redrive))) == (0, True)
    assert rig.ids("dead") == ids


def test_a_receipt_from_the_dead_letter_queue_deletes_nothing_that_went_back(rig: Rig) -> None:
    ids = rig.bury(b"a")
    (delivery,) = rig.receive("dead")
    rig.ask(ChangeVisibility(queue="dead", receipts=delivery.receipts, visibility_timeout=Millis(0)))
    rig.redrive()
    (result,) = rig.ask(Delete(queue="dead", receipts=delivery.receipts))
    assert isinstance(result, StoreError)
    (result,) = rig.ask(Delete(queue="dead", ids=ids))
    assert isinstance(result, MessageNotFound)
    assert rig.ids("q") == ids


# How fast.


@pytest.mark.parametrize("rate", [1, 7, 40])
def test_a_rate_is_kept_in_any_second_and_reached_over_many(rig: Rig, rate: int) -> None:
    rig.clock.ticks = False
    rig.set("third", QueueSettings(max_receives=1, dead_letter_queue="dead"))
    for _ in range(20):
        rig.bury(*[b"a"] * 10)
    redrive = rig.start(max_messages_per_second=rate)
    moved = [0]
    for _ in range(400):
        rig.after(10)
        rig.ask()
        moved.append(rig.shown(redrive).moved_count)
    for at in range(len(moved) - 100):
        assert moved[at + 100] - moved[at] <= rate + max(1, rate // 10)
    assert moved[-1] >= min(200, int(3.5 * rate))


def test_a_pause_is_not_made_up_for(rig: Rig) -> None:
    rig.bury(*[b"a"] * 10)
    redrive = rig.start(max_messages_per_second=2)
    rig.after(60_000)
    rig.ask()
    assert rig.shown(redrive).moved_count == 1


def test_one_commit_looks_at_a_bounded_number(rig: Rig) -> None:
    rig.send(*[b"a"] * (AT_ONCE + 50), queue="dead")
    redrive = rig.start(destination="q")
    rig.ask()
    assert len(rig.ids("q")) == AT_ONCE
    rig.settle()
    assert rig.shown(redrive).moved_count == AT_ONCE + 50


# Several processes, and restarts.


def test_a_redrive_goes_on_after_a_restart_with_the_rate_that_it_had(rig: Rig) -> None:
    rig.bury(b"a", b"b", b"c")
    redrive = rig.start(max_messages_per_second=1, message_ids=rig.ids("dead")[1:])
    rig.after(1_000)
    rig.ask()
    rig.settle()
    rig = rig.restart()
    assert rig.shown(redrive).moved_count == 1
    rig.ask()
    assert rig.shown(redrive).moved_count == 1
    rig.after(1_000)
    rig.settle()
    assert (rig.shown(redrive).moved_count, len(rig.ids("dead"))) == (2, 1)


def test_those_that_fail_are_counted_once_though_they_are_found_again(rig: Rig) -> None:
    rig.send(b"a", b"b", queue="dead")
    rig.bury(b"c", b"d")
    redrive = rig.start(max_messages_per_second=1)
    rig.after(1_000)
    rig.ask()
    rig.settle()
    rig = rig.restart()
    for _ in range(3):
        rig.after(1_000)
        rig.settle()
    assert (rig.shown(redrive).moved_count, rig.shown(redrive).failed_count) == (2, 2)


def test_another_process_sees_a_redrive_stands_by_and_goes_on_after_a_death(rig: Rig) -> None:
    other = rig.join("p2")
    rig.bury(b"a", b"b", b"c")
    redrive = rig.start(max_messages_per_second=1)
    rig.after(1_000)
    rig.ask()
    rig.settle()
    other.ask()
    assert other.shown(redrive).moved_count == 1
    rig.living.discard("p1")
    for _ in range(2):
        other.after(STAND_BY + 1_000)
        other.settle()
    assert is_done(other.shown(redrive))
    assert len(other.ids("q")) == 3


def test_the_rate_holds_for_all_processes_together(rig: Rig) -> None:
    others = [rig, rig.join("p2"), rig.join("p3")]
    rig.bury(*[b"a"] * 10)
    rig.start(max_messages_per_second=1)
    before = 0
    for _ in range(8):
        rig.after(1_000)
        for each in others:
            each.ask()
            each.settle()
        assert len(rig.ids("q")) <= before + 1
        before = len(rig.ids("q"))
    assert before >= 6


@pytest.mark.parametrize("content", [b"", b"{}\n00000000\n"])
def test_a_record_that_is_torn_goes_and_a_damaged_one_is_put_aside(rig: Rig, content: bytes) -> None:
    rig.bury(b"a")
    rig.disk.create(f"redrives/{UNKNOWN},m0,f0", [content], sync=True)
    rig.disk.create("redrives/x", [b"x"], sync=True)
    rig = rig.restart()
    assert is_done(rig.redrive())
    assert len(list(rig.disk.scan("quarantine"))) == 1 + bool(content)
    assert not any(each.name.startswith(UNKNOWN) for each in rig.disk.scan("redrives"))


def test_an_odd_file_beside_a_redrive_is_put_aside_by_a_process_that_lists_them(rig: Rig) -> None:
    """One that hears of a redrive knows it by its name, and lists nothing: there may be thousands."""
    rig.bury(b"a")
    other = rig.join("p2")
    redrive = rig.start(max_messages_per_second=1)
    rig.disk.create(f"redrives/{redrive.id},a", [b"x"], sync=True)
    other.ask()
    assert other.shown(redrive).id == redrive.id
    third = rig.join("p3")
    third.ask()
    assert third.shown(redrive).id == redrive.id
    assert f"{redrive.id},a" not in {each.name for each in rig.disk.scan("redrives")}


def test_a_redrive_with_two_names_goes_on_under_the_later(rig: Rig) -> None:
    rig.bury(b"a", b"b")
    redrive = rig.start(max_messages_per_second=1)
    rig.disk.link(f"redrives/{redrive.id},m0,f0", f"redrives/{redrive.id},m1,f0,op1")
    rig = rig.restart()
    assert rig.shown(redrive).moved_count == 1
    assert len(list(rig.disk.scan("redrives"))) == 1


def test_the_last_moves_are_durable_before_a_redrive_says_that_it_is_done(rig: Rig) -> None:
    rig.bury(b"a")
    redrive = rig.start()
    work = applied(rig.engine)
    assert rig.ids("dead") == []
    later = applied(rig.engine)
    assert rig.shown(redrive).state is RedriveState.RUNNING
    for each in (work, later):
        if each.barrier is not None:
            each.barrier.sync()
        rig.engine.finish(each)
    rig.settle()
    assert is_done(rig.shown(redrive))


def test_a_redrive_is_not_done_when_the_moves_of_an_earlier_commit_alone_are_durable(rig: Rig) -> None:
    rig.bury(b"a", b"b")
    redrive = rig.start(max_messages_per_second=10)
    moves = []
    for _ in range(2):
        rig.after(100)
        moves.append(rig.engine.apply([]))
    assert rig.ids("dead") == []
    assert moves[0] is not None
    assert moves[0].barrier is not None
    moves[0].barrier.sync()
    rig.engine.finish(moves[0])
    rig.engine.apply([])
    assert rig.shown(redrive).state is RedriveState.RUNNING


# A dead-letter queue that is missing.


def test_without_a_dead_letter_queue_messages_are_delivered_on_and_it_is_logged_once(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    del rig.engine.catalog.records["dead"]
    ids = rig.bury(b"a")
    for receives in (2, 3):
        (delivery,) = rig.ask(Receive(queue="q", visibility_timeout=Millis(1_000)))
        assert (delivery.ids, delivery.receive_count) == (ids, receives)
        rig.after(1_000)
        rig.ask()
    assert [each.message for each in caplog.records if "is missing: create it" in each.message] == [
        "messages of the queue q were received 1 times, and its dead-letter queue dead is missing: "
        "create it; until then such messages are delivered on"
    ]
    rig.set("dead", QUEUES["dead"])
    rig.receive()
    rig.after(1_000)
    rig.settle()
    assert rig.ids("dead") == ids


def test_a_log_begins_anew_only_when_all_that_a_failed_sync_concerns_have_left(rig: Rig) -> None:
    """A process that hasn't heard of it yet would go on with an index that hears of no change."""
    (id,) = rig.send(b"a")
    unaware = rig.join("p2")
    rig.engine.sharing.poison()
    with pytest.raises(Poisoned):
        rig.join("p3")
    with pytest.raises(Poisoned):
        unaware.ask()
    unaware.engine.sharing.poison()
    assert rig.join("p4").ids("q") == [id]

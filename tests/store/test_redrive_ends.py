"""Dead letters that cannot go back, what is asked about redrives, and how these end."""

from __future__ import annotations

import pytest
from dead_letter_rig import RedriveRig
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    InvalidQueueName,
    InvalidRequest,
    QueueNotFound,
    RedriveNotFound,
    RedriveRunning,
    StaleReceipt,
)
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    Delete,
    DeleteQueue,
    Outgoing,
    Purge,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.redriving import (
    MAX_RATE,
    MAX_SELECTED,
    REDRIVE_MEMORY,
    RedriveState,
    StartRedrive,
)

DAY = 24 * 60 * 60 * 1_000


@pytest.fixture
def rig() -> RedriveRig:
    rig = RedriveRig()
    rig.make_queues()
    return rig


# What stays.


def test_a_message_whose_queue_is_missing_stays_and_the_others_go() -> None:
    rig = RedriveRig()
    rig.make_queues("q", "other")
    mine, others = rig.bury(b"a"), rig.bury(b"b", queue="other")
    rig.ask(DeleteQueue(name="q"))
    redrive = rig.shown(rig.start().id)
    assert (redrive.moved, redrive.failed, redrive.state) == (1, 1, RedriveState.DONE)
    assert redrive.last_failure.startswith("the queue q is missing")
    assert (rig.ids("dead"), rig.ids("other")) == (mine, others)
    rig.create("q")
    rig.start()
    assert rig.ids("q") == mine
    rig.check()


def test_a_destination_that_goes_while_the_redrive_runs_loses_no_message(rig: RedriveRig) -> None:
    rig.create("elsewhere")
    ids = rig.bury(b"a", b"b", b"c")
    redrive = rig.start(destination="elsewhere", rate=1)
    rig.after(1_000)
    assert rig.ids("elsewhere") == ids[:1]
    rig.ask(DeleteQueue(name="elsewhere"))
    rig.after(1_000)
    rig.after(1_000)
    done = rig.shown(redrive.id)
    assert (done.moved, done.failed, done.state) == (1, 2, RedriveState.DONE)
    assert rig.ids("dead") == ids[1:]
    assert rig.histories() == {f"dead:{id}" for id in ids[1:]} | {f"elsewhere:{ids[0]}"}


def test_a_queue_that_is_deleted_in_the_same_commit_gets_none(rig: RedriveRig) -> None:
    rig.create("elsewhere")
    ids = rig.bury(b"a", b"b")
    redrive = rig.start(destination="elsewhere", rate=10)
    rig.clock.advance(Millis(100))
    rig.commit(DeleteQueue(name="elsewhere"))
    assert rig.ids("dead") == ids
    assert rig.shown(redrive.id).failed == 1
    rig.check()


def test_a_message_that_its_queue_would_delete_at_once_stays(rig: RedriveRig) -> None:
    ids = rig.bury(b"a")
    rig.ask(UpdateQueue(name="q", changes={"retention": Millis(DAY)}))
    rig.after(DAY)
    redrive = rig.shown(rig.start().id)
    assert (redrive.moved, redrive.failed) == (0, 1)
    assert redrive.last_failure.startswith("it is older than the retention of q")
    assert rig.ids("dead") == ids


@pytest.mark.parametrize("limit", [{"max_messages": 2}, {"max_bytes": 10}])
def test_a_full_queue_is_waited_for_and_never_overfilled(
    rig: RedriveRig, limit: dict[str, object]
) -> None:
    ids = rig.bury(*(b"12345" for _ in range(5)))
    rig.ask(UpdateQueue(name="q", changes=limit))
    redrive = rig.start()
    assert rig.ids("q") == ids[:2]
    waiting = rig.shown(redrive.id)
    assert (waiting.state, waiting.moved, waiting.failed) == (RedriveState.RUNNING, 2, 0)
    assert waiting.remaining == 3
    assert rig.histories() == {f"q:{id}" for id in ids[:2]} | {f"dead:{id}" for id in ids[2:]}
    for _ in range(3):
        for message in rig.receive(1):
            rig.ask(Delete(queue="q", targets=[ByReceipt(message.receipt or "")]))
        rig.after(1_000)
        assert len(rig.ids("q")) == 2
    assert rig.shown(redrive.id).state is RedriveState.DONE
    assert rig.ids("q") == ids[3:]
    rig.check()


def test_a_full_queue_stands_in_no_other_ones_way() -> None:
    rig = RedriveRig()
    rig.make_queues("q", "other")
    rig.bury(b"a", b"b")
    others = rig.bury(b"c", b"d", queue="other")
    rig.ask(UpdateQueue(name="q", changes={"max_messages": 1}))
    redrive = rig.start()
    assert (rig.ids("other"), len(rig.ids("q"))) == (others, 1)
    assert rig.shown(redrive.id).state is RedriveState.RUNNING


def test_sends_and_a_redrive_that_meet_overfill_no_queue(rig: RedriveRig) -> None:
    rig.bury(b"a", b"b", b"c")
    rig.ask(UpdateQueue(name="q", changes={"max_messages": 3}))
    rig.commit(StartRedrive(queue="dead"), Send(queue="q", messages=[Outgoing(body=b"n")] * 2))
    assert len(rig.ids("q")) == 3
    rig.commit(Send(queue="q", messages=[Outgoing(body=b"n")] * 2))
    assert len(rig.ids("q")) == 3


# What is asked, and answered.


def test_a_redrive_of_an_empty_queue_is_done_at_once(rig: RedriveRig) -> None:
    done = rig.shown(rig.start().id)
    assert (done.state, done.moved) == (RedriveState.DONE, 0)


def test_a_queue_has_one_redrive_at_a_time(rig: RedriveRig) -> None:
    rig.bury(b"a", b"b")
    first = rig.start(rate=1)
    with pytest.raises(RedriveRunning) as refused:
        rig.start()
    assert refused.value.facts == {"queue": "dead", "redrive": first.id}
    rig.cancel(first.id)
    rig.start()
    assert not rig.ids("dead")


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"queue": "nobody"}, QueueNotFound),
        ({"queue": "../dead"}, InvalidQueueName),
        ({"destination": "nobody"}, QueueNotFound),
        ({"destination": "../q"}, InvalidQueueName),
        ({"destination": "dead"}, InvalidRequest),
        ({"source_queue": "../q"}, InvalidQueueName),
        ({"rate": -1}, InvalidRequest),
        ({"rate": MAX_RATE + 1}, InvalidRequest),
        ({"ids": ["../x"]}, InvalidRequest),
        ({"ids": ["0190aaaa-0000-7000-8000-00000000000A"]}, InvalidRequest),
        ({"ids": ["0190aaaa-0000-7000-8000-000000000001"] * (MAX_SELECTED + 1)}, InvalidRequest),
    ],
)
def test_what_makes_no_sense_is_refused_and_begins_nothing(
    rig: RedriveRig, asked: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        rig.start(**asked)  # type: ignore[arg-type]
    assert not rig.names("redrives")


def test_an_unknown_redrive_is_not_found(rig: RedriveRig) -> None:
    unknown = rig.engine._root.ids.make()
    with pytest.raises(RedriveNotFound):
        rig.shown(unknown)
    with pytest.raises(RedriveNotFound):
        rig.cancel(unknown)
    for wrong in ("", "../x", unknown.upper()):
        with pytest.raises(InvalidRequest):
            rig.shown(wrong)


def test_redrives_are_listed_the_oldest_first_by_pages_and_by_queue(rig: RedriveRig) -> None:
    rig.create("other")
    begun = [rig.start(queue).id for queue in ("dead", "other", "dead", "dead")]
    listed = rig.engine.redriving.listed
    assert [each.id for each in listed("", "", 100)] == begun
    assert [each.id for each in listed("", begun[0], 2)] == begun[1:3]
    assert [each.id for each in listed("dead", "", 100)] == [begun[0], *begun[2:]]


def test_an_ended_redrive_is_remembered_for_a_while(rig: RedriveRig) -> None:
    redrive = rig.start()
    rig.after(REDRIVE_MEMORY - 1)
    assert rig.shown(redrive.id)
    rig.after(1)
    with pytest.raises(RedriveNotFound):
        rig.shown(redrive.id)
    assert not rig.names("redrives")


# How it ends before its time.


def test_a_cancelled_redrive_moves_nothing_more(rig: RedriveRig) -> None:
    ids = rig.bury(*(b"%d" % n for n in range(4)))
    redrive = rig.start(rate=1)
    rig.after(1_000)
    cancelled = rig.cancel(redrive.id)
    assert (cancelled.state, cancelled.moved) == (RedriveState.CANCELLED, 1)
    assert cancelled.ended_at == rig.clock.wall()
    rig.after(60_000)
    assert (rig.ids("q"), rig.ids("dead")) == (ids[:1], ids[1:])
    assert rig.shown(redrive.id) == cancelled == rig.cancel(redrive.id)
    rig.check()


def test_a_cancel_comes_before_what_the_same_commit_would_have_moved(rig: RedriveRig) -> None:
    from spoolrack_store.model.redriving import CancelRedrive

    ids = rig.bury(b"a", b"b")
    redrive = rig.start(rate=10)
    rig.clock.advance(Millis(100))
    rig.commit(CancelRedrive(id=redrive.id))
    assert (rig.ids("q"), rig.ids("dead")) == ([], ids)
    assert rig.histories() == {f"dead:{id}" for id in ids}


def test_a_cancel_of_what_is_done_changes_nothing(rig: RedriveRig) -> None:
    redrive = rig.start()
    assert rig.cancel(redrive.id).state is RedriveState.DONE


def test_a_purge_ends_a_redrive_and_nothing_that_was_purged_comes_back(rig: RedriveRig) -> None:
    rig.bury(*(b"%d" % n for n in range(4)))
    redrive = rig.start(rate=10)
    rig.clock.advance(Millis(100))
    assert rig.commit(Purge(queue="dead")) == [4]
    for _ in range(3):
        rig.after(1_000)
    assert rig.shown(redrive.id).state is RedriveState.DONE
    assert not rig.ids("q")
    assert not rig.ids("dead")
    rig.check()


def test_what_is_deleted_while_it_is_about_to_be_moved_stays_deleted(rig: RedriveRig) -> None:
    ids = rig.bury(b"a", b"b")
    rig.start(rate=10)
    rig.clock.advance(Millis(100))
    assert rig.commit(Delete(queue="dead", targets=[ById(ids[0])])) == [[None]]
    rig.after(1_000)
    assert (rig.ids("q"), rig.ids("dead")) == (ids[1:], [])
    rig.check()


def test_what_is_received_while_it_is_about_to_be_moved_stays_received(rig: RedriveRig) -> None:
    from spoolrack_store.model.operations import Receive

    ids = rig.bury(b"a", b"b")
    rig.start(rate=10)
    rig.clock.advance(Millis(100))
    ((message,),) = rig.commit(Receive(queue="dead"))
    assert message.id == ids[0]
    rig.after(1_000)
    assert (rig.ids("q"), rig.ids("dead")) == (ids[1:], ids[:1])
    assert f"dead:{ids[0]}" in rig.histories()
    rig.check()


def test_the_queues_deletion_ends_it_also_if_the_queue_is_made_again(rig: RedriveRig) -> None:
    rig.bury(b"a", b"b", b"c")
    redrive = rig.start(destination="q", rate=1)
    rig.ask(DeleteQueue(name="dead"))
    rig.clock.advance(Millis(1))
    rig.create("dead")
    ids = rig.send(b"new", queue="dead")
    for _ in range(3):
        rig.after(1_000)
    assert rig.shown(redrive.id).state is RedriveState.DONE
    assert rig.ids("dead") == ids
    assert not rig.ids("q")


def test_a_receipt_from_the_dead_letter_queue_deletes_nothing_that_went_back(rig: RedriveRig) -> None:
    (id,) = rig.bury(b"a")
    (message,) = rig.receive(queue="dead", visibility=1_000)
    rig.after(1_000)
    rig.start()
    (outcome,) = rig.ask(Delete(queue="dead", targets=[ByReceipt(message.receipt or "")]))
    assert isinstance(outcome, StaleReceipt)
    assert rig.ids("q") == [id]


def test_the_name_says_what_was_moved_no_more_than_once_a_second(rig: RedriveRig) -> None:
    rig.bury(*(b"%d" % n for n in range(40)))
    rig.start(rate=10)
    names = []
    for _ in range(30):
        rig.after(100)
        names += [name for name in rig.names("redrives") if name not in names]
    assert len(names) <= 4

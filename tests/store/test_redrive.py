"""Dead letters go back: which of them, to where, and what is told about it."""

from __future__ import annotations

import pytest
from dead_letter_rig import LEASE, RedriveRig
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    ById,
    Delete,
    Outgoing,
    Send,
    Sent,
    UpdateQueue,
)
from spoolrack_store.model.redriving import (
    RedriveState,
)

DAY = 24 * 60 * 60 * 1_000


@pytest.fixture
def rig() -> RedriveRig:
    rig = RedriveRig()
    rig.make_queues()
    return rig


# Where they go.


def test_each_dead_letter_goes_back_to_the_queue_that_it_came_from() -> None:
    rig = RedriveRig()
    rig.make_queues("q", "other")
    mine, others = rig.bury(b"a", b"b"), rig.bury(b"c", queue="other")
    redrive = rig.start()
    assert (rig.ids("q"), rig.ids("other"), rig.ids("dead")) == (mine, others, [])
    assert (redrive.state, redrive.moved, redrive.remaining) == (RedriveState.RUNNING, 0, 3)
    done = rig.shown(redrive.id)
    assert (done.state, done.moved, done.failed, done.remaining) == (RedriveState.DONE, 3, 0, 0)
    assert done.ended_at == rig.clock.wall()
    rig.check()


def test_a_message_that_went_back_is_as_if_it_had_never_been_received(rig: RedriveRig) -> None:
    (id,) = rig.bury(b"a")
    rig.receive(queue="dead")
    rig.after(60_000)
    rig.start()
    (sight,) = rig.sights("q")
    assert (sight.entry.id, sight.entry.receives, sight.entry.first_receive) == (id, 0, None)
    (message,) = rig.receive()
    assert (message.body, message.receives) == (b"a", 1)


def test_with_a_destination_all_go_there(rig: RedriveRig) -> None:
    rig.create("elsewhere")
    ids = rig.bury(b"a", b"b")
    redrive = rig.start(destination="elsewhere")
    assert rig.ids("elsewhere") == ids
    assert rig.shown(redrive.id).moved == 2
    assert rig.history("elsewhere", ids[0])[0]["redriven_to"] == "elsewhere"
    rig.check()


def test_what_was_sent_to_the_queue_itself_goes_only_where_a_destination_says(rig: RedriveRig) -> None:
    ids = rig.send(b"a", b"b", queue="dead")
    failed = rig.shown(rig.start().id)
    assert (failed.state, failed.moved, failed.failed) == (RedriveState.DONE, 0, 2)
    assert failed.last_failure.startswith("it has no history")
    assert rig.ids("dead") == ids
    moved = rig.shown(rig.start(destination="q").id)
    assert (moved.moved, moved.failed, moved.last_failure) == (2, 0, "")
    assert rig.ids("q") == ids
    rig.check()


def test_a_batch_folder_that_is_emptied_is_removed(rig: RedriveRig) -> None:
    rig.send(b"a", b"b", b"c", queue="dead")
    assert len(rig.names("queues/dead")) == 1
    rig.start(destination="q")
    assert not rig.names("queues/dead")
    assert len(rig.names("queues/q")) == 3


# What goes with them.


def test_the_history_goes_with_the_message_and_says_what_happened(rig: RedriveRig) -> None:
    (id,) = rig.bury(b"a")
    buried_at = rig.clock.wall()
    rig.clock.advance(Millis(10))
    redrive = rig.start()
    assert rig.histories() == {f"q:{id}"}
    (chapter,) = rig.history("q", id)
    assert chapter["source_queue"] == "q"
    assert chapter["buried_at_ms"] == buried_at
    assert (chapter["redriven_by"], chapter["redriven_to"]) == (redrive.id, "q")
    assert chapter["redriven_at_ms"] == buried_at + 10


def test_a_second_death_adds_a_chapter(rig: RedriveRig) -> None:
    (id,) = rig.bury(b"a")
    redrive = rig.start()
    rig.clock.advance(Millis(10))
    rig.fail_all()
    assert rig.ids("dead") == [id]
    assert rig.histories() == {f"dead:{id}"}
    first, second = rig.history("dead", id)
    assert first["redriven_by"] == redrive.id
    assert "redriven_by" not in second
    assert second["buried_at_ms"] == rig.clock.wall()


def test_the_history_goes_when_the_message_is_deleted_where_it_came_to(rig: RedriveRig) -> None:
    (id,) = rig.bury(b"a")
    rig.start()
    assert rig.ask(Delete(queue="q", targets=[ById(id)])) == [None]
    rig.engine.reaper.reap(10)
    assert not rig.histories()


def test_a_death_in_a_dead_letter_queue_adds_a_chapter_too() -> None:
    rig = RedriveRig()
    rig.create("grave")
    rig.create("dead", max_receives=1, dead_letter_queue="grave", visibility_timeout=LEASE)
    rig.create("q", max_receives=1, dead_letter_queue="dead", visibility_timeout=LEASE)
    (id,) = rig.bury(b"a")
    rig.fail_all("dead")
    assert rig.histories() == {f"grave:{id}"}
    assert [chapter["source_queue"] for chapter in rig.history("grave", id)] == ["q", "dead"]
    rig.start("grave")
    assert rig.ids("dead") == [id], "it goes back one step"


def test_a_damaged_history_keeps_its_message_where_it_is_and_goes_along_to_a_destination(
    rig: RedriveRig,
) -> None:
    (id,) = rig.bury(b"a")
    rig.disk.unlink(f"history/dead:{id}")
    rig.disk.create(f"history/dead:{id}", [b"[{"], sync=True)
    failed = rig.shown(rig.start().id)
    assert (failed.moved, failed.failed) == (0, 1)
    assert failed.last_failure.startswith("its history can't be read")
    rig.start(destination="q")
    assert rig.ids("q") == [id]
    assert rig.histories() == {f"q:{id}"}
    assert rig.disk.read(f"history/q:{id}") == b"[{"


@pytest.mark.parametrize("source", ["../q", "", 7, None, "dead"])
def test_a_history_that_says_what_cannot_be_keeps_its_message_where_it_is(
    rig: RedriveRig, source: object
) -> None:
    (id,) = rig.bury(b"a")
    rig.engine._histories.write("dead", id, [{"source_queue": source, "buried_at_ms": 1}])
    redrive = rig.shown(rig.start().id)
    assert (redrive.state, redrive.failed) == (RedriveState.DONE, 1)
    assert rig.ids("dead") == [id]
    rig.check()


def test_a_deduplication_id_stays_taken_wherever_its_message_goes(rig: RedriveRig) -> None:
    rig.create("elsewhere")
    rig.ask(UpdateQueue(name="q", changes={"deduplication_window": Millis(DAY)}))

    def send() -> Sent:
        (sent,) = rig.ask(Send(queue="q", messages=[Outgoing(body=b"a", deduplication_id="once")]))
        assert isinstance(sent, Sent)
        return sent

    first = send()
    rig.fail_all()
    rig.start(destination="elsewhere")
    assert rig.ids("elsewhere") == [first.id]
    rig.restart()
    again = send()
    assert (again.id, again.is_duplicate) == (first.id, True)


# Which of them go.


def test_only_the_ids_that_are_named_go_each_once(rig: RedriveRig) -> None:
    ids = rig.bury(b"a", b"b", b"c", b"d")
    missing = rig.engine._root.ids.make()
    redrive = rig.start(ids=[ids[3], ids[1], missing, ids[1]])
    assert (rig.ids("q"), rig.ids("dead")) == ([ids[1], ids[3]], [ids[0], ids[2]])
    done = rig.shown(redrive.id)
    assert (done.moved, done.failed, done.state) == (2, 0, RedriveState.DONE)


def test_only_what_came_from_the_source_queue_goes(rig: RedriveRig) -> None:
    rig = RedriveRig()
    rig.make_queues("q", "other")
    mine, others = rig.bury(b"a", b"b"), rig.bury(b"c", b"d", queue="other")
    sent = rig.send(b"e", queue="dead")
    redrive = rig.start(source_queue="other", destination="q")
    assert (rig.ids("q"), rig.ids("dead")) == (others, [*mine, *sent])
    assert rig.shown(redrive.id).failed == 0


def test_what_is_leased_or_delayed_is_passed_over_and_is_no_failure(rig: RedriveRig) -> None:
    ids = rig.bury(b"a", b"b")
    rig.send(b"c", queue="dead", delay=5_000)
    (leased,) = rig.receive(queue="dead")
    done = rig.shown(rig.start().id)
    assert (done.state, done.moved, done.failed) == (RedriveState.DONE, 1, 0)
    assert rig.ids("q") == [ids[1]]
    assert leased.id in rig.ids("dead")


def test_what_dies_again_during_a_redrive_is_not_driven_round_in_circles(rig: RedriveRig) -> None:
    ids = rig.bury(*(b"%d" % n for n in range(5)))
    redrive = rig.start(rate=1)
    for _ in range(10):
        rig.after(1_000)
        rig.receive(100)
        rig.after(1_000)
    done = rig.shown(redrive.id)
    assert (done.state, done.moved) == (RedriveState.DONE, 5)
    assert rig.ids("dead") == ids
    assert all(len(rig.history("dead", id)) == 2 for id in ids)


def test_not_even_when_the_clock_steps_back(rig: RedriveRig) -> None:
    ids = rig.bury(*(b"%d" % n for n in range(3)))
    redrive = rig.start(rate=1)
    rig.after(1_000)
    rig.clock.step_wall(-DAY)
    for _ in range(8):
        rig.receive(100)
        rig.after(1_000)
        rig.after(1_000)
    assert rig.shown(redrive.id).moved == 3
    assert rig.ids("dead") == ids


def test_what_died_by_a_clock_that_was_ahead_goes_all_the_same(rig: RedriveRig) -> None:
    rig.clock.step_wall(DAY)
    ids = rig.bury(b"a")
    rig.clock.step_wall(-DAY)
    rig.start()
    assert rig.ids("q") == ids


def test_what_dies_for_the_first_time_after_the_start_is_none_of_it(rig: RedriveRig) -> None:
    ids = rig.bury(b"a", b"b")
    redrive = rig.start(rate=1)
    rig.clock.advance(Millis(1))
    later = rig.send(b"c")
    rig.receive(visibility=500)
    rig.after(500)
    assert rig.ids("dead") == [*ids, *later]
    for _ in range(4):
        rig.after(1_000)
    done = rig.shown(redrive.id)
    assert (done.state, done.moved, done.failed) == (RedriveState.DONE, 2, 0)
    assert (rig.ids("q"), rig.ids("dead")) == (ids, later)

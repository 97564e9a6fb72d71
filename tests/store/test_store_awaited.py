"""What somebody waits for is leased by the commit that sends it: in order, at once and for good."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
from awaited_rig import awaited_rig, delete, disk_of, sending
from engine_rig import EngineRig
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.operations import (
    ById,
    Delete,
    Message,
    Outgoing,
    Purge,
    Receive,
    Send,
    Sent,
)
from spoolrack_store.model.reservations import Reservation, Reserve
from store_rig import GIVE_UP, StoreRig, opened


@pytest.fixture
def rig() -> EngineRig:
    return awaited_rig()


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


# Who gets what.


@pytest.mark.parametrize("count", [1, 3, 20])
def test_what_is_sent_is_leased_by_the_same_commit_if_somebody_waits(
    rig: EngineRig, count: int
) -> None:
    sent = [b"%d" % number for number in range(count)]
    results, messages = rig.commit(sending(*sent), Receive(queue="q", max_messages=count))

    assert bodies(messages) == sent
    assert [message.id for message in messages] == [result.id for result in results]
    assert {(message.receives, message.first_receive) for message in messages} == {
        (1, rig.clock.wall())
    }
    assert {message.due for message in messages} == {rig.clock.wall() + 30_000}
    assert set(rig.states().values()) == {"leased"}
    rig.check()
    delete(rig, *messages)
    assert not rig.sights()


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_is_read_and_no_queue_is_touched(rig: EngineRig, count: int) -> None:
    disk_of(rig).forget()
    rig.commit(sending(*[b"x"] * count), Receive(queue="q", max_messages=9))

    assert not disk_of(rig).called("read", "scan")
    renames = [call.paths for call in disk_of(rig).called("rename")]
    assert [(source[:4], target[:6]) for source, target in renames] == [
        ("new/", "new/q:"),
        ("new/", "delay/"),
    ]


def test_what_is_ready_comes_first_and_what_is_just_sent_fills_the_rest(rig: EngineRig) -> None:
    rig.send(b"old")

    _, messages = rig.commit(sending(b"new"), Receive(queue="q", max_messages=2))

    assert bodies(messages) == [b"old", b"new"]
    rig.send(b"1", b"2")
    _, first, second = rig.commit(sending(b"3"), Receive(queue="q"), Receive(queue="q"))
    assert bodies(first) + bodies(second) == [b"1", b"2"]
    assert bodies(rig.receive(9)) == [b"3"]


def test_what_is_just_sent_does_not_overtake_what_is_too_large_for_now(rig: EngineRig) -> None:
    rig.send(b"123")
    rig.send(b"4567")

    _, messages = rig.commit(sending(b"8"), Receive(queue="q", max_messages=9, max_bytes=5))

    assert bodies(messages) == [b"123"]
    assert bodies(rig.receive(9)) == [b"4567", b"8"]


def test_several_receives_are_served_in_turn_in_the_order_of_the_sends(rig: EngineRig) -> None:
    eight = [b"%d" % number for number in range(8)]
    outcomes = rig.commit(
        sending(*eight),
        sending(b"a"),
        Receive(queue="q", max_messages=8),
        sending(b"b"),
        Receive(queue="q", max_messages=9),
        Receive(queue="q", max_messages=9),
    )

    # Calls that are small share a folder.
    assert [bodies(outcomes[at]) for at in (2, 4, 5)] == [eight, [b"a", b"b"], []]
    rig.check()


def test_what_does_not_fit_is_not_split_and_nobody_overtakes_who_is_first(rig: EngineRig) -> None:
    eight = [b"%d" % number for number in range(8)]
    _, first, second = rig.commit(
        sending(*eight), Receive(queue="q", max_messages=7), Receive(queue="q", max_messages=100)
    )

    assert (first, second) == ([], [])
    assert bodies(rig.receive(7)) == eight[:7]


def test_bytes_bound_what_is_taken_but_for_a_single_first_one(rig: EngineRig) -> None:
    receive = Receive(queue="q", max_messages=9, max_bytes=5)
    _, one = rig.commit(sending(b"x" * 10), receive)
    assert bodies(one) == [b"x" * 10]
    _, none = rig.commit(sending(b"abc", b"def"), receive)
    assert none == []
    delete(rig, *rig.receive(9))
    _, two = rig.commit(sending(b"ab", b"def"), receive)
    assert bodies(two) == [b"ab", b"def"]
    rig.send(b"123")
    _, three = rig.commit(sending(b"456"), receive)
    assert bodies(three) == [b"123"]


def test_a_credit_is_not_spent_twice_by_one_commit(rig: EngineRig) -> None:
    credits = Credits(8, lambda: None)
    receive = Receive(queue="q", max_messages=100, credits=credits)
    *_, first, second = rig.commit(sending(*[b"x"] * 8), sending(*[b"y"] * 8), receive, receive)

    assert (len(first), len(second)) == (8, 0)
    assert credits.in_flight == 8
    delete(rig, *first)
    assert credits.in_flight == 0


def test_what_has_a_delay_nobody_gets_before_it_is_over(rig: EngineRig) -> None:
    _, messages = rig.commit(sending(b"late", delay=5_000), Receive(queue="q", max_messages=9))

    assert messages == []
    assert set(rig.states().values()) == {"delayed"}


def test_a_set_that_was_asked_for_first_gets_the_message_and_not_a_receive(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        reserved = rig.store.submit(Reserve(queue="q", stream="s", seq=0, wait=None))
        waiting = rig.wait_for()
        rig.send(b"x")
        assert isinstance(reserved.result(GIVE_UP), Reservation)
        rig.in_turn()
        assert not waiting.done()
        (id,) = rig.send(b"y")
        assert waiting.result(GIVE_UP)[0].id == id


def test_the_receive_counts_so_that_a_message_becomes_a_dead_letter_in_time(rig: EngineRig) -> None:
    rig.create("dead")
    rig.create("once", max_receives=1, dead_letter_queue="dead")
    _, messages = rig.commit(sending(b"x", queue="once"), Receive(queue="once"))
    assert len(messages) == 1

    rig.clock.advance(30_000)
    rig.tick()

    assert rig.bodies("dead") == [b"x"]
    rig.check()


@pytest.mark.parametrize("is_purge", [True, False])
def test_a_purge_or_a_delete_by_id_right_afterwards_finds_it(rig: EngineRig, is_purge: bool) -> None:
    _, messages = rig.commit(sending(b"x"), Receive(queue="q"))

    if is_purge:
        assert rig.ask(Purge(queue="q")) == 1
    else:
        assert rig.ask(Delete(queue="q", targets=[ById(messages[0].id)])) == [None]
    assert not rig.sights()
    rig.check()


def test_a_deduplication_id_is_taken_by_what_is_leased_at_once_also_after_a_restart(
    rig: EngineRig,
) -> None:
    send = Send(queue="q", messages=[Outgoing(body=b"x", deduplication_id="a")])
    results, messages = rig.commit(send, Receive(queue="q"))
    assert len(messages) == 1

    for _ in range(2):
        (again,) = rig.ask(send)
        assert isinstance(again, Sent)
        assert (again.is_duplicate, again.id) == (True, results[0].id)
        rig.restart()


# With threads, on a real disk.


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreRig]:
    with opened(tmp_path / "root") as rig:
        rig.create()
        yield rig


SYNCS = ("sync_new", "sync_file", "sync_folder", "sync_all")


def test_a_receive_that_waits_is_answered_after_the_syncs_of_the_send_and_no_more(
    store: StoreRig,
) -> None:
    store.send(b"before", queue="q")
    store.delete(*store.receive())
    store.in_turn()
    waiting = store.wait_for()
    store.disk.forget()
    (id,) = store.send(b"x")

    (message,) = waiting.result(GIVE_UP)

    assert (message.id, message.body) == (id, b"x")
    calls = store.disk.called(*SYNCS)
    assert [(call.name, call.paths[0][:5]) for call in calls] == [
        ("sync_file" if store.disk.can_sync_all else "sync_new", "new/q"),
        ("sync_folder", "new"),
    ]


def test_receives_that_wait_get_what_is_sent_in_the_order_in_which_they_came(store: StoreRig) -> None:
    waiting = [store.wait_for() for _ in range(3)]
    ids = [store.send(b"%d" % number)[0] for number in range(3)]

    assert [future.result(GIVE_UP)[0].id for future in waiting] == ids


def test_who_has_cancelled_leaves_what_is_sent_to_the_next_one(store: StoreRig) -> None:
    gone, waiting = store.wait_for(), store.wait_for()
    assert gone.cancel()

    (id,) = store.send(b"x")

    assert waiting.result(GIVE_UP)[0].id == id


def test_a_receive_whose_lease_cannot_be_made_good_goes_on_waiting(store: StoreRig) -> None:
    waiting = store.wait_for()
    store.disk.fail(errno.EIO, "rename", path="delay/")
    (id,) = store.send(b"x")
    store.in_turn()
    assert not waiting.done()

    store.disk.heal()
    store.clock.advance(2_000)
    (message,) = waiting.result(GIVE_UP)

    assert (message.id, message.receives) == (id, 1)

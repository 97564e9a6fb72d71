"""The store that threads share: who waits is woken in turn, who leaves is let go, an end is an end."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.errors import (
    Draining,
    MessageDamaged,
    MessageNotFound,
    QueueNotFound,
    StoreError,
)
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Outgoing,
    Purge,
    Receive,
    Send,
    VisibilityChange,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store
from store_rig import GIVE_UP, StoreRig, opened


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StoreRig]:
    with opened(tmp_path / "root") as rig:
        rig.create(visibility_timeout=30_000)
        yield rig


# Receives that wait.


def test_a_send_wakes_a_receive_that_waits(rig: StoreRig) -> None:
    waiting = rig.wait_for()
    assert not waiting.done()
    (id,) = rig.send(b"a")
    assert [message.id for message in waiting.result(GIVE_UP)] == [id]


def test_receives_that_wait_are_served_first_come_first_served(rig: StoreRig) -> None:
    waiting = [rig.wait_for() for _ in range(5)]
    ids = rig.send(*[b"x"] * 3)
    assert [future.result(GIVE_UP)[0].id for future in waiting[:3]] == ids
    rig.in_turn()
    assert [future.done() for future in waiting[3:]] == [False, False]
    ids = [*rig.send(b"y"), *rig.send(b"z")]
    assert [future.result(GIVE_UP)[0].id for future in waiting[3:]] == ids


def test_a_lease_that_ends_wakes_a_receive_that_waits(rig: StoreRig) -> None:
    rig.send(b"a")
    (first,) = rig.receive()
    waiting = rig.wait_for()
    rig.clock.advance(29_999)
    rig.in_turn()
    assert not waiting.done()
    rig.clock.advance(1)
    (again,) = waiting.result(GIVE_UP)
    assert (again.id, again.receives) == (first.id, 2)


def test_the_end_of_a_delay_wakes_a_receive_that_waits(rig: StoreRig) -> None:
    (id,) = rig.send(b"a", delay=5_000)
    waiting = rig.wait_for()
    rig.clock.advance(5_000)
    assert waiting.result(GIVE_UP)[0].id == id


def test_a_release_wakes_a_receive_that_waits(rig: StoreRig) -> None:
    rig.send(b"a")
    (message,) = rig.receive()
    waiting = rig.wait_for()
    change = VisibilityChange(message.receipt or "", Millis(0))
    rig.ask(ChangeVisibility(queue="q", changes=[change]))
    assert waiting.result(GIVE_UP)[0].id == message.id


def test_who_comes_later_does_not_overtake_who_waits(rig: StoreRig) -> None:
    (id,) = rig.send(b"a")
    (message,) = rig.receive()
    waiting = rig.wait_for()
    reached, go_on = rig.disk.hold("create", "config/hold")
    blocked = rig.store.submit(CreateQueue(name="hold", settings=QueueSettings()))
    assert reached.wait(GIVE_UP)
    # These two are in one commit: the release makes ready what the late receive would take.
    change = VisibilityChange(message.receipt or "", Millis(0))
    released = rig.store.submit(ChangeVisibility(queue="q", changes=[change]))
    late = rig.store.submit(Receive(queue="q"))
    go_on.set()
    blocked.result(GIVE_UP)
    released.result(GIVE_UP)
    assert late.result(GIVE_UP) == []
    assert waiting.result(GIVE_UP)[0].id == id


def test_a_receive_waits_no_longer_than_it_said(rig: StoreRig) -> None:
    long, short = rig.wait_for(wait=9_000), rig.wait_for(wait=2_000)
    rig.clock.advance(1_999)
    rig.in_turn()
    assert not short.done()
    rig.clock.advance(1)
    assert short.result(GIVE_UP) == []
    assert not long.done()
    rig.clock.advance(7_000)
    assert long.result(GIVE_UP) == []


def test_a_receive_that_was_cancelled_takes_nothing(rig: StoreRig) -> None:
    first, second = rig.wait_for(), rig.wait_for()
    assert first.cancel()
    (id,) = rig.send(b"a")
    assert second.result(GIVE_UP)[0].id == id
    with pytest.raises(CancelledError):
        first.result(0)


def test_what_was_leased_for_a_receive_that_is_cancelled_meanwhile_comes_back_uncounted(
    rig: StoreRig,
) -> None:
    waiting = rig.wait_for()
    reached, go_on = rig.disk.hold("rename", "delay/")
    sending = rig.store.submit(Send(queue="q", messages=[Outgoing(body=b"a")]))
    assert reached.wait(GIVE_UP)
    assert waiting.cancel()
    go_on.set()
    sending.result(GIVE_UP)
    rig.in_turn()
    (message,) = rig.receive()
    assert message.receives == 1


def test_a_receive_without_credit_waits_until_some_comes_back(rig: StoreRig) -> None:
    credits = Credits(2, lambda: None)
    ids = rig.send(*[b"x"] * 3)
    first = rig.wait_for(10, credits=credits).result(GIVE_UP)
    assert [message.id for message in first] == ids[:2]
    waiting = rig.wait_for(10, credits=credits)
    assert not waiting.done()
    rig.ask(Delete(queue="q", targets=[ById(ids[0])]))
    assert [message.id for message in waiting.result(GIVE_UP)] == ids[2:]
    assert credits.in_flight == 2


@pytest.mark.parametrize("how", ["purge", "expiry", "release"])
def test_whatever_ends_a_lease_gives_its_credit_back(rig: StoreRig, how: str) -> None:
    returns: list[None] = []
    credits = Credits(3, lambda: returns.append(None))
    rig.send(b"a", b"b", b"c")
    messages = rig.wait_for(10, credits=credits).result(GIVE_UP)
    assert credits.free == 0
    if how == "purge":
        rig.ask(Purge(queue="q"))
    elif how == "expiry":
        rig.clock.advance(30_000)
    else:
        changes = [VisibilityChange(message.receipt or "", Millis(0)) for message in messages]
        rig.ask(ChangeVisibility(queue="q", changes=changes))
    rig.in_turn()
    assert credits.free == 3
    assert returns


def test_who_waits_on_a_queue_that_is_deleted_is_told(rig: StoreRig) -> None:
    waiting = rig.wait_for()
    rig.ask(DeleteQueue(name="q"))
    with pytest.raises(QueueNotFound):
        waiting.result(GIVE_UP)


def test_an_old_message_goes_without_anybody_asking(rig: StoreRig) -> None:
    rig.create("short", retention=10_000)
    rig.send(b"a", queue="short")
    rig.clock.advance(10_000)
    rig.clock.advance(2_000)
    for _ in range(1_000):
        if rig.store.queue("short").counts.ready == 0:
            break
        rig.in_turn()
    assert rig.store.queue("short").counts.ready == 0


# The end.


def test_a_draining_store_leases_nothing_and_finishes_the_rest(rig: StoreRig) -> None:
    rig.send(b"a", b"b")
    (message,) = rig.receive()
    waiting = rig.wait_for(queue="in-turn")
    rig.store.drain()
    with pytest.raises(Draining):
        waiting.result(GIVE_UP)
    with pytest.raises(Draining):
        rig.receive()
    rig.delete(message)
    rig.send(b"c")


def test_what_was_submitted_before_the_end_is_answered(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        futures = [
            rig.store.submit(Send(queue="q", messages=[Outgoing(body=b"x")])) for _ in range(200)
        ]
        waiting = rig.store.submit(Receive(queue="in-turn", wait=None))
        rig.store.close()
        assert all(future.result(0) for future in futures)
        with pytest.raises(StoreError):
            waiting.result(0)
        with pytest.raises(Draining):
            rig.send(b"late")
        rig.store.close()
    with opened(tmp_path / "root") as rig:
        assert rig.store.queue("q").counts.ready == 200


def test_several_stores_share_a_root_and_hear_of_each_other(tmp_path: Path) -> None:
    with Store.open(tmp_path) as one, Store.open(tmp_path) as other:
        one.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        waiting = other.submit(Receive(queue="q", wait=None))
        one.submit(Send(queue="q", messages=[Outgoing(body=b"x")])).result()
        (message,) = waiting.result(GIVE_UP)
        assert message.body == b"x"
        deleted = one.submit(Delete(queue="q", targets=[ByReceipt(str(message.receipt))]))
        assert deleted.result() == [None]


# Questions.


def test_a_message_is_seen_in_every_state_without_being_leased(rig: StoreRig) -> None:
    ready, leased = rig.send(b"a"), rig.send(b"b")
    delayed = rig.send(b"c", b"d", delay=9_000)
    rig.receive()
    ready, leased = leased, ready
    states = {message.id: message.state for message in rig.store.messages("q")}
    assert states == {
        leased[0]: State.LEASED,
        ready[0]: State.READY,
        delayed[0]: State.DELAYED,
        delayed[1]: State.DELAYED,
    }
    for id, state in states.items():
        message = rig.store.message("q", id)
        assert (message.state, message.receipt) == (state, None)
    only = rig.store.messages("q", states=frozenset({State.DELAYED}), max_body_bytes=0)
    assert [(message.id, message.body, message.size) for message in only] == [
        (delayed[0], b"", 1),
        (delayed[1], b"", 1),
    ]


def test_pages_of_messages_miss_none_and_repeat_none(rig: StoreRig) -> None:
    ids: list[str] = []
    for _ in range(5):
        ids += rig.send(b"x")
        ids += rig.send(*[b"y"] * 4)
    rig.receive(7)
    seen: list[str] = []
    for _ in range(len(ids) + 1):
        page = rig.store.messages("q", after=seen[-1] if seen else "", limit=3)
        if not page:
            break
        seen += [message.id for message in page]
    assert seen == ids


def test_what_is_not_there_or_damaged_is_said_so(rig: StoreRig) -> None:
    (id,) = rig.send(b"abc")
    (path,) = (rig.path / "queues/q").iterdir()
    path.write_bytes(b"abd")
    with pytest.raises(MessageDamaged, match=id):
        rig.store.message("q", id)
    assert rig.store.messages("q") == []
    with pytest.raises(MessageNotFound):
        rig.store.message("q", "00000000-0000-7000-8000-000000000000")
    with pytest.raises(QueueNotFound):
        rig.store.queue("none")


def test_queues_are_listed_in_order_and_by_pages(rig: StoreRig) -> None:
    for name in ("b", "a.1", "a.2", "c"):
        rig.create(name)
    names = [queue.name for queue in rig.store.queues(limit=3)]
    assert names == ["a.1", "a.2", "b"]
    assert [queue.name for queue in rig.store.queues(after="b")] == ["c", "q"]
    assert [queue.name for queue in rig.store.queues(prefix="a.")] == ["a.1", "a.2"]

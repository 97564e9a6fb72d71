"""Promises of requests for single messages: repeated and stale receipts, bounds, missing queues."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from spoolrack_store.model.clock import DAY, Millis
from spoolrack_store.model.errors import (
    AttributesTooLarge,
    DiskError,
    InvalidMessage,
    MessageTooLarge,
    QueueBeingDeleted,
    QueueNotFound,
    StaleReceipt,
)
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Purge,
    Receive,
    Send,
    UpdateQueue,
)
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import COUNTED, State

from tests.store.trouble_rig import Rig

LEASE = 30_000
NO_ID = "018bcfe5-6800-7000-8000-000000000000"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def states(rig: Rig, *ids: str) -> list[str | None]:
    """Return the state of each message; None if it is gone."""
    found = [rig.engine.index.holder(id) for id in ids]
    return [None if each is None else each[0].name.state.value for each in found]


def change(rig: Rig, visibility: int, *receipts: str) -> list[Any]:
    request = ChangeVisibility(queue="q", receipts=receipts, visibility_timeout=Millis(visibility))
    return list(rig.ask(request))


def received(rig: Rig, most: int = 10) -> tuple[list[str], list[str]]:
    """Return the ids and the receipts of what is received."""
    found = rig.receive(most)
    return list(found), [receipt for receipt, _ in found.values()]


# One receipt, named twice.


@pytest.mark.parametrize("visibility", [0, 50_000])
def test_a_change_that_the_disk_refuses_for_one_file_answers_for_each_message(
    rig: Rig, visibility: int
) -> None:
    rig.clock.ticks = False
    rig.send(b"a", b"b")
    rig.send(b"c")
    ids, receipts = received(rig)
    (refused,) = [path for path in rig.paths("delay") if ids[2] in path]
    rig.disk.fail(errno.EIO, "rename_new", "link", path=refused, times=1)
    first, second, third = change(rig, visibility, *receipts)
    end = rig.clock.wall() + visibility if visibility else 0
    assert (first, second) == (end, end)
    assert isinstance(third, DiskError)
    state = "leased" if visibility else "ready"
    assert states(rig, *ids) == [state, state, "leased"]
    assert change(rig, visibility, receipts[2]) == [end]
    rig.check()


def test_a_batch_never_overtakes_what_lies_between_its_messages(rig: Rig) -> None:
    rig.send(b"a" * 10, b"b" * 500, b"c" * 10)
    ids, receipts = received(rig)
    assert change(rig, 0, receipts[1]) == [0]
    rig.advance(LEASE)
    found = rig.ask(Receive(queue="q", max_messages=10, max_bytes=100))
    assert [id for each in found for id in each.ids] == ids[:1]
    assert states(rig, *ids) == ["leased", "ready", "ready"]
    rig.check()


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]])
def test_a_receipt_given_back_twice_gives_back_one_lease(rig: Rig, bodies: list[bytes]) -> None:
    rig.send(*bodies)
    ids, receipts = received(rig)
    rig.ask(GiveBack(queue="q", receipts=[receipts[0], receipts[0]]))
    assert states(rig, *ids) == ["ready", "leased"][: len(ids)]
    found = rig.engine.index.holder(ids[0])
    assert found is not None
    assert found[0].name.receives == 0
    rig.check()


# Receipts and ids of what is over.


def test_a_receipt_with_another_id_deletes_no_message(rig: Rig) -> None:
    """Of another message it is stale; of none it is as good as repeated: docs' decision 26."""
    rig.send(b"a", b"b")
    rig.send(b"c")
    (first, second, third), receipts = received(rig)
    tag = receipts[0].partition("~")[2]
    stale = [f"q:{id}~{tag}" for id in (second, third)]
    assert [type(each) for each in rig.delete(*stale)] == [StaleReceipt, StaleReceipt]
    assert rig.delete(f"q:{NO_ID}~{tag}") == [None]
    assert states(rig, first, second, third) == ["leased"] * 3


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]])
def test_a_stale_receipt_touches_no_message_that_was_leased_again(
    rig: Rig, bodies: list[bytes]
) -> None:
    rig.send(*bodies)
    _, stale = received(rig)
    rig.advance(LEASE)
    _, good = received(rig)
    before = rig.paths("delay", "queues/q", "remove")
    assert isinstance(rig.delete(stale[0])[0], StaleReceipt)
    for visibility in (0, 90_000):
        assert isinstance(change(rig, visibility, stale[0])[0], StaleReceipt)
    rig.ask(GiveBack(queue="q", receipts=stale))
    assert rig.paths("delay", "queues/q", "remove") == before
    rig.start()
    assert isinstance(rig.delete(stale[0])[0], StaleReceipt)
    assert rig.delete(*good) == [None] * len(good)


# Messages that are sent, and could not be published yet.


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]])
def test_a_message_that_cannot_be_published_is_not_said_to_be_missing(
    rig: Rig, bodies: list[bytes]
) -> None:
    rig.disk.fail(errno.EIO, "rename_new", "link", path="new/")
    ids = rig.send(*bodies)
    (result,) = rig.ask(Delete(queue="q", ids=ids[:1]))
    assert isinstance(result, DiskError)
    rig.disk.heal()
    rig.tick()
    assert list(rig.receive()) == ids


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]])
def test_a_message_that_cannot_be_published_yet_is_deleted_where_it_is(
    rig: Rig, bodies: list[bytes]
) -> None:
    rig.disk.fail(errno.EIO, "rename_new", path="queues/")
    ids = rig.send(*bodies)
    assert rig.ask(Delete(queue="q", ids=ids[:1])) == [None]
    rig.disk.heal()
    for _ in range(4):
        rig.tick()
    assert list(rig.receive()) == ids[1:]
    rig.check()


def test_a_purge_takes_what_cannot_be_published_yet(rig: Rig) -> None:
    rig.disk.fail(errno.EIO, "rename_new", path="queues/")
    rig.send(b"a")
    rig.send(b"b", b"c")
    assert rig.ask(Purge(queue="q")) == 3
    rig.disk.heal()
    for _ in range(4):
        rig.tick()
    assert rig.receive() == {}
    rig.check()


# Bounds.


def test_a_call_of_nothing_is_answered_with_nothing(rig: Rig) -> None:
    assert rig.send() == []
    assert rig.delete() == []
    assert change(rig, 0) == []
    assert rig.ask(GiveBack(queue="q", receipts=[])) is None


def test_messages_of_one_delivery_time_share_a_file_and_the_queue_s_own_delay_is_passed_over(
    rig: Rig,
) -> None:
    rig.ask(CreateQueue(name="slow", settings=QueueSettings(delivery_delay=Millis(DAY))))
    moment = Millis(rig.clock.wall() + 5_000)
    rig.ask(Send(queue="slow", bodies=[b"x", b"y"], deliver_at={0: moment, 1: moment}))
    rig.commit()
    assert len({entry.batch for entry in rig.engine.index.queue("slow").entries}) == 1


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (366 * DAY + 1, "its delivery time is more than 365 d ahead"),
        (14 * DAY, "its delivery time is not within the queue's retention of 14 d"),
    ],
)
def test_a_delivery_time_that_is_too_far_ahead_costs_that_message_only(
    rig: Rig, ahead: int, told: str
) -> None:
    rig.clock.ticks = False
    rig.ask(UpdateQueue(name="q", changes={"retention": Millis(14 * DAY)}))
    moments = {0: Millis(rig.clock.wall() + ahead), 1: Millis(rig.clock.wall() + 14 * DAY - 1)}
    refused, _ = rig.ask(Send(queue="q", bodies=[b"x", b"y"], deliver_at=moments)).results
    assert isinstance(refused, InvalidMessage)
    assert told in str(refused)


def test_a_message_with_a_delay_and_a_delivery_time_is_refused(rig: Rig) -> None:
    moment = {0: rig.clock.wall()}
    (refused,) = rig.ask(
        Send(queue="q", bodies=[b"x"], deliver_at=moment, delays={0: Millis(0)})
    ).results
    assert isinstance(refused, InvalidMessage)


@pytest.mark.parametrize(
    ("attributes", "error", "why"),
    [
        ({f"n{at}": "" for at in range(1_001)}, InvalidMessage, "1001 attributes, and may have 1000"),
        ({"n": "x" * 65_536}, AttributesTooLarge, "65537 bytes together, above the limit of 65536"),
        ({"": "x"}, InvalidMessage, "name has 0 bytes, and must have 1 to 256"),
        ({"ä" * 129: "x"}, InvalidMessage, "name has 258 bytes, and must have 1 to 256"),
        ({"n": "\ud800"}, InvalidMessage, "the attribute 'n' is not valid Unicode"),
    ],
)
def test_attributes_out_of_bounds_cost_that_message_only(
    rig: Rig, attributes: dict[str, str], error: type[Exception], why: str
) -> None:
    stored = rig.ask(Send(queue="q", bodies=[b"x", b"y"], attributes={0: attributes}))
    refused, id = stored.results
    assert isinstance(refused, error)
    assert why in str(refused)
    assert list(rig.receive()) == [id]


def test_a_body_may_have_as_many_bytes_as_its_queue_says(rig: Rig) -> None:
    rig.add("small", max_message_size=3)
    stored = rig.ask(Send(queue="small", bodies=[b"abc", b"abcd", b""]))
    fits, refused, empty = stored.results
    assert isinstance(refused, MessageTooLarge)
    assert "The body has 4 bytes, and the queue small takes 3 at most" in str(refused)
    assert list(rig.receive(queue="small")) == [fits, empty]


def test_every_request_for_a_queue_that_is_being_deleted_is_told_so(rig: Rig) -> None:
    rig.send(b"a", b"b")
    rig.commit()
    deletion, *outcomes = rig.commit(
        DeleteQueue(name="q"),
        Receive(queue="q"),
        Receive(queue="q", wait=None),
        Delete(queue="q", ids=[NO_ID]),
        Delete(queue="q", receipts=["x"]),
        ChangeVisibility(queue="q", receipts=["x"], visibility_timeout=Millis(0)),
        GiveBack(queue="q", receipts=["x"]),
        Purge(queue="q"),
        Reserve(queue="q", stream="s", sequence_number=0),
        StartRedrive(queue="q"),
    )
    assert deletion is None
    assert [type(each) for each in outcomes] == [QueueNotFound] * len(outcomes)
    creation = CreateQueue(name="q", settings=QueueSettings())
    for _ in range(2):
        outcomes = rig.commit(creation, Send(queue="q", bodies=[b"x"]))
        assert [type(each) for each in outcomes] == [QueueBeingDeleted] * 2
        assert "try again in a moment" in str(outcomes[0])
        rig.start()
    for _ in range(6):
        rig.commit()
    rig.ask(creation)
    assert rig.receive() == {}


# The end of queues and of messages.


def one_of_each(rig: Rig) -> list[str]:
    """Send messages that are leased, delayed and ready, singly and in batches; return their ids."""
    ids = rig.send(b"leased") + rig.send(b"leased", b"as a batch")
    assert len(rig.receive()) == len(ids)
    for bodies in ([b"delayed"], [b"delayed", b"as a batch"]):
        delays = dict.fromkeys(range(len(bodies)), Millis(60_000))
        ids += rig.ask(Send(queue="q", bodies=bodies, delays=delays)).results
    ids += rig.send(b"ready") + rig.send(b"ready", b"as a batch")
    rig.commit()
    assert states(rig, *ids) == [*["leased"] * 3, *["delayed"] * 3, *["ready"] * 3]
    return [str(id) for id in ids]


def is_empty_for_good(rig: Rig) -> bool:
    """Return whether nothing is in the queue, and nothing is after a restart long after all dues."""
    before = rig.engine.index.queue("q").total
    rig.advance(10 * 60_000)
    rig.start()
    return not before and rig.receive() == {}


@pytest.mark.parametrize("state", COUNTED, ids=lambda state: state.value)
def test_a_purge_by_state_takes_the_messages_in_that_state_and_no_others(
    rig: Rig, state: State
) -> None:
    ids = one_of_each(rig)
    before = states(rig, *ids)
    assert rig.ask(Purge(queue="q", states=frozenset({state}))) == 3
    wanted = ["removed" if each == state.value else each for each in before]
    assert [each or "removed" for each in states(rig, *ids)] == wanted
    rig.start()
    assert [each or "removed" for each in states(rig, *ids)] == wanted


@pytest.mark.parametrize(("delay", "state"), [(0, State.READY), (60_000, State.DELAYED)])
def test_a_purge_by_state_counts_what_cannot_be_published_yet_as_what_it_will_be(
    rig: Rig, delay: int, state: State
) -> None:
    for folder in ("queues/", "delay/"):
        rig.disk.fail(errno.EIO, "rename_new", path=folder)
    rig.ask(Send(queue="q", bodies=[b"a"], delays={0: Millis(delay)} if delay else {}))
    assert rig.ask(Purge(queue="q", states=frozenset(COUNTED) - {state})) == 0
    assert rig.ask(Purge(queue="q", states=frozenset({state}))) == 1
    rig.disk.heal()
    assert is_empty_for_good(rig)


# Messages per file.


def names(rig: Rig) -> list[tuple[str, int]]:
    """Return state and number of messages of each name, in order."""
    found = [entry for batch in rig.engine.index.batches.values() for entry in batch.entries]
    return [(each.name.state.value, each.members.bit_count()) for each in found]


@pytest.mark.parametrize(("most", "files"), [(1, [1] * 5), (2, [2, 2, 1]), (0, [5]), (1_000, [5])])
def test_a_send_writes_no_more_messages_into_a_file_than_the_queue_allows(
    rig: Rig, most: int, files: list[int]
) -> None:
    rig.ask(UpdateQueue(name="q", changes={"messages_per_file": most}))
    rig.send(*(b"%d" % each for each in range(5)))
    rig.commit()
    assert names(rig) == [("ready", each) for each in files]
    assert [body for _, body in rig.receive(10).values()] == [b"0", b"1", b"2", b"3", b"4"]


def test_each_id_of_a_send_stands_at_the_place_of_its_body_whatever_files_they_share(rig: Rig) -> None:
    urgent = dict.fromkeys((1, 5, 6, 7), 5)
    (stored,) = rig.commit(Send(queue="q", bodies=[b"%d" % at for at in range(9)], priorities=urgent))
    body_of = {id: body for id, (_, body) in rig.receive().items()}
    assert [body_of[id] for id in stored.results] == [b"%d" % at for at in range(9)]


def test_sends_of_one_commit_share_no_file_beyond_the_bound_of_the_queue(rig: Rig) -> None:
    rig.ask(UpdateQueue(name="q", changes={"messages_per_file": 2}))
    rig.commit(*(Send(queue="q", bodies=[b"a"]) for _ in range(3)))
    rig.commit()
    assert names(rig) == [("ready", 2), ("ready", 1)]

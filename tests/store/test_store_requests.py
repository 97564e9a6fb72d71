"""Requests that once did harm: each is a promise about one engine, without threads."""

from __future__ import annotations

import errno

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import DiskError, InvalidRequest, MessageNotFound, StaleReceipt
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    Delete,
    DeleteQueue,
    GiveBack,
    Message,
    Outgoing,
    Receive,
    Send,
    VisibilityChange,
)


@pytest.fixture
def rig() -> EngineRig:
    rig = EngineRig(MemoryDisk())
    rig.create(visibility_timeout=30_000)
    return rig


def change(message: Message, visibility: int) -> VisibilityChange:
    assert message.receipt is not None
    return VisibilityChange(message.receipt, Millis(visibility))


def receipt_of(message: Message) -> str:
    assert message.receipt is not None
    return message.receipt


def test_to_release_and_extend_one_lease_in_one_call_releases_it(rig: EngineRig) -> None:
    rig.send(b"a")
    (message,) = rig.receive()
    results = rig.ask(ChangeVisibility(queue="q", changes=[change(message, 0), change(message, 9_000)]))
    assert results[0] is None
    assert isinstance(results[1], StaleReceipt)
    rig.check()
    assert list(rig.states().values()) == ["ready"]


def test_to_extend_one_lease_twice_in_one_call_leaves_its_neighbour_alone(rig: EngineRig) -> None:
    rig.send(b"a", b"b")
    one, other = rig.receive(2)
    results = rig.ask(ChangeVisibility(queue="q", changes=[change(one, 50_000), change(one, 90_000)]))
    assert results == [rig.clock.wall() + 50_000, rig.clock.wall() + 90_000]
    dues = {sight.entry.id: sight.due for sight in rig.sights()}
    assert dues == {one.id: rig.clock.wall() + 90_000, other.id: other.due}
    rig.check()


@pytest.mark.parametrize("visibility", [0, 50_000])
@pytest.mark.parametrize("is_shared", [False, True])
def test_a_change_that_the_disk_refuses_in_part_answers_for_each_message(
    visibility: int, is_shared: bool
) -> None:
    memory = MemoryDisk()
    disk = FaultyDisk(memory)
    rig = EngineRig(disk, watch=memory.watch)
    rig.create(visibility_timeout=30_000)
    if is_shared:
        EngineRig(memory, seed=2, watch=memory.watch, clock=rig.clock)
        rig.tick()
    rig.send(b"a", b"b", b"c")
    leased = rig.receive(3)
    changed = leased if is_shared and not visibility else leased[:2]
    disk.fail(errno.EIO, "rename", skip=1, times=1)

    first, second, *rest = rig.ask(
        ChangeVisibility(queue="q", changes=[change(each, visibility) for each in changed])
    )

    end = rig.clock.wall() + visibility if visibility else None
    assert first == end
    assert isinstance(second, DiskError)
    assert rest == [None] * len(rest)
    dues = {sight.entry.id: sight.due for sight in rig.sights()}
    assert (dues[leased[0].id], dues[leased[1].id]) == (end, leased[1].due)
    rig.check()


def test_to_extend_and_release_one_lease_in_one_call_leaves_its_neighbour_leased(
    rig: EngineRig,
) -> None:
    rig.send(b"a", b"b")
    one, other = rig.receive(2)
    rig.ask(ChangeVisibility(queue="q", changes=[change(one, 50_000), change(one, 0)]))
    assert rig.states() == {one.id: "ready", other.id: "leased"}
    rig.check()


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]])
def test_a_receipt_given_back_twice_gives_back_one_lease(rig: EngineRig, bodies: list[bytes]) -> None:
    rig.send(*bodies)
    one, *others = rig.receive(2)
    rig.ask(GiveBack(queue="q", receipts=[receipt_of(one), receipt_of(one)]))
    assert rig.states() == {one.id: "ready"} | {other.id: "leased" for other in others}
    rig.check()


def test_a_receipt_deleted_twice_in_one_call_deletes_one_message(rig: EngineRig) -> None:
    rig.send(b"a", b"b")
    one, other = rig.receive(2)
    target = ByReceipt(receipt_of(one))
    assert rig.ask(Delete(queue="q", targets=[target, target])) == [None, None]
    assert rig.states() == {other.id: "leased"}
    rig.check()


def test_a_receive_of_no_messages_is_refused(rig: EngineRig) -> None:
    # Else one that waits would be tried for ever while something is ready.
    rig.send(b"a")
    with pytest.raises(InvalidRequest):
        rig.ask(Receive(queue="q", max_messages=0, wait=None))


def test_a_batch_taken_whole_never_overtakes_what_lies_between_its_messages(rig: EngineRig) -> None:
    a, b, c = rig.send(b"a" * 10, b"b" * 500, b"c" * 10)
    leased = rig.receive(3)
    rig.ask(ChangeVisibility(queue="q", changes=[change(leased[1], 0)]))
    rig.clock.advance(30_000)
    messages = rig.ask(Receive(queue="q", max_messages=10, max_bytes=100))
    assert [message.id for message in messages] == [a]
    rig.check()
    assert rig.states() == {a: "leased", b: "ready", c: "ready"}


def test_deleting_an_empty_queue_leaves_nothing_for_quarantine(rig: EngineRig) -> None:
    rig.ask(DeleteQueue(name="q"))
    rig.restart()
    assert rig.engine.quarantined == 0


def test_a_send_of_nothing_is_answered_with_nothing(rig: EngineRig) -> None:
    assert rig.ask(Send(queue="q", messages=[])) == []
    assert rig.ask(Delete(queue="q", targets=[])) == []
    assert rig.ask(ChangeVisibility(queue="q", changes=[])) == []


def test_a_delay_that_is_not_one_costs_that_message_only(rig: EngineRig) -> None:
    bad = Outgoing(body=b"x", delay=Millis(-1))
    results = rig.ask(Send(queue="q", messages=[bad, Outgoing(body=b"y")]))
    assert [type(each).__name__ for each in results] == ["InvalidMessage", "Sent"]
    assert rig.bodies() == [b"y"]


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]])
def test_a_stale_receipt_cannot_touch_a_message_that_was_leased_again(
    rig: EngineRig, bodies: list[bytes]
) -> None:
    rig.send(*bodies)
    stale = rig.receive(2)[0]
    rig.clock.advance(30_000)
    before = rig.receive(2)
    known = rig.known()
    assert before[0].id == stale.id
    (result,) = rig.ask(Delete(queue="q", targets=[ByReceipt(receipt_of(stale))]))
    assert isinstance(result, StaleReceipt)
    for visibility in (0, 90_000):
        (answer,) = rig.ask(ChangeVisibility(queue="q", changes=[change(stale, visibility)]))
        assert isinstance(answer, StaleReceipt)
    rig.ask(GiveBack(queue="q", receipts=[receipt_of(stale)]))
    assert rig.known() == known
    rig.restart()
    (result,) = rig.ask(Delete(queue="q", targets=[ByReceipt(receipt_of(stale))]))
    assert isinstance(result, StaleReceipt)
    assert rig.ask(Delete(queue="q", targets=[ByReceipt(receipt_of(m)) for m in before])) == [
        None for _ in before
    ]


def test_a_delete_in_the_commit_that_buries_its_message_is_stale_and_not_a_success(
    rig: EngineRig,
) -> None:
    rig.create("dead")
    rig.create("dying", max_receives=1, dead_letter_queue="dead", visibility_timeout=1_000)
    (id,) = rig.send(b"a", queue="dying")
    (message,) = rig.receive(queue="dying")
    rig.clock.advance(1_000)
    for _ in range(2):  # In that commit, and when it is buried.
        (result,) = rig.ask(Delete(queue="dying", targets=[ByReceipt(receipt_of(message))]))
        assert isinstance(result, StaleReceipt)
    assert rig.states("dead") == {id: "ready"}


def test_a_second_delete_by_id_is_not_found_whether_or_not_the_reaper_has_unlinked_the_file(
    rig: EngineRig,
) -> None:
    rig.send(b"a", b"b")
    single, batched = rig.send(b"alone")[0], rig.send(b"c", b"d")[0]
    delete = Delete(queue="q", targets=[ById(single), ById(batched)])
    assert rig.ask(delete) == [None, None]
    assert rig.disk.scan("remove")
    waiting = [type(result) for result in rig.ask(delete)]
    for found in rig.disk.scan("remove"):
        rig.disk.unlink(f"remove/{found.name}")
    unlinked = [type(result) for result in rig.ask(delete)]
    assert waiting == unlinked == [MessageNotFound, MessageNotFound]


def test_a_delete_by_the_id_of_a_message_deleted_in_another_queue_is_not_found(rig: EngineRig) -> None:
    rig.create("other")
    (id,) = rig.send(b"a", queue="other")
    assert rig.ask(Delete(queue="other", targets=[ById(id)])) == [None]
    (result,) = rig.ask(Delete(queue="q", targets=[ById(id)]))
    assert isinstance(result, MessageNotFound)


def test_a_second_delete_by_receipt_is_a_success_before_and_after_the_reaper(rig: EngineRig) -> None:
    rig.send(b"a")
    (message,) = rig.receive()
    delete = Delete(queue="q", targets=[ByReceipt(receipt_of(message))])
    assert [rig.ask(delete), rig.ask(delete)] == [[None], [None]]
    for found in rig.disk.scan("remove"):
        rig.disk.unlink(f"remove/{found.name}")
    assert rig.ask(delete) == [None]

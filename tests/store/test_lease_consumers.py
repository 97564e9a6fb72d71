"""The oldest leases of a queue tell their consumers, as long as the process lives that leased them."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from spoolrack_store.credits import Credits
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import ChangeVisibility, Delete, Delivery, OldLease, Receive, Send
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.store import Store

from tests.store.front_rig import FrontRig, opened

UNKNOWN = "unknown to this process; no other has the root open"


def receive(rig: FrontRig, consumer: str, most: int = 10) -> Delivery:
    (delivery,) = rig.ask(Receive(queue="q", max_messages=most, consumer=consumer))
    return delivery


def advance(rig: FrontRig, millis: int) -> None:
    assert isinstance(rig.clock, ManualClock)
    rig.clock.advance(millis)


def leases(rig: FrontRig) -> Sequence[OldLease]:
    return rig.store.queue("q").oldest_leases


def told(rig: FrontRig) -> list[tuple[str, str, int]]:
    """Return the first message, the consumer and the count of each of the oldest leases."""
    return [(each.message_id, each.consumer, each.message_count) for each in leases(rig)]


def test_a_lease_tells_its_consumer_and_since_when(rig: FrontRig) -> None:
    rig.manual_clock.ticks = False
    ids = rig.send(b"a", b"b", b"c")
    receive(rig, "alice", 2)
    advance(rig, 5)
    receive(rig, "bob")
    assert told(rig) == [(ids[0], "alice", 2), (ids[2], "bob", 1)]
    first, second = (each.received_at for each in leases(rig))
    assert first is not None
    assert second == first + 5
    assert first == leases(rig)[0].first_received_at


def test_receives_of_one_commit_have_a_consumer_each(rig: FrontRig) -> None:
    waiting = [
        rig.store.submit(Receive(queue="q", max_messages=2, wait=None, consumer=name))
        for name in ("alice", "bob")
    ]
    rig.in_turn()
    ids = rig.send(b"a", b"b", b"c", b"d")
    assert sorted(each.ids for future in waiting for each in future.result(60)) == [ids[:2], ids[2:]]
    assert told(rig) == [(ids[0], "alice", 2), (ids[2], "bob", 2)]
    with_bob = waiting[1].result(60)[0]
    rig.ask(Delete(queue="q", receipts=with_bob.receipts[:1]))
    assert told(rig) == [(ids[0], "alice", 2), (ids[3], "bob", 1)]


def test_an_extended_lease_keeps_its_consumer_and_a_released_message_has_none(rig: FrontRig) -> None:
    ids = rig.send(b"a", b"b", b"c")
    delivery = receive(rig, "alice")
    began = leases(rig)[0].received_at
    advance(rig, 1_000)
    extend = ChangeVisibility(
        queue="q", receipts=delivery.receipts[:1], visibility_timeout=Millis(10 * 60_000)
    )
    rig.ask(extend)
    release = ChangeVisibility(queue="q", receipts=delivery.receipts[1:2], visibility_timeout=Millis(0))
    rig.ask(release)
    assert told(rig) == [(ids[0], "alice", 1), (ids[2], "alice", 1)]
    assert {each.received_at for each in leases(rig)} == {began}
    assert receive(rig, "bob").ids == [ids[1]]
    assert (ids[1], "bob", 1) in told(rig)


def test_a_message_received_again_after_its_lease_is_the_new_consumers(rig: FrontRig) -> None:
    rig.manual_clock.ticks = False
    ids = rig.send(b"a")
    receive(rig, "alice")
    advance(rig, 3_600_000)
    rig.in_turn()
    receive(rig, "bob")
    (lease,) = leases(rig)
    assert (lease.message_id, lease.consumer, lease.receive_count) == (ids[0], "bob", 2)
    assert lease.first_received_at is not None
    assert lease.received_at == lease.first_received_at + 3_600_000


def test_a_consumer_with_flow_control_gets_its_credits_back_and_is_told(rig: FrontRig) -> None:
    ids = rig.send(b"a", b"b")
    credits = Credits(5, lambda: None)
    (delivery,) = rig.ask(Receive(queue="q", max_messages=5, credits=credits, consumer="stream"))
    assert told(rig) == [(ids[0], "stream", 2)]
    rig.ask(Delete(queue="q", receipts=delivery.receipts))
    assert (credits.in_flight, credits.bytes_in_flight, told(rig)) == (0, 0, [])


def test_five_leases_are_told_however_many_consumers_share_a_file(rig: FrontRig) -> None:
    waiting = [
        rig.store.submit(Receive(queue="q", wait=None, consumer=f"{number}")) for number in range(7)
    ]
    rig.in_turn()
    ids = rig.send(*[b"x"] * 7)
    for future in waiting:
        assert future.result(60)
    assert told(rig) == [(ids[number], f"{number}", 1) for number in range(5)]


def test_a_reservation_tells_its_stream_and_no_consumer(rig: FrontRig) -> None:
    rig.send(b"a")
    rig.ask(Reserve(queue="q", stream="nightly", sequence_number=0))
    (lease,) = leases(rig)
    assert (lease.stream, lease.consumer, lease.received_at) == ("nightly", "", None)


def test_a_lease_from_before_a_restart_alone_has_an_unknown_consumer(tmp_path: Path) -> None:
    with opened(tmp_path) as rig:
        ids = [id for body in (b"a", b"b", b"c") for id in rig.send(body)]
        receive(rig, "alice", 1)
    with opened(tmp_path, rig.clock) as rig:
        receive(rig, "bob", 1)
        rig.ask(Reserve(queue="q", stream="nightly", sequence_number=0))
        assert told(rig) == [(ids[0], UNKNOWN, 1), (ids[1], "bob", 1), (ids[2], "", 1)]
        assert leases(rig)[0].received_at is None


def test_a_lease_of_another_process_says_which_processes_have_the_root_open(rig: FrontRig) -> None:
    rig.send(b"a", b"b")
    delivery = receive(rig, "alice", 1)
    with Store.open(rig.path, clock=rig.clock) as other:
        (lease,) = other.queue("q").oldest_leases
        here = f"pid {os.getpid()} on {socket.gethostname()}"
        assert lease.consumer == f"unknown to this process; the root is also open in {here}"
        assert lease.received_at is None
        # An extension by another process leaves the consumer known where it was.
        extend = ChangeVisibility(
            queue="q", receipts=delivery.receipts, visibility_timeout=Millis(60_000)
        )
        other.submit(extend).result(60)
        assert told(rig) == [(delivery.ids[0], "alice", 1)]


def test_a_receive_without_a_name_is_told_as_unknown(rig: FrontRig) -> None:
    rig.ask(Send(queue="q", bodies=[b"a"]))
    rig.receive()
    assert [each.consumer for each in leases(rig)] == [UNKNOWN]

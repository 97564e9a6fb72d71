"""Messages that are leased as they are sent, because a receive waits for them."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from spoolrack_store.credits import Credits
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import Receive, Send

from tests.store.trouble_rig import Rig
from tests.support.engines import begun

LEASE = 30_000


@pytest.fixture
def rig() -> Rig:
    return Rig()


def sending(*bodies: bytes) -> Send:
    return Send(queue="q", bodies=bodies)


def receiving(credits: Credits | None = None) -> Receive:
    return Receive(queue="q", max_messages=9, visibility_timeout=Millis(LEASE), credits=credits)


def bodies(deliveries: Any) -> list[bytes]:
    return [body for each in deliveries for body in each.bodies]


def receipts(deliveries: Any) -> list[str]:
    return [receipt for each in deliveries for receipt in each.receipts]


def called(rig: Rig, *names: str) -> list[tuple[Any, ...]]:
    return [arguments for name, arguments in rig.disk.called if name in names]


def test_a_deduplication_id_is_taken_by_what_is_leased_at_once_also_after_a_restart(rig: Rig) -> None:
    send = Send(queue="q", bodies=[b"x"], deduplication_ids={0: "a"})
    stored, found = rig.commit(send, receiving())
    assert bodies(found) == [b"x"]
    for _ in range(2):
        again = rig.ask(send)
        assert (again.results, again.duplicates) == (stored.results, {0})
        rig.start()


# Ends.


def test_a_restart_finds_the_lease_as_it_was_and_its_receipt_is_good(rig: Rig) -> None:
    _, found = rig.commit(sending(b"a", b"b"), receiving())
    rig.start()
    assert rig.receive() == {}
    first, _ = receipts(found)
    assert rig.delete(first) == [None]
    rig.advance(LEASE)
    (delivery,) = rig.ask(receiving())
    assert (delivery.bodies, delivery.receive_count) == ([b"b"], 2)


def test_flow_control_counts_no_lease_that_is_not_handed_out_as_the_lock_fails(rig: Rig) -> None:
    credits = Credits(8, lambda: None)
    work = begun(rig.engine, sending(b"a"), receiving(credits))
    rig.disk.fail(errno.EIO, "lock", times=1)
    (stored, found) = rig.engine.finish(work) or []
    assert found == []
    assert (credits.in_flight, credits.bytes_in_flight, credits.delivered) == (0, 0, 0)
    rig.commit()
    rig.advance(LEASE)
    rig.commit()
    assert list(rig.receive()) == stored.results

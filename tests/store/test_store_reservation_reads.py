"""A reservation through the store's front: it waits as a receive does, and is read by pages."""

from __future__ import annotations

from collections.abc import Iterator
from errno import EIO
from pathlib import Path

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    DiskError,
    Draining,
    InvalidRequest,
    ReservationCommitted,
    ReservationLost,
    ReservationNotFound,
)
from spoolrack_store.model.operations import ById, Delete, Message
from spoolrack_store.model.reservations import (
    CommitReservations,
    Confirm,
    Release,
    Reservation,
    Reserve,
)
from store_rig import GIVE_UP, StoreRig, opened

HOLD = Millis(60_000)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StoreRig]:
    with opened(tmp_path / "root") as rig:
        rig.create()
        yield rig


def asked(seq: int = 0, wait: int | None = 0, most: int = 1_000) -> Reserve:
    span = None if wait is None else Millis(wait)
    return Reserve(queue="q", stream="s", seq=seq, hold=HOLD, wait=span, max_messages=most)


def read(rig: StoreRig, seq: int = 0, begin: int = 0, end: int = 0) -> list[Message]:
    pages = rig.store.read_reservation("s", seq, begin=begin, end=end)
    return [message for page in pages for message in page]


def test_a_set_is_read_again_with_bodies_and_without_receipts(rig: StoreRig) -> None:
    ids = rig.send(b"1", b"2", b"3")
    rig.ask(asked())

    for _ in range(3):
        messages = read(rig)
        assert [(m.id, m.body, m.receipt, m.receives) for m in messages] == [
            (id, body, None, 1) for id, body in zip(ids, (b"1", b"2", b"3"), strict=True)
        ]
    assert [m.body for m in read(rig, begin=1, end=2)] == [b"2"]
    assert read(rig, begin=3) == []
    (shown,) = rig.store.reservations(stream="s")
    assert shown.reads == 3


def test_a_read_comes_in_pages_of_bounded_size(rig: StoreRig) -> None:
    rig.ask(asked(most=1))
    body = b"x" * 1_000_000
    for _ in range(11):
        rig.send(body)
    rig.ask(asked())

    pages = list(rig.store.read_reservation("s", 0))

    assert sum(map(len, pages)) == 11
    assert max(map(len, pages)) <= 5
    assert all(pages)


def test_a_read_ends_where_the_hold_does(rig: StoreRig) -> None:
    for _ in range(10):
        rig.send(b"x" * 1_000_000)
    rig.ask(asked())
    pages = rig.store.read_reservation("s", 0)
    next(pages)
    rig.ask(Release(stream="s", seq=0))

    with pytest.raises(ReservationLost):
        list(pages)


def test_a_read_goes_on_while_the_hold_is_lengthened_and_a_message_deleted(rig: StoreRig) -> None:
    ids = [id for _ in range(10) for id in rig.send(b"x" * 1_000_000)]
    rig.ask(asked())
    pages = rig.store.read_reservation("s", 0)
    first = next(pages)
    rig.clock.advance(1_000)
    rig.ask(Confirm(stream="s", seq=0))
    rig.ask(Delete(queue="q", targets=[ById(ids[-1])]))

    rest = [message for page in pages for message in page]

    assert [m.id for m in first + rest] == ids[:-1]


def test_what_can_not_be_read_is_told_at_once(rig: StoreRig) -> None:
    rig.send(b"1", b"2")
    with pytest.raises(ReservationNotFound):
        rig.store.read_reservation("s", 0)
    with pytest.raises(InvalidRequest):
        rig.store.read_reservation("../x", 0)
    with pytest.raises(InvalidRequest):
        rig.store.read_reservation("s", 0, begin=-1)
    rig.ask(asked())
    rig.ask(CommitReservations(stream="s", up_to=0))
    with pytest.raises(ReservationCommitted):
        rig.store.read_reservation("s", 0)


def test_a_damaged_message_is_put_aside_and_costs_itself_only(rig: StoreRig) -> None:
    ids = rig.send(b"1", b"2", b"3")
    rig.ask(asked())
    (damaged,) = rig.path.glob(f"delay/*/{ids[1]}*")
    damaged.write_bytes(b"!")

    assert [m.id for m in read(rig)] == [ids[0], ids[2]]
    rig.in_turn()

    assert rig.store.quarantined == 1
    assert rig.ask(CommitReservations(stream="s", up_to=0)).messages == 2
    assert len(list(rig.path.glob(f"quarantine/*/{ids[1]}*[!y]"))) == 1


def test_what_can_neither_be_read_nor_put_aside_ends_the_read(rig: StoreRig) -> None:
    ids = rig.send(b"1", b"2", b"3")
    rig.ask(asked())
    rig.disk.fail(EIO, "read", "rename", "create", "make_folder")

    # A read without them would have its reader commit, and so delete, what is whole.
    with pytest.raises(DiskError):
        read(rig)
    rig.disk.heal()

    assert [m.id for m in read(rig)] == ids
    assert rig.store.quarantined == 0


def test_a_reserve_waits_until_something_is_ready(rig: StoreRig) -> None:
    future = rig.store.submit(asked(wait=None))
    rig.in_turn()
    assert not future.done()

    ids = rig.send(b"1", b"2")

    made = future.result(GIVE_UP)
    assert isinstance(made, Reservation)
    assert [m.id for m in read(rig)] == ids


def test_a_reserve_that_waits_in_vain_is_answered_with_nothing(rig: StoreRig) -> None:
    future = rig.store.submit(asked(wait=5_000))
    rig.in_turn()
    rig.clock.advance(5_000)

    assert future.result(GIVE_UP) is None
    assert not list((rig.path / "reserved").iterdir())


def test_a_reserve_that_waits_and_is_cancelled_takes_nothing(rig: StoreRig) -> None:
    future = rig.store.submit(asked(wait=None))
    rig.in_turn()
    assert future.cancel()

    rig.send(b"1", b"2")
    rig.in_turn()

    assert not list((rig.path / "reserved").iterdir())
    assert [m.receives for m in rig.receive(10)] == [1, 1]


def test_a_reserve_that_is_cancelled_while_it_is_done_is_undone(rig: StoreRig) -> None:
    rig.send(b"1", b"2")
    syncs, go_on = rig.disk.hold("sync_all")
    future = rig.store.submit(asked())
    assert syncs.wait(GIVE_UP)
    assert future.cancel()
    go_on.set()
    rig.in_turn()

    assert not list((rig.path / "reserved").iterdir())
    assert [m.receives for m in rig.receive(10)] == [1, 1]


def test_a_draining_store_reserves_nothing_and_commits_still(rig: StoreRig) -> None:
    rig.send(b"1", b"2")
    rig.ask(asked(most=1))
    waiting = rig.store.submit(asked(1, wait=None, most=1))
    assert waiting.result(GIVE_UP) is not None
    parked = rig.store.submit(asked(2, wait=None))
    rig.in_turn()
    rig.store.drain()

    with pytest.raises(Draining):
        parked.result(GIVE_UP)
    with pytest.raises(Draining):
        rig.ask(asked(3))
    assert rig.ask(CommitReservations(stream="s", up_to=1)).messages == 2


def test_a_reservation_is_found_again_by_the_next_store(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        ids = rig.send(b"1", b"2")
        made = rig.ask(asked())
        clock = rig.clock
    with opened(tmp_path / "root", clock) as rig:
        assert rig.store.reservations() == [made]
        assert [m.id for m in read(rig)] == ids

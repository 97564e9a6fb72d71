"""`spoolrack fsck` finds no fault in what reservations and deduplication ids leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_store import fsck
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.errors import ReservationLost
from spoolrack_store.model.operations import CreateQueue, Delete, Purge, Send
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    Release,
    Reservation,
    Reserve,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.support.root_rig import make_root

HOLD = Millis(12 * HOUR)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Of eight messages one was committed, one was in a set that was released; three are in a set."""
    root = tmp_path / "root"
    with Store.open(root) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        for body in (b"committed", b"released"):
            store.submit(Send(queue="q", bodies=[body])).result()
        for sequence_number in range(2):
            assert reserve(store, sequence_number, most=1)
        store.submit(CommitReservations(stream="s", last_sequence_number=0)).result()
        store.submit(Release(stream="s", sequence_number=1)).result()
        store.submit(Send(queue="q", bodies=[b"%d" % number for number in range(6)])).result()
        assert reserve(store, 2, most=3)
    return root


def reserve(store: Store, sequence_number: int, most: int = 100) -> Reservation | None:
    request = Reserve(
        queue="q",
        stream="s",
        sequence_number=sequence_number,
        visibility_timeout=HOLD,
        max_messages=most,
    )
    return store.submit(request).result()


def test_a_set_whose_messages_are_gone_is_no_problem(root: Path) -> None:
    with Store.open(root) as store:
        store.submit(Purge(queue="q")).result()
    report = fsck.check(root)
    assert (report.problems, report.reserved) == ([], 1)
    fsck.repair(root)
    with Store.open(root) as store:
        made = reserve(store, 2)
        assert made is not None
        assert (made.message_count, made.is_new) == (3, False)
        assert (
            store.submit(CommitReservations(stream="s", last_sequence_number=2)).result().deleted_count
            == 0
        )


def test_a_set_of_which_messages_were_moved_out_by_hand_is_found_lost_by_the_next_start(
    root: Path,
) -> None:
    lease = min(path for path in (root / "delay").iterdir())
    lease.rename(root / "queues" / "q" / lease.name.partition(":")[2].partition("@")[0])
    assert not fsck.check(root).problems
    with Store.open(root) as store:
        made = reserve(store, 2)
        assert made is not None
        assert made.is_new
        assert made.message_count == 7
        with pytest.raises(ReservationLost):
            reserve(store, 1)


def test_deduplication_ids_of_deleted_messages_are_no_problem(tmp_path: Path) -> None:
    root = make_root(tmp_path / "root")
    with Store.open(root) as store:
        ids = {0: "a", 1: "b", 2: "c"}
        sent = store.submit(Send(queue="q", bodies=[b"x"] * 3, deduplication_ids=ids)).result()
        store.submit(Delete(queue="q", ids=[str(each) for each in sent.results])).result()
    report = fsck.check(root)
    assert (report.problems, report.leftovers) == ([], [])
    fsck.repair(root)
    with Store.open(root) as store:
        again = store.submit(Send(queue="q", bodies=[b"x"] * 3, deduplication_ids=ids)).result()
    assert again.duplicates == {0, 1, 2}
    assert again.results == sent.results

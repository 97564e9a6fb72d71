"""A set is marked as read, and a commit may ask for that: it deletes nothing that was never read."""

from __future__ import annotations

import pytest
from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import ReservationLost, ReservationUnread
from spoolrack_store.model.reservations import (
    CommitReservations,
    Committed,
    Confirm,
    MarkRead,
    Release,
    Reserve,
)

HOLD = Millis(60_000)


@pytest.fixture
def rig() -> EngineRig:
    rig = EngineRig(MemoryDisk())
    rig.create()
    return rig


def reserve(rig: EngineRig, seq: int = 0, *, max_messages: int = 10) -> None:
    request = Reserve(queue="q", stream="s", seq=seq, hold=HOLD, max_messages=max_messages)
    assert rig.ask(request) is not None
    rig.check()


def ids_in(rig: EngineRig, seq: int) -> list[str]:
    """The ids that a read finds, in its order."""
    count = rig.engine.reservations.begin_reading("s", seq, from_start=False)
    return [each.entry.id for each in rig.engine.reservations.sights("s", seq, 0, count)]


def commit_read(rig: EngineRig, up_to: int = 0) -> Committed:
    done = rig.ask(CommitReservations(stream="s", up_to=up_to, only_read=True))
    rig.check()
    return done


def test_a_set_that_was_never_read_is_not_deleted_where_that_is_asked(rig: EngineRig) -> None:
    ids = rig.send(b"1", b"2") + rig.send(b"3")
    reserve(rig, 0, max_messages=2)
    reserve(rig, 1)
    rig.ask(MarkRead(stream="s", seq=1))

    with pytest.raises(ReservationUnread) as refused:
        commit_read(rig, 1)
    assert refused.value.facts == {"stream": "s", "seq": 0}
    assert (ids_in(rig, 0), ids_in(rig, 1)) == (ids[:2], ids[2:])

    rig.ask(MarkRead(stream="s", seq=0))
    assert commit_read(rig, 1) == Committed(messages=3, lost=[])
    assert commit_read(rig, 1) == Committed(messages=0, lost=[])


def test_a_set_that_was_read_stays_so_confirmed_and_after_a_crash(rig: EngineRig) -> None:
    rig.send(b"1")
    reserve(rig)
    rig.ask(MarkRead(stream="s", seq=0))
    rig.ask(MarkRead(stream="s", seq=0))
    for hold in (2 * HOLD, HOLD // 2):
        rig.ask(Confirm(stream="s", seq=0, hold=Millis(hold)))
        rig.restart()

    assert commit_read(rig).messages == 1


def test_a_set_that_is_lost_is_told_so_whether_it_was_read_or_not(rig: EngineRig) -> None:
    rig.send(b"1")
    reserve(rig)
    rig.ask(Release(stream="s", seq=0))

    with pytest.raises(ReservationLost):
        rig.ask(MarkRead(stream="s", seq=0))
    assert commit_read(rig) == Committed(messages=0, lost=[0])

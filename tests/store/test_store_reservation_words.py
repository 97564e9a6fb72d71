"""What may be asked of reservations, how they are listed, and what is refused."""

from __future__ import annotations

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from spoolrack_store.model.clock import HOUR, Millis
from spoolrack_store.model.errors import (
    InvalidRequest,
    QueueNotFound,
)
from spoolrack_store.model.reservations import (
    MAX_SEQ,
    CommitReservations,
    Reservation,
    Reserve,
)

HOLD = Millis(60_000)


@pytest.fixture
def rig() -> EngineRig:
    rig = EngineRig(FaultyDisk(MemoryDisk()))
    rig.create()
    return rig


def reserve(rig: EngineRig, seq: int = 0, **what: object) -> Reservation:
    made = rig.ask(Reserve(**({"queue": "q", "stream": "s", "seq": seq, "hold": HOLD} | what)))  # type: ignore[arg-type]
    assert made is not None
    rig.check()
    return made


def names(rig: EngineRig) -> list[str]:
    return sorted(found.name for found in rig.disk.scan("reserved"))


def test_sets_are_listed_by_stream_and_number_a_page_at_a_time(rig: EngineRig) -> None:
    rig.create("other")
    rig.send(*[b"x"] * 5)
    rig.send(b"y", queue="other")
    for stream, seq in (("b", 2), ("a", 10), ("a", 9)):
        reserve(rig, seq, stream=stream, max_messages=1)
    reserve(rig, 1, stream="c", queue="other")
    shown = rig.engine.reservations.shown

    def keys(*args: object) -> list[tuple[str, int]]:
        return [(each.stream, each.seq) for each in shown(*args)]  # type: ignore[arg-type]

    assert keys("", "", ("", -1), 10) == [("a", 9), ("a", 10), ("b", 2), ("c", 1)]
    assert keys("", "", ("a", 9), 2) == [("a", 10), ("b", 2)]
    assert keys("other", "", ("", -1), 10) == [("c", 1)]
    assert keys("", "a", ("", -1), 10) == [("a", 9), ("a", 10)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"stream": ""},
        {"stream": "a/b"},
        {"stream": "a.b"},
        {"stream": "x" * 81},
        {"seq": -1},
        {"seq": MAX_SEQ + 1},
        {"max_messages": 0},
        {"max_messages": 100_001},
        {"max_bytes": 0},
        {"hold": Millis(999)},
        {"hold": Millis(12 * HOUR + 1)},
    ],
    ids=str,
)
def test_what_can_not_be_is_refused(rig: EngineRig, wrong: dict[str, object]) -> None:
    rig.send(b"1")

    with pytest.raises(InvalidRequest):
        reserve(rig, **wrong)  # type: ignore[arg-type]

    assert names(rig) == []
    assert set(rig.states().values()) == {"ready"}


def test_the_longest_names_fit(rig: EngineRig) -> None:
    rig.send(b"1")

    assert reserve(rig, MAX_SEQ, stream="x" * 80).seq == MAX_SEQ
    assert rig.ask(CommitReservations(stream="x" * 80, up_to=MAX_SEQ)).messages == 1


def test_a_queue_that_is_not_there_can_not_be_reserved_from(rig: EngineRig) -> None:
    with pytest.raises(QueueNotFound):
        rig.ask(Reserve(queue="none", stream="s", seq=0))

"""A record with a right checksum that says what no store writes is refused as damaged, in each of its
parts: a hand has changed it, or a later version made it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest
from spoolrack_store.model.dead_letter_records import MAX_RECORDS, NotAHistory, decode_records
from spoolrack_store.model.reservation_names import Marker, ReservationRecord
from spoolrack_store.model.sealed import NotWhole, seal
from spoolrack_store.model.settings import DamagedSettings, decode

STEM: Final = "01890a5d-ac97-7000-8000-000000000000,n2,s5,c3610a686,m29"
MILLIS: Final = 1_767_323_045_678
DEATH: Final = {
    "source_queue": "jobs",
    "reason": "max_receives",
    "receives": 2,
    "first_receive_ms": MILLIS,
    "died_at_ms": MILLIS,
    "explanation": "why",
    "redriven_to": "jobs",
    "redriven_at_ms": MILLIS,
}
RESERVATION: Final = {
    "queue": "jobs",
    "queue_created_at": MILLIS,
    "token": "g123456789abc",
    "hold": 30_000,
    "made_at": MILLIS,
    "messages": 2,
    "bytes": 5,
    "files": [[STEM, "i0-1"]],
    "receives": [1],
}
MARKER: Final = {"sets": [0, 1], "queues": ["jobs"], "made_at": MILLIS}
SETTINGS: Final = {"created_at": MILLIS, "salt": "salt", "labels": {"a": "b"}}

Decoder = Callable[[dict[str, Any]], object]
RECORDS: Final[list[tuple[Decoder, type[Exception], dict[str, Any], dict[str, list[Any]]]]] = [
    (
        lambda values: decode_records(seal({"deaths": [values]})),
        NotAHistory,
        DEATH,
        {
            "source_queue": [None, "", "../x", 7],
            "reason": [None, "", "a b", 7],
            "receives": [None, -1, "2", True, 1 << 31],
            "first_receive_ms": [-1, "x", 1.5],
            "died_at_ms": [None, -1, 1 << 60],
            "explanation": [7, "x" * 1_025],
            "redriven_to": ["a/b"],
            "redriven_at_ms": [None, -1],
        },
    ),
    (
        lambda values: ReservationRecord.decode(seal(values)),
        NotWhole,
        RESERVATION,
        {
            "queue": [None, 7, "../x"],
            "queue_created_at": [-1, "x"],
            "token": [None, 7, "", "0123456789abc"],
            "hold": [None, -1, "x"],
            "made_at": [None, -1],
            "bytes": [None, -1],
            "files": [None, {}, [STEM], [[STEM]], [[STEM, "x"]]],
            "receives": [None, [], [1, 1], [0], ["1"]],
        },
    ),
    (
        lambda values: Marker.decode(seal(values)),
        NotWhole,
        MARKER,
        {"sets": [None, {}, ["0"]], "queues": [7, [7]], "made_at": [None, -1]},
    ),
    (
        lambda values: decode(seal(values), "jobs.1.json"),
        DamagedSettings,
        SETTINGS,
        {
            "created_at": [None, -1, "x"],
            "salt": [7, "x" * 17, "ä"],
            "labels": [7, {"x" * 129: ""}],
            "schedules": [7, {"../x": {}}, {"s": 7}],
        },
    ),
]


@pytest.mark.parametrize(
    ("decoder", "error", "values"),
    [
        pytest.param(
            decoder, error, whole | {part: wrong}, id=f"{error.__name__}-{part}-{str(wrong)[:20]}"
        )
        for decoder, error, whole, parts in RECORDS
        for part, wrongs in parts.items()
        for wrong in wrongs
    ],
)
def test_a_part_that_no_store_writes_is_refused(
    decoder: Decoder, error: type[Exception], values: dict[str, Any]
) -> None:
    with pytest.raises(error):
        decoder(values)


def test_a_record_as_stores_write_it_is_read() -> None:
    for decoder, _, whole, _ in RECORDS:
        assert decoder(whole)


@pytest.mark.parametrize("count", [0, MAX_RECORDS + 1])
def test_a_history_without_a_death_or_with_too_many_is_refused(count: int) -> None:
    with pytest.raises(NotAHistory):
        decode_records(seal({"deaths": [DEATH] * count}))

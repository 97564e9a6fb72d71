"""The checker finds what it is there to find, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.delivery_checker import FAULTS, Verdict, judge
from tests.support.ledger import (
    Deleted,
    Deleting,
    Delivery,
    Fact,
    Kept,
    Ledger,
    Published,
    Received,
    Refused,
    Releasing,
    Seen,
    Sending,
    Sent,
    read_ledgers,
)

LEASE = 2_000


def delivery(id: str, *, at: int = 100, receipt: str = "", **other: str) -> Delivery:
    facts = {"copy": f"copy of {id}", "digest": f"digest of {id}", **other}
    return Delivery(id=id, receipt=receipt or f"{id} at {at}", began_ms=at, due_ms=at + LEASE, **facts)


def received(id: str, *, at: int = 100, receipt: str = "", **other: str) -> Fact:
    return Received([delivery(id, at=at, receipt=receipt, **other)])


def sent(*ids: str) -> list[Fact]:
    return [
        Sending({f"copy of {id}": f"digest of {id}" for id in ids}),
        Sent({f"copy of {id}": id for id in ids}),
    ]


def published(*ids: str) -> list[Fact]:
    copies = [f"copy of {id}" for id in ids]
    return [Sending({f"copy of {id}": f"digest of {id}" for id in ids}), Published(copies)]


def deleted(*ids: str, at: int = 200, call: str = "call") -> list[Fact]:
    return [Deleting(call, ids), Deleted(call, ids, at)]


GOOD: list[Fact] = [*sent("a", "b"), Received([delivery("a"), delivery("b")]), *deleted("a", "b")]
ATTEMPT = Sending({"copy of x": "digest of x"})
DROPPED: list[Fact] = [ATTEMPT, Refused(["copy of x"])]
KEPT: list[Fact] = [*sent("x"), received("x"), Deleting("one", ["x"]), Kept("one", ["x"])]
AGAIN: list[Fact] = [*sent("x"), Sent({"copy of x": "x"}), *deleted("x")]

FATES: dict[str, tuple[Sequence[Fact], dict[str, list[str]]]] = {
    # Losses.
    "an acknowledged message that was never received is lost": (sent("x"), {"lost": ["x"]}),
    "a message that was seen once and never again is lost": (
        [*sent("x"), received("x")],
        {"lost": ["x"]},
    ),
    "a message whose deletion was answered with no is lost": (KEPT, {"lost": ["x"]}),
    "a deletion without an answer may be done": ([*KEPT, Deleting("two", ["x"])], {}),
    "an unacknowledged message may be absent": ([ATTEMPT], {}),
    "an unacknowledged message may be there": ([ATTEMPT, received("x"), *deleted("x")], {}),
    "an unacknowledged message that was delivered must not vanish": (
        [ATTEMPT, received("x")],
        {"lost": ["x"]},
    ),
    # Messages published, or sent under a deduplication id.
    "a published message is known by its copy until it is seen": (
        published("x"),
        {"lost": ["copy of x"]},
    ),
    "a published message that was seen is known by its id": (
        [*published("x"), received("x")],
        {"lost": ["x"]},
    ),
    "a published message may be deleted": ([*published("x"), received("x"), *deleted("x")], {}),
    "a look tells the id of a published message": (
        [*published("x"), Seen({"x": "copy of x"})],
        {"lost": ["x"]},
    ),
    "a published message may be deleted by its id alone": (
        [*published("x"), Seen({"x": "copy of x"}), *deleted("x")],
        {},
    ),
    "an aborted stage must not appear": (
        [*DROPPED, received("x"), *deleted("x")],
        {"invented": ["x"]},
    ),
    "a copy that was sent again under its deduplication id has one id": (AGAIN, {}),
    "another id is a copy": (
        [*AGAIN, Sent({"copy of x": "y"}), *deleted("y")],
        {"copied": ["x", "y"]},
    ),
    # Deletions.
    "a lease that began after the acknowledged deletion is a resurrection": (
        [received("a", at=LEASE + 201)],
        {"resurrected": ["a"]},
    ),
    "the first acknowledgement of a deletion counts": (
        [*deleted("a", at=9_000, call="again"), received("a", at=LEASE + 201)],
        {"resurrected": ["a"]},
    ),
    "a delivery that is written down after the deletion may have begun before": (
        [*sent("x"), *deleted("x", at=500), received("x", at=499)],
        {},
    ),
    # Leases.
    "two leases that overlap are one too many": (
        [*sent("x"), received("x", at=1_000), received("x", at=1_500), *deleted("x", at=1_600)],
        {"doubled": ["x"]},
    ),
    "a lease may be doubled and resurrected": (
        [received("a", at=98 + LEASE)],
        {"doubled": ["a"], "resurrected": ["a"]},
    ),
    "one lease is delivered once": (
        [*sent("x"), *[received("x", receipt="same")] * 2, *deleted("x")],
        {"doubled": ["x"]},
    ),
    "a released message may come again at once": (
        [
            *(*sent("x"), received("x", at=1_000), Releasing(["x at 1000"])),
            *(received("x", at=1_100), *deleted("x", at=1_200)),
        ],
        {},
    ),
    "a lease is as long as whole milliseconds can tell": (
        [
            *sent("x"),
            Received([delivery("x", at=1_000), delivery("x", at=999 + LEASE)]),
            *deleted("x", at=4_000),
        ],
        {},
    ),
    "a lease may begin when the one before it is due": (
        [
            *(*sent("x"), received("x", at=1_000)),
            *(received("x", at=1_000 + LEASE), *deleted("x", at=9_000)),
        ],
        {},
    ),
    # Inventions.
    "an unsent message is invented": ([received("x"), *deleted("x")], {"invented": ["x"]}),
    "one attempt makes one message": (
        [received("twin", copy="copy of a", digest="digest of a"), *deleted("twin")],
        {"copied": ["a", "twin"]},
    ),
    "a second attempt makes a second message": (
        [*sent("second"), received("second"), *deleted("second")],
        {},
    ),
    "another body is an alteration": (
        [*sent("x"), received("x", digest="of another body"), *deleted("x")],
        {"altered": ["x"]},
    ),
    "one id is one message": (
        [Sending({"other": "digest of a"}), Sent({"other": "a"})],
        {"altered": ["a"]},
    ),
}


@pytest.mark.parametrize(("facts", "faults"), FATES.values(), ids=FATES)
def test_the_checker_finds_this_and_nothing_else(
    facts: Sequence[Fact], faults: dict[str, list[str]]
) -> None:
    assert judge([*GOOD, *facts]).faults == faults


def test_what_is_left_is_neither_lost_nor_deleted() -> None:
    assert judge([*GOOD, *sent("x", "y"), received("y")], left=("x", "y")).faults == {}
    assert judge(GOOD, left=("a",)).faults == {"resurrected": ["a"]}


def test_a_verdict_counts_what_it_has_seen() -> None:
    verdict = judge(GOOD)
    assert verdict.faults == {}
    assert set(verdict.acknowledged) == set(verdict.delivered) == set(verdict.deleted) == {"a", "b"}
    assert not verdict.redelivered
    assert not verdict.recovered
    assert set(judge([*GOOD, ATTEMPT, received("x"), *deleted("x")]).recovered) == {"x"}
    assert judge([*GOOD, *published("x"), received("x"), *deleted("x")]).recovered == set()
    killed: list[Fact] = [*sent("x"), received("x"), Deleting("killed", ["x"])]
    again = judge([*GOOD, *killed, received("x", at=LEASE + 200), *deleted("x", at=LEASE + 300)])
    assert (again.faults, set(again.redelivered)) == ({}, {"x"})


# Texts for people and ledgers.


def test_a_verdict_tells_its_counts_and_names_some_of_the_faulty() -> None:
    told = str(judge([*GOOD, *sent("x")]))
    assert "3 acknowledged, 2 delivered, 2 deleted" in told
    assert "1 lost" in told
    assert told.endswith("lost: x")
    assert all(f"0 {fault}" in str(judge(GOOD)) for fault in FAULTS)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    ledger = Ledger(tmp_path, "one")
    for fact in GOOD:
        ledger.write(fact)
    (path,) = tmp_path.iterdir()
    return path


def of(path: Path) -> Verdict:
    return judge(read_ledgers(path.parent))


def test_a_ledger_gives_back_what_was_written(written: Path) -> None:
    assert of(written) == judge(GOOD)


def test_a_torn_last_line_says_nothing(written: Path) -> None:
    written.write_bytes(written.read_bytes()[:-3])
    assert not of(written).deleted
    assert of(written).faults == {}, "the deletion was asked for"


def test_a_line_that_is_missing_from_a_ledger_is_a_fault(written: Path) -> None:
    lines = written.read_bytes().splitlines(keepends=True)
    assert [line.split(b'"')[1] for line in lines] == [
        *(b"Sending", b"Sent"),
        *(b"Received", b"Deleting", b"Deleted"),
    ]
    written.write_bytes(b"".join(lines[1:]))
    assert set(of(written).faults) == {"invented"}
    written.write_bytes(b"".join(lines[:3]))
    assert set(of(written).faults) == {"lost"}

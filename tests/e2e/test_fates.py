"""The checker finds what it is there to find, and nothing else."""

from __future__ import annotations

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


def sent(*ids: str) -> list[Fact]:
    return [
        Sending({f"copy of {id}": f"digest of {id}" for id in ids}),
        Sent({f"copy of {id}": id for id in ids}),
    ]


def deleted(*ids: str, at: int = 200, call: str = "call") -> list[Fact]:
    return [Deleting(call, ids), Deleted(call, ids, at)]


GOOD: list[Fact] = [*sent("a", "b"), Received([delivery("a"), delivery("b")]), *deleted("a", "b")]


def faults(*facts: Fact, left: tuple[str, ...] = ()) -> dict[str, list[str]]:
    return judge([*GOOD, *facts], left=left).faults


def test_a_run_without_faults_has_none() -> None:
    verdict = judge(GOOD)
    assert verdict.faults == {}
    assert set(verdict.acknowledged) == set(verdict.delivered) == set(verdict.deleted) == {"a", "b"}
    assert not verdict.redelivered
    assert not verdict.recovered


# Losses.


def test_an_acknowledged_message_that_was_never_received_is_lost() -> None:
    assert faults(*sent("x")) == {"lost": ["x"]}


def test_a_message_that_was_seen_once_and_then_never_again_is_lost() -> None:
    assert faults(*sent("x"), Received([delivery("x")])) == {"lost": ["x"]}


def test_a_message_that_is_left_is_not_lost() -> None:
    assert faults(*sent("x", "y"), Received([delivery("y")]), left=("x", "y")) == {}


def test_a_message_whose_deletion_was_answered_with_no_is_lost() -> None:
    asked: list[Fact] = [
        *sent("x"),
        Received([delivery("x")]),
        Deleting("one", ["x"]),
        Kept("one", ["x"]),
    ]
    assert faults(*asked) == {"lost": ["x"]}
    assert faults(*asked, Deleting("two", ["x"])) == {}, "the second answer was never seen"


def test_an_unacknowledged_message_may_be_there_or_not() -> None:
    attempt = Sending({"copy of x": "digest of x"})
    assert faults(attempt) == {}
    verdict = judge([*GOOD, attempt, Received([delivery("x")]), *deleted("x")])
    assert verdict.faults == {}
    assert set(verdict.recovered) == {"x"}


def test_an_unacknowledged_message_that_was_delivered_must_not_vanish() -> None:
    assert faults(Sending({"copy of x": "digest of x"}), Received([delivery("x")])) == {"lost": ["x"]}


# Messages published, or sent under a deduplication id.


def published(*ids: str) -> list[Fact]:
    copies = [f"copy of {id}" for id in ids]
    return [Sending({f"copy of {id}": f"digest of {id}" for id in ids}), Published(copies)]


def test_a_published_message_is_known_by_its_copy_until_it_is_seen() -> None:
    assert faults(*published("x")) == {"lost": ["copy of x"]}
    seen = [*published("x"), Received([delivery("x")])]
    assert faults(*seen) == {"lost": ["x"]}
    assert faults(*seen, *deleted("x")) == {}
    assert judge([*GOOD, *seen, *deleted("x")]).recovered == set()


def test_a_published_message_that_was_deleted_by_its_id_alone_is_not_lost() -> None:
    assert faults(*published("x"), Seen({"x": "copy of x"})) == {"lost": ["x"]}
    assert faults(*published("x"), Seen({"x": "copy of x"}), *deleted("x")) == {}


def test_an_aborted_stage_must_not_appear() -> None:
    dropped = [Sending({"copy of x": "digest of x"}), Refused(["copy of x"])]
    assert faults(*dropped, Received([delivery("x")]), *deleted("x")) == {"invented": ["x"]}


def test_a_copy_that_was_sent_again_under_its_deduplication_id_has_one_id() -> None:
    again: list[Fact] = [*sent("x"), Sent({"copy of x": "x"}), *deleted("x")]
    assert faults(*again) == {}
    assert faults(*again, Sent({"copy of x": "y"}), *deleted("y")) == {"copied": ["x", "y"]}


# Deletions.


def test_a_lease_that_began_after_the_acknowledged_deletion_is_a_resurrection() -> None:
    assert faults(Received([delivery("a", at=LEASE + 201)])) == {"resurrected": ["a"]}


def test_the_first_acknowledgement_of_a_deletion_counts() -> None:
    again = deleted("a", at=9_000, call="again")
    assert faults(*again, Received([delivery("a", at=LEASE + 201)])) == {"resurrected": ["a"]}


def test_a_deleted_message_that_is_left_is_resurrected() -> None:
    assert faults(left=("a",)) == {"resurrected": ["a"]}


def test_a_delivery_that_is_written_down_after_the_deletion_may_have_begun_before() -> None:
    assert faults(*sent("x"), *deleted("x", at=500), Received([delivery("x", at=499)])) == {}


def test_a_message_may_come_back_while_its_deletion_is_not_acknowledged() -> None:
    killed: list[Fact] = [*sent("x"), Received([delivery("x")]), Deleting("killed", ["x"])]
    again: list[Fact] = [Received([delivery("x", at=LEASE + 200)]), *deleted("x", at=LEASE + 300)]
    verdict = judge([*GOOD, *killed, *again])
    assert verdict.faults == {}
    assert set(verdict.redelivered) == {"x"}


# Leases.


def test_two_leases_that_overlap_are_one_too_many() -> None:
    assert faults(Received([delivery("a", at=98 + LEASE)])) == {"doubled": ["a"], "resurrected": ["a"]}
    twice: list[Fact] = [Received([delivery("x", at=1_000)]), Received([delivery("x", at=1_500)])]
    assert faults(*sent("x"), *twice, *deleted("x", at=1_600)) == {"doubled": ["x"]}


def test_one_lease_is_delivered_once() -> None:
    twice = [delivery("x", receipt="same"), delivery("x", receipt="same")]
    assert faults(*sent("x"), Received(twice), *deleted("x")) == {"doubled": ["x"]}


def test_a_released_message_may_come_again_at_once() -> None:
    first, second = delivery("x", at=1_000), delivery("x", at=1_100)
    released: list[Fact] = [Received([first]), Releasing([first.receipt]), Received([second])]
    assert faults(*sent("x"), *released, *deleted("x", at=1_200)) == {}


def test_a_lease_is_as_long_as_whole_milliseconds_can_tell() -> None:
    leases: list[Fact] = [Received([delivery("x", at=1_000), delivery("x", at=999 + LEASE)])]
    assert faults(*sent("x"), *leases, *deleted("x", at=4_000)) == {}


def test_a_lease_may_begin_when_the_one_before_it_is_due() -> None:
    leases: list[Fact] = [
        Received([delivery("x", at=1_000)]),
        Received([delivery("x", at=1_000 + LEASE)]),
    ]
    assert faults(*sent("x"), *leases, *deleted("x", at=9_000)) == {}


# Inventions.


def test_an_unsent_message_is_invented() -> None:
    assert faults(Received([delivery("x")]), *deleted("x")) == {"invented": ["x"]}


def test_a_refused_message_is_invented() -> None:
    refused: list[Fact] = [Sending({"copy of x": "digest of x"}), Refused(["copy of x"])]
    assert faults(*refused, Received([delivery("x")]), *deleted("x")) == {"invented": ["x"]}


def test_one_attempt_makes_one_message() -> None:
    twin = delivery("twin", copy="copy of a", digest="digest of a")
    assert faults(Received([twin]), *deleted("twin")) == {"copied": ["a", "twin"]}


def test_a_second_attempt_makes_a_second_message() -> None:
    assert faults(*sent("second"), Received([delivery("second")]), *deleted("second")) == {}


def test_another_body_is_an_alteration() -> None:
    torn = delivery("x", digest="of another body")
    assert faults(*sent("x"), Received([torn]), *deleted("x")) == {"altered": ["x"]}


def test_one_id_is_one_message() -> None:
    clash: list[Fact] = [Sending({"other": "digest of a"}), Sent({"other": "a"})]
    assert faults(*clash) == {"altered": ["a"]}


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

"""The benchmarks' own arithmetic: lost and doubled messages are found, and the figures are right."""

from __future__ import annotations

import random

import pytest

from benchmarks import delivery_account, message_bodies, page_figures
from benchmarks.delivery_account import ticket
from benchmarks.message_bodies import ForeignBody


def received(sent: dict[int, int]) -> list[int]:
    """Return all of it, once, in no order."""
    found = [ticket(sender, number) for sender, count in sent.items() for number in range(count)]
    random.Random(1).shuffle(found)
    return found


SENT = {0: 1_000, 1: 10, 7: 1}


ALL = received(SENT)
LOST, DOUBLED = ticket(0, 5), ticket(0, 6)


@pytest.mark.parametrize(
    ("found", "faults"),
    [
        (ALL, []),
        ([each for each in ALL if each != ticket(1, 9)], ["1 lost: 1/9"]),
        # The last message of a sender is missed, too.
        ([each for each in ALL if each != ticket(7, 0)], ["1 lost: 7/0"]),
        # A doubled message doesn't hide a lost one.
        (
            [DOUBLED if each == LOST else each for each in ALL],
            ["1 delivered more than once: 0/6", "1 lost: 0/5"],
        ),
        ([*ALL, ticket(1, 10), ticket(2, 0)], ["2 that no sender knows of: 1/10, 2/0"]),
    ],
)
def test_each_lost_doubled_and_unknown_message_is_named(found: list[int], faults: list[str]) -> None:
    assert delivery_account.faults(SENT, found) == faults


def test_messages_left_on_purpose_are_not_lost_and_doubled_ones_are_found() -> None:
    assert delivery_account.faults(SENT, ALL[:10], all_of_it=False) == []
    (fault,) = delivery_account.faults(SENT, [*ALL[:10], LOST, LOST], all_of_it=False)
    assert fault.startswith("1 delivered more than once: 0/5")


def test_a_body_says_its_sender_and_its_due_time() -> None:
    body = message_bodies.body_of(1 << 62, 3, 4, 5)
    assert len(body) == message_bodies.SIZE
    assert message_bodies.mark_of(body) == message_bodies.Mark(run=1 << 62, sender=3, number=4, due=5)


BODY = message_bodies.body_of(1, 2, 3)


@pytest.mark.parametrize(
    "body", [b"", b"x" * message_bodies.SIZE, BODY[:-1], BODY[:-1] + bytes([BODY[-1] ^ 1])]
)
def test_an_invented_and_a_changed_body_are_reported(body: bytes) -> None:
    with pytest.raises(ForeignBody):
        message_bodies.mark_of(body)


def test_the_median_and_the_noise_of_rounds() -> None:
    found = page_figures.summary([90.0, 100.0, 130.0])
    assert (found.median, found.least, found.most, found.rounds) == (100.0, 90.0, 130.0, 3)
    assert found.noise == pytest.approx(0.2)
    assert page_figures.summary([5.0]).noise == 0.0
    with pytest.raises(ValueError, match="no rounds"):
        page_figures.summary([])


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(100, 0, -1)]
    assert page_figures.percentile(values, 0.5) == 50.0
    assert page_figures.percentile(values, 0.99) == 99.0
    assert page_figures.percentile(values, 1.0) == 100.0
    assert page_figures.percentile([7.0], 0.01) == 7.0


def test_a_ratio_to_nothing_is_none() -> None:
    assert page_figures.ratio(10.0, 4.0) == 2.5
    assert page_figures.ratio(10.0, 0.0) is None


def test_rates_are_written_short() -> None:
    written = [
        page_figures.short(value) for value in (0.1234, 12.34, 123.4, 9_994, 48_251, 123_456, 1_000_000)
    ]
    assert written == ["0.123", "12.3", "123", "9,994", "48.3k", "123k", "1M"]

"""The benchmarks' own arithmetic: lost and doubled messages are found, and the figures are right."""

from __future__ import annotations

import random

import pytest

from benchmarks import delivery_account, message_bodies, page_figures
from benchmarks.message_bodies import ForeignBody


def received(sent: dict[int, int]) -> list[int]:
    """Return all of it, once, in no order."""
    found = [
        delivery_account.ticket(sender, number)
        for sender, count in sent.items()
        for number in range(count)
    ]
    random.Random(1).shuffle(found)
    return found


SENT = {0: 1_000, 1: 10, 7: 1}


def test_a_message_received_once_has_no_fault() -> None:
    assert delivery_account.faults(SENT, received(SENT)) == []


def test_a_lost_message_is_found_and_named() -> None:
    found = received(SENT)
    found.remove(delivery_account.ticket(1, 9))
    assert delivery_account.faults(SENT, found) == ["1 lost: 1/9"]


def test_the_last_message_of_a_sender_is_missed_too() -> None:
    found = received(SENT)
    found.remove(delivery_account.ticket(7, 0))
    assert delivery_account.faults(SENT, found) == ["1 lost: 7/0"]


def test_messages_left_on_purpose_are_not_lost() -> None:
    assert delivery_account.faults(SENT, received(SENT)[:10], all_of_it=False) == []


def test_a_doubled_message_is_found_also_if_not_all_was_received() -> None:
    found = [*received(SENT)[:10], delivery_account.ticket(0, 3), delivery_account.ticket(0, 3)]
    (fault,) = delivery_account.faults(SENT, found, all_of_it=False)
    assert fault.startswith("1 delivered more than once: 0/3")


def test_a_doubled_message_doesn_t_hide_a_lost_one() -> None:
    found = received(SENT)
    found[found.index(delivery_account.ticket(0, 5))] = delivery_account.ticket(0, 6)
    assert delivery_account.faults(SENT, found) == ["1 delivered more than once: 0/6", "1 lost: 0/5"]


def test_a_message_that_no_sender_knows_of_is_found() -> None:
    found = [*received(SENT), delivery_account.ticket(1, 10), delivery_account.ticket(2, 0)]
    assert delivery_account.faults(SENT, found) == ["2 that no sender knows of: 1/10, 2/0"]


def test_a_body_says_its_sender_and_its_due_time() -> None:
    body = message_bodies.body_of(1 << 62, 3, 4, 5)
    assert len(body) == message_bodies.SIZE
    assert message_bodies.mark_of(body) == message_bodies.Mark(run=1 << 62, sender=3, number=4, due=5)


@pytest.mark.parametrize(
    "body", [b"", b"x" * message_bodies.SIZE, message_bodies.body_of(1, 2, 3)[:-1]]
)
def test_an_invented_body_is_reported(body: bytes) -> None:
    with pytest.raises(ForeignBody):
        message_bodies.mark_of(body)


def test_a_changed_bit_at_the_end_of_a_body_is_told() -> None:
    body = bytearray(message_bodies.body_of(1, 2, 3))
    body[-1] ^= 1
    with pytest.raises(ForeignBody):
        message_bodies.mark_of(bytes(body))


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

"""A receipt is of one message under one lease, and any other text is none."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack_store.model import receipts
from spoolrack_store.model.errors import InvalidReceipt
from spoolrack_store.model.members import MOST

ID = "0190b0c0-1234-7abc-8def-0123456789ab"
TAG = "0123456789abcdef"
TOKENS = ("0123456789abv", "0123456789abu")

indexes = st.integers(0, MOST - 1)


@given(indexes, indexes)
def test_a_receipt_fits_its_message_and_no_other_of_the_lease(index: int, other: int) -> None:
    (made,) = receipts.make("q", TOKENS[0], [(index, ID)])
    receipt = receipts.parse("q", made)

    assert receipt.id == ID
    assert receipts.fits(receipt, TOKENS[0], index)
    assert receipts.fits(receipt, TOKENS[0], other) == (index == other)
    assert not receipts.fits(receipt, TOKENS[1], index)


@given(st.lists(indexes, unique=True).map(sorted))
def test_receipts_that_are_made_together_are_those_that_are_made_alone(members: list[int]) -> None:
    together = receipts.make("q", TOKENS[0], [(index, ID) for index in members])

    assert together == [receipts.make("q", TOKENS[0], [(index, ID)])[0] for index in members]


def test_a_receipt_of_another_queue_is_none_of_this_one() -> None:
    (made,) = receipts.make("q", TOKENS[0], [(0, ID)])

    with pytest.raises(InvalidReceipt):
        receipts.parse("other", made)


@pytest.mark.parametrize(
    "text",
    [
        f"q:{ID}",
        f"q:{ID}~",
        f"{ID}~{TAG}",
        f":{ID}~{TAG}",
        f"q/:{ID}~{TAG}",
        f"q:/{ID}~{TAG}",
        f"q:{ID}/~{TAG}",
        f"q:../{ID}~{TAG}",
        f"q:{ID}/{ID}~{TAG}",
        f"q:{ID},s1~{TAG}",
        f"q:{ID}~{TAG}\n",
        f"q:{ID}~{TAG}\0",
        f"q:{ID}~{TAG[:-1]}",
        f"q:{ID}~{TAG[:-1]}\N{FULLWIDTH DIGIT ONE}",
        f"q:{ID}@1700000000000~{TAG}",
        "q" * 10_000_000,
    ],
    ids=lambda text: ascii(text[:60]),
)
def test_a_bad_receipt_is_no_receipt(text: str) -> None:
    with pytest.raises(InvalidReceipt):
        receipts.parse("q", text)


@given(st.text())
@example("")
@example("\0")
@example("..")
@example("../../etc/passwd")
@example(":")
@example("~")
def test_garbage_is_no_receipt(text: str) -> None:
    for queue in ("q", text.partition(":")[0]):
        with pytest.raises(InvalidReceipt):
            receipts.parse(queue, text)


@given(st.integers(1, len(TAG)), st.sampled_from(TAG))
def test_a_receipt_with_another_tag_fits_no_lease(place: int, digit: str) -> None:
    (made,) = receipts.make("q", TOKENS[0], [(3, ID)])
    at = len(made) - place
    other = made[:at] + digit + made[at + 1 :]
    assert receipts.fits(receipts.parse("q", other), TOKENS[0], 3) == (other == made)

"""A spare file's seal says one name, of this spare alone, or none."""

from __future__ import annotations

import pytest
from spoolrack_store.files.layout import spare_owner, spare_path
from spoolrack_store.files.spares import SEAL_BYTES, seal_of, sealed_name

SPARE = spare_path("p1", 7)
PATH = "new/q:018bcfe5-6800-7194-90e5-78aa9611a000,s5,c3610a686,op1@1700000000000"
SEAL = seal_of(SPARE, PATH)


def test_a_seal_says_the_name_that_the_file_is_to_have() -> None:
    found = sealed_name(SPARE, SEAL)
    assert found is not None
    assert found.path == PATH
    assert len(SEAL) == SEAL_BYTES


def test_a_seal_of_another_spare_says_nothing() -> None:
    assert sealed_name(spare_path("p1", 8), SEAL) is None
    assert sealed_name(spare_path("p2", 7), SEAL) is None


def test_no_bit_of_a_seal_can_flip_unseen() -> None:
    for bit in range(8 * len(SEAL.rstrip(b"\0"))):
        flipped = bytearray(SEAL)
        flipped[bit // 8] ^= 1 << bit % 8
        assert sealed_name(SPARE, bytes(flipped)) is None


def test_a_seal_that_was_not_written_whole_says_nothing() -> None:
    for length in range(len(SEAL.rstrip(b"\0"))):
        assert sealed_name(SPARE, SEAL[:length].ljust(SEAL_BYTES, b"\0")) is None


@pytest.mark.parametrize(
    "path", ["queues/q/" + PATH.partition(":")[2], "new/q:anything", "new/p1-1.body", ""]
)
def test_a_seal_says_only_names_of_files_that_are_sent(path: str) -> None:
    assert sealed_name(SPARE, seal_of(SPARE, path)) is None


def test_a_spare_names_its_owner() -> None:
    assert spare_owner(SPARE.removeprefix("new/")) == "p1"
    for name in ("p1-.spare", "p1-7.body", "P-7.spare", "p1-x.spare", "p1.spare", "q:p1-7.spare"):
        assert spare_owner(name) == ""

"""Random numbers that are drawn from a pool are as good as fresh ones."""

from __future__ import annotations

import os

import pytest
from spoolrack_store.model.message_ids import PooledRandom


def test_numbers_have_the_bits_that_were_asked_for() -> None:
    random = PooledRandom()
    for bits in (1, 7, 8, 32, 64, 73, 100_000):
        drawn = [random.getrandbits(bits) for _ in range(20)]
        assert all(0 <= number < 1 << bits for number in drawn)
        if bits >= 32:
            assert len(set(drawn)) == len(drawn)
    assert {random.getrandbits(1) for _ in range(200)} == {0, 1}
    assert random.getrandbits(0) == 0
    with pytest.raises(ValueError, match="negative"):
        random.getrandbits(-1)


def test_no_number_is_drawn_twice() -> None:
    random = PooledRandom()
    assert len({random.getrandbits(64) for _ in range(10_000)}) == 10_000


def test_a_forked_process_draws_others_than_its_parent() -> None:
    random = PooledRandom()
    random.getrandbits(64)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, random.getrandbits(64).to_bytes(8, "big"))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = int.from_bytes(os.read(reading, 8), "big")
    os.close(reading)
    os.close(writing)
    assert random.getrandbits(64) != theirs

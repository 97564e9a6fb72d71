"""A group of a million messages holds up nothing: small groups are received as soon as without it."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store.model.operations import CreateQueue, Delete, Receive, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

GIVE_UP = 300.0
SMALL = 100
IN_A_FILE = 1_000


def receives_until_all_small_ones_came(root: Path, large: int, group_order: str) -> int:
    with Store.open(root) as store:
        settings = QueueSettings(group_order=group_order)
        store.submit(CreateQueue(name="q", settings=settings)).result(GIVE_UP)
        filling: list[Future[Any]] = [
            store.submit(
                Send(
                    queue="q",
                    bodies=[b"large"] * IN_A_FILE,
                    groups=dict.fromkeys(range(IN_A_FILE), "large"),
                )
            )
            for _ in range(large // IN_A_FILE)
        ]
        for each in filling:
            each.result(GIVE_UP)
        groups = {number: f"small {number}" for number in range(SMALL)}
        store.submit(Send(queue="q", bodies=[b"small"] * SMALL, groups=groups)).result(GIVE_UP)
        found = receives = 0
        while found < SMALL:
            receives += 1
            for delivery in store.submit(Receive(queue="q", max_messages=10)).result(GIVE_UP):
                found += delivery.bodies.count(b"small")
                store.submit(Delete(queue="q", receipts=delivery.receipts)).result(GIVE_UP)
        return receives


@pytest.mark.parametrize("group_order", ["fair", "strict"])
@pytest.mark.parametrize("large", [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_small_groups_wait_for_one_turn_of_a_large_one(
    tmp_path: Path, large: int, group_order: str
) -> None:
    alone = receives_until_all_small_ones_came(tmp_path / "alone", 0, group_order)
    beside = receives_until_all_small_ones_came(tmp_path / "beside", large, group_order)
    assert (alone, beside) == (10, 11)

"""Messages are received in the order in which they were sent, whichever of them share a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_store.engine.sender import FILE_BYTES
from spoolrack_store.model.operations import LARGE_BODY, Delivery, Receive, Send

from tests.support.engines import commit
from tests.support.root_rig import lay_out, opened, settle

LARGE = bytes(LARGE_BODY + 1)
FIFTH = bytes(FILE_BYTES // 5)
"""Five of it, with a byte more each, fill a file."""


def received(root: Path, sends: list[list[bytes]]) -> list[tuple[int, bytes]]:
    """Send each list as a request of one commit; return length and end of all bodies as received."""
    lay_out(root)
    engine = opened(root)
    commit(engine, *(Send(queue="q", bodies=bodies) for bodies in sends))
    settle(engine)
    (found,) = commit(engine, Receive(queue="q", max_messages=100, max_bytes=1 << 30))
    assert isinstance(found, list)
    deliveries = [each for each in found if isinstance(each, Delivery)]
    return [(len(body), body[-1:]) for delivery in deliveries for body in delivery.bodies]


@pytest.mark.parametrize(
    "sends",
    [
        [[LARGE + b"1", b"2", LARGE + b"3", b"4", b"5"]],
        [[b"1", b"2", LARGE + b"3", b"4"], [b"5"], [LARGE + b"6", b"7"]],
        [[FIFTH + b"1"] * 4, [FIFTH + b"2"] * 5, [b"3"]],
    ],
    ids=["large bodies in one request", "in several requests", "files that are full"],
)
def test_messages_of_one_commit_keep_the_order_of_the_sends(
    tmp_path: Path, sends: list[list[bytes]]
) -> None:
    expected = [(len(body), body[-1:]) for bodies in sends for body in bodies]
    assert received(tmp_path / "root", sends) == expected

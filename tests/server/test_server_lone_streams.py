"""How long a request may wait for the disk in the event loop: longer where nobody would share the sync.

With one caller on a disk whose sync takes 0.3 ms, a hand-over to another thread and back is a third of
the way; with many callers a sync that all share is worth more than it.
"""

from __future__ import annotations

from typing import Any, cast

import pytest
from spoolrack_server.app.store_access import ALONE, QUICK, QUICK_ALONE, StoreAccess
from spoolrack_store.model.operations import Receive
from spoolrack_store.store import Store


class Tried:
    """A store that answers with the seconds that a request may wait."""

    def try_now(self, request: object, within: float) -> float:
        return within

    def submit(self, request: object) -> Any:
        raise NotSubmitted


class NotSubmitted(Exception):
    """The request shares a commit."""


@pytest.fixture
def access() -> StoreAccess:
    return StoreAccess(cast(Store, Tried()))


def within(access: StoreAccess) -> object:
    """Return how long a request may wait for the disk in the event loop; None: it shares a commit."""
    try:
        return access.begin(Receive(queue="q")).result()
    except NotSubmitted:
        return None


def bring(access: StoreAccess, kind: str, stream: int, times: int = 1) -> object:
    for _ in range(times):
        access.arrive(1, kind, stream)
    return within(access)


def test_a_request_of_no_stream_waits_for_a_quick_disk_only(access: StoreAccess) -> None:
    assert within(access) == QUICK


def test_a_request_of_no_stream_waits_so_after_those_of_streams_too(access: StoreAccess) -> None:
    access.arrive(2, "send", 1)
    assert (within(access), within(access), within(access)) == (None, None, QUICK)
    assert bring(access, "send", 1, ALONE) == QUICK_ALONE
    assert within(access) == QUICK


def test_a_stream_is_alone_after_some_lone_requests_in_a_row(access: StoreAccess) -> None:
    assert bring(access, "send", 1, ALONE - 1) is None
    assert bring(access, "send", 1) == QUICK_ALONE


def test_a_stream_isnt_alone_beside_another_of_its_kind(access: StoreAccess) -> None:
    bring(access, "send", 1, ALONE)
    assert bring(access, "send", 2) is None
    assert bring(access, "send", 1) is None, "two callers that take turns would wait for each other"
    assert bring(access, "send", 1, ALONE) == QUICK_ALONE


def test_a_life_is_alone_though_its_streams_take_turns(access: StoreAccess) -> None:
    for _ in range(ALONE):
        for kind in ("send", "receive", "delete"):
            bring(access, kind, ord(kind[0]))
    assert bring(access, "receive", ord("r")) == QUICK_ALONE


def test_requests_that_come_joined_share_a_commit_and_their_stream_isnt_alone(
    access: StoreAccess,
) -> None:
    bring(access, "send", 1, ALONE)
    access.arrive(2, "send", 1)
    assert within(access) is None
    assert bring(access, "send", 1) is None

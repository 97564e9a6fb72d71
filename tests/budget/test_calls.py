"""A lone send, receive and delete call few functions of the store, in the caller and in the commit."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidRequest, QueueNotFound, StoreError
from spoolrack_store.model.operations import Delete, Receive, Send, messages_of

from tests.budget.test_modules import PACKAGE, Traced

CEILINGS = {"send": 180, "receive": 166, "delete": 170}
"""Calls of functions, properties and generators of the store, up to where it rests. A ceiling may only
fall: lower it when a change has made the count smaller."""


def calls_of(call: Callable[[], Any]) -> Counter[str]:
    """Count the calls of the store's functions during `call`, in this thread; a generator that goes on
    is a call, too."""
    found: Counter[str] = Counter()

    def on_call(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            found[f"{path.relative_to(PACKAGE).as_posix()}:{frame.f_code.co_qualname}"] += 1

    before = sys.getprofile()
    sys.setprofile(on_call)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


def calls_of_a_life(traced: Traced) -> dict[str, Counter[str]]:
    """Send a message, receive and delete it; return the calls of each."""
    found: list[Any] = []
    send = calls_of(lambda: traced.ask(Send(queue="q", bodies=[b"x"])))
    receive = calls_of(lambda: found.extend(traced.ask(Receive(queue="q", max_messages=1))))
    (message,) = messages_of(found)
    delete = Delete(queue="q", receipts=[message.receipt or ""])
    return {"send": send, "receive": receive, "delete": calls_of(lambda: traced.ask(delete))}


@pytest.fixture
def life(tmp_path: Path) -> dict[str, Counter[str]]:
    traced = Traced(tmp_path / "root")
    with traced.store:
        calls_of_a_life(traced)  # First-time work is done.
        return calls_of_a_life(traced)


@pytest.mark.parametrize("operation", CEILINGS)
def test_a_lone_operation_calls_no_more_functions_than_its_ceiling(
    life: dict[str, Counter[str]], operation: str
) -> None:
    calls = life[operation]

    assert calls.total() <= CEILINGS[operation], calls.most_common()


def test_a_receive_waits_without_a_commit_where_nothing_is_ready(tmp_path: Path) -> None:
    traced = Traced(tmp_path / "root")
    with traced.store:
        committer = traced.driver.committer
        waiting = traced.store.submit(Receive(queue="q", wait=None))
        assert committer.poll_work()[0] is False
        assert (committer.waiting, waiting.done()) == (1, False)
        traced.ask(Send(queue="q", bodies=[b"x"]))
        assert [message.body for message in messages_of(waiting.result())] == [b"x"]


@pytest.mark.parametrize(
    ("receive", "error"),
    [
        (Receive(queue="nowhere", wait=None), QueueNotFound),
        (Receive(queue="q", wait=None, max_messages=0), InvalidRequest),
        (Receive(queue="q", wait=None, visibility=Millis(0)), InvalidRequest),
    ],
    ids=["no queue", "no messages", "no visibility timeout"],
)
def test_an_invalid_receive_does_not_wait(
    tmp_path: Path, receive: Receive, error: type[StoreError]
) -> None:
    traced = Traced(tmp_path / "root")
    with traced.store:
        refused = traced.store.submit(receive)
        traced.driver.run()
        assert isinstance(refused.exception(0), error)


def test_a_receive_that_waits_without_a_commit_is_answered_when_its_wait_is_over(
    tmp_path: Path,
) -> None:
    traced = Traced(tmp_path / "root")
    with traced.store:
        committer = traced.driver.committer
        waiting = traced.store.submit(Receive(queue="q", wait=Millis(500)))
        assert committer.poll_work() == (False, traced.clock.monotonic() + 500)
        gone = traced.store.submit(Receive(queue="q", wait=None))
        assert committer.poll_work()[0] is False
        gone.cancel()
        traced.clock.advance(500)
        traced.driver.run()
        assert waiting.result() == []
        assert committer.waiting == 0

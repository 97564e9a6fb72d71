"""A lone send, receive and delete call few functions of few modules of the store, in the caller and in
the commit, and ask nothing of the parts that they don't concern."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import spoolrack_store
from spoolrack_store.committer import ENDED_WAITS
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidRequest, QueueNotFound, StoreError
from spoolrack_store.model.operations import CreateQueue, Delete, Receive, Request, Send, messages_of
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from spoolrack_store.thread_driver import run_whole

from tests.store.front_rig import CallersDriver
from tests.support.function_calls import FunctionCalls

CEILINGS = {"send": 88, "receive": 100, "delete": 87}
"""Calls of functions, properties and generators of the store, without its clocks, for an answer in the
caller's thread. A ceiling may only fall: lower it when a change has made the count smaller."""
SUBMITTED = {"send": 162, "receive": 133, "delete": 151}
"""The same of an answer in a future, up to where the store rests."""
CLOCKS = {"manual_clock.py", "model/clock.py"}
MODULES = {"send": 27, "receive": 25, "delete": 27}
"""Ceilings of the modules whose functions are called: a reader has to open no more. Only a module with
several ideas that is divided may raise them."""
PACKAGE = Path(spoolrack_store.__file__).parent


class Traced:
    """A store with one queue, whose modules can be counted."""

    def __init__(self, root: Path) -> None:
        self.driver = CallersDriver()
        self.clock = ManualClock()
        self.store = Store.open(root, clock=self.clock, driver=self.driver)
        self.ask(CreateQueue(name="q", settings=QueueSettings()))

    def ask(self, request: Request[Any], *, now: bool = False) -> Any:
        if now:
            answered = self.store.try_now(request, math.inf)
            assert answered is not None
            return answered
        answer = self.store.submit(request)
        self.driver.run()
        return answer.result()


def function_of_the_store(frame: FrameType) -> str | None:
    path = Path(frame.f_code.co_filename)
    module = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else ""
    return f"{module}:{frame.f_code.co_qualname}" if module and module not in CLOCKS else None


def calls_of(call: Callable[[], Any]) -> Counter[str]:
    """Count the calls of the store's functions during `call`, in this thread."""
    with FunctionCalls(function_of_the_store) as calls:
        return calls.during(call, threading.get_ident())


def calls_of_a_life(traced: Traced, *, now: bool) -> dict[str, Counter[str]]:
    """Send a message, receive and delete it; return the calls of each."""
    found: list[Any] = []
    send = calls_of(lambda: traced.ask(Send(queue="q", bodies=[b"x"]), now=now))
    receive = calls_of(lambda: found.extend(traced.ask(Receive(queue="q", max_messages=1), now=now)))
    (message,) = messages_of(found)
    delete = Delete(queue="q", receipts=[message.receipt or ""])
    return {"send": send, "receive": receive, "delete": calls_of(lambda: traced.ask(delete, now=now))}


def life(root: Path, *, now: bool) -> dict[str, Counter[str]]:
    """Return the calls of a second life, for which nothing is done for the first time."""
    traced = Traced(root)
    with traced.store:
        calls_of_a_life(traced, now=now)
        return calls_of_a_life(traced, now=now)


@pytest.mark.parametrize("operation", CEILINGS)
def test_a_lone_operation_calls_no_more_functions_and_modules_than_its_ceilings(
    tmp_path: Path, operation: str
) -> None:
    calls = life(tmp_path / "now", now=True)[operation]
    submitted = life(tmp_path / "submitted", now=False)[operation]
    modules = {call.partition(":")[0] for call in submitted}

    assert calls.total() <= CEILINGS[operation], calls.most_common()
    assert submitted.total() <= SUBMITTED[operation], submitted.most_common()
    assert len(modules) <= MODULES[operation], sorted(modules)


def test_a_send_asks_nothing_of_parts_that_have_nothing_pending(tmp_path: Path) -> None:
    idle = {"stages", "redriver", "dead_letters", "deduplication", "adoption", "archive"}
    modules = {Path(call.partition(":")[0]).stem for call in life(tmp_path / "root", now=False)["send"]}

    assert not idle & modules


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
        (Receive(queue="q", wait=None, visibility_timeout=Millis(0)), InvalidRequest),
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


def test_a_receive_after_an_answered_send_waits_for_no_work_that_may_settle(tmp_path: Path) -> None:
    traced = Traced(tmp_path / "root")
    with traced.store:
        committer = traced.driver.committer
        traced.store.submit(Send(queue="q", bodies=[b"x"]))
        run_whole(committer)  # It is durable and answered, and not yet in its queue.
        waiting = traced.store.submit(Receive(queue="q", wait=None))
        assert committer.poll_work()[0] is True
        assert committer.is_awaited
        run_whole(committer)
        assert [message.body for message in messages_of(waiting.result(0))] == [b"x"]


def test_waits_that_end_together_are_answered_in_slices(tmp_path: Path) -> None:
    traced = Traced(tmp_path / "root")
    with traced.store:
        waits = [
            traced.store.submit(Receive(queue="q", wait=Millis(500))) for _ in range(5 * ENDED_WAITS)
        ]
        traced.driver.run()
        traced.clock.advance(500)
        for ended in range(1, 6):
            assert traced.driver.committer.poll_work()[0] is True
            run_whole(traced.driver.committer)
            assert sum(each.done() for each in waits) == ended * ENDED_WAITS
        assert {len(each.result()) for each in waits} == {0}

"""A lone operation crosses few modules of the store, and asks nothing of the parts that it doesn't
concern."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import spoolrack_store
from spoolrack_store.committer import Committer
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.operations import CreateQueue, Delete, Receive, Request, Send, messages_of
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from spoolrack_store.thread_driver import run_whole

CEILINGS = {"send": 21, "receive": 26, "delete": 26}
"""Modules: a reader has to open no more to follow a message. A ceiling may only fall: lower it when a
change has made the count smaller."""
MOST_COMMITS = 20
PACKAGE = Path(spoolrack_store.__file__).parent


class CallersDriver:
    """Runs the commits when it is told to, in the caller's thread."""

    committer: Committer

    def start(self, committer: Committer) -> None:
        self.committer = committer

    def wake(self) -> None:
        pass

    def stop(self) -> None:
        self.run()

    def run(self) -> None:
        """Commit as long as there is something to do."""
        for _ in range(MOST_COMMITS):
            if not self.committer.poll_work()[0]:
                return
            run_whole(self.committer)
        raise AssertionError("the store doesn't come to rest")


class Traced:
    """A store with one queue, whose modules can be counted."""

    def __init__(self, root: Path) -> None:
        self.driver = CallersDriver()
        self.clock = ManualClock()
        self.store = Store.open(root, clock=self.clock, driver=self.driver)
        self.ask(CreateQueue(name="q", settings=QueueSettings()))

    def ask(self, request: Request[Any]) -> Any:
        answer = self.store.submit(request)
        self.driver.run()
        return answer.result()

    def life(self, crossed: Callable[[Callable[[], Any]], set[str]]) -> dict[str, set[str]]:
        """Send a message, receive and delete it; return the modules that each of these has crossed."""
        found: list[Any] = []
        send = crossed(lambda: self.ask(Send(queue="q", bodies=[b"x"])))
        receive = crossed(lambda: found.extend(self.ask(Receive(queue="q", max_messages=1))))
        (message,) = messages_of(found)
        delete = crossed(lambda: self.ask(Delete(queue="q", receipts=[message.receipt or ""])))
        return {"send": send, "receive": receive, "delete": delete}


def modules_of(call: Callable[[], Any]) -> set[str]:
    """Return the modules of the store of which a function runs during `call`, in this thread."""
    found: set[str] = set()

    def on_call(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            found.add(path.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    sys.setprofile(on_call)
    try:
        call()
    finally:
        sys.setprofile(before)
    return found


@pytest.fixture
def life(tmp_path: Path) -> dict[str, set[str]]:
    traced = Traced(tmp_path / "root")
    with traced.store:
        traced.life(modules_of)  # First-time work is done.
        return traced.life(modules_of)


@pytest.mark.parametrize("operation", CEILINGS)
def test_a_lone_operation_crosses_no_more_modules_than_its_ceiling(
    life: dict[str, set[str]], operation: str
) -> None:
    crossed = life[operation] - {"manual_clock.py"}  # The clock.

    assert len(crossed) <= CEILINGS[operation], sorted(crossed)


def test_a_send_asks_nothing_of_parts_that_have_nothing_pending(life: dict[str, set[str]]) -> None:
    idle = {"stages", "reservations", "redrives", "letters", "deduplication", "adoption", "archive"}

    assert not {f"engine/{part}.py" for part in idle} & life["send"]

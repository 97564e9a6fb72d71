"""How many modules of the store a lone message crosses: a reader has to open no more to follow it.

A module is one idea, so the numbers count the ideas that a lone message needs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import spoolrack_store
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.operations import CreateQueue, Delete, Receive, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

STORE = str(Path(spoolrack_store.__file__).parent)


class _Crossed:
    """The modules whose functions are called, in all threads."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(STORE):
            self.modules.add(frame.f_code.co_filename[len(STORE) + 1 :])

    def by(self, call: Callable[[], Any]) -> tuple[Any, set[str]]:
        self.modules.clear()
        answer = call()
        return answer, self.modules - {"manual_clock.py"}  # The clock by hand.


def test_a_lone_message_crosses_few_modules(tmp_path: Path) -> None:
    crossed = _Crossed()
    before = sys.getprofile()
    threading.setprofile(crossed.note)
    sys.setprofile(crossed.note)
    try:
        with Store.open(tmp_path, clock=ManualClock()) as store:
            store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
            store.submit(Send(queue="q", bodies=[b"warm"])).result()
            send, receive = Send(queue="q", bodies=[b"x"]), Receive(queue="q")
            _, by_send = crossed.by(lambda: store.submit(send).result())
            deliveries, by_receive = crossed.by(lambda: store.submit(receive).result())
            delete = Delete(queue="q", receipts=deliveries[0].receipts)
            _, by_delete = crossed.by(lambda: store.submit(delete).result())
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]  # typeshed knows it as never None
    assert len(by_send) <= 21, sorted(by_send)
    assert len(by_receive) <= 26, sorted(by_receive)
    assert len(by_delete) <= 26, sorted(by_delete)

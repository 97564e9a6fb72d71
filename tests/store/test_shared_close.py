"""A process that closes a root which others have open leaves nothing behind that they can't see."""

from __future__ import annotations

import errno
from random import Random
from typing import Any

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.operations import Receive, Send
from spoolrack_store.model.settings import QueueSettings

from tests.store.trouble_rig import Bytes, PickyDisk
from tests.support.engine_story import Clock
from tests.support.linked_disk import made
from tests.support.power_disk import Model


class TwoProcesses:
    def __init__(self) -> None:
        self.disk: Any = PickyDisk(made(["q"], can_sync_all=True, model=Model.ANY_SUBSET))
        self.clock = Clock()
        self.changes = Bytes()
        self.living = {"p1", "p2"}
        self.first, self.second = self.opened("p1"), self.opened("p2")

    def opened(self, owner: str) -> Engine:
        engine = Engine(
            self.disk,
            self.changes,
            clock=self.clock,
            random=Random(owner),
            owner=owner,
            is_living=lambda owner: owner in self.living,
        )
        engine.catalog.add("q", QueueSettings())
        assert engine.open()
        return engine

    def commit(self, engine: Engine, *requests: Any, tick: bool = False) -> list[Any]:
        work = engine.apply(requests, tick=tick)
        assert work is not None
        if work.commit is not None:
            work.commit.sync()
        outcomes = engine.finish(work)
        assert outcomes is not None
        return outcomes

    def send(self, body: bytes) -> None:
        """Send by the first process, and answer; a later commit would publish it."""
        self.commit(self.first, Send(queue="q", bodies=[body]))

    def received(self) -> list[bytes]:
        """What the second process gets."""
        (found,) = self.commit(self.second, Receive(queue="q", max_messages=9))
        return [body for each in found for body in each.bodies]


@pytest.fixture
def both() -> TwoProcesses:
    return TwoProcesses()


def test_what_a_process_sent_last_is_received_by_others_once_it_has_closed(both: TwoProcesses) -> None:
    both.send(b"last")
    assert both.first.close()
    both.living.discard("p1")
    assert both.received() == [b"last"]
    assert both.second.sharing.is_shared is False


def test_what_the_disk_refuses_to_publish_others_publish(
    both: TwoProcesses, caplog: pytest.LogCaptureFixture
) -> None:
    both.send(b"last")
    both.disk.fail(errno.EDQUOT, "rename_new", path="queues/q/")
    assert both.first.close()
    both.disk.heal()
    both.living.discard("p1")
    assert both.received() == []
    both.commit(both.second, tick=True)
    assert both.received() == [b"last"]
    assert "have died: p1" in caplog.text

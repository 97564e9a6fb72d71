"""A queue that was deleted leaves nothing behind, on the disk or in memory."""

from __future__ import annotations

import pytest
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.operations import CreateQueue, Delete, DeleteQueue, Receive, Send
from spoolrack_store.model.settings import QueueSettings

from tests.support.engine_rig import EngineRig

LIVES = 50


def names_known(engine: Engine) -> set[str]:
    index = engine.index
    return set().union(
        index.queues,
        index.metrics,
        index.outdated_queues,
        engine.moves.statistics.messages,
        engine.catalog.records,
    )


@pytest.mark.parametrize("end", ["empty", "with a message", "with a leased message"])
def test_queues_that_come_and_go_leave_nothing_in_the_memory_of_any_process(end: str) -> None:
    """As the reply queues of Celery do: each of them kept 3.4 KB for ever."""
    rig = EngineRig({"q": QueueSettings()})
    other = rig.join()
    before = names_known(rig.engine) | names_known(other)
    for number in range(LIVES):
        name = f"reply{number}"
        rig.ask(CreateQueue(name=name, settings=QueueSettings()))
        rig.ask(Send(queue=name, bodies=[b"x"]))
        rig.settle()
        if end != "with a message":
            (found,) = rig.ask(Receive(queue=name, max_messages=1), other)
            if end == "empty":
                rig.ask(Delete(queue=name, receipts=found.receipts), other)
        rig.ask(DeleteQueue(name=name))
        rig.settle()
        rig.settle(other)
        rig.settle()
    assert rig.names("config") == ["q.1.json"]
    assert rig.names("queues") == ["q"]
    assert names_known(rig.engine) <= before
    assert names_known(other) <= before


def test_a_queue_that_is_made_again_counts_from_nothing() -> None:
    rig = EngineRig({})
    for _ in range(2):
        rig.ask(CreateQueue(name="q", settings=QueueSettings()))
        rig.ask(Send(queue="q", bodies=[b"x", b"y"]))
        rig.settle()
        metrics = rig.engine.index.metrics["q"]
        assert (metrics.ready, metrics.entered, metrics.left) == (2, 2, 0)
        rig.ask(DeleteQueue(name="q"))
        rig.settle()

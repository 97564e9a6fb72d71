"""`spoolrack fsck` knows the stages and publications of a store, and lets the others be published."""

from __future__ import annotations

from pathlib import Path

import pytest
from spoolrack_store import fsck
from spoolrack_store.model.operations import CreateQueue, Receive, messages_of
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.store import Store


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A stage `s` of two chunks waits; another one was published."""
    root = tmp_path / "root"
    with Store.open(root) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        for stage, chunk in (("t", 0), ("s", 0), ("s", 1)):
            bodies = [f"{stage}{chunk}{at}".encode() for at in range(3)]
            store.submit(Stage(stage=stage, chunk=chunk, queue="q", bodies=bodies)).result()
        store.submit(Publish(writer="w", epoch=4, stages=["t"])).result()
    return root


def test_stages_and_publications_are_no_problem(root: Path) -> None:
    report = fsck.check(root)
    assert (report.problems, report.leftovers) == ([], [])
    assert (report.staged, report.published) == (1, 1)
    fsck.repair(root)
    with Store.open(root) as store:
        published = store.submit(Publish(writer="w", epoch=5, stages=["s"])).result()
        assert published.messages == 6
        found = messages_of(store.submit(Receive(queue="q", max_messages=100)).result())
    assert len(found) == 3 + 6

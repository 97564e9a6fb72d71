"""After a failed sync a start believes what the disk has, not what the page cache still shows."""

from __future__ import annotations

from typing import Any

import pytest
from spoolrack_store.model.operations import Send
from spoolrack_store.model.stage_requests import Publish, Stage

from tests.store.trouble_rig import Rig
from tests.support.engines import applied
from tests.support.linked_disk import made
from tests.support.power_disk import Model

KEYED = Send(queue="q", bodies=[b"a"], deduplication_ids={0: "once"})


def _rig() -> Rig:
    return Rig(made(["q"], can_sync_all=True, model=Model.ANY_SUBSET))


def _fail_to_sync(rig: Rig, *requests: Any) -> None:
    """Let the sync of a commit fail, and start anew: its writes are in memory only, and stay so."""
    applied(rig.engine, *requests)
    rig.disk.disk.give_up(None)
    rig.start()
    rig.commit()
    rig.commit()


@pytest.mark.parametrize("bodies", [[b"a"], [b"a", b"b"]])
def test_a_message_that_is_not_on_the_disk_was_never_sent(bodies: list[bytes]) -> None:
    rig = _rig()
    _fail_to_sync(rig, Send(queue="q", bodies=bodies))
    assert rig.receive() == {}
    assert rig.paths("new") == rig.paths("queues/q") == []


def test_an_id_is_free_whose_message_is_not_on_the_disk() -> None:
    rig = _rig()
    _fail_to_sync(rig, KEYED)
    (stored,) = rig.commit(KEYED)
    assert not stored.duplicates
    assert [body for _, body in rig.receive().values()] == [b"a"]


def test_a_chunk_that_is_not_on_the_disk_was_never_staged() -> None:
    rig = _rig()
    chunk = Stage(stage="s", chunk_number=0, queue="q", bodies=[b"a"])
    _fail_to_sync(rig, chunk)
    assert rig.paths("staged") == []
    (staged,) = rig.commit(chunk)
    assert not staged.duplicate


def test_a_manifest_that_is_not_on_the_disk_has_published_nothing() -> None:
    rig = _rig()
    rig.commit(Stage(stage="s", chunk_number=0, queue="q", bodies=[b"a"]))
    _fail_to_sync(rig, Publish(writer="w", epoch=1, stages=["s"]))
    assert rig.paths("published") == []
    assert rig.receive() == {}
    (published,) = rig.commit(Publish(writer="w", epoch=1, stages=["s"]))
    assert published.message_count == 1
    assert not published.duplicate

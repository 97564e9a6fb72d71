"""Promises of requests for queues on a disk that refuses a call."""

from __future__ import annotations

import errno

import pytest
from spoolrack_store.model.errors import DiskFull, StoreError
from spoolrack_store.model.operations import CreateQueue, DeleteQueue, Purge, UpdateQueue
from spoolrack_store.model.settings import QueueSettings

from tests.store.trouble_rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def settle(rig: Rig) -> None:
    for _ in range(8):
        rig.tick()


@pytest.mark.parametrize("call", ["create", "make_folder"])
def test_a_queue_that_could_not_be_created_can_be_created_later(rig: Rig, call: str) -> None:
    creation = CreateQueue(name="new", settings=QueueSettings())
    rig.disk.fail(errno.ENOSPC, call, path="new")
    with pytest.raises(DiskFull):
        rig.ask(creation)
    assert set(rig.engine.catalog.records) == {"q"}
    rig.disk.heal()
    rig.ask(creation)
    (id,) = rig.send(b"a", queue="new")
    rig.commit()
    rig.start()
    assert list(rig.receive(queue="new")) == [id]


def test_a_queue_that_could_not_be_created_is_not_there_after_a_restart(rig: Rig) -> None:
    rig.disk.fail(errno.ENOSPC, "create", path="config/")
    with pytest.raises(DiskFull):
        rig.ask(CreateQueue(name="new", settings=QueueSettings()))
    rig.disk.heal()
    rig.start()
    assert set(rig.engine.catalog.records) == {"q"}
    assert rig.paths("queues") == ["queues/q"]


def test_an_update_that_could_not_be_written_changes_nothing(rig: Rig) -> None:
    rig.disk.fail(errno.ENOSPC, "create", path="config/")
    update = UpdateQueue(name="q", changes={"max_message_size": 5})
    with pytest.raises(DiskFull):
        rig.ask(update)
    assert rig.engine.catalog.records["q"].settings == QueueSettings()
    rig.disk.heal()
    rig.ask(update)
    rig.start()
    assert rig.engine.catalog.records["q"].settings.max_message_size == 5


def test_a_deletion_that_could_not_be_written_leaves_the_queue_as_it_is(rig: Rig) -> None:
    ids = rig.send(b"a", b"b")
    rig.disk.fail(errno.EIO, "create", path="config/")
    with pytest.raises(StoreError):
        rig.ask(DeleteQueue(name="q"))
    rig.disk.heal()
    settle(rig)
    rig.start()
    assert list(rig.receive()) == ids


@pytest.mark.parametrize("path", ["config/q.1", "config/q.2", "queues/q"])
def test_a_deletion_goes_on_once_the_disk_lets_files_and_folders_go(rig: Rig, path: str) -> None:
    rig.send(b"a", b"b")
    rig.commit()
    rig.disk.fail(errno.EIO, "unlink", "remove_folder", path=path)
    rig.ask(DeleteQueue(name="q"))
    settle(rig)
    assert "q" not in rig.engine.catalog.records
    rig.disk.heal()
    rig.advance(10_000)
    settle(rig)
    assert rig.paths("config", "queues", "remove", "delay") == []
    rig.add("q")
    (id,) = rig.send(b"c")
    rig.commit()
    rig.start()
    assert list(rig.receive()) == [id]


def test_a_purge_works_when_nothing_can_be_created(rig: Rig) -> None:
    rig.send(b"a", b"b", b"c")
    rig.commit()
    rig.disk.fail(errno.ENOSPC, "make_folder", "create")
    assert rig.ask(Purge(queue="q")) == 3
    rig.disk.heal()
    rig.start()
    assert rig.receive() == {}

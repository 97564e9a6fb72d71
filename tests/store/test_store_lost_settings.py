"""Lost settings: a queue with messages stays a queue, and one that was deleted stays deleted."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

import pytest
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import MemoryDisk
from planting import Root, batch_of
from spoolrack_store.engine.beliefs import MARGIN
from spoolrack_store.files import layout
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import QueueNotFound
from spoolrack_store.model.operations import DeleteQueue, Outgoing, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.testing import ManualClock

NOW = 1_700_000_000_000
TOKEN = "0123456789abc"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


def lose_settings(root: Root) -> None:
    for path in (root.path / "config").iterdir():
        path.unlink()


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "batch", "leased batch"])
def test_a_queue_whose_settings_are_lost_is_served_with_the_defaults(
    root: Root, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig = root.start()
    bodies = [b"a", b"b", b"c"] if "batch" in state else [b"a"]
    rig.send(*bodies, delay=9_000 if state == "delayed" else None)
    if "leased" in state:
        rig.receive(10, visibility=9_000)
    rig.die()
    lose_settings(root)
    rig = root.start()
    live = rig.engine.catalog.queues["q"]
    assert live.settings == QueueSettings()
    assert live.salt, "or the deduplication ids of all such queues have the same keys"
    assert rig.engine.quarantined == 0
    (told,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "the settings of the queue q are lost" in told
    assert "spoolrack queues set q" in told
    rig.clock.advance(9_000)
    assert rig.bodies() == bodies
    rig.check()
    caplog.clear()
    rig.restart()
    assert rig.bodies() == bodies
    assert "lost" not in caplog.text, "it has settings again"


def test_what_was_sent_and_not_yet_in_its_queue_is_delivered_with_the_rest(root: Root) -> None:
    root.message("queues/q/", 1, b"a")
    root.message("new/q:", 2, b"b", owner="someone")
    lose_settings(root)
    rig = root.start()
    assert [message.body for message in rig.receive(10)] == [b"a", b"b"]


def test_a_send_alone_makes_no_queue(root: Root) -> None:
    # It may have come after the queue was deleted, and was never answered then.
    root.message("new/q:", 1, b"a", owner="someone")
    lose_settings(root)
    rig = root.start()
    assert rig.engine.catalog.queues == {}
    assert rig.engine.quarantined == 1


def test_an_empty_queue_whose_settings_are_lost_is_gone(root: Root) -> None:
    lose_settings(root)
    rig = root.start()
    assert rig.engine.catalog.queues == {}
    assert os.listdir(root.path / "queues") == []
    assert rig.engine.quarantined == 0


@pytest.mark.parametrize("place", ["queues/q/stranger", "queues/q/x,s1", "delay/q:stranger"])
def test_strangers_alone_make_no_queue(root: Root, place: str) -> None:
    lose_settings(root)
    root.file(place, b"x")
    rig = root.start()
    assert rig.engine.catalog.queues == {}
    assert rig.engine.quarantined == 1


def test_an_empty_batch_folder_that_was_left_in_delay_makes_no_queue(root: Root) -> None:
    (root.path / f"delay/q:{batch_of(1, 2)}@{NOW}~{TOKEN}").mkdir()
    lose_settings(root)
    assert root.start().engine.catalog.queues == {}


def test_a_folder_without_settings_that_can_not_be_listed_stays_until_it_can_be() -> None:
    disk = FaultyDisk(MemoryDisk())
    rig = EngineRig(disk)
    rig.create("q")
    rig.send(b"a")
    disk.unlink("config/q.1.json")
    disk.fail(errno.EACCES, "scan", path="queues/q")
    rig.restart()
    assert rig.engine.catalog.queues == {}
    assert rig.engine.quarantined == 0
    disk.heal()
    rig.restart()
    assert [message.body for message in rig.receive()] == [b"a"]


@pytest.mark.parametrize("left", ["all", "half"])
def test_a_queue_that_is_being_deleted_does_not_come_back(root: Root, left: str) -> None:
    rig = root.start()
    rig.send(b"a")
    rig.send(b"b", b"c")
    rig.receive(1)
    rig.die()
    lose_settings(root)
    root.file("config/q.2.json", b'{"created_at": 1, "deleted": true}')
    if left == "half":
        for each in (root.path / "queues/q").iterdir():
            each.rename(root.path / f"remove/q:{each.name}")
    rig = root.start()
    assert rig.engine.catalog.queues == {}
    rig.restart()
    assert rig.engine.catalog.queues == {}
    assert os.listdir(root.path / "delay") == os.listdir(root.path / "queues") == []


# Beside other processes.


class Two:
    """Two engines on one disk."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock(wall=Millis(NOW))
        self.rigs = [
            EngineRig(self.disk, seed=seed, watch=self.disk.watch, clock=self.clock) for seed in (1, 2)
        ]
        self.rigs[0].create("q", visibility_timeout=5_000)
        self.meet()

    def meet(self) -> None:
        for rig in self.rigs:
            rig.tick()

    def settings(self) -> list[str]:
        return [found.name for found in self.disk.scan(layout.CONFIG)]


@pytest.mark.parametrize("fault", ["removed", "overwritten"])
@pytest.mark.parametrize("state", ["ready", "leased"])
def test_running_processes_write_lost_settings_again(state: str, fault: str) -> None:
    two = Two()
    one, other = two.rigs
    one.send(b"a")
    if state == "leased":
        one.receive()
    before = one.engine.catalog.queues["q"]
    for name in two.settings():
        two.disk.unlink(f"config/{name}")
        if fault == "overwritten":
            two.disk.create(f"config/{name}", [b"garbage"], sync=True)
    two.meet()
    two.clock.advance(Millis(2_000))  # Until then another process may be writing it.
    for _ in range(3):
        two.meet()
    assert len(two.settings()) == 1
    for rig in two.rigs:
        now = rig.engine.catalog.queues["q"]
        assert (now.settings, now.salt, now.created_at) == (
            before.settings,
            before.salt,
            before.created_at,
        )
    other.send(b"b")
    two.clock.advance(Millis(5_000 + MARGIN))
    assert {message.body for message in other.receive(10)} == {b"a", b"b"}


def test_running_processes_do_not_bring_a_deleted_queue_back() -> None:
    two = Two()
    one, other = two.rigs
    one.send(b"a")
    one.send(b"b", b"c")
    other.receive(1)
    work = other.engine.apply([Send(queue="q", messages=[Outgoing(body=b"late")])])
    other.engine.sync(work)
    one.ask(DeleteQueue(name="q"))
    other.engine.finish(work)
    for _ in range(4):
        two.meet()
    assert two.settings() == []
    for rig in two.rigs:
        with pytest.raises(QueueNotFound):
            rig.receive()
        rig.check()

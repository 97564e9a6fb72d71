"""Several engines on one root stage and publish: what one has done, any other goes on with."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest
from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StageNotFound
from spoolrack_store.model.operations import CreateQueue, Outgoing, Receive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.staging import Abort, Publish, Stage
from spoolrack_store.store import Store
from spoolrack_store.testing import ManualClock
from stage_rig import chunk, names_in, publication, publish, stage


class Two:
    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.clock = ManualClock(wall=Millis(1_700_000_000_000))
        self.one, self.other = (
            EngineRig(self.disk, seed=seed, watch=self.disk.watch, clock=self.clock) for seed in (1, 2)
        )
        self.meet()
        self.one.create("q")
        self.meet()

    def meet(self) -> None:
        for rig in (self.one, self.other):
            rig.tick()


@pytest.fixture
def two() -> Two:
    return Two()


def test_what_one_has_staged_another_publishes(two: Two) -> None:
    stage(two.one, "s", 0, b"a")
    two.clock.advance(1)
    stage(two.other, "s", 1, b"b")
    assert stage(two.other, "s", 0, b"again").is_repeated
    assert [info.chunks for info in two.one.engine.staging.listed("", 9)] == [2]
    assert publish(two.other, "w", 0, "s").messages == 2
    assert publish(two.one, "w", 0, "s").is_already
    assert [message.body for message in two.one.receive(9)] == [b"a", b"b"]
    two.meet()
    two.one.check()


def test_of_two_who_publish_a_stage_one_finds_it_gone(two: Two) -> None:
    stage(two.one, "s", 0, b"a")
    work = two.one.engine.apply([publication("v", 0, "s")])
    with pytest.raises(StageNotFound):
        publish(two.other, "w", 0, "s")
    assert two.one.complete(work)[0].messages == 1


def test_a_stage_that_one_drops_another_cannot_publish(two: Two) -> None:
    stage(two.one, "s", 0, b"a")
    assert two.other.ask(Abort(stage="s")) == 1
    with pytest.raises(StageNotFound):
        publish(two.one, "w", 0, "s")


def test_a_publication_whose_writer_died_over_it_is_finished_by_another(two: Two) -> None:
    stage(two.one, "s", 0, b"a", b"b")
    work = two.one.engine.apply([publication("w", 0, "s")])
    two.one.engine.sync(work)
    two.one.die()
    two.other.tick()
    assert [message.body for message in two.other.receive(9)] == [b"a", b"b"]
    assert publish(two.other, "w", 0, "s").is_already
    assert names_in(two.disk, "published") == ["w.0"]


def test_one_who_is_left_alone_knows_what_the_others_staged(two: Two) -> None:
    stage(two.one, "s", 0, b"a")
    two.one.die()
    two.other.tick()
    assert not two.other.engine._root.is_shared
    assert stage(two.other, "s", 0, b"b").is_repeated
    assert publish(two.other, "w", 0, "s").messages == 1


def test_the_dead_ones_torn_chunk_is_never_published(two: Two) -> None:
    stage(two.one, "s", 0, b"a")
    two.clock.advance(1)
    work = two.one.engine.apply([chunk("s", 1, b"b", b"c")])
    assert work.outcomes
    (name,) = names_in(two.disk, "staged")
    torn = next(each for each in names_in(two.disk, f"staged/{name}") if each.startswith("1:"))
    first, _ = names_in(two.disk, f"staged/{name}/{torn}")
    two.disk.unlink(f"staged/{name}/{torn}/{first}")
    two.one.die()
    assert not stage(two.other, "s", 1, b"d").is_repeated
    publish(two.other, "w", 0, "s")
    assert [message.body for message in two.other.receive(9)] == [b"a", b"d"]


def test_processes_that_stage_into_one_stage_and_publish_it_at_once_publish_it_once(
    tmp_path: Path,
) -> None:
    """With real locks: four stores in threads of one process, each with a disk of its own."""
    stores = [Store.open(tmp_path / "root", random=Random(seed), disk=None) for seed in range(4)]
    try:
        stores[0].submit(CreateQueue(name="q", settings=QueueSettings())).result(60)

        def work(at: int) -> None:
            for number in range(at, 40, 4):
                body = f"{number}".encode()
                request = Stage(stage="s", chunk=number, queue="q", messages=[Outgoing(body=body)])
                stores[at].submit(request).result(60)

        threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (info,) = stores[2].stages()
        assert (info.name, info.chunks, info.messages) == ("s", 40, {"q": 40})
        assert stores[2].stages(after="s") == []
        answers = [store.submit(Publish(writer="w", epoch=0, stages=["s"])) for store in stores]
        told = [answer.result(60) for answer in answers]
        assert sorted(each.messages for each in told) == [0, 0, 0, 40]
        received = stores[1].submit(Receive(queue="q", max_messages=100)).result(60)
        assert len(received) == 40
        assert names_in(LocalDisk(tmp_path / "root"), "staged") == []
    finally:
        for store in stores:
            store.close()

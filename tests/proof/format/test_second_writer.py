"""A writer that is written from docs/format.md makes roots that the store opens, and shares a root with
the store."""

from __future__ import annotations

import ast
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any, Final, Protocol

import pytest
from spoolrack_store import fsck
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import DAY, HOUR, SECOND, Millis
from spoolrack_store.model.errors import StoreError, StoreFailed
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    Receive,
    Send,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings

from tests.proof.format import second_reader, second_writer
from tests.proof.format.histories import OpenStore
from tests.proof.format.second_reader import Root
from tests.proof.format.second_writer import FILE, LINK, RING, Change, Poisoned, Process, make_root
from tests.proof.format.test_second_reader import SEEDS, require_alike, told_by_store

STEPS: Final = 50
QUEUES: Final = ("plain", "other")
SECOND_SEED: Final = 1_000_003
"""Added to a seed: owners of two processes must differ."""

Attributes = Mapping[int, Mapping[str, str | bytes]]


class Side(Protocol):
    """A process that changes a root."""

    def send(
        self, queue: str, bodies: Sequence[bytes], attributes: Attributes, priority: int
    ) -> list[str]: ...

    def lease(self, queue: str, most: int) -> list[tuple[str, bytes, int, str]]:
        """Return id, body, receives and receipt of each."""

    def extend(self, queue: str, receipts: Mapping[str, str]) -> None: ...

    def release(self, queue: str, receipts: Mapping[str, str]) -> None: ...

    def delete(self, queue: str, receipts: Mapping[str, str]) -> None: ...


class StoreSide:
    def __init__(self, opened: OpenStore) -> None:
        self.opened = opened

    def send(
        self, queue: str, bodies: Sequence[bytes], attributes: Attributes, priority: int
    ) -> list[str]:
        priorities = dict.fromkeys(range(len(bodies)), priority)
        request = Send(queue=queue, bodies=bodies, attributes=attributes, priorities=priorities)
        return list(self.opened.do(request).results)

    def lease(self, queue: str, most: int) -> list[tuple[str, bytes, int, str]]:
        request = Receive(queue=queue, max_messages=most, visibility=HOUR)
        found = messages_of(self.opened.do(request))
        return [(each.id, each.body, each.receives, each.receipt or "") for each in found]

    def extend(self, queue: str, receipts: Mapping[str, str]) -> None:
        ends = list(receipts.values())
        self.opened.do(ChangeVisibility(queue=queue, receipts=ends, visibility=HOUR))

    def release(self, queue: str, receipts: Mapping[str, str]) -> None:
        ends = list(receipts.values())
        self.opened.do(ChangeVisibility(queue=queue, receipts=ends, visibility=Millis(0)))

    def delete(self, queue: str, receipts: Mapping[str, str]) -> None:
        answers = self.opened.do(Delete(queue=queue, receipts=list(receipts.values())))
        assert answers == [None] * len(receipts)


class ProcessSide:
    def __init__(self, process: Process) -> None:
        self.process = process

    def send(
        self, queue: str, bodies: Sequence[bytes], attributes: Attributes, priority: int
    ) -> list[str]:
        ids = self.process.send(queue, bodies, attributes=attributes, priority=priority)
        self.process.sync()
        self.publish()
        return ids

    def publish(self) -> None:
        with self.process.commit():
            pass

    def lease(self, queue: str, most: int) -> list[tuple[str, bytes, int, str]]:
        found = self.process.lease(queue, most, HOUR)
        return [(each.id, each.body or b"", each.receives, each.receipt or "") for each in found]

    def extend(self, queue: str, receipts: Mapping[str, str]) -> None:
        for id in receipts:
            self.process.extend(id, HOUR)

    def release(self, queue: str, receipts: Mapping[str, str]) -> None:
        for id in receipts:
            self.process.release(id)

    def delete(self, queue: str, receipts: Mapping[str, str]) -> None:
        for id in receipts:
            self.process.delete(id)


class Work:
    """Random steps of one process or two, and what the root must hold then."""

    def __init__(self, seed: int, clock: ManualClock, sides: Sequence[Side]) -> None:
        self.random = Random(seed)
        self.clock = clock
        self.sides = sides
        self.queues: dict[str, str] = {}
        """Of each message that was sent and not deleted."""
        self.bodies: dict[str, bytes] = {}
        self.receives: dict[str, int] = {}
        self.leased: dict[str, str] = {}
        """Receipts by id."""

    def step(self) -> None:
        side, queue = self.random.choice(self.sides), self.random.choice(QUEUES)
        self.clock.advance(self.random.choice((0, 0, 1, 50)))
        mine = [id for id in self.leased if self.queues[id] == queue]
        chosen = self.random.sample(mine, min(len(mine), self.random.randint(1, 3)))
        receipts = {id: self.leased[id] for id in chosen}
        match self.random.choice("ssllldex"):
            case "s":
                self._send(side, queue)
            case "l":
                for id, body, receives, receipt in side.lease(queue, self.random.choice((1, 3, 50))):
                    assert id not in self.leased
                    self.receives[id] += 1
                    assert (body, receives) == (self.bodies[id], self.receives[id])
                    self.leased[id] = receipt
            case "d":
                side.delete(queue, receipts)
                for id in chosen:
                    del self.leased[id], self.queues[id]
            case "e":
                side.extend(queue, receipts)
            case _:
                side.release(queue, receipts)
                for id in chosen:
                    del self.leased[id]

    def _send(self, side: Side, queue: str) -> None:
        count = self.random.choice((1, 1, 2, 5, 120))
        bodies = [self.random.randbytes(self.random.choice((0, 5, 100))) for _ in range(count)]
        attributes: dict[int, dict[str, str | bytes]] = {}
        for place in range(count):
            if self.random.random() < 0.2:
                attributes[place] = {"☃": "\n", "raw": b"\0\xff"}
        ids = side.send(queue, bodies, attributes, self.random.choice((0, 0, 5)))
        assert ids == sorted(ids)
        assert not self.bodies or ids[0] > max(self.bodies)
        for id, body in zip(ids, bodies, strict=True):
            self.bodies[id], self.receives[id], self.queues[id] = body, 0, queue

    def require(self, told: Mapping[str, Any]) -> None:
        """Require that these are the messages that are left."""
        assert told.keys() == self.queues.keys()
        for id, queue in self.queues.items():
            state = "leased" if id in self.leased else "ready"
            expected = queue, state, self.receives[id], self.bodies[id]
            message = told[id]
            assert (
                *(message["queue"], message["state"], message["receives"], message["body"]),
            ) == expected


def joined(root: Path, clock: ManualClock, seed: int) -> Process:
    return Process(root, Random(seed), wall=clock.wall, monotonic=clock.monotonic)


def require_whole(root: Path) -> None:
    report = fsck.check(root)
    assert not report.problems, report.problems


def served(root: Path, clock: ManualClock, seed: int = 0) -> OpenStore:
    """Return a store that has the queues."""
    opened = OpenStore(root, clock, seed + SECOND_SEED)
    for queue in QUEUES:
        opened.do(CreateQueue(name=queue, settings=QueueSettings()))
    return opened


@pytest.mark.parametrize("module", [second_reader, second_writer], ids=lambda m: m.__name__)
def test_the_second_implementation_imports_nothing_of_the_store(module: ModuleType) -> None:
    tree = ast.parse(inspect.getsource(module))
    imported = {
        each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names
    }
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported.discard(second_reader.__name__)
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_store_opens_a_root_that_the_second_writer_made(seed: int, tmp_path: Path) -> None:
    root, clock = tmp_path / "root", ManualClock()
    make_root(root, {"plain": {}, "other": {"visibility_timeout": 5, "retention": DAY}}, clock.wall())
    process = joined(root, clock, seed)
    work = Work(seed, clock, [ProcessSide(process)])
    for _ in range(STEPS):
        work.step()
    if seed % 2:
        process.leave()
    else:
        process.send("plain", [b"last", b"", b"sent"], groups={1: "g"})
        process.die()
    require_whole(root)
    opened = OpenStore(root, clock, seed + SECOND_SEED)
    told = told_by_store(opened.store)
    last = [id for id in told if id not in work.queues]
    assert [told.pop(id)["group"] for id in last] == ([] if seed % 2 else ["", "g", ""])
    work.require(told)
    require_alike(Root(root), opened.store)
    opened.driver.run()
    opened.reap(1_000)
    require_alike(Root(root), opened.store)
    opened.store.close()
    require_whole(root)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_the_store_and_the_second_writer_share_a_root(seed: int, tmp_path: Path) -> None:
    root, clock = tmp_path / "root", ManualClock()
    opened = served(root, clock, seed)
    opened.do(Send(queue="plain", bodies=[b"first"] * 3))
    process = joined(root, clock, seed)
    own = ProcessSide(process)
    work = Work(seed, clock, [StoreSide(opened), own])
    for id in told_by_store(opened.store):
        work.bodies[id], work.receives[id], work.queues[id] = b"first", 0, "plain"
    for _ in range(STEPS):
        work.step()
        work.require(told_by_store(opened.store))
        own.publish()
        there = {name.path for batch in Root(root).batches.values() for name in batch.names}
        # An unlink from `remove/` has no record.
        assert {path for path in process.paths if not path.startswith("remove/")} == {
            path for path in there if not path.startswith("remove/")
        }
        opened.reap(work.random.randrange(3))
    assert process.heard
    if seed % 2:
        process.leave()
    else:
        process.die()
    require_alike(Root(root), opened.store)
    work.sides = [StoreSide(opened)]
    for _ in range(STEPS // 2):
        work.step()
    work.require(told_by_store(opened.store))
    opened.store.close()
    require_whole(root)


def test_a_lease_of_the_second_writer_ends_in_the_store(tmp_path: Path) -> None:
    clock = ManualClock()
    opened = served(tmp_path, clock)
    opened.do(Send(queue="plain", bodies=[b"", b""]))
    process = joined(tmp_path, clock, 1)
    (leased,) = process.lease("plain", 1, 5 * SECOND)
    process.send("plain", [b"later"], delay=3 * SECOND)
    process.sync()
    with process.commit():
        pass
    receive = Receive(queue="plain", max_messages=10)
    assert [each.id for each in messages_of(opened.do(receive))] == [leased.id[:-3] + "001"]
    clock.advance(3 * SECOND)
    assert [each.body for each in messages_of(opened.do(receive))] == [b"later"]
    clock.advance(2 * SECOND)
    assert [each.id for each in messages_of(opened.do(receive))] == [leased.id]


@pytest.mark.parametrize("has_moved", [True, False])
def test_a_move_in_doubt_is_decided_by_its_paths(has_moved: bool, tmp_path: Path) -> None:
    """A process dies between a record and its mark."""
    clock = ManualClock()
    opened = served(tmp_path, clock)
    opened.do(Send(queue="plain", bodies=[b"", b""]))
    opened.driver.run()
    process = joined(tmp_path, clock, 1)
    (name,) = (name for name in process.paths.values() if name.state == "ready")
    target = f"remove/plain:{name.stem},v{name.version + 1},i0"
    with process._held():
        process.log.append(Change(LINK, name.path, target, 0))
        if has_moved:
            process.make_move(LINK, name.path, target)
    process.die()
    found = told_by_store(opened.store)
    assert len(found) == (1 if has_moved else 2)
    opened.do(Send(queue="plain", bodies=[b""]))
    require_alike(Root(tmp_path), opened.store)


def test_messages_that_a_dead_process_left_in_new_are_published(tmp_path: Path) -> None:
    clock = ManualClock()
    opened = served(tmp_path, clock)
    process = joined(tmp_path, clock, 1)
    ids = process.send("plain", [b"a", b"b"])
    process.die()
    assert not told_by_store(opened.store)
    clock.advance(2 * SECOND)
    opened.driver.run()
    assert list(told_by_store(opened.store)) == ids


def test_a_key_in_new_is_taken_for_the_store(tmp_path: Path) -> None:
    clock = ManualClock()
    opened = served(tmp_path, clock)
    process = joined(tmp_path, clock, 1)
    ids = process.send("plain", [b"a", b"b"], deduplication_ids={1: "order"})
    answer = opened.do(Send(queue="plain", bodies=[b"a"], deduplication_ids={0: "order"}))
    assert answer.results == ids[1:]
    assert answer.duplicates == {0}


def test_a_failed_sync_stops_the_other_process(tmp_path: Path) -> None:
    clock = ManualClock()
    opened = served(tmp_path, clock)
    process = joined(tmp_path, clock, 1)
    process.log.poison()
    with pytest.raises(Poisoned):
        joined(tmp_path, clock, 2)
    with pytest.raises(StoreError):
        opened.do(Send(queue="plain", bodies=[b"a"]))
    assert isinstance(opened.store.failure, StoreFailed)


def test_a_poisoned_root_opens_once_no_process_has_it_open(tmp_path: Path) -> None:
    clock = ManualClock()
    opened = served(tmp_path, clock)
    opened.store._engine.sharing._changes.poison()  # by a process that has not left yet
    with pytest.raises(Poisoned):
        joined(tmp_path, clock, 1)
    opened.store.close()
    joined(tmp_path, clock, 2).send("plain", [b"a"])


def test_a_process_that_listens_is_touched(tmp_path: Path) -> None:
    clock = ManualClock()
    opened = served(tmp_path, clock)
    process = joined(tmp_path, clock, 1)
    own = tmp_path / "owners" / process.owner
    os.utime(own, (0, 0))
    opened.do(Send(queue="plain", bodies=[b"a"]))
    assert own.stat().st_mtime == 0
    process.log.listen(clock.monotonic() + 1)
    opened.do(Send(queue="plain", bodies=[b"a"]))
    assert own.stat().st_mtime > 0


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_the_ring_wraps_and_a_process_that_is_overtaken_lists_the_root(
    is_overtaken: bool, tmp_path: Path
) -> None:
    clock = ManualClock()
    opened = served(tmp_path, clock)
    process = joined(tmp_path, clock, 1)
    with process.commit():
        while process.log.head < RING - 2_000:
            process.log.append(Change(FILE, "", f"config/{'x' * 300}", 0))
    if not is_overtaken:
        assert not told_by_store(opened.store)
    own = ProcessSide(process)
    ids = [id for _ in range(20) for id in own.send("plain", [b"a", b"b"], {}, 0)]
    assert list(told_by_store(opened.store)) == ids
    for _ in range(20):
        opened.do(Send(queue="plain", bodies=[b"a"]))
    own.publish()
    require_alike(Root(tmp_path), opened.store)
    assert sum(name.state == "ready" for name in process.paths.values()) == 40

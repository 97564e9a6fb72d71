"""Queues are as they were promised through power cuts and deaths, and what was deleted with a queue
never comes back."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any, Final

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.engine.catalog import Catalog, _Tombstone
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.moves import Moves
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.names import parse
from spoolrack_store.model.operations import (
    CreateQueue,
    DeleteQueue,
    Receive,
    Send,
    SendResults,
    UpdateQueue,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State

from tests.proof.crash.stories import ALONE_AND_SHARED, Bug, Run, expect_broken
from tests.support.cuts import Cut, Keep
from tests.support.engine_story import Broken, History, forget_before
from tests.support.engines import commit
from tests.support.linked_disk import Died, reap
from tests.support.power_disk import Model

NAMES = ("a", "b")
Known = tuple[QueueSettings, str, Mapping[str, str]] | None
"""A queue's settings, its salt and its labels; None: there is none."""


class CatalogStory(History):
    """One history, made from a seed."""

    plot = (0.06, 0.06, 0.0, 0.08)
    spans = (1, 700, 40_000)

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        super().__init__(seed, model, **rest)
        self.reaping = Random(seed)
        self.may: dict[str, list[tuple[int, Known]]] = {name: [(0, None)] for name in NAMES}
        self.sent: dict[str, tuple[str, str]] = {}
        """Messages that were answered, with their queues and salts."""
        self.deleted = 0
        self._start()

    def _requests(self) -> list[Any]:
        requests = [self._request() for _ in range(self.random.randint(0, 3))]
        # The salt of a queue is known once it is made: nothing is sent in the same commit.
        made = {each.name for each in requests if isinstance(each, CreateQueue)}
        changes = {each.name: each for each in requests if hasattr(each, "name")}
        return [
            each
            for each in requests
            # A queue has one change a commit, so that its states between the commits are all there are.
            if (changes[each.name] is each if hasattr(each, "name") else each.queue not in made)
        ]

    def _request(self) -> Any:
        name = self.random.choice(NAMES)
        settings = QueueSettings(max_messages=self.random.choice((0, 50)))
        match self.random.choice("cudsssr"):
            case "c":
                return CreateQueue(name=name, settings=settings, labels={"made": "here"})
            case "u":
                return UpdateQueue(
                    name=name,
                    changes={"retention": Millis(self.random.choice((0, 10**9)))},
                    # No two alike, and now and then none.
                    labels={"changed": f"at {self.at}" if self.at % 4 else None},
                )
            case "d":
                return DeleteQueue(name=name)
            case "s":
                known = self.may[name][-1][1]
                body = (known[1] if known else "none").encode()
                delay = self.random.choice((None, Millis(500)))
                count = self.random.choice((1, 3))
                return Send(
                    queue=name, bodies=[body] * count, attributes={}, delays={0: delay} if delay else {}
                )
            case _:
                return Receive(
                    queue=name, max_messages=3, max_bytes=1_000, visibility_timeout=Millis(600)
                )

    def _commit(self, owner: str) -> None:
        requests = self._requests()
        self.at += 1
        self.told.append(f"{owner} commit {self.at}: {requests}")
        engine = self.engines[owner]
        work = engine.apply(requests, tick=self.random.random() < 0.3)
        assert work is not None
        self._take(engine, requests, work.outcomes)
        self._check(engine)
        self.flying[owner].append((self.at, work, requests))

    def _take(self, engine: Engine, requests: list[Any], outcomes: list[Any]) -> None:
        for name in NAMES:
            self._learn(name, self._known(engine, name))
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(request, DeleteQueue) and not isinstance(outcome, StoreError):
                self.deleted += 1
            if isinstance(request, Receive) and not isinstance(outcome, StoreError):
                known = self.may[request.queue][-1][1]
                for delivery in outcome:
                    for body in delivery.bodies:
                        if known is None or bytes(body) != known[1].encode():
                            raise Broken(f"{body!r} was received from {request.queue}, {known}")

    def _learn(self, name: str, known: Known) -> None:
        if known != self.may[name][-1][1]:
            self.may[name].append((self.at, known))

    def _known(self, engine: Engine, name: str) -> Known:
        record = engine.catalog.records.get(name)
        return None if record is None else (record.settings, record.salt, record.labels)

    def _check(self, engine: Engine) -> None:
        """Check that all processes know the same queues, also what they know of all together."""
        catalog = engine.catalog
        sources: dict[str, dict[str, None]] = {}
        for name, record in catalog.records.items():
            if target := record.settings.dead_letter_queue:
                sources.setdefault(target, {})[name] = None
        if catalog.sources != sources:
            raise Broken(f"{engine.moves.owner} knows {catalog.sources}, and it is {sources}")
        listing, names = [record.name for record in catalog.listing()], sorted(catalog.records)
        if listing != names:
            raise Broken(f"{engine.moves.owner} lists {listing}")
        for other in self.engines.values():
            if other is not engine:
                work = other.apply([])
                assert work is not None
                self.flying[other.moves.owner].append((self.at, work, []))
                for name in NAMES:
                    if self._known(other, name) != self._known(engine, name):
                        raise Broken(f"{other.moves.owner} knows another {name}")

    def _sync(self, owner: str) -> None:
        at, work, requests = self.flying[owner].pop(0)
        if work.barrier is not None:
            work.barrier.sync()
        self.told.append(f"{owner} has synced {at}")
        assert self.engines[owner].finish(work) is not None
        reap(self.engines[owner], self.reaping.choice((0, 1_000)))
        for history in self.may.values() if work.barrier is not None else ():
            forget_before(history, at)
        for request, outcome in zip(requests, work.outcomes, strict=True):
            if isinstance(request, Send) and isinstance(outcome, SendResults):
                for id in outcome.results:
                    if isinstance(id, str):
                        self.sent[id] = request.queue, bytes(request.bodies[0]).decode()

    def _die(self, owner: str) -> None:
        requests = self._requests()
        self.at += 1
        self.told.append(f"{owner} dies in commit {self.at}: {requests}")
        self.disk.steps_left = self.random.randint(0, 12)
        with suppress(Died):
            self.engines[owner].apply(requests, tick=self.random.random() < 0.3)
        self.disk.steps_left = None
        self._remove(owner)
        survivor = next(iter(self.engines.values()))
        work = survivor.apply([], tick=True)
        assert work is not None
        for name in NAMES:
            self._learn(name, self._known(survivor, name))
        self.flying[survivor.moves.owner].append((self.at, work, []))
        self._all_there(survivor)

    def _power_cut(self, cut: Cut) -> None:
        engine = self._restart(cut)
        for name in NAMES:
            now = self._known(engine, name)
            if now not in [known for _, known in self.may[name]]:
                raise Broken(f"{name} is found as {now}, promised {self.may[name]}")
            self.may[name] = [(self.at, now)]
        self._all_there(engine)

    def _all_there(self, engine: Engine) -> None:
        """Check that acknowledged messages are there as long as their queues, and belong to them."""
        for id, (queue, salt) in self.sent.items():
            known = self._known(engine, queue)
            if known is not None and known[1] == salt:
                holder = engine.index.holder(id)
                if holder is None:
                    # Another living process has it in `new/`.
                    if not any(id[:30] in each.name for each in self.disk.scan("new")):
                        raise Broken(f"{id} is lost, and its queue {queue} is there")
                elif holder[0].name.state is State.REMOVED:
                    raise Broken(f"{id} is deleted, and its queue {queue} is not")
        for name in engine.index.queues:
            known = self._known(engine, name)
            for entry in engine.index.queues[name].entries:
                body = self.disk.read(entry.name.path)
                if known is not None and not body.startswith(known[1].encode()):
                    raise Broken(f"{entry} is in the queue {known}, and is {body!r}")

    def _end(self) -> None:
        """Check that all deletions come to their end, and that each name is free again."""
        self._power_cut(Cut(Keep.ALL))
        (engine,) = self.engines.values()
        there = {name for name in NAMES if self._known(engine, name) is not None}
        asked = [DeleteQueue(name=name) for name in there]
        for _ in range(12):
            commit(engine, *asked)
            asked = []
            self.clock.now += 1_000
        if self.disk.scan("config") or self.disk.scan("queues"):
            raise Broken(f"left are {self.disk.scan('config')}, {self.disk.scan('queues')}")
        for folder in ("new", "delay"):
            for each in self.disk.scan(folder):
                parse(f"{folder}/{each.name}")
                raise Broken(f"left is {folder}/{each.name}")


@ALONE_AND_SHARED
def test_queues_are_found_as_they_were_promised(run: Run) -> None:
    told = run.tell(CatalogStory, 10, steps=100)
    assert told.least("deleted", "crashes") > told["stories"]


def _buried_at_once(self: Catalog, name: str, tombstone: _Tombstone, most: int) -> int:
    files = _bury(self, name, tombstone, most)
    if tombstone.cleared == self._moves.commit:
        tombstone.cleared = 0
        files += _bury(self, name, tombstone, most)
    return files


def _doomed_at_once(self: Catalog, name: str, version: int, made: tuple[Millis, str]) -> None:
    _doom(self, name, version, made)
    self._tombstones[name].written = 0


def _superseded_at_once(self: Catalog) -> None:
    self._old_settings = dict.fromkeys(self._old_settings, 0)
    _advance(self)


def _only_its_own(self: Catalog, name: str) -> object:
    index = self._moves.index
    return iter(list(index.queues[name].entries) if name in index.queues else [])


def _damaged_counts(self: Moves, path: str, why: str) -> None:
    pass


def _published_anyway(moves: object, catalog: object, entry: object) -> None:
    recovery.enqueue(moves, entry)  # type: ignore[arg-type]


_bury, _doom, _advance = Catalog._advance_deletion, Catalog._add_tombstone, Catalog.advance


def _cleared_at_once(self: Catalog, name: str, tombstone: _Tombstone, most: int) -> int:
    files = _bury(self, name, tombstone, most)
    if tombstone.emptied == self._moves.commit:
        tombstone.emptied = 0
        files += _bury(self, name, tombstone, most)
    return files


PLANTED: Final[dict[str, Bug]] = {
    "messages deleted before the tombstone is durable": Bug(
        Catalog, "_add_tombstone", _doomed_at_once, first=52
    ),
    "a folder removed before what left it is durable": Bug(
        Catalog, "_advance_deletion", _cleared_at_once, first=468
    ),
    "a tombstone unlinked before all else is durably gone": Bug(
        Catalog, "_advance_deletion", _buried_at_once, first=28
    ),
    "old settings unlinked before newer ones are durable": Bug(
        Catalog, "advance", _superseded_at_once, first=20
    ),
    "messages in new/ stay when their queue goes": Bug(Catalog, "_entries_of", _only_its_own, first=46),
    "other processes' settings aren't read": Bug(Catalog, "path_changed", lambda self, path: None),
    "torn settings stay where they are": Bug(Moves, "quarantine", _damaged_counts),
    "a message without a queue is published": Bug(
        recovery, "_publish_or_quarantine", _published_anyway, first=623
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_the_catalogue_is_needed(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(seed: int, model: Model) -> CatalogStory:
        return CatalogStory(seed, model, processes=1 + seed % 3, can_sync_all=seed % 3 > 0)

    expect_broken(monkeypatch, PLANTED[planted], of, steps=100)

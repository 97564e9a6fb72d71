"""An engine without threads over a disk that outlives it, and the checks that hold at any moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.order import Outcome, Work
from spoolrack_store.engine.peers import Watch
from spoolrack_store.engine.recent import RECENT_BYTES
from spoolrack_store.engine.views import Sight
from spoolrack_store.files import layout
from spoolrack_store.files.disk import Disk, Kind
from spoolrack_store.files.opening import Tenancy, take
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.names import Batch, Entry, moved_out, parse_entry, parse_filed, parse_item
from spoolrack_store.model.operations import (
    CreateQueue,
    Message,
    Outgoing,
    Receive,
    Request,
    Send,
    Sent,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.testing import ManualClock

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, order=True)
class Lying:
    """A message as the folders' names show it."""

    queue: str
    id: str
    state: str
    receives: int
    first_receive: int | None
    due: int | None


class EngineRig:
    """One root, served by one engine after the other; by several at once, if each has a `watch`."""

    def __init__(
        self,
        disk: Disk,
        *,
        seed: int = 1,
        wall: int = 1_700_000_000_000,
        watch: Callable[[], Watch] | None = None,
        clock: ManualClock | None = None,
        recent_bytes: int = RECENT_BYTES,
    ) -> None:
        self.disk = disk
        self.recent_bytes = recent_bytes
        self.random = Random(seed)
        self.watch = watch
        self.clock = ManualClock(wall=Millis(wall)) if clock is None else clock
        self.tenancy: Tenancy | None = None
        self.engine = self._start()

    # Starts and ends.

    def _start(self) -> Engine:
        tenancy = take(self.disk, "the root", self.random)
        engine = Engine(
            self.disk,
            clock=self.clock,
            random=self.random,
            owner=tenancy.owner,
            watch=None if self.watch is None else self.watch(),
            recent_bytes=self.recent_bytes,
        )
        self.tenancy = tenancy
        if tenancy.is_alone:
            self.recovery = engine.recover()
        else:
            engine.join()
        tenancy.admit()
        return engine

    def die(self) -> None:
        """As kill -9: the locks go, and nothing else happens."""
        assert self.tenancy is not None
        self.tenancy._owner_lock.release()
        self.tenancy._gate.release()
        self.engine.close()

    def restart(self, *, monotonic: int = 77) -> None:
        """Die, and start again, at another monotonic time, as after a boot."""
        self.die()
        self.clock = ManualClock(wall=self.clock.wall(), monotonic=Millis(monotonic))
        self.engine = self._start()

    # Commits.

    def commit(self, *requests: Request[object]) -> list[Outcome]:
        """One commit, and those that it calls for."""
        work = self.engine.apply(requests)
        return self.complete(work)

    def complete(self, work: Work) -> list[Outcome]:
        self.engine.sync(work)
        outcomes = self.engine.finish(work)
        self.settle()
        return outcomes

    def settle(self) -> None:
        for _ in range(20):
            if not self.engine.wants_commit:
                return
            work = self.engine.apply([])
            self.engine.sync(work)
            self.engine.finish(work)
        raise AssertionError("the engine wants commits for ever")

    def tick(self) -> None:
        self.engine.tick()
        self.commit()

    def ask(self, request: Request[Answer]) -> Answer:
        """The answer to one request; raises its error."""
        (outcome,) = self.commit(request)
        if isinstance(outcome, StoreError):
            raise outcome
        answer: Answer = outcome
        return answer

    def create(self, queue: str = "q", **settings: object) -> None:
        self.ask(CreateQueue(name=queue, settings=QueueSettings().changed(settings)))

    def send(self, *bodies: bytes, queue: str = "q", delay: int | None = None) -> list[str]:
        """Send in one call; the ids."""
        delay_millis = None if delay is None else Millis(delay)
        messages = [Outgoing(body=body, delay=delay_millis) for body in bodies]
        results = self.ask(Send(queue=queue, messages=messages))
        for result in results:
            assert isinstance(result, Sent), result
        return [result.id for result in results if isinstance(result, Sent)]

    def receive(
        self, most: int = 1, *, queue: str = "q", visibility: int | None = None
    ) -> list[Message]:
        timeout = None if visibility is None else Millis(visibility)
        return self.ask(Receive(queue=queue, max_messages=most, visibility=timeout))

    # What there is.

    def sights(self, queue: str = "q") -> list[Sight]:
        every = frozenset({State.READY, State.LEASED, State.DELAYED})
        return self.engine.views.messages(queue, every, "", 10**9)

    def states(self, queue: str = "q") -> dict[str, str]:
        return {sight.entry.id: sight.state.value for sight in self.sights(queue)}

    def bodies(self, queue: str = "q") -> list[bytes]:
        """Of all messages, in order, read past the store."""
        return [self.disk.read(sight.path)[: sight.entry.size or 0] for sight in self.sights(queue)]

    def known(self) -> list[Lying]:
        """All messages as the index has them."""
        return sorted(
            Lying(
                name,
                sight.entry.id,
                sight.state.value,
                sight.entry.receives,
                sight.entry.first_receive,
                sight.due,
            )
            for name in self.engine.catalog.queues
            for sight in self.sights(name)
        )

    def check(self) -> None:
        """What holds whenever no commit is under way."""
        lying = sorted(lying_on(self.disk))
        known = self.known()
        assert known == lying, "the index is not what the folders say"
        twice = [key for key, n in Counter((each.queue, each.id) for each in lying).items() if n > 1]
        assert not twice, f"in two places: {twice}"
        for name in self.engine.catalog.queues:
            self._check_counts(name)
        assert not self.engine._root.after_sync

    def _check_counts(self, name: str) -> None:
        sights = self.sights(name)
        assert [s.entry.id for s in sights] == sorted(s.entry.id for s in sights)
        counts = self.engine.views.queue(self.engine.catalog.queues[name]).counts
        by_state = Counter(sight.state for sight in sights)
        assert counts.ready == by_state[State.READY]
        assert counts.leased == by_state[State.LEASED]
        assert counts.delayed == by_state[State.DELAYED]
        assert counts.bytes == sum(sight.entry.length for sight in sights)
        for sight in sights:
            assert self.engine.views.find(name, sight.entry.id) == sight
            assert len(self.disk.read(sight.path)) == sight.entry.length


def lying_on(disk: Disk) -> list[Lying]:
    """All messages of living queues as the names in the folders show them."""
    found: list[Lying] = []
    for folder in disk.scan(layout.QUEUES):
        for each in disk.scan(f"{layout.QUEUES}/{folder.name}"):
            path = f"{layout.QUEUES}/{folder.name}/{each.name}"
            item = parse_item(each.name)
            found += [_lying(folder.name, entry, State.READY, None) for entry in _in(disk, path, item)]
    for each in disk.scan(layout.DELAY):
        filed = parse_filed(each.name)
        state = State.DELAYED if filed.token is None else State.LEASED
        entries = _in(disk, f"{layout.DELAY}/{each.name}", filed.item)
        found += [_lying(filed.queue, entry, state, filed.due) for entry in entries]
    return found


def _in(disk: Disk, path: str, item: Entry | Batch) -> list[Entry]:
    if isinstance(item, Entry):
        assert disk.facts(path).kind is Kind.FILE
        return [item]
    inside = disk.scan(path)
    assert inside, f"{path} is empty"
    return [moved_out(parse_entry(each.name), item) for each in inside]


def _lying(queue: str, entry: Entry, state: State, due: int | None) -> Lying:
    return Lying(queue, entry.id, state.value, entry.receives, entry.first_receive, due)

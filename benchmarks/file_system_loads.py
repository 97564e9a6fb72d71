"""The workloads of `file_systems` on each: the limit, and the store's main operations.

Each workload gets an empty folder, works there for so many seconds, and answers how many messages it
has done in which time. It leaves its files behind. Everything is synced as the store promises by
default.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, TypeVar

from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    Receive,
    Request,
    Send,
    SendResults,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from .message_bodies import body_of
from .systems.limit import Limit, LivingLimit, SendingLimit

Answer = TypeVar("Answer")

_FORK: Final = multiprocessing.get_context("fork")
_BATCH: Final = 256
_CALLERS: Final = 64
_QUEUE: Final = "q"
"""Of the limit. A store has a queue for each process that measures."""
_PATIENCE: Final = 300.0
"""Seconds after which a store that doesn't answer is stuck."""
_MOST: Final = 50_000
"""Messages of one measurement: the images are small."""

Done = tuple[int, float]
"""Messages, and the seconds that they took."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreLoad:
    name: str
    title: str
    run: Callable[[Path, float], Done]


def _repeat(act: Callable[[], int], seconds: float) -> Done:
    """Do it until the time is over, at least once; `act` answers how many messages that was."""
    began = time.perf_counter()
    done = act()
    while (spent := time.perf_counter() - began) < seconds and done < _MOST:
        done += act()
    return done, spent


def measure(workload: str, roots: Sequence[Path], seconds: float) -> list[Done]:
    """Run the workload of this name at each root at once, in processes of their own, which take with
    them whatever they have open there."""
    (chosen,) = (each for each in WORKLOADS if each.name == workload)
    pipes = [_FORK.Pipe(duplex=False) for _ in roots]
    processes = []
    for root, (_, told) in zip(roots, pipes, strict=True):
        process = _FORK.Process(
            target=lambda root=root, told=told: told.send(chosen.run(root, seconds))
        )
        process.start()
        told.close()
        processes.append(process)
    try:
        return [heard.recv() for heard, _ in pipes]
    except EOFError as error:
        raise RuntimeError(f"{workload} has failed in {roots}; its output stands above") from error
    finally:
        for process, (heard, _) in zip(processes, pipes, strict=True):
            process.join()
            heard.close()


def _tell(load: StoreLoad, root: Path, seconds: float, pipe: Connection) -> None:
    pipe.send(load.run(root, seconds))


# The limit.


def _limit(kind: type[SendingLimit], count: int) -> Callable[[Path, float], Done]:
    def run(root: Path, seconds: float) -> Done:
        system = Limit(root)
        system.create_queue(_QUEUE)
        driver = kind(str(root), _QUEUE)
        bodies = [body_of(0, 0, at) for at in range(count)]

        def act() -> int:
            driver.send_many(bodies)
            return count

        return _repeat(act, seconds)

    return run


# The store.


class _Queue:
    """A queue in an open store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._name = f"q{os.getpid()}"
        self._body = body_of(0, 0, 0)

    def create(self) -> None:
        self._ask(CreateQueue(name=self._name, settings=QueueSettings()))

    def begin_to_send(self, count: int) -> Future[SendResults]:
        return self._store.submit(Send(queue=self._name, bodies=[self._body] * count))

    def send(self, count: int) -> int:
        sent = self.begin_to_send(count).result(_PATIENCE)
        assert all(isinstance(each, str) for each in sent.results), sent.results
        return count

    def take(self, count: int) -> int:
        """Receive and delete; how many there were."""
        found = messages_of(self._ask(Receive(queue=self._name, max_messages=count)))
        receipts = [each.receipt or "" for each in found]
        if receipts:
            assert self._ask(Delete(queue=self._name, receipts=receipts)) == [None] * len(receipts)
        return len(receipts)

    def live(self, count: int) -> int:
        self.send(count)
        taken = self.take(count)
        assert taken == count, f"{taken} of {count} received"
        return count

    def _ask(self, request: Request[Answer]) -> Answer:
        return self._store.submit(request).result(_PATIENCE)


@contextmanager
def _opened(root: Path) -> Iterator[_Queue]:
    with Store.open(root) as store:
        queue = _Queue(store)
        queue.create()
        yield queue


def _sends(count: int) -> Callable[[Path, float], Done]:
    def run(root: Path, seconds: float) -> Done:
        with _opened(root) as queue:
            return _repeat(lambda: queue.send(count), seconds)

    return run


def _callers(root: Path, seconds: float) -> Done:
    """Return so many calls of one message are always under way."""
    with _opened(root) as queue:
        calls: deque[Future[SendResults]] = deque(queue.begin_to_send(1) for _ in range(_CALLERS))

        def act() -> int:
            (sent,) = calls.popleft().result(_PATIENCE).results
            assert isinstance(sent, str), sent
            calls.append(queue.begin_to_send(1))
            return 1

        return _repeat(act, seconds)


def _lives(count: int) -> Callable[[Path, float], Done]:
    def run(root: Path, seconds: float) -> Done:
        with _opened(root) as queue:
            return _repeat(lambda: queue.live(count), seconds)

    return run


def _old(root: Path, seconds: float) -> Done:
    """Return a store finds them when it starts: every body is read from its file."""
    with _opened(root) as queue:
        waiting, _ = _repeat(lambda: queue.send(100), seconds)
    with _opened(root) as queue:
        began = time.perf_counter()
        received = 0
        while received < waiting:
            count = queue.take(100)
            assert count, f"{waiting - received} of {waiting} are not found"
            received += count
        return received, time.perf_counter() - began


WORKLOADS: Final = (
    StoreLoad(
        name="limit",
        title=f"no store: folders of {_BATCH} files, synced by one syncfs, published by one rename",
        run=_limit(SendingLimit, _BATCH),
    ),
    StoreLoad(
        name="limit-lives",
        title="no store: such folders, also leased, deleted, each step synced, and unlinked",
        run=_limit(LivingLimit, _BATCH),
    ),
    StoreLoad(name="singles", title="sends of one message, one after the other", run=_sends(1)),
    StoreLoad(name="callers", title=f"sends of one message, {_CALLERS} at a time", run=_callers),
    StoreLoad(name="tens", title="sends of ten in a call", run=_sends(10)),
    StoreLoad(name="hundreds", title="sends of a hundred in a call", run=_sends(100)),
    StoreLoad(name="lives-1", title="one sent, received, deleted, then the next", run=_lives(1)),
    StoreLoad(name="lives-10", title="the same in tens", run=_lives(10)),
    StoreLoad(name="lives-100", title="the same in hundreds", run=_lives(100)),
    StoreLoad(
        name="old",
        title="received and deleted in hundreds after a restart; the files are still in the cache",
        run=_old,
    ),
)

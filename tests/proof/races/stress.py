"""Random calls of many threads on one root, while the interpreter changes threads as often as it can.

    python -m tests.proof.races.stress FOLDER --seconds 60 --interval 1e-6 --threads 4 --seed 1

Each thread draws calls: sends, receives, deletes, releases, extensions, stages, sets, redrives, queues
that come and go, and every kind of look. What holds whatever the order of the calls:

- each call is answered, with a `StoreError` if with an error, and no thread of the store dies;
- a message that was sent is delivered until it is deleted, and never to two at once;
- a delay ends;
- the store hasn't failed.

Several of these programs may work on one root: `judge` looks at what all of them saw.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol, TypeVar

from spoolrack_store.committer import Driver
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Message,
    MessageFilter,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Request,
    Send,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.reservation_requests import CommitReservations, Reserve
from spoolrack_store.model.reservation_requests import Release as ReleaseSet
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Abort, Publish, Stage
from spoolrack_store.store import Store

Answer = TypeVar("Answer")

PATIENCE: Final = 60.0
"""Seconds after which a call counts as never answered. A good one takes milliseconds."""
LEASE: Final = Millis(600_000)
"""No lease of these programs ends by itself."""
DELAYS: Final = (1, 20, 400)
"""Milliseconds."""
LATE: Final = 20_000
"""So many milliseconds after its delay a message must be there."""
QUEUE: Final = "judged"
DEAD: Final = "judged-dead"
OTHERS: Final = ("come-and-go", "grouped", "dead")
"""Queues whose messages nothing is promised of here: purges, sets and redrives take them."""


@dataclass
class Ledger:
    """What one program saw of the messages of the judged queue. Thread-safe: lists only grow."""

    sent: list[tuple[str, int]] = field(default_factory=list)
    """Id, and the milliseconds of its delay."""
    holds: list[tuple[str, float, float]] = field(default_factory=list)
    """Id, when the lease was known, and when its end was asked for."""
    deleted: list[tuple[str, float]] = field(default_factory=list)
    """Id, and when the deletion was asked for."""
    faults: list[str] = field(default_factory=list)
    calls: int = 0
    at_once: int = 0
    """Of them those whose request this thread has done itself."""

    def as_json(self) -> str:
        return json.dumps(vars(self))


class Caller:
    """One thread that calls."""

    def __init__(self, store: Store, ledger: Ledger, random: Random, name: str) -> None:
        self._store, self._ledger, self._random, self._name = store, ledger, random, name
        self._held: list[tuple[Message, float]] = []
        self._number = 0
        calls: dict[Callable[[], None], int] = {
            self._send: 8,
            self._receive: 8,
            self._delete: 6,
            self._release: 2,
            self._extend: 1,
            self._look: 6,
            self._wait: 1,
            self._send_others: 3,
            self._consume_others: 3,
            self._reserve: 1,
            self._stage: 1,
            self._redrive: 1,
            self._change_queues: 1,
        }
        self._calls, self._weights = list(calls), list(calls.values())

    def run(self, until: float) -> None:
        while time.monotonic() < until and not self._ledger.faults:
            (call,) = self._random.choices(self._calls, self._weights)
            try:
                call()
            except StoreError:
                pass  # It says what it says: a queue is gone, a set is lost.
            except BaseException as error:
                logging.exception("a call has failed")
                self._ledger.faults.append(f"{call.__name__}: {error!r}")
            self._ledger.calls += 1

    def _ask(self, request: Request[Answer]) -> Answer:
        if self._random.random() < 0.5:
            answer = self._store.try_now(request, math.inf)
            if answer is not None:
                self._ledger.at_once += 1
                return answer
        return self._store.submit(request).result(PATIENCE)

    # The judged queue.

    def _send(self) -> None:
        count = self._random.choice((1, 1, 3))
        delay = self._random.choice((0, 0, *DELAYS))
        results = self._ask(
            Send(
                queue=QUEUE,
                bodies=[self._name.encode()] * count,
                delays={position: Millis(delay) for position in range(count)} if delay else {},
            )
        ).results
        self._ledger.sent += [(each, delay) for each in results if isinstance(each, str)]

    def _receive(self, wait: int = 0) -> None:
        most = self._random.choice((1, 1, 5))
        request = Receive(queue=QUEUE, max_messages=most, visibility_timeout=LEASE, wait=Millis(wait))
        found = messages_of(self._ask(request))
        self._held += [(message, time.monotonic()) for message in found]

    def _wait(self) -> None:
        self._receive(wait=self._random.choice((1, 30)))

    def _delete(self) -> None:
        held, self._held = self._held[:3], self._held[3:]
        if not held:
            return
        now = self._end(held)
        results = self._ask(
            Delete(queue=QUEUE, receipts=[message.receipt or "" for message, _ in held])
        )
        for (message, _), result in zip(held, results, strict=True):
            if result is None:
                self._ledger.deleted.append((message.id, now))
            else:
                self._ledger.faults.append(f"a leased message can't be deleted: {result!r}")

    def _release(self) -> None:
        held, self._held = self._held[:2], self._held[2:]
        if held:
            self._end(held)
            receipts = [message.receipt or "" for message, _ in held]
            for result in self._ask(ReleaseMessages(queue=QUEUE, receipts=receipts)):
                if isinstance(result, StoreError):
                    self._ledger.faults.append(f"a leased message can't be released: {result!r}")

    def _extend(self) -> None:
        if self._held:
            receipts = [message.receipt or "" for message, _ in self._held[:5]]
            request = ChangeVisibility(queue=QUEUE, receipts=receipts, visibility_timeout=LEASE)
            for result in self._ask(request):
                if isinstance(result, StoreError):
                    self._ledger.faults.append(f"a lease can't be extended: {result!r}")

    def _end(self, held: Iterable[tuple[Message, float]]) -> float:
        now = time.monotonic()
        self._ledger.holds += [(message.id, since, now) for message, since in held]
        return now

    # Looks.

    def _look(self) -> None:
        store, queue = self._store, self._random.choice((QUEUE, *OTHERS))
        look: Callable[[], Any] = self._random.choice(
            (
                lambda: store.queue(queue),
                lambda: store.summary(queue),
                lambda: store.queues(),
                lambda: store.page(queue, MessageFilter(), limit=20, max_body_bytes=10),
                lambda: [store.message(queue, each.id) for each in self._page(queue, 2)],
                lambda: store.stages(),
                lambda: store.schedules(),
                lambda: store.redrives(),
                lambda: store.reservations(),
                lambda: store.metrics.root(),
                lambda: list(store.metrics.queues()),
                lambda: store.metrics.ages([QUEUE, *OTHERS], [Millis(1_000)]),
                lambda: store.metrics.oldest(),
                lambda: store.settings(queue),
            )
        )
        look()

    def _page(self, queue: str, limit: int) -> list[Message]:
        return self._store.page(queue, MessageFilter(), limit=limit).messages

    # Other queues.

    def _send_others(self) -> None:
        queue = self._random.choice(OTHERS)
        self._number += 1
        self._ask(
            Send(
                queue=queue,
                bodies=[b"x", b"y"],
                deduplication_ids={0: f"{self._name}-{self._number}"},
                groups={0: self._random.choice("abc"), 1: "d"} if queue == "grouped" else {},
                delays={1: Millis(30)} if queue == "come-and-go" else {},
            )
        )

    def _consume_others(self) -> None:
        queue = self._random.choice(OTHERS)
        found = messages_of(
            self._ask(Receive(queue=queue, max_messages=4, visibility_timeout=Millis(50)))
        )
        receipts = [message.receipt or "" for message in found]
        if not receipts or self._random.random() < 0.2:
            self._ask(Purge(queue=queue))
        elif self._random.random() < 0.5:
            self._ask(RejectMessages(queue=queue, receipts=receipts))
        else:
            self._ask(Delete(queue=queue, receipts=receipts))

    def _reserve(self) -> None:
        self._number += 1
        queue, stream = self._random.choice(OTHERS), self._name
        a_set = self._ask(
            Reserve(
                queue=queue,
                stream=stream,
                sequence_number=self._number,
                max_messages=10,
                visibility_timeout=Millis(1_000),
            )
        )
        if a_set is None:
            return
        if self._random.random() < 0.3:
            self._ask(ReleaseSet(stream=stream, sequence_number=self._number))
            return
        for _ in self._store.read_reservation(stream, self._number):
            pass
        self._ask(CommitReservations(stream=stream, last_sequence_number=self._number))

    def _stage(self) -> None:
        self._number += 1
        stage = f"{self._name}-{self._number}"
        for chunk in range(2):
            self._ask(
                Stage(stage=stage, chunk_number=chunk, queue=self._random.choice(OTHERS), bodies=[b"s"])
            )
        if self._random.random() < 0.3:
            self._ask(Abort(stage=stage))
        else:
            self._ask(Publish(writer=self._name, epoch=self._number, stages=[stage]))

    def _redrive(self) -> None:
        self._ask(StartRedrive(queue="dead", destination="grouped"))

    def _change_queues(self) -> None:
        queue = OTHERS[0]
        if self._random.random() < 0.3:
            self._ask(DeleteQueue(name=queue))
        self._ask(
            UpdateQueue(name="grouped", changes={"max_messages": self._random.randrange(1, 9) * 1_000})
        )
        make_queues(self._store)

    def finish(self) -> None:
        """Release what is held."""
        while self._held:
            self._release()


def make_queues(store: Store) -> None:
    for name, settings in {
        DEAD: QueueSettings(),
        QUEUE: QueueSettings(visibility_timeout=LEASE),
        "dead": QueueSettings(),
        OTHERS[0]: QueueSettings(deduplication_window=Millis(60_000)),
        "grouped": QueueSettings(group_order="strict", max_receives=3, dead_letter_queue="dead"),
    }.items():
        with suppress(StoreError):  # It is there with other settings.
            store.submit(CreateQueue(name=name, settings=settings)).result(PATIENCE)


@contextmanager
def watched(ledger: Ledger) -> Iterator[None]:
    """Note each thread that dies, and each line of the log that says so."""

    def told(arguments: threading.ExceptHookArgs) -> None:
        ledger.faults.append(f"{arguments.thread} has died: {arguments.exc_value!r}")
        before(arguments)

    before, threading.excepthook = threading.excepthook, told
    alarm, log = _Alarm(ledger), logging.getLogger("spoolrack_store")
    log.addHandler(alarm)
    try:
        yield
    finally:
        log.removeHandler(alarm)
        threading.excepthook = before


class _Alarm(logging.Handler):
    """Notes lines of the log that tell of a loss or a fault: there is none."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.WARNING)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if "is on an" in line:
            return  # Of the file system on which the test runs.
        if any(each in line for each in ("can't be told", "lost", "fault", "damaged", "has to wait")):
            self._ledger.faults.append(f"the log says: {line}")


class Calling(Protocol):
    """A thread's work."""

    def run(self, until: float) -> None: ...

    def finish(self) -> None: ...


def run_together(
    callers: Sequence[Calling], ledger: Ledger, *, seconds: float, interval: float
) -> None:
    """Let each caller call in a thread of its own for so many seconds, and give back what it has."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        until = time.monotonic() + seconds
        running = [threading.Thread(target=each.run, args=(until,)) for each in callers]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(seconds + 3 * PATIENCE)
            if thread.is_alive():
                ledger.faults.append(f"{thread} hangs")
    finally:
        sys.setswitchinterval(before)
    if not ledger.faults:
        for caller in callers:
            caller.finish()


def work(
    root: Path,
    *,
    seconds: float,
    threads: int,
    seed: int,
    interval: float,
    driver: Driver | None = None,
    name: str = "p",
) -> Ledger:
    """Let `threads` call for so many seconds; return what they saw."""
    ledger = Ledger()
    with watched(ledger), Store.open(root, driver=driver) as store:
        make_queues(store)
        callers = [
            Caller(store, ledger, Random(f"{seed} {name} {each}"), f"{name}{each}")
            for each in range(threads)
        ]
        run_together(callers, ledger, seconds=seconds, interval=interval)
        if store.failure is not None:
            ledger.faults.append(f"the store has failed: {store.failure}")
    return ledger


def judge(root: Path, ledgers: Iterable[Ledger]) -> list[str]:
    """Return what was promised and isn't so, once all programs have ended."""
    ledgers = list(ledgers)
    faults = [fault for ledger in ledgers for fault in ledger.faults]
    if faults:
        return faults
    ends: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for ledger in ledgers:
        for id, since, until in ledger.holds:
            ends[id].append((since, until))
    for id, holds in ends.items():
        holds.sort()
        for (_, until), (since, _) in pairwise(holds):
            if since < until:
                faults.append(f"{id} was leased to two at once")
    sent = {id for ledger in ledgers for id, _ in ledger.sent}
    deleted = {id: at for ledger in ledgers for id, at in ledger.deleted}
    for id, holds in ends.items():
        if id in deleted and any(since > deleted[id] for since, _ in holds):
            faults.append(f"{id} was delivered after its deletion")
    left, until = sent - deleted.keys(), time.monotonic() + LATE / 1_000
    with Store.open(root) as store:
        while left and time.monotonic() < until:
            request = Receive(queue=QUEUE, max_messages=100, visibility_timeout=LEASE, wait=Millis(500))
            for message in messages_of(store.submit(request).result(PATIENCE)):
                if message.id in deleted:
                    faults.append(f"{message.id} is there after its deletion")
                elif message.id not in left:
                    faults.append(f"{message.id} was never sent, or comes again")
                left.discard(message.id)
    faults += [f"{id} is lost" for id in sorted(left)]
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description="Let threads make random calls on one root.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--interval", type=float, default=1e-6)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--name", default="p")
    parser.add_argument("--ledger", type=Path, help="write what was seen there, and judge nothing")
    asked = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    ledger = work(
        asked.folder,
        seconds=asked.seconds,
        threads=asked.threads,
        seed=asked.seed,
        interval=asked.interval,
        name=asked.name,
    )
    if asked.ledger is not None:
        asked.ledger.write_text(ledger.as_json())
        return 0
    faults = judge(asked.folder, [ledger])
    print(
        f"{ledger.calls} calls, {ledger.at_once} done at once, {len(ledger.sent)} sent, "
        f"{len(ledger.deleted)} deleted"
    )
    print(*faults, sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())

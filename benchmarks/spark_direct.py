"""Baselines of Spark's rates: the ordinary client in its own processes, and the store alone.

Knows nothing of Spark but that it calls a function with the rows of a partition. What can fail: a
message that doesn't come back.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Any, Final

from spoolrack import Client, connect
from spoolrack_store.model.operations import CreateQueue, Send
from spoolrack_store.model.reservation_requests import CommitReservations, Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

BODY: Final = b"x" * 256
IN_A_CALL: Final = 1_000
HUNDRED: Final = 100
DEPTH: Final = 4
"""Requests under way in the store, as with Spark's writers."""
TOGETHER: Final = 100_000
PATIENCE: Final = 300.0


@cache
def client_of(endpoint: str) -> Client:
    return connect(endpoint, timeout=PATIENCE)


def _send(endpoint: str, queue: str, rows: int) -> None:
    for result in client_of(endpoint).queue(queue).send_many([BODY] * rows):
        if result.error is not None:
            raise result.error


def _receive(endpoint: str, queue: str, rows: int) -> None:
    """Lease and delete so many, in thousands."""
    here = client_of(endpoint).queue(queue)
    while rows:
        messages = here.receive(min(IN_A_CALL, rows), wait=20.0, visibility_timeout=600.0)
        if not messages:
            raise RuntimeError(f"{rows} messages are missing")
        here.delete_many(messages)
        rows -= len(messages)


def _stream(endpoint: str, queue: str, rows: int) -> None:
    """Receive and delete so many in one stream."""
    here = client_of(endpoint).queue(queue)
    with here.messages(max_in_flight=10_000, visibility_timeout=600.0) as messages:
        for number, message in enumerate(messages, 1):
            messages.ack(message)
            if number == rows:
                return


def _ready(endpoint: str, queue: str) -> None:
    client_of(endpoint).queue(queue).info()


class Direct(AbstractContextManager["Direct"]):
    """So many processes with a client each; they are connected before anything is measured."""

    def __init__(self, processes: int) -> None:
        # gRPC doesn't survive a fork.
        spawn = multiprocessing.get_context("spawn")
        self._pools = [ProcessPoolExecutor(1, mp_context=spawn) for _ in range(processes)]

    def __exit__(self, *_: object) -> None:
        for pool in self._pools:
            pool.shutdown()

    def sends(self, endpoint: str, queue: str, processes: int, rows: int) -> float:
        """Return the seconds for all rows, divided among so many processes."""
        return self._together(_send, endpoint, queue, processes, rows)

    def receives(self, endpoint: str, queue: str, processes: int, rows: int) -> float:
        return self._together(_receive, endpoint, queue, processes, rows)

    def stream(self, endpoint: str, queue: str, rows: int) -> float:
        """Return the seconds for all rows in one stream of one client."""
        return self._together(_stream, endpoint, queue, 1, rows)

    def stores(self, folder: Path, rows: int) -> dict[str, float]:
        """Run `store_rates` in a process of its own, which has no file open there at the end."""
        return self._pools[0].submit(store_rates, folder, rows).result(PATIENCE)

    def _together(
        self, act: Callable[..., None], endpoint: str, queue: str, processes: int, rows: int
    ) -> float:
        pools = self._pools[:processes]
        for ready in [pool.submit(_ready, endpoint, queue) for pool in pools]:
            ready.result(PATIENCE)
        began = time.perf_counter()
        shares = [rows * (at + 1) // processes - rows * at // processes for at in range(processes)]
        for done in [
            pool.submit(act, endpoint, queue, share) for pool, share in zip(pools, shares, strict=True)
        ]:
            done.result(PATIENCE)
        return time.perf_counter() - began


def send_one_by_one(endpoint: str, queue: str) -> Callable[[Iterable[Any]], None]:
    """Return a function for `foreachPartition` without a writer, with a call for each row."""

    def send(rows: Iterable[Any]) -> None:
        with connect(endpoint) as client:
            here = client.queue(queue)
            for row in rows:
                here.send(bytes(row.body))

    return send


def send_many(endpoint: str, queue: str) -> Callable[[Iterable[Any]], None]:
    """For `foreachPartition`: a client for each partition, which sends what it is given."""

    def send(rows: Iterable[Any]) -> None:
        with connect(endpoint, timeout=PATIENCE) as client:
            for result in client.queue(queue).send_many([bytes(row.body) for row in rows]):
                if result.error is not None:
                    raise result.error

    return send


def store_rates(folder: Path, rows: int) -> dict[str, float]:
    """Return the seconds in which the store alone sends so many rows, in thousands and in hundreds, and
    reads and deletes those of the thousands by reservations."""
    root = Path(tempfile.mkdtemp(prefix="store-", dir=folder))
    try:
        with Store.open(root) as store:
            store.submit(CreateQueue(name="q", settings=QueueSettings())).result(PATIENCE)
            began = time.perf_counter()
            _fill(store, rows, IN_A_CALL)
            filled = time.perf_counter()
            _drain(store, rows)
            drained = time.perf_counter()
            _fill(store, rows, HUNDRED)
            return {
                "store_sends": filled - began,
                "store_reads": drained - filled,
                "store_hundreds": time.perf_counter() - drained,
            }
    finally:
        shutil.rmtree(root)


def _fill(store: Store, rows: int, in_a_call: int) -> None:
    under_way: deque[Future[Any]] = deque()
    for at in range(0, rows, in_a_call):
        if len(under_way) == DEPTH:
            under_way.popleft().result(PATIENCE)
        bodies = [BODY] * min(in_a_call, rows - at)
        under_way.append(store.submit(Send(queue="q", bodies=bodies)))
    for sent in under_way:
        sent.result(PATIENCE)


def _drain(store: Store, rows: int) -> None:
    for sequence_number, at in enumerate(range(0, rows, TOGETHER)):
        count = min(TOGETHER, rows - at)
        reserve = Reserve(
            queue="q",
            stream="s",
            sequence_number=sequence_number,
            max_messages=count,
            max_bytes=1 << 40,
        )
        store.submit(reserve).result(PATIENCE)
        found = sum(
            len(run) for page in store.read_reservation("s", sequence_number) for run in page.runs
        )
        if found != count:
            raise RuntimeError(f"{found} of {count} messages were read")
        store.submit(CommitReservations(stream="s", last_sequence_number=sequence_number)).result(
            PATIENCE
        )

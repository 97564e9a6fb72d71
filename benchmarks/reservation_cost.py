"""The cost of reserving, reading again and committing, beside a receive and a delete of as much.

`python -m benchmarks.reservation_cost FOLDER` makes a root in FOLDER, on the disk that is to be
measured, and prints milliseconds for sets of different sizes, and how each compares with the same by
receipts. The messages have 1 KiB and were sent a hundred at a time.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    Message,
    Receive,
    Request,
    Send,
    messages_of,
)
from spoolrack_store.model.reservation_requests import CommitReservations, ExtendReservation, Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

SIZES = (1, 1_000, 10_000)
ROUNDS = 5
SENT_TOGETHER = 100
BODY = b"x" * 1_024
ENOUGH = 1 << 30
PATIENCE = 300.0
"""Seconds after which a store that doesn't answer is stuck."""


def milliseconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1_000


class Reserving:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._seq = 0
        self._ask(CreateQueue(name="q", settings=QueueSettings()))

    def _ask(self, request: Request[object]) -> object:
        return self._store.submit(request).result(PATIENCE)

    def fill(self, count: int) -> None:
        for at in range(0, count, SENT_TOGETHER):
            bodies = [BODY] * min(SENT_TOGETHER, count - at)
            self._ask(Send(queue="q", bodies=bodies))

    def round(self, count: int) -> dict[str, float]:
        """Milliseconds of each step with so many messages."""
        self.fill(count)
        sequence_number, self._seq = self._seq, self._seq + 1
        reserve = Reserve(
            queue="q",
            stream="bench",
            sequence_number=sequence_number,
            max_messages=count,
            max_bytes=ENOUGH,
        )
        took = {
            "reserve": milliseconds(lambda: self._ask(reserve)),
            "reserve again": milliseconds(lambda: self._ask(reserve)),
            "confirm": milliseconds(
                lambda: self._ask(ExtendReservation(stream="bench", sequence_number=sequence_number))
            ),
            "read": milliseconds(lambda: self._read(sequence_number, count)),
            "commit": milliseconds(
                lambda: self._ask(
                    CommitReservations(stream="bench", last_sequence_number=sequence_number)
                )
            ),
        }
        self.fill(count)
        received: list[Message] = []
        took["receive"] = milliseconds(lambda: received.extend(self._receive(count)))
        took["delete"] = milliseconds(lambda: self._delete(received))
        return took

    def _read(self, sequence_number: int, count: int) -> None:
        found = sum(
            len(run)
            for page in self._store.read_reservation("bench", sequence_number)
            for run in page.runs
        )
        if found != count:
            raise RuntimeError(f"{found} of {count} messages were read")

    def _receive(self, count: int) -> list[Message]:
        request = Receive(queue="q", max_messages=count, max_bytes=ENOUGH)
        return messages_of(self._store.submit(request).result(PATIENCE))

    def _delete(self, messages: list[Message]) -> None:
        receipts = [message.receipt or "" for message in messages]
        self._ask(Delete(queue="q", receipts=receipts))


def measure(folder: Path) -> dict[int, dict[str, float]]:
    """Medians by size and step."""
    root = Path(tempfile.mkdtemp(prefix="reserving-", dir=folder))
    try:
        with Store.open(root) as store:
            reserving = Reserving(store)
            reserving.round(100)
            return {size: _medians([reserving.round(size) for _ in range(ROUNDS)]) for size in SIZES}
    finally:
        shutil.rmtree(root)


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {step: statistics.median(each[step] for each in rounds) for step in rounds[0]}


def table(took: dict[int, dict[str, float]]) -> str:
    """Return the table in Markdown: milliseconds, and the ratios that count."""
    steps = list(next(iter(took.values())))
    rows = ["| messages | " + " | ".join(steps) + " | reserve + read / receive | commit / delete |"]
    rows.append("|---:" * (len(steps) + 3) + "|")
    for size, by in took.items():
        figures = [f"{by[step]:.1f}" for step in steps]
        reading = (by["reserve"] + by["read"]) / by["receive"]
        figures += [f"{reading:.2f}", f"{by['commit'] / by['delete']:.2f}"]
        rows.append(f"| {size:,} | " + " | ".join(figures) + " |")
    return "\n".join(rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the root is made")
    print(table(measure(parser.parse_args(arguments).folder)))


if __name__ == "__main__":
    main()

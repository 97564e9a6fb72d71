"""`spoolrack bench`: measures a server on its disk.

It loads the server as one program with a few threads would, and measures the disk alone beside it: a
durable send can't be quicker than the disk's sync. Peers and the limit of the file system are compared
by the benchmarks of the repository.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

import click
from spoolrack import Queue

from ..kit.command_base import option
from ..kit.connection_options import Connection, connects_to_queues, temporary_queue
from ..kit.exit_codes import OK, TRY_AGAIN, Failed
from ..kit.output import columns, print_results, print_status
from ..kit.units import Size, Span

Step = Callable[[], int]
"""Does a little, and says how many messages or files that was."""

DAY: Final = 86400.0
LARGEST: Final = 1024 * 1024
"""Bytes of a body that a queue takes if its settings don't say."""
_BATCH: Final = 100
_TEN: Final = 10
_LONGEST_LEASE: Final = 600.0
_GIVE_UP: Final = 30.0
_LOOK: Final = 0.5
"""Seconds between two looks at signals."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """The result of one load."""

    what: str
    per_second: float
    p50_ms: float
    """Of one step: a call, a batch, or the life of ten."""
    p99_ms: float


@click.command()
@option(
    "--disk",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Measure the disk of this folder, too; by default, with --root, that of the root.",
)
@option(
    "--seconds",
    type=Span(0.1, DAY),
    default="60s",
    help="About how long the measurement takes.",
)
@option("--size", type=Size(0, LARGEST), default="1k", help="Size of a message's body.")
@option("--json", "as_json", is_flag=True, help="Print a line of JSON for each row.")
@connects_to_queues
def command(connection: Connection, disk: str | None, seconds: float, size: int, as_json: bool) -> int:
    """Measure a server and its disk, in about a minute.

    Uses a queue with a random name, which it deletes at the end, and for the disk a folder of its own.
    The server should be idle otherwise: other calls are slower meanwhile.
    """
    body = os.urandom(size)
    rows: list[Row] = []
    name = f"bench-{secrets.token_hex(8)}"
    with (
        connection.client() as client,
        temporary_queue(client, name, visibility_timeout=_LONGEST_LEASE) as queue,
    ):
        folder = disk if disk is not None else connection.root
        loads = _loads_on_queue(queue, body)
        disk_loads = 0 if folder is None else 2
        each = seconds / (len(loads) + disk_loads)
        if folder is not None:
            rows += _measure_disk(Path(folder), body, each)
        for what, threads, step in loads:
            print_status(f"{what} ...")
            rows.append(_measure(what, [step] * threads, each))
    if as_json:
        for row in rows:
            print_results(json.dumps(asdict(row)))
    else:
        print_results(*_table(rows))
    return OK


def _loads_on_queue(queue: Queue, body: bytes) -> Sequence[tuple[str, int, Step]]:
    hundred = partial(_send_many, queue, [body] * _BATCH)
    return (
        ("sends, one caller", 1, partial(_send, queue, body)),
        ("sends, 16 callers", 16, partial(_send, queue, body)),
        ("sends in hundreds, 4 callers", 4, hundred),
        ("lives in tens, 8 callers", 8, partial(_live, queue, [body] * _TEN)),
    )


def _send(queue: Queue, body: bytes) -> int:
    queue.send(body)
    return 1


def _send_many(queue: Queue, bodies: list[bytes]) -> int:
    for result in queue.send_many(bodies):
        if result.error is not None:
            raise result.error
    return len(bodies)


def _live(queue: Queue, bodies: list[bytes]) -> int:
    """Send ten, receive as many, not always the same, and delete them."""
    _send_many(queue, bodies)
    missing_count = len(bodies)
    end = time.monotonic() + _GIVE_UP
    while missing_count:
        messages = queue.receive(missing_count, wait=1)
        if not messages and time.monotonic() > end:
            raise Failed(f"{missing_count} messages that were sent don't come", TRY_AGAIN)
        for result in queue.delete_many(messages):
            if result.error is not None:
                raise result.error
        missing_count -= len(messages)
    return len(bodies)


# The disk alone.


def _measure_disk(folder: Path, body: bytes, seconds: float) -> list[Row]:
    place = Path(tempfile.mkdtemp(prefix=".spoolrack-bench-", dir=folder))
    try:
        one, many = _Files(place, body, 1), _Files(place, body, _BATCH)
        return [
            _measure("disk: a file and its fsync", [one.sync_each], seconds),
            _measure(f"disk: {_BATCH} files and one syncfs", [many.sync_all], seconds),
        ]
    finally:
        shutil.rmtree(place)


class _Files:
    def __init__(self, place: Path, body: bytes, count: int) -> None:
        self._place = place
        self._body = body
        self._count = count
        self._file_count = 0
        self._syncfs = ctypes.CDLL(None, use_errno=True).syncfs

    def _write(self) -> int:
        self._file_count += 1
        path = self._place / f"{self._count}-{self._file_count}"
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(file, self._body)
        return file

    def sync_each(self) -> int:
        file = self._write()
        try:
            os.fsync(file)
        finally:
            os.close(file)
        return 1

    def sync_all(self) -> int:
        for _ in range(self._count - 1):
            os.close(self._write())
        file = self._write()
        try:
            if self._syncfs(file) != 0:
                raise OSError(ctypes.get_errno(), "syncfs failed", str(self._place))
        finally:
            os.close(file)
        return self._count


# Measuring.


def _measure(what: str, steps: Sequence[Step], seconds: float) -> Row:
    """Repeat the steps, each in a thread of its own, for so long, and once at least.

    Raises what the first one raised.
    """
    waits: list[float] = []
    errors: list[Exception] = []
    counts = [0] * len(steps)
    stop = threading.Event()
    began = time.monotonic()

    def repeat(at: int) -> None:
        try:
            # Once at least: on a busy machine the time may be over before the first step.
            while not stop.is_set():
                before = time.monotonic()
                counts[at] += steps[at]()
                waits.append(time.monotonic() - before)
                if time.monotonic() - began >= seconds:
                    break
        except Exception as error:  # noqa: BLE001  # raised again below, by the thread that waits
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=repeat, args=(at,), daemon=True) for at in range(len(steps))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            # A signal that arrives just before an unbounded wait would be seen after it only.
            while thread.is_alive():
                thread.join(_LOOK)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    waits.sort()
    return Row(
        what=what,
        per_second=sum(counts) / (time.monotonic() - began),
        p50_ms=1_000 * waits[len(waits) // 2],
        p99_ms=1_000 * waits[math.ceil(0.99 * len(waits)) - 1],
    )


def _table(rows: Sequence[Row]) -> list[str]:
    cells = [
        (row.what, f"{row.per_second:,.0f}", f"{row.p50_ms:.2f}", f"{row.p99_ms:.2f}") for row in rows
    ]
    return columns(("WHAT", "PER SECOND", "P50 MS", "P99 MS"), cells, right=frozenset({1, 2, 3}))

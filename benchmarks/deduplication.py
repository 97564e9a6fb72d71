"""A million deduplication ids: sent, refused after a restart, and again when only segments know.

    python -m benchmarks.deduplication [--ids 1000000] [--folder DIR]

Each step is a process of its own on one root, so that its memory is its own: `send` stores the
messages, `names` starts again and sends every id once more, `clear` purges the queue and unlinks all
files, and `segments` starts and sends every id a third time. A step that stores one of them twice
fails. The folder needs a block and an inode for each id.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import CreateQueue, Purge, Send, SendResults
from spoolrack_store.model.settings import MAX_WINDOW, QueueSettings
from spoolrack_store.store import Store

IDS: Final = 1_000_000
BATCH: Final = 1_000
UNDER_WAY: Final = 4
"""So many sends are submitted before the first is answered."""
QUEUE: Final = "ids"
STEPS: Final = ("send", "names", "clear", "segments")
_LOOK_EVERY: Final = 0.2


def memory() -> int:
    """Return the bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def sends(ids: int) -> Iterator[Send]:
    for first in range(0, ids, BATCH):
        numbers = range(first, min(first + BATCH, ids))
        yield Send(
            queue=QUEUE,
            bodies=[b"%d" % number for number in numbers],
            # As long as a UUID, which is what most clients send.
            deduplication_ids={at: f"order-{number:030d}" for at, number in enumerate(numbers)},
        )


def send_all(store: Store, ids: int) -> tuple[float, int, int]:
    """Return the seconds, and how many messages were stored and how many refused as repeated."""
    stored = repeated = 0
    waiting: list[Future[SendResults]] = []

    def count(done: Future[SendResults]) -> None:
        nonlocal stored, repeated
        answer = done.result()
        for result in answer.results:
            if not isinstance(result, str):
                raise result
        repeated += len(answer.duplicates)
        stored += len(answer.results) - len(answer.duplicates)

    began = time.monotonic()
    for send in sends(ids):
        if len(waiting) == UNDER_WAY:
            count(waiting.pop(0))
        waiting.append(store.submit(send))
    for each in waiting:
        count(each)
    return time.monotonic() - began, stored, repeated


def step(name: str, root: Path, ids: int) -> dict[str, float]:
    """Do one step; return its measurements."""
    before = memory()
    began = time.monotonic()
    with Store.open(root) as store:
        figures: dict[str, float] = {"start": time.monotonic() - began, "memory": memory() - before}
        if name == "send":
            settings = QueueSettings(deduplication_window=Millis(MAX_WINDOW))
            store.submit(CreateQueue(name=QUEUE, settings=settings)).result()
        if name == "clear":
            assert store.submit(Purge(queue=QUEUE)).result() == ids
            while any((root / "remove").iterdir()):
                time.sleep(_LOOK_EVERY)
            figures["seconds"] = time.monotonic() - began
            figures["disk"] = sum(path.stat().st_size for path in (root / "keys").iterdir())
        else:
            figures["seconds"], stored, repeated = send_all(store, ids)
            expected = (ids, 0) if name == "send" else (0, ids)
            if (stored, repeated) != expected:
                raise SystemExit(f"{name}: {stored} stored and {repeated} refused, not {expected}")
            figures["grown"] = memory() - before
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ids", type=int, default=IDS)
    parser.add_argument("--folder", type=Path, help="where a root is made, and removed")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(step(options.step, options.folder, options.ids)))
        return
    with tempfile.TemporaryDirectory(prefix="deduplication-", dir=options.folder) as folder:
        root = Path(folder) / "root"
        for name in STEPS:
            done = subprocess.run(
                [
                    *(sys.executable, "-m", "benchmarks.deduplication", "--step", name),
                    *("--ids", str(options.ids), "--folder", str(root)),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr}")
            print(line_of(name, json.loads(done.stdout.splitlines()[-1]), options.ids), flush=True)


def line_of(name: str, figures: dict[str, float], ids: int) -> str:
    each = figures["memory"] / ids
    start = f"start {figures['start']:.1f} s, {each:.0f} bytes of memory an id"
    match name:
        case "send":
            rate = ids / figures["seconds"]
            return f"send: {ids} ids in {figures['seconds']:.1f} s, {rate:.0f} a second"
        case "clear":
            return f"clear: {figures['seconds']:.1f} s, {figures['disk'] / ids:.1f} bytes of disk an id"
        case _:
            rate = ids / figures["seconds"]
            return f"{name}: {start}; all refused in {figures['seconds']:.1f} s, {rate:.0f} a second"


if __name__ == "__main__":
    main()

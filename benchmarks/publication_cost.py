"""What does it cost to publish what is staged, and how does that grow with what there is?

    python benchmarks/publication_cost.py FOLDER

makes a root of its own in FOLDER, prints the medians of several rounds in milliseconds, and removes it
again. The rounds are interleaved, so that noise hits all sizes alike. Beside a publication stand what
staging cost, what sending as many messages at once costs, and the first receive of what was published,
which renames all of its chunks.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spoolrack_store.model.operations import CreateQueue, Purge, Receive, Send
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage
from spoolrack_store.store import Store

ROUNDS = 7
SIZES = (1, 100, 10_000)
IN_A_CHUNK = 1_000
BODY = b"x" * 1024


def timed(act: Callable[[], object]) -> float:
    """Milliseconds."""
    began = time.perf_counter()
    act()
    return 1_000 * (time.perf_counter() - began)


class Bench:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._epoch = 0
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()

    def round(self, size: int) -> dict[str, float]:
        store, took = self._store, {}
        took["stage"] = timed(lambda: self._stage(size))
        self._epoch += 1
        publish = Publish(writer="bench", epoch=self._epoch, stages=["s"])
        took["publish"] = timed(lambda: store.submit(publish).result())
        took["first receive"] = timed(lambda: store.submit(Receive(queue="q")).result())
        store.submit(Purge(queue="q")).result()
        took["send"] = timed(lambda: self._send(size))
        store.submit(Purge(queue="q")).result()
        return took

    def _stage(self, size: int) -> None:
        for number, count in enumerate(chunks(size)):
            bodies = [BODY] * count
            self._store.submit(Stage(stage="s", chunk=number, queue="q", bodies=bodies)).result()

    def _send(self, size: int) -> None:
        for count in chunks(size):
            self._store.submit(Send(queue="q", bodies=[BODY] * count)).result()


def chunks(size: int) -> list[int]:
    return [min(IN_A_CHUNK, size - at) for at in range(0, size, IN_A_CHUNK)]


def main(folder: str) -> None:
    root = Path(tempfile.mkdtemp(dir=folder, prefix="publishing-"))
    took: dict[int, dict[str, list[float]]] = {size: {} for size in SIZES}
    try:
        with Store.open(root / "root") as store:
            bench = Bench(store)
            for _ in range(ROUNDS):
                for size in SIZES:
                    for what, millis in bench.round(size).items():
                        took[size].setdefault(what, []).append(millis)
    finally:
        shutil.rmtree(root)
    medians = {
        size: {what: statistics.median(all) for what, all in took[size].items()} for size in SIZES
    }
    print(
        f"medians of {ROUNDS} rounds, ms", *(f"{size:>9,}" for size in SIZES), "   last/first", sep="  "
    )
    for what in medians[SIZES[0]]:
        row = [medians[size][what] for size in SIZES]
        print(f"{what:<26}", *(f"{each:9.2f}" for each in row), f"{row[-1] / row[0]:13.1f}", sep="  ")


if __name__ == "__main__":
    main(sys.argv[1])

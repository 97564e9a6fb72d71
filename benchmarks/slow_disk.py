"""A slow disk: the wait for an answer where each sync is a round trip.

    python -m benchmarks.slow_disk [--systems spoolrack,redis] [--delay 10] [--rounds 3] [--json FILE]

On a local disk the second sync of a commit is nearly free. Here strace(1) delays each fsync(2),
fdatasync(2) and syncfs(2) of a server. One caller sends; one caller sends, receives and deletes, one
message after the other; 64 callers do both; four send hundreds. The figures are messages a second,
and syncs a message: medians of the rounds, in which the systems take turns. With one sync in the way
of each answer a caller has at most 1,000 / `--delay` sends a second, and a third as many lives.
`--within /dev/shm --as-found` leaves out what the disk itself takes. `compare` has the rows of one
caller, too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from .server_processes import slowed
from .systems import catalog
from .systems.base import Driver, System
from .work_folder import own_disk

DISK_BYTES: Final = 256 << 20
_BODY: Final = b"x" * 1_000


def send(driver: Driver) -> int:
    driver.send(_BODY)
    return 1


def live(driver: Driver) -> int:
    driver.send(_BODY)
    while not (found := driver.receive(1)):
        pass
    driver.delete(found)
    return 1


def send_hundred(driver: Driver) -> int:
    driver.send_many([_BODY] * 100)
    return 100


WORKLOADS: Final[dict[str, tuple[Callable[[Driver], int], int]]] = {
    "one caller's sends": (send, 1),
    "one caller's lives": (live, 1),
    "64 callers' sends": (send, 64),
    "64 callers' lives": (live, 64),
    "hundreds by four": (send_hundred, 4),
}
"""The call that each caller repeats, and the number of callers."""


def count_syncs(log: Path) -> int:
    return sum("resumed" not in line and "sync" in line for line in log.read_text().splitlines())


def measure(system: System, workload: str, seconds: float, log: Path) -> tuple[float, float]:
    """Return messages a second, and syncs a message."""
    act, callers = WORKLOADS[workload]
    queue = f"slow{time.monotonic_ns()}"
    system.create_queue(queue)
    drivers = [
        system.driver(system.address, queue) for _ in range(1 if system.driver.is_shared else callers)
    ]

    def work(number: int) -> int:
        driver, done = drivers[number % len(drivers)], 0
        while time.monotonic() < end:
            done += act(driver)
        return done

    try:
        for driver in drivers:
            live(driver)
        with ThreadPoolExecutor(callers) as threads:
            before, began = count_syncs(log), time.monotonic()
            end = began + seconds
            done = sum(threads.map(work, range(callers)))
            took, syncs = time.monotonic() - began, count_syncs(log) - before
    finally:
        for driver in drivers:
            driver.close()
    system.delete_queue(queue)
    return done / took, syncs / done


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="slow_disk", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", default="spoolrack,redis")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--delay", type=float, default=10.0, help="of a sync, in ms (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a measurement")
    parser.add_argument("--within", type=Path, default=Path("/var/tmp"), help="(%(default)s)")
    parser.add_argument(
        "--as-found",
        action="store_true",
        help="make no ext4 there: work on the file system that is there",
    )
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    kinds, missing = catalog.find(options.systems.split(","))
    for name, why in missing.items():
        print(f"without {name}: {why}", file=sys.stderr)
    measurements: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with own_disk(options.within, 0 if options.as_found else DISK_BYTES) as place, ExitStack() as stack:
        # Elsewhere: other writes to its disk make a server's syncs dearer.
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        systems = []
        for kind in kinds:
            system = kind(place.folder / kind.name)
            system.prefix = slowed(options.delay, logs / kind.name)
            stack.callback(system.stop)
            system.start()
            systems.append(system)
        for _ in range(options.rounds):
            for workload in options.workloads.split(","):
                for system in systems:
                    measured = measure(system, workload, options.seconds, logs / system.name)
                    measurements.setdefault(workload, {}).setdefault(system.name, []).append(measured)
    for workload, by_system in measurements.items():
        cells = "  ".join(
            f"{name} {statistics.median(rate for rate, _ in each):8.1f}/s"
            f" {statistics.median(syncs for _, syncs in each):6.2f} syncs"
            for name, each in by_system.items()
        )
        print(f"{workload:20} {cells}")
    if options.json:
        options.json.write_text(json.dumps({"delay": options.delay, "found": measurements}, indent=1))


if __name__ == "__main__":
    main()

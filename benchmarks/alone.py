"""One message alone: beside an echo of gRPC, a plain file, and nothing else.

    python -m benchmarks.alone                                    all rows, in four minutes at most
    python -m benchmarks.alone --rows memory,functions --rounds 5

`memory`: a send, a receive, a delete and a life by gRPC beside an echo, on a file system in memory.
`disk`, `xfs`: the same, and by file://, beside an echo that writes a file, and beside the file alone.
`functions`: how many functions of Python an operation calls. `loads`: processor time for a message of
one caller, of 64 callers and in tens, beside an echo's.

All subjects of a row take turns in each round, and the figures are ratios within a round: a busy
machine disturbs all alike. `compare` measures the peers. It ends with 1 if a message was lost, doubled
or invented.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from . import client_processes
from .alone_figures import (
    AIO_ECHO,
    CLIENT,
    DISK,
    ECHO,
    FILE,
    FILE_ECHO,
    FOLDER,
    FUNCTIONS,
    GRPC,
    LOADS,
    MEMORY,
    ROWS,
    SERVER,
    XFS,
    LoneResults,
    Measurement,
    text_of,
)
from .compare import chosen_from, machine, say
from .echo import EchoServer
from .lone_callers import (
    AioEchoCaller,
    CallerJob,
    CallerProcess,
    EchoCaller,
    FileCaller,
    QueueCaller,
)
from .server_processes import Server
from .systems import spoolrack
from .systems.spoolrack import Spoolrack, await_reaper
from .work_folder import WorkFolder, flush, kind_of, own_disk, why_not
from .workloads import WORKLOADS, measure

_KINDS: Final = {DISK: "ext4", XFS: "xfs"}
_DISK_BYTES: Final = 320 << 20
_MOST_FILES: Final = 20_000
"""Operations of a subject, of which each may leave a file on such a disk."""
_LOADS: Final = ("one", "callers", "tens")
_LOAD_ROUNDS: Final = 3
"""A round of loads takes as long as twenty of the others."""
_ECHOES: Final = 1_000


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One that takes turns."""

    name: str
    caller: CallerProcess
    settle: Callable[[], None] = lambda: None
    """Return when nothing is left to be done behind the back of the next one."""


class Rig:
    """The processes of a row, in a folder. Use as a context manager: at its end all have ended."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def echoes(self) -> list[Subject]:
        """Start the echo's server, and a caller of each kind."""
        address, pid = self._echo_server(None)
        return [
            self._subject(name, CallerJob(caller=caller, address=address, server=pid))
            for name, caller in ((ECHO, EchoCaller), (AIO_ECHO, AioEchoCaller))
        ]

    def file_echo(self) -> Subject:
        address, pid = self._echo_server(self._folder / "echoes")
        return self._subject(FILE_ECHO, CallerJob(caller=EchoCaller, address=address, server=pid))

    def _echo_server(self, files: Path | None) -> tuple[str, int]:
        server = EchoServer(self._folder / "echo-log", files)
        self._stack.callback(server.stop)
        return server.address, server.pid

    def file(self) -> Subject:
        return self._subject(FILE, CallerJob(caller=FileCaller, address=str(self._folder / "files")))

    def spoolrack(self) -> Spoolrack:
        system = Spoolrack(self._folder / "spoolrack")
        self._stack.callback(system.stop)
        system.start()
        return system

    def grpc(self) -> Subject:
        system = self.spoolrack()
        (pid,) = system.pids()
        job = CallerJob(caller=QueueCaller, address=system.address, server=pid)
        return self._subject(GRPC, job, system.root)

    def counted_grpc(self) -> Subject:
        root = self._folder / "counted"
        # Not in the folder, which may be deep: a socket's path has 107 bytes at most.
        socket = Path(self._stack.enter_context(tempfile.TemporaryDirectory())) / "counts"
        command = [sys.executable, "-m", f"{__package__}.counted_server", str(socket), "serve"]
        options = ["--data", str(root), "--grpc", "127.0.0.1:0", "--http", "off"]
        server = Server([*command, *options], self._folder / "log", folder=Path.cwd())
        self._stack.callback(server.end)
        address = server.wait_for_line("  gRPC  ").split()[0]
        job = CallerJob(caller=QueueCaller, address=address, counts=str(socket))
        return self._subject(GRPC, job, root)

    def folder(self, counts: str | None = None) -> Subject:
        root = self._folder / "root"
        job = CallerJob(caller=QueueCaller, address=f"file://{root}", counts=counts)
        return self._subject(FOLDER, job, root)

    def _subject(self, name: str, job: CallerJob, root: Path | None = None) -> Subject:
        caller = CallerProcess(job)
        self._stack.callback(caller.close)

        def settle() -> None:
            if root is not None:
                await_reaper(root)
            flush(self._folder)

        return Subject(name=name, caller=caller, settle=settle)


class LoneRun:
    """A run of some rows."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.results = LoneResults(
            began=time.strftime("%Y-%m-%d %H:%M:%S %z"),
            machine=machine(),
            rounds=options.rounds,
            count=options.count,
            load=[os.getloadavg()[0]] * 2,
        )

    def run(self) -> None:
        end = time.monotonic() + 60 * self._options.minutes
        for left, row in zip(range(len(self._options.rows), 0, -1), self._options.rows, strict=True):
            kind = _KINDS.get(row)
            if row == XFS and (reason := why_not(row)) is not None:
                self.results.missing[row] = reason
                say(f"without {row}: {reason}")
                continue
            with self._place(kind) as place, Rig(place.folder) as rig:
                say(f"{row} on {place.described}")
                self.results.places[row] = place.described
                now = time.monotonic()
                share = now + (end - now) / left  # What a row doesn't need is left to those after it.
                if row == LOADS:
                    self._loads(rig, share)
                else:
                    self._turns(row, self._subjects(row, rig), share)
        self.results.load[1] = os.getloadavg()[0]

    @contextmanager
    def _place(self, kind: str | None) -> Iterator[WorkFolder]:
        if kind is None:
            with tempfile.TemporaryDirectory(prefix="alone-", dir=self._options.memory) as folder:
                yield WorkFolder(folder=Path(folder), described=kind_of(Path(folder)))
            return
        making = {"making": ()} if kind == "xfs" else {}
        size = 0 if self._options.no_own_disk else _DISK_BYTES
        with own_disk(self._options.folder, size, kind=kind, **making) as place:
            yield place

    def _subjects(self, row: str, rig: Rig) -> list[Subject]:
        if row == MEMORY:
            return [*rig.echoes(), rig.grpc()]
        if row == FUNCTIONS:
            return [rig.counted_grpc(), rig.folder(counts="")]
        return [rig.file_echo(), rig.file(), rig.grpc(), rig.folder()]

    def _turns(self, row: str, subjects: Sequence[Subject], end: float) -> None:
        for subject in subjects:
            subject.caller.repeat(self._options.count)  # Work that is done once isn't measured.
            subject.settle()
        for round in self._rounds(self._options.rounds, end):
            for subject in subjects if round % 2 == 0 else reversed(subjects):
                found = subject.caller.repeat(self._options.count)
                subject.settle()
                for operation, meters in found.items():
                    self._keep(row, round, subject.name, operation, meters)

    def _loads(self, rig: Rig, end: float) -> None:
        client_processes.preload([spoolrack.__name__])
        echo, _ = rig.echoes()
        system = rig.spoolrack()
        workloads = [each for name in _LOADS for each in WORKLOADS if each.name == name]
        echoes = max(self._options.count, int(_ECHOES * self._options.pace))
        echo.caller.repeat(echoes)
        for round in self._rounds(min(self._options.rounds, _LOAD_ROUNDS), end):
            self._keep(LOADS, round, ECHO, "an echo", echo.caller.repeat(echoes)["echo"])
            for workload in workloads:
                measured = measure(system, workload, round, pace=self._options.pace)
                meters = {SERVER: measured.server_processor, CLIENT: measured.client_processor}
                self._keep(LOADS, round, GRPC, workload.title, meters)
                self.results.faults += [f"{workload.title}: {fault}" for fault in measured.faults]

    def _rounds(self, most: int, end: float) -> Iterator[int]:
        """Yield the numbers of rounds, as long as there is time for one as long as the longest."""
        longest = 0.0
        for round in range(most):
            began = time.monotonic()
            if round and began + longest > end:
                say(f"no time for more than {round} rounds")
                return
            yield round
            longest = max(longest, time.monotonic() - began)

    def _keep(
        self, row: str, round: int, subject: str, operation: str, meters: dict[str, float]
    ) -> None:
        self.results.measurements.append(
            Measurement(row=row, round=round, subject=subject, operation=operation, meters=meters)
        )


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="alone", description=__doc__, formatter_class=form)
    parser.add_argument("--rows", type=chosen_from(ROWS), default=list(ROWS), help=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=50, help="at most (%(default)s)")
    parser.add_argument("--count", type=int, default=20, help="operations of a turn (%(default)s)")
    parser.add_argument("--minutes", type=float, default=3.4, help="no new round then (%(default)s)")
    parser.add_argument("--pace", type=float, default=1.0, help="times the length of the loads")
    parser.add_argument("--memory", type=Path, default=Path("/dev/shm"), help="(%(default)s)")
    parser.add_argument("--folder", type=Path, default=Path("/var/tmp"), help="(%(default)s)")
    parser.add_argument("--no-own-disk", action="store_true", help="work in the folder as it is")
    parser.add_argument("--json", type=Path, help="write what was found there, for benchmarks.page")
    options = parser.parse_args()
    if options.rounds * options.count > _MOST_FILES:
        parser.error(f"--rounds times --count may be {_MOST_FILES:,} at most: the disk is small")
    # However it is ended: nothing stays mounted.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    run = LoneRun(options)
    try:
        run.run()
    finally:
        if options.json:
            options.json.write_text(json.dumps(asdict(run.results), indent=1) + "\n")
    print(text_of(run.results))
    for fault in run.results.faults:
        say(f"FAULT {fault}")
    return 1 if run.results.faults else 0


if __name__ == "__main__":
    sys.exit(main())

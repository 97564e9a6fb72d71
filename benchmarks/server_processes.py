"""The servers as child processes: each on a loopback port of its own, ended by its pid, with its own.

Also what the kernel says of them: processor time and memory. Knows no system.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PLACES: Final = ("/usr/sbin", "/usr/lib/postgresql/*/bin")
"""Where Debian puts servers, if they are not on the PATH."""
PATIENCE: Final = 90.0
"""Seconds after which a server that neither starts nor ends is stuck."""
_RUNNING: Final[set[Server]] = set()
"""The servers of this process: what ends it ends them, too."""
SYNCS: Final = "fsync,fdatasync,syncfs"


def find(program: str) -> str | None:
    """Return the path of a program."""
    places = [folder for place in _PLACES for folder in sorted(glob(place), reverse=True)]
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *places]))


def slowed(delay: float, log: Path = Path(os.devnull)) -> tuple[str, ...]:
    """Return a command that delays each sync of a program by `delay` milliseconds, and notes it in
    `log`."""
    what = ["-e", f"trace={SYNCS}", "-e", "signal=none"]
    if delay:
        what += ["-e", f"inject={SYNCS}:delay_enter={round(delay * 1_000)}"]
    return "strace", "-f", "--seccomp-bpf", "-o", str(log), *what


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """One server with the processes that it starts itself; they are a session of their own."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        folder: Path = Path("/"),
        prefix: Sequence[str] = (),
    ) -> None:
        """Start it in a folder; its output goes to the file `log`. Only root can run it as another
        `user`. `prefix` is a command that runs it, as strace(1) does."""
        self._log = log
        self._prefix = prefix
        self._pids: set[int] = set()
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=[] if user is not None else None,
                cwd=folder,
            )
        _end_with_this_process(self)

    def wait_for_port(self, port: int) -> None:
        """Return when there is a listener."""

        def is_there() -> bool:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
                return True
            return False

        self._wait(is_there, f"it doesn't listen on port {port}")

    def wait_for_line(self, beginning: str) -> str:
        """Return what follows `beginning` in the first line of its log that has it."""
        rest_of_lines: list[str] = []

        def is_said() -> bool:
            for line in self._log.read_text(errors="replace").splitlines():
                if line.startswith(beginning):
                    rest_of_lines.append(line.removeprefix(beginning))
            return bool(rest_of_lines)

        self._wait(is_said, f"it doesn't say {beginning!r}")
        return rest_of_lines[0]

    def _wait(self, is_done: Callable[[], bool], otherwise: str) -> None:
        end = time.monotonic() + PATIENCE
        while not is_done():
            if time.monotonic() > end or not self.is_alive():
                self.kill()
                raise RuntimeError(f"{otherwise}: {self.last_words()}")
            time.sleep(0.005)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def last_words(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])

    def pids(self) -> list[int]:
        """Return its own, and those of all that descend from it, as far as they live."""
        found = family(self._process.pid) if self.is_alive() else []
        self._pids.update(found)
        return found

    def kill(self) -> None:
        """SIGKILL to all of them; return when all are dead."""
        self._signal(signal.SIGKILL, {*self.pids(), *self._left()})
        self._process.wait(PATIENCE)
        _RUNNING.discard(self)
        end = time.monotonic() + PATIENCE
        while self._left():
            if time.monotonic() > end:
                raise RuntimeError(f"processes {self._left()} don't end")
            time.sleep(0.005)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ask it to end, and kill it if it doesn't."""
        if pids := self.pids():
            os.kill(pids[1 if self._prefix else 0], number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(15)
        self.kill()

    def _left(self) -> set[int]:
        """Return those that have lost their parent: the session is theirs and ours alone."""
        return {pid for pid in self._pids if _session_of(pid) == self._process.pid}

    def _signal(self, number: signal.Signals, pids: Iterable[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _end_with_this_process(server: Server) -> None:
    """A session of its own hears of no signal of this process, and SIGTERM runs no `finally`."""
    if not _RUNNING:
        atexit.unregister(_end_all)
        atexit.register(_end_all)
    _RUNNING.add(server)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _end_all() -> None:
    for server in list(_RUNNING):
        server.end()


def serve(root: Path, log: Path, *options: str, prefix: Sequence[str] = ()) -> Server:
    """Start `spoolrack serve` on a root; its own port of gRPC, and no HTTP, unless `options` say so."""
    command = [sys.executable, "-m", "spoolrack_server", "serve", "--data", str(root)]
    return Server([*command, "--grpc", "127.0.0.1:0", "--http", "off", *options], log, prefix=prefix)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name, which may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()


def _session_of(pid: int) -> int | None:
    fields = _stat(pid)
    return None if fields is None or fields[0] == "Z" else int(fields[3])


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _stat(int(name))) is not None and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def processor_seconds(pids: Iterable[int]) -> float:
    """Return what these processes have used so far, with those of their children that have ended."""
    total = 0
    for pid in pids:
        fields = _stat(pid)
        if fields is not None:
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


def processor_clock(pid: int) -> int:
    """Return the clock of a process's own processor time, for `time.clock_gettime`: to the nanosecond.

    It is what clock_getcpuclockid(3) makes. Reading it raises `OSError` if there is no such process.
    """
    return (~pid << 3) | 2


def memory_bytes(pids: Iterable[int]) -> int:
    """Return the memory of these processes; shared memory is counted once."""
    total = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total

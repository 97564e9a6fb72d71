"""The caller of a call, and its end. Processes are found by the connection that a call came on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import grpc


def caller_of(context: grpc.ServicerContext) -> int:
    """Return the process at the other end of a call, on this machine."""
    port = int(unquote(context.peer()).rpartition(":")[2])
    # gRPC's sockets are of both kinds of IP.
    found = [
        (_port(fields[1]), _port(fields[2]), f"socket:[{fields[9]}]")
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if (fields := line.split())[9] != "0"
    ]
    # Two connections to different servers may begin at one port: it is the one that ends with us.
    ours = set(_files(Path("/proc/self/fd")))
    here = {local for local, remote, socket in found if remote == port and socket in ours}
    (caller,) = {socket for local, remote, socket in found if local == port and remote in here}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and caller in set(_files(folder / "fd")):
            return int(folder.name)
    raise LookupError(f"no process here has port {port}")


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _files(folder: Path) -> Iterator[str]:
    try:
        for file in folder.iterdir():
            try:
                yield os.readlink(file)
            except FileNotFoundError:
                continue  # closed since
    except (FileNotFoundError, PermissionError):
        return  # ended since, or not ours


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def session_of(leader: int) -> list[int]:
    """Return all processes in the session that a process has begun. An orphan stays in it."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended since
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(folder.name))
    return found


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


class Killer:
    """Ends who made a call with SIGKILL: the process itself, or the Java that it belongs to, which is
    an executor, or the driver."""

    def __init__(self, *, java: bool = False) -> None:
        self.killed: list[str] = []
        """Their command lines."""
        self._java = java

    def __call__(self, context: grpc.ServicerContext) -> None:
        pid = caller_of(context)
        while self._java and "java" not in command_of(pid).partition(" ")[0]:
            pid = parent_of(pid)
            assert pid > 1, "there is no Java above the caller"
        self.killed.append(command_of(pid))
        os.kill(pid, signal.SIGKILL)

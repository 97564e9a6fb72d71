"""Network namespaces: hosts of their own for servers, on a wire that can be cut.

Everything lies in a namespace that this process enters first. So no interface of the machine is
touched, and all of it is gone with the processes. A cut takes the host's end of its wire down: packets
of both directions are lost without an answer. It needs root; `why_not` says what is missing.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_NEW_NETWORK: Final = 0x40000000
"""CLONE_NEWNET."""
_NEW_MOUNTS: Final = 0x20000
"""CLONE_NEWNS."""
_TOOLS: Final = ("ip", "nsenter", "unshare")
_WAIT: Final = 60.0


@cache
def why_not() -> str | None:
    """Return what keeps this machine from having network namespaces; None if nothing does."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces: run it as root, or in CI"
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f"needs root, and {', '.join(missing)} of iproute2 and util-linux: install them"
    wire = "ip link add one type veth peer name two"
    tried = subprocess.run(["unshare", "--net", "sh", "-c", wire], capture_output=True, timeout=_WAIT)
    if tried.returncode != 0:
        return "needs root, and a container that may make network namespaces and veth pairs"
    return None


def enter_a_network() -> None:
    """Move this thread, and what it starts from now on, into a new network with a loopback alone."""
    _checked(_libc().unshare(_NEW_NETWORK))
    _run("ip", "link", "set", "lo", "up")


def enter_own_mounts() -> None:
    """Move this thread, and what it starts from now on, into a mount namespace of its own.

    No other process gets a copy of what is mounted in it.
    """
    _checked(_libc().unshare(_NEW_MOUNTS))
    _run("mount", "--make-rprivate", "/")


class Host:
    """A network namespace at the end of a wire. Use as a context manager, after `enter_a_network`."""

    def __init__(self, number: int) -> None:
        self.address: Final = f"10.77.{number}.2"
        self._near, self._gateway = f"wire{number}", f"10.77.{number}.1"
        self._holder: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        """A process that is there as long as the host is."""
        return self._holder.pid

    def __enter__(self) -> Self:
        # It ends with this process at the latest, which has the other end of its input.
        self._holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo ready; exec cat >/dev/null"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "ready\n"
        wire = ("type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        _run("ip", "link", "add", self._near, *wire)
        _run("ip", "address", "add", f"{self._gateway}/30", "dev", self._near)
        _run("ip", "link", "set", self._near, "up")
        self._within("ip", "address", "add", f"{self.address}/30", "dev", "eth0")
        self._within("ip", "link", "set", "lo", "up")
        self.heal()
        return self

    def cut(self) -> None:
        """Lose all packets to and from the host, until `heal`."""
        self._within("ip", "link", "set", "eth0", "down")

    def heal(self) -> None:
        self._within("ip", "link", "set", "eth0", "up")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._holder.stdin is not None
        assert self._holder.stdout is not None
        _run("ip", "link", "delete", self._near)
        self._holder.stdin.close()
        self._holder.wait(_WAIT)
        self._holder.stdout.close()

    def _within(self, *command: str) -> None:
        _run("nsenter", f"--net=/proc/{self.pid}/ns/net", *command)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=_WAIT)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def main() -> None:
    """Run a module on a host: `namespaces PID MODULE ARGUMENTS`."""
    _, pid, module, *arguments = sys.argv
    with Path(f"/proc/{pid}/ns/net").open() as network:
        _checked(_libc().setns(network.fileno(), _NEW_NETWORK))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

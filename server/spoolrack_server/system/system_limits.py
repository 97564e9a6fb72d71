"""Limits that the system sets to this process: its descriptors and its threads.

A server that runs into them while it serves refuses sends that it could store, or stops between two
threads of gRPC, which neither serve nor end. So they are checked at the start, and connections are
bounded by the descriptors that the store leaves.
"""

from __future__ import annotations

import contextlib
import os
import resource
import threading
from typing import Final

from .limits import PROBES

DESCRIPTORS: Final = 64 + PROBES
"""Kept for the store and the probes: an idle server has 22, and a commit opens a few at a time."""
FEW_CONNECTIONS: Final = 8
"""At each port, at least."""
_THREADS: Final = 16
_POOLS: Final = 48
"""Threads of gRPC and of a server, without and with their pools, which grow with the processors."""


class SystemLimit(Exception):
    """A limit of the system is too small for a server; the message says which, and how to raise it."""


def raise_descriptor_limit() -> None:
    """Let this process have as many descriptors as its hard limit says: systemd's soft one is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_within(limit: int, *, has_http: bool, has_sqs: bool) -> int:
    """Return the bound on connections at each port: `limit`, or what the descriptors allow.

    An HTTP connection may have a file open for the body of a message. Raise `SystemLimit` if there are
    too few for a server.
    """
    shares = 1 + 2 * has_http + has_sqs
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fitting = limit if soft == resource.RLIM_INFINITY else (soft - DESCRIPTORS) // shares
    if fitting < min(limit, FEW_CONNECTIONS):
        raise SystemLimit(
            f"This process may have {soft} open files, and a server needs "
            f"{DESCRIPTORS + shares * FEW_CONNECTIONS} at least: raise the limit (ulimit -n, "
            "systemd's LimitNOFILE)."
        )
    return min(limit, fitting)


def require_threads() -> None:
    """Raise `SystemLimit` unless as many more threads can be started as a server has."""
    count = _THREADS + min(_POOLS, 2 * (os.cpu_count() or 1) + 4)
    ending = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=ending.wait)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise SystemLimit(
            f"This process can start {len(started)} more threads, and a server needs {count}: raise "
            "the limit of tasks (systemd's TasksMax, a container's pids limit, ulimit -u) or of the "
            "address space (ulimit -v)."
        ) from error
    finally:
        ending.set()
        for thread in started:
            thread.join()

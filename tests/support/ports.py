"""Ports for programs that keep theirs over restarts.

A port that the system gives (bind(2) to port 0) is anyone's once it is closed: a connection or another
test may have it before the program does. These lie below the system's own range (ip(7),
`ip_local_port_range`), and each worker of pytest has a thousand for itself. It begins with any of them:
another run at the same time rarely asks for the same.
"""

from __future__ import annotations

import os
import socket
from itertools import count
from random import randrange
from typing import Final

_FIRST: Final = 20_000
_OF_A_WORKER: Final = 1_000
_WORKERS: Final = 12
_worker: Final = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
_turns: Final = count(randrange(_OF_A_WORKER))


def free_port() -> int:
    """Return a port of the loopback that is free, and that no other test of this run takes."""
    for _ in range(_OF_A_WORKER):
        port = _FIRST + _OF_A_WORKER * _worker + next(_turns) % _OF_A_WORKER
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue  # A program outside of this run has it.
    raise AssertionError(f"{_OF_A_WORKER} ports from {_FIRST + _OF_A_WORKER * _worker} on are taken")

"""A command that is killed in the middle of a step.

    python -m tests.cli.dying_command CALL COUNT before|after ARGUMENT...

SIGKILL comes before or after the COUNTth time that it asks the system for CALL, say fsync; if there are
not so many, it ends by itself.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from spoolrack_server.cli.program import run


def deadly(real: Callable[..., Any], count: int, when: str) -> Callable[..., Any]:
    calls = 0
    lock = threading.Lock()

    def call(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        with lock:
            calls += 1
            is_last = calls == count
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **more)
        if is_last and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


def main(name: str, count: str, when: str, *arguments: str) -> int:
    setattr(os, name, deadly(getattr(os, name), int(count), when))
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

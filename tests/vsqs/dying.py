"""A process that works on a queue until it is killed, in the middle of a step.

    python dying.py FOLDER CALL COUNT before|after

It publishes, receives and deletes, and says so, each line when it was told that it is done. SIGKILL
comes before or after the COUNTth time that it asks the system for CALL.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from spoolrack.vsqs import Queue

ROUNDS = 6


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def deadly(real: Callable[..., Any], count: int, when: str) -> Callable[..., Any]:
    calls = 0

    def call(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **more)
        if calls == count and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call


def main(folder: str, name: str, count: str, when: str) -> None:
    queue = Queue(folder)
    queue.size()
    setattr(os, name, deadly(getattr(os, name), int(count), when))
    for number in range(ROUNDS):
        for part in "ab":
            say("publishing", f"{number}{part}")
            queue.publish(f"{number}{part}".encode())
            say("published", f"{number}{part}")
        # Of every two one is deleted; the other one is left to be received again.
        id, body = queue.receive(visibility_timeout=3600)
        assert body is not None
        say("received", body.decode())
        if number % 2:
            say("deleting", body.decode())
            queue.delete(str(id))
            say("deleted", body.decode())


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A server whose calls of Python functions are counted, in all its threads.

    python -m benchmarks.counted_server SOCKET serve --data DIR ...

It runs `spoolrack` with the arguments, and answers each request at the Unix socket with the count.
"""

from __future__ import annotations

import sys
import threading
from multiprocessing.connection import Listener

from spoolrack_server.cli import main

from tests.support.function_calls import FunctionCalls


def _answer(listener: Listener, calls: FunctionCalls) -> None:
    while True:
        with listener.accept() as asker:
            try:
                while True:
                    asker.recv()
                    asker.send(calls.counts().total())
            except EOFError:
                continue  # It has gone.


if __name__ == "__main__":
    calls = FunctionCalls(lambda frame: "function")
    listener = Listener(sys.argv[1], family="AF_UNIX")
    # It starts before the count, and isn't in it.
    threading.Thread(target=_answer, args=(listener, calls), daemon=True).start()
    sys.argv[:2] = ["spoolrack"]
    with calls:
        main()

"""`python -m spoolrack_server.member SETTINGS`: one of the servers that a supervisor keeps.

It says on standard output when it serves. Its standard input is a pipe that nobody writes to: the end
of it means that the supervisor is gone, and is a reason to drain.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable

from .serve import Listening, ServeSettings, serve
from .supervisor import READY


def main() -> None:
    settings = ServeSettings(**json.loads(sys.argv[1]))
    sys.exit(asyncio.run(serve(settings, _tell, _until_alone)))


def _tell(_: Listening) -> None:
    os.write(sys.stdout.fileno(), READY)


def _until_alone(end: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(sys.stdin.fileno())
        end()

    loop.add_reader(sys.stdin.fileno(), ended)


if __name__ == "__main__":
    main()

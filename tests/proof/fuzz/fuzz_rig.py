"""A real server that is asked anything, and a look at what that has left in it."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc
from spoolrack.errors import QueueFull

from tests.support import STUCK
from tests.support.real_server import WELL, RealServer

_QUIET: Final = 100
"""Looks at a server whose calls have ended, until the last of what they used is given back."""
_PAUSE: Final = 0.05
MORE_MEMORY: Final = 128 * 1024
"""KiB by which a server may have grown. It keeps 32 MiB of what was sent last, and its threads leave
some 10 MiB free, on a busy machine three times that; a leak of each call would come on top."""


class Fuzzed:
    """A server with some queues and some messages. A context manager: at its end it is dead."""

    BODY: Final = b"a body"

    def __init__(self, folder: Path, queues: Sequence[str], options: Sequence[str] = ()) -> None:
        """Start the server, with `options` of `spoolrack serve`."""
        self.root = folder / "root"
        self._server = RealServer(self.root, folder / "server.log", after=options)
        self._queues = queues
        self._server.start()
        self.fill()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self._server.port}")
        self.url = f"http://127.0.0.1:{self._server.http_port}"
        grpc.channel_ready_future(self.channel).result(STUCK)
        self._seen = 0
        self._handles, self._memory = self._handles_open(), self._resident()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.channel.close()
        self._server.kill()

    def fill(self) -> None:
        """See to it that the queues are there, whatever was asked before, and hold something."""
        with self._server.connect() as client:
            known = {queue.name for queue in client.list_queues()}
            for name in self._queues:
                if name not in known:
                    client.create_queue(name, visibility_timeout=1)
                with suppress(QueueFull):
                    client.queue(name).send_many([self.BODY] * 3)

    @property
    def sqs_port(self) -> int:
        found = re.search(r"sqs=http://127\.0\.0\.1:(\d+)", self._server.log)
        assert found is not None, self._server.log
        return int(found[1])

    def bodies(self, queue: str) -> dict[str, bytes]:
        """Of all messages of a queue, by their ids."""
        with self._server.connect() as client:
            return {message.id: message.body for message in client.queue(queue).peek()}

    def check(self) -> None:
        """Check that it serves, and that its log has no internal error."""
        assert self._server.health() == WELL
        new = self._server.log[self._seen :]
        self._seen += len(new)
        assert "mistake" not in new, new[-4_000:]
        assert "Traceback" not in new, new[-4_000:]

    def check_for_leaks(self) -> None:
        """Check that ended calls hold no file, no socket and little memory."""
        self.channel.close()
        for _ in range(_QUIET):
            # Watches and connections come and go; each queue that was made has a few.
            if self._handles_open() <= self._handles + self._watched():
                break
            time.sleep(_PAUSE)
        assert self._handles_open() <= self._handles + self._watched()
        assert self._resident() <= self._memory + MORE_MEMORY

    def check_folders(self) -> None:
        """Check that it stops, and leaves folders without a fault."""
        assert self._server.stop() == 0, self._server.log[-4_000:]
        done = subprocess.run(
            [sys.executable, "-m", "spoolrack_server", "fsck", "--data", str(self.root)],
            capture_output=True,
            text=True,
            check=False,
            timeout=STUCK,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def _handles_open(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self._server.pid}/fd").iterdir())

    def _watched(self) -> int:
        return sum(1 for _ in (self.root / "queues").iterdir())

    def _resident(self) -> int:
        status = Path(f"/proc/{self._server.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        assert found is not None
        return int(found[1])

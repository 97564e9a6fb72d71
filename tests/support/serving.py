"""Programs as a user runs them, and `spoolrack serve`, which says where it listens and what to type."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support import STUCK

PROGRAM: Final = (sys.executable, "-m", "spoolrack_server")
ANY_PORTS: Final = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")


def output_of(
    *command: object,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    **variables: str,
) -> str:
    """Run a program to its end, which must be good, with more `variables`; return what it printed."""
    done = subprocess.run(
        [*map(str, command)],
        cwd=folder,
        env={**(os.environ if environment is None else environment), **variables},
        capture_output=True,
        text=True,
        timeout=STUCK,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True)
class Serving:
    process: subprocess.Popen[str]
    said: list[str]
    """The lines of its start, of which the last is to be typed next."""

    def at(self, listener: str) -> str:
        """Return what it said of `listener`: gRPC, HTTP, SQS, Probes, or of its Shard."""
        (found,) = (words[1] for line in self.said if (words := line.split())[:1] == [listener])
        return found.partition("/-/")[0]

    @property
    def grpc(self) -> str:
        return self.at("gRPC")


@contextmanager
def serving(
    *options: object, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Iterator[Serving]:
    """Serve in `folder`, and end the server by SIGTERM, unless it has ended. It must end well."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [*PROGRAM, "serve", *map(str, options)],
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdout is not None
        said: list[str] = []
        try:
            for line in process.stdout:
                said.append(line.strip())
                if len(said) > 1 and said[-2].startswith("Next, "):
                    break
            yield Serving(process, said)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=STUCK)
            log.seek(0)
        assert process.returncode == 0, log.read()

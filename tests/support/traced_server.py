"""A real server under strace: it is started, talked to, and ended, and its system calls are kept."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from tests.proof.audit.audit import SYSTEM_CALLS
from tests.support import STUCK

LONGEST_STRING: Final = 1 << 20
"""No call of a small load carries more bytes."""
_WANTED: Final = ",".join(f"?{call}" for call in SYSTEM_CALLS)
"""The question mark lets strace pass over what this machine doesn't have."""


@cache
def why_not() -> str | None:
    """Return what keeps this machine from tracing; None if nothing does."""
    if shutil.which("strace") is None:
        return "needs strace: make system-tools installs it"
    tried = subprocess.run(
        ["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
    )
    if tried.returncode != 0:
        return f"needs root, or the right to trace its own processes (ptrace): {tried.stderr.strip()}"
    return None


class TracedServer:
    """Use as a context manager; at its end the server has drained, and `trace` is whole."""

    def __init__(self, folder: Path, *, code: Path | None = None) -> None:
        """`code` is a folder with other packages of the same names, which it runs instead of ours."""
        self.root = folder.resolve() / "root"
        self.trace = folder / "trace"
        self._code = code
        self._log = folder / "log"
        self.address = ""

    def __enter__(self) -> TracedServer:
        path = {} if self._code is None else {"PYTHONPATH": str(self._code)}
        with self._log.open("w") as log:
            self._strace = subprocess.Popen(
                [
                    *("strace", "-f", "--seccomp-bpf", "-y", "-xx", "-s", str(LONGEST_STRING)),
                    *("-o", str(self.trace), "-e", f"trace={_WANTED}"),
                    *(sys.executable, "-m", "spoolrack_server", "serve", "--data", str(self.root)),
                    *("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"),
                ],
                env={**os.environ, **path},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._strace.stdout is not None
        for line in self._strace.stdout:
            found = re.fullmatch(r" +gRPC +(\S+:\d+)\n", line)
            if found is not None:
                self.address = found[1]
                return self
        self._strace.wait(STUCK)
        raise AssertionError(f"no server:\n{self._log.read_text()}")

    def __exit__(self, *_: object) -> None:
        # strace ends with the server, and is deaf to signals meanwhile.
        for server in _children_of(self._strace.pid):
            os.kill(server, signal.SIGTERM)
        self._strace.communicate(timeout=STUCK)


def _children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

"""Programs of this checkout, forked off a process that has imported them.

The imports of a server take half a second of a core, and the tests start several hundred servers. The
fork server of `multiprocessing` imports them once for each worker of the tests. A forked program has
another command line and parent than `python -m MODULE`, and memory that it shares with that one: a
test of these starts a real one.
"""

from __future__ import annotations

import atexit
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import Any, Final

from tests.support import STUCK

_CONTEXT: Final = get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "spoolrack_server.cli.program",
        "spoolrack_server.cli.operators.serve_command",
        "spoolrack_server.process.server",
    ]
)


class ForkedProgram:
    """A process that runs a module; it has what these tests use of `subprocess.Popen`."""

    def __init__(self, module: str, *arguments: object, folder: Path, log: int | None = None) -> None:
        """Start it in `folder`. Its standard streams are pipes of text; standard error is the file
        descriptor `log`, if there is one."""
        read_in, write_in = os.pipe()
        read_out, write_out = os.pipe()
        read_err, write_err = (None, log) if log is not None else os.pipe()
        assert write_err is not None
        self._process = _CONTEXT.Process(
            target=_run,
            args=(
                (module, *map(str, arguments)),
                str(folder),
                dict(os.environ),
                [_Sent(fd) for fd in (read_in, write_out, write_err)],
            ),
        )
        self._process.start()
        for fd in (read_in, write_out, *(() if read_err is None else (write_err,))):
            os.close(fd)
        self.stdin = open(write_in, "w")  # noqa: SIM115
        self.stdout = open(read_out, errors="replace")  # noqa: SIM115
        self.stderr = None if read_err is None else open(read_err, errors="replace")  # noqa: SIM115

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout)
        return code

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def run_forked(
    module: str, *arguments: object, folder: Path = Path()
) -> subprocess.CompletedProcess[str]:
    """Run a module to its end, as `subprocess.run` would."""
    process = ForkedProgram(module, *arguments, folder=folder)
    process.stdin.close()
    assert process.stderr is not None
    with process.stdout, process.stderr, ThreadPoolExecutor(1) as reader:
        errors = reader.submit(process.stderr.read)
        out, err = process.stdout.read(), errors.result()
    return subprocess.CompletedProcess((module, *arguments), process.wait(STUCK), out, err)


class _Sent:
    """A file descriptor that the process gets a copy of."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self._fd),)


def _received(copy: Any) -> int:
    return int(copy.detach())


def _run(
    command: Sequence[str], folder: str, environment: Mapping[str, str], streams: Sequence[int]
) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # multiprocessing has put the null device in the place of the first.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.argv = list(command)
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
    finally:
        # multiprocessing ends a process without what the program wants done at its end.
        atexit._run_exitfuncs()

"""The command line as a user has it: in this process, or as one of its own, against a real server."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from tests.support import STUCK
from tests.support.serving import PROGRAM


@dataclass(frozen=True, kw_only=True)
class Result:
    code: int
    out: str
    err: str


Spoolrack = Callable[..., Result]

FAST = ("--settle", "0s")
"""An import that takes the files of its source at once."""


def started(url: str, *arguments: str, **more: object) -> subprocess.Popen[bytes]:
    """Return the program as a process, with pipes all around."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [*PROGRAM, *arguments], env={**os.environ, "SPOOLRACK_URL": url}, **pipes
    )


def at_a_terminal(
    url: str, *arguments: str, typed: bytes = b"", until: bytes | None = None
) -> tuple[int, bytes]:
    """Return the exit code of a command with a terminal, and all that it wrote there.

    Ctrl-C ends it once it has written `until`.
    """
    screen, terminal = os.openpty()
    environment = {**os.environ, "SPOOLRACK_URL": url, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdin=terminal, stdout=terminal, stderr=terminal, env=environment
    )
    os.close(terminal)
    os.write(screen, typed)
    seen = b""
    try:
        while part := os.read(screen, 65_536):
            seen += part
            if until is not None and until in seen:
                process.send_signal(signal.SIGINT)
                until = None
    except OSError:
        pass  # So Linux says that no process has the terminal open any more.
    finally:
        os.close(screen)
    return process.wait(STUCK), seen


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the words and the command of each, through all groups."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


def files_under(root: Path) -> dict[str, bytes | None]:
    """Return every path under a folder, with the content of those that are files."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else None
        for path in sorted(root.rglob("*"))
    }

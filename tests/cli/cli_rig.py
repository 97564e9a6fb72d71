"""The command line as a user has it: in this process, or as one of its own, against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spoolrack_server.cli.program import run

PROGRAM = (sys.executable, "-m", "spoolrack_server")


@dataclass(frozen=True, kw_only=True)
class Result:
    code: int
    out: str
    err: str


Spoolrack = Callable[..., Result]


def started(url: str, *arguments: str, **more: object) -> subprocess.Popen[bytes]:
    """Return the program as a process, with pipes all around."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.Popen(  # type: ignore[call-overload,no-any-return]
        [*PROGRAM, *arguments], env={**os.environ, "SPOOLRACK_URL": url}, **pipes
    )


def files_under(root: Path) -> dict[str, bytes | None]:
    """Return every path under a folder, with the content of those that are files."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else None
        for path in sorted(root.rglob("*"))
    }


__all__ = ["PROGRAM", "Result", "Spoolrack", "files_under", "run", "started"]

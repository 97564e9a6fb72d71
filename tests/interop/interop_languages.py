"""The languages that have an example: their requirements, builds and programs.

Owns the reading of `client/examples/<language>/interop.toml`, which PROTOCOL.md describes. A language
whose toolchain is not there is `missing()` something; one whose build fails is broken, which is never a
skip.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from tests import CHECKOUT

EXAMPLES: Final = CHECKOUT / "client" / "examples"
BUILD_LIMIT: Final = 550.0
"""Seconds, after which a build hangs: the slowest makes gRPC itself, on one core."""
ALL_WANTED: Final = os.environ.get("SPOOLRACK_INTEROP") == "all"
"""`make interop`: a missing language is a failure."""


@dataclass(frozen=True, kw_only=True)
class Language:
    """One folder of `client/examples`."""

    folder: Path

    def __str__(self) -> str:
        return self.folder.name

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "interop.toml").read_text())

    @property
    def name(self) -> str:
        name: str = self._manifest["name"]
        return name

    @property
    def is_in_ci(self) -> bool:
        return bool(self._manifest.get("in_ci", False))

    @property
    def environment(self) -> dict[str, str]:
        path = f"{CHECKOUT / '.toolchains' / 'bin'}:{os.environ.get('PATH', os.defpath)}"
        return os.environ | {"PATH": path}

    def missing(self) -> list[str]:
        """Return the programs and files of its toolchain that are not on this machine."""
        path = self.environment["PATH"]
        programs = [tool for tool in self._manifest["tools"] if shutil.which(tool, path=path) is None]
        return programs + [name for name in self._manifest.get("files", []) if not Path(name).exists()]

    def command(self, program: str) -> list[str]:
        """Return the command that starts `driver`, `producer` or `worker`, in its folder."""
        command: list[str] = self._manifest[program]
        return command

    def build(self) -> None:
        """Generate the stubs and build all programs; raises AssertionError with what the build said."""
        # Two runs of the tests at once build one after the other, the second in no time.
        with (self.folder / "interop.toml").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            built = subprocess.run(
                self.command("build"),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=BUILD_LIMIT,
            )
        assert built.returncode == 0, f"the build of {self.folder} failed:\n{built.stdout}"


def languages() -> list[Language]:
    """Return all that have an example."""
    return [Language(folder=path.parent) for path in sorted(EXAMPLES.glob("*/interop.toml"))]

"""The command line's entry point. A missing package is reported in one line."""

from __future__ import annotations

import os
import sys
from typing import Final, NoReturn

_OF_THE_EXTRA: Final = frozenset(
    {"aiohttp", "click", "cronsim", "grpc_health", "grpc_reflection", "rich", "structlog"}
)


def _hold_places_of_closed_streams() -> None:
    """Open what the shell has closed (`>&-`), so that no file gets the number of a standard stream.

    A closed standard input can't be read and a closed standard output can't be written: each is the
    null device, open for the other direction. Writes to a closed standard error are dropped.
    """
    for number, name, direction in (
        (0, "stdin", os.O_WRONLY),
        (1, "stdout", os.O_RDONLY),
        (2, "stderr", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            # The lowest free number is this one: those below are open by now.
            os.open(os.devnull, direction)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


def main() -> NoReturn:
    """Run the command of the process's arguments, and exit with its code."""
    _hold_places_of_closed_streams()
    # Before gRPC is loaded: its own log is not for the user of a command, and it never forks.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        from .program import run

        code = run(sys.argv[1:])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        sys.stderr.write(
            f"spoolrack: {error.name} is missing, because only the client is installed: "
            "pip install '.[server]' in a clone\n"
        )
        code = os.EX_UNAVAILABLE
    except KeyboardInterrupt:
        code = 130  # Before there was anything to be interrupted.
    sys.exit(code)

"""The command line. Here is only its door, which tells in one line if what it needs isn't installed."""

from __future__ import annotations

import os
import sys
from typing import Final, NoReturn

_OF_THE_EXTRA: Final = frozenset(
    {"aiohttp", "click", "grpc_health", "grpc_reflection", "rich", "structlog"}
)


def main() -> NoReturn:
    """Run the command that the process was started with, and exit as it says."""
    try:
        from .program import run

        code = run(sys.argv[1:])
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _OF_THE_EXTRA:
            raise
        sys.stderr.write(
            f"spoolrack: {error.name} is missing, because only the client is installed: "
            "pip install 'spoolrack[server]'\n"
        )
        code = os.EX_UNAVAILABLE
    except KeyboardInterrupt:
        code = 130  # Before there was anything to be interrupted.
    sys.exit(code)

"""Exit codes, and the one-line text of each error.

The numbers are those of sysexits.h where it has one, so that a script can tell "try again" from "this
will never work". docs/reference/cli.md lists them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from typing import Final

from spoolrack import SpoolrackError, errors
from spoolrack_store.model import errors as store
from spoolrack_store.model.terminal_text import printable

from .signals import Terminated

OK: Final = os.EX_OK
NOTHING: Final = 1
"""There was nothing to be found, or what was looked for isn't there, or a command failed."""
USAGE: Final = 2
BAD_CONTENT: Final = os.EX_DATAERR
NO_INPUT: Final = os.EX_NOINPUT
UNAVAILABLE: Final = os.EX_UNAVAILABLE
OUR_MISTAKE: Final = os.EX_SOFTWARE
INPUT_OUTPUT: Final = os.EX_IOERR
TRY_AGAIN: Final = os.EX_TEMPFAIL
NO_PERMISSION: Final = os.EX_NOPERM
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141
TERMINATED: Final = 143

_CODES: Final[Mapping[type[Exception], int]] = {
    # The server's and the client's. The first that fits counts.
    errors.InvalidMessage: BAD_CONTENT,
    errors.MessageDamaged: BAD_CONTENT,
    errors.InvalidRequest: USAGE,
    errors.InvalidUrl: USAGE,
    errors.InvalidCredentials: USAGE,
    errors.RedriveRunning: TRY_AGAIN,
    errors.Unreachable: UNAVAILABLE,
    errors.Timeout: UNAVAILABLE,
    errors.SendingPaused: TRY_AGAIN,
    errors.QueueBeingDeleted: TRY_AGAIN,
    errors.Draining: TRY_AGAIN,
    errors.DiskError: INPUT_OUTPUT,
    errors.StoreFailed: INPUT_OUTPUT,
    errors.OutcomeUnknown: INPUT_OUTPUT,
    errors.RootUnusable: NO_INPUT,
    errors.RootInUse: TRY_AGAIN,
    errors.UnknownFormat: BAD_CONTENT,
    errors.DamagedSettings: BAD_CONTENT,
    errors.Unsupported: USAGE,
    # The store's, of fsck.
    store.RootInUse: TRY_AGAIN,
    store.RootUnusable: NO_INPUT,
    store.UnknownFormat: BAD_CONTENT,
    store.StoreError: INPUT_OUTPUT,
    store.NotRestorable: NOTHING,
    # The system's.
    FileNotFoundError: NO_INPUT,
    IsADirectoryError: NO_INPUT,
    NotADirectoryError: NO_INPUT,
    PermissionError: NO_INPUT,
    OSError: INPUT_OUTPUT,
}
_BY_STATUS: Final[Mapping[str, int]] = {
    "UNAUTHENTICATED": NO_PERMISSION,
    "PERMISSION_DENIED": NO_PERMISSION,
    "NOT_FOUND": NOTHING,
    "ALREADY_EXISTS": NOTHING,
    "ABORTED": NOTHING,
    "FAILED_PRECONDITION": NOTHING,
    "RESOURCE_EXHAUSTED": TRY_AGAIN,
}
"""Of the server's other errors, by gRPC's name of their code."""


class Failed(Exception):
    """An error that a command has found itself, and that ends it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def code_of(error: Exception) -> int | None:
    """Return the exit code of an error; None for an unexpected one."""
    if isinstance(error, Failed):
        return error.code
    if _is_of_a_closed_stream(error):
        return USAGE
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code
    return _BY_STATUS.get(error.code, OUR_MISTAKE) if isinstance(error, SpoolrackError) else None


def outcome_of(run: Callable[[], object]) -> tuple[int, str]:
    """Run a long work; return its exit code, and why it ended early."""
    try:
        run()
    except Terminated:
        return TERMINATED, "stopped"
    except KeyboardInterrupt:
        return INTERRUPTED, "interrupted"
    except Exception as error:
        code = code_of(error)
        if code is None:
            raise
        return code, line_of(error)
    return OK, ""


def _is_of_a_closed_stream(error: Exception) -> bool:
    """Return whether the error is a read of standard input, or a write to standard output, that the
    shell has closed."""
    # A file that a command has opened itself has a name.
    return isinstance(error, OSError) and error.errno == errno.EBADF and error.filename is None


def line_of(error: Exception) -> str:
    """Return an error's text in one line."""
    if _is_of_a_closed_stream(error):
        return "standard input or output is closed, and is needed: redirect it to a file or /dev/null"
    if isinstance(error, OSError) and not isinstance(error, SpoolrackError) and error.strerror:
        told = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        told = " ".join(str(error).split())
    if isinstance(error, errors.SendingPaused) and (queue := error.metadata.get("queue")):
        told += f" That does: spoolrack queues resume {queue} --sending."
    return printable(told)

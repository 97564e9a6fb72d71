"""Shutdown of the server's processes: signals, and the exit codes of a failed start.

The first SIGTERM or SIGINT asks for an orderly end; a second one ends the process at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from typing import Final

from spoolrack_store.model.errors import (
    DamagedSettings,
    DiskError,
    DiskFull,
    RootInUse,
    RootUnusable,
    StoreFailed,
    UnknownFormat,
)

from ..access.security import Insecure
from ..access.watched_files import AccessUnusable
from ..metrics.otel import TracingUnavailable
from ..system.addresses import AddressUnusable
from ..system.logs import Log, LogFormat, finish_logs, say
from ..system.system_limits import SystemLimit

EXIT_CODES: Final[Mapping[type[Exception], int]] = {
    AddressUnusable: os.EX_UNAVAILABLE,
    TracingUnavailable: os.EX_UNAVAILABLE,
    SystemLimit: os.EX_OSERR,
    AccessUnusable: os.EX_CONFIG,
    Insecure: os.EX_USAGE,
    RootInUse: os.EX_TEMPFAIL,
    RootUnusable: os.EX_CANTCREAT,
    UnknownFormat: os.EX_DATAERR,
    DamagedSettings: os.EX_DATAERR,
    StoreFailed: os.EX_IOERR,
    DiskFull: os.EX_IOERR,
    DiskError: os.EX_IOERR,
    OSError: os.EX_IOERR,
}
"""Exit codes of a process that can't start, as in sysexits.h."""


def print_startup_error(error: Exception, format: LogFormat) -> int:
    """Print the error of a failed start in one line, in a log of `format`; return the exit code.

    `error` must be one of `EXIT_CODES`.
    """
    say(str(error), format)
    return next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))


def shutdown_on_signals(
    log: Log, what: str, at_once: Callable[[signal.Signals], None] | None = None
) -> asyncio.Event:
    """Yield an event that is set by the first signal, which logs `what`; the second one ends the
    process.

    Nothing is lost then: the next start repairs whatever a crash leaves. Before that, `at_once` is
    called.
    """
    ending = asyncio.Event()

    def end(number: signal.Signals) -> None:
        if ending.is_set():
            log.warning("cut off by a second signal", signal=number.name)
            if at_once is not None:
                at_once(number)
            finish_logs()
            os._exit(128 + number)
        log.info(f"{what}, a second signal ends at once", signal=number.name)
        ending.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end, number)
    return ending

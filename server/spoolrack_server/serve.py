"""The server as a process: signals, exit codes, and one clear line when it can't start.

The first SIGTERM or SIGINT drains and ends with 0; a second one ends at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
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

from .logs import LogFormat, adopt_library_logs, make_log
from .server import GRACE, AddressUnusable, Server

EXIT_CODES: Final[dict[type[Exception], int]] = {
    AddressUnusable: os.EX_UNAVAILABLE,
    RootInUse: os.EX_TEMPFAIL,
    RootUnusable: os.EX_CANTCREAT,
    UnknownFormat: os.EX_DATAERR,
    DamagedSettings: os.EX_DATAERR,
    StoreFailed: os.EX_IOERR,
    DiskFull: os.EX_IOERR,
    DiskError: os.EX_IOERR,
    OSError: os.EX_IOERR,
}
"""What the process ends with when it can't start, as in sysexits.h."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What an operator chooses."""

    root: str = "data"
    host: str = "127.0.0.1"
    grpc_port: int = 50051
    http_host: str | None = None
    """None: the same as `host`."""
    http_port: int | None = 8080
    """None: no HTTP."""
    grace: float = GRACE
    """Seconds that calls have to end when the server stops."""
    log_format: LogFormat = "logfmt"


async def serve(settings: ServeSettings, announce: Callable[[Server], None]) -> int:
    """Serve until a signal says otherwise; returns the process's exit code.

    `announce` is called once calls are served, with the server, which then knows its ports.
    """
    log = make_log(format=settings.log_format)
    adopt_library_logs(log)
    server = Server(
        settings.root,
        host=settings.host,
        grpc_port=settings.grpc_port,
        http_host=settings.http_host,
        http_port=settings.http_port,
        grace=settings.grace,
        log=log,
    )
    stopping = asyncio.Event()

    def stop(number: signal.Signals) -> None:
        if stopping.is_set():
            log.warning("cut off by a second signal", signal=number.name)
            # Nothing to be closed: whatever a crash leaves, the next start puts right.
            os._exit(128 + number)
        log.info("draining, a second signal ends at once", signal=number.name)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    try:
        await server.start()
    except tuple(EXIT_CODES) as error:
        print(f"spoolrack: {error}", file=sys.stderr)
        return next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
    announce(server)
    await stopping.wait()
    await server.stop()
    return os.EX_OK

"""The server as a process: signals, exit codes, and one clear line for a failed start.

The first SIGTERM or SIGINT drains and ends with 0; a second one ends at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..access.watched_files import AccessUnusable
from ..app.memory import anonymous
from ..metrics.otel import TracingUnavailable, otlp_traces
from ..siblings.worker_processes import WorkerProcess
from ..system.logs import adopt_library_logs, make_log
from ..system.system_limits import SystemLimit, raise_descriptor_limit, require_threads
from .garbage import GrowthCollector, frozen_afterwards
from .serve_settings import ServeSettings
from .shutdown import EXIT_CODES, print_startup_error, shutdown_on_signals

SWITCH: Final = 0.0005
"""Seconds after which a thread that computes lets the event loop go on: scrapes and long commits run
beside it, and each time that it gives up the interpreter's lock it waits so long for its return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddresses:
    """Addresses of a server that has started."""

    root: str
    grpc_address: str
    http_url: str | None
    health_url: str | None = None
    sqs_url: str | None = None


async def serve(
    settings: ServeSettings,
    announce: Callable[[ListenAddresses], None],
    until: Callable[[Callable[[], None]], None] | None = None,
    worker: WorkerProcess | None = None,
) -> int:
    """Serve until a signal; return the process's exit code.

    `announce` is called once calls are served. `until` is given what drains like a signal, if there is
    another reason to end. `worker` is this process, if a supervisor runs several.
    """
    from .server import Server

    sys.setswitchinterval(SWITCH)
    log = make_log(format=settings.log_format)
    adopt_library_logs(log)
    raise_descriptor_limit()
    try:
        traces = None if settings.traces is None else otlp_traces(settings.traces)
        security = settings.security
        require_threads()
    except (TracingUnavailable, AccessUnusable, SystemLimit) as error:
        return print_startup_error(error, settings.log_format)
    server = Server(settings, log=log, process=worker, traces=traces, security=security)
    if worker is not None:
        worker.join(server.observer)
    stopping = shutdown_on_signals(log, "draining")
    if until is not None:
        until(stopping.set)
    try:
        with frozen_afterwards():
            await server.start()
    except tuple(EXIT_CODES) as error:
        return print_startup_error(error, settings.log_format)
    collector = GrowthCollector(anonymous)
    server.background.start("garbage collection", collector.look)
    announce(
        ListenAddresses(
            root=server.root,
            grpc_address=server.grpc_address,
            http_url=server.http_url,
            health_url=server.health_url,
            sqs_url=server.sqs_url,
        )
    )
    await stopping.wait()
    await server.stop()
    collector.end()
    return os.EX_OK

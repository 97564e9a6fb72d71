"""The server as a process: signals, exit codes, and one clear line when it can't start.

The first SIGTERM or SIGINT drains and ends with 0; a second one ends at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from spoolrack_store.model.chores import Chores

from .access.security import Security
from .access.tls import TlsFiles
from .access.watched_files import AccessUnusable
from .limits import Limits
from .logs import LogFormat, adopt_library_logs, make_log
from .observability.otel import TracingUnavailable, otlp_traces
from .shutdown import EXIT_CODES, SHUTDOWN_GRACE, print_startup_error, shutdown_on_signals
from .worker_processes import WorkerProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenAddresses:
    """Where a server that has started can be reached."""

    root: str
    grpc_address: str
    http_url: str | None
    health_url: str | None = None


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
    grace: float = SHUTDOWN_GRACE
    """Seconds that calls have to end when the server stops."""
    log_format: LogFormat = "logfmt"
    workers: int | None = None
    """So many fetches, and so many saves, are with the store at a time; None: any number."""
    mover: bool = True
    reaper: bool = True
    """Whether the work of these is done here, too."""
    group_access: bool = False
    """Whether a root that is made is one for all processes of its group."""
    health: tuple[str, int] | None = None
    """Where probes are answered, in plain text; None: only at the HTTP port."""
    traces: str | None = None
    """The URL of an OTLP endpoint, which is given the spans of what was asked; None: none are made."""
    most_queues: int = 1_000
    """So many queues have figures of their own at most."""
    number: int = 0
    """Of this process, among those of one supervisor."""
    shares_ports: bool = False
    """Whether other processes of this user may listen at the same ports."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    tokens: str | None = None
    permissions: str | None = None
    """Paths of files; None: there is no such thing."""
    insecure: bool = False
    """Whether others than this machine are served without TLS."""
    connections: int = 1_000
    """At each port."""
    memory_watermark: int | None = None
    """Bytes of each process's memory past which it refuses sends; None: there is no watermark."""

    @property
    def security(self) -> Security:
        """Raises `AccessUnusable` for a certificate without its key."""
        tls = None
        if self.tls_certificate is not None and self.tls_key is not None:
            tls = TlsFiles(
                certificate=self.tls_certificate, key=self.tls_key, client_ca=self.tls_client_ca
            )
        elif self.tls_certificate or self.tls_key or self.tls_client_ca:
            raise AccessUnusable("TLS", "give --tls-certificate and --tls-key together")
        return Security(
            tls=tls, tokens=self.tokens, permissions=self.permissions, insecure=self.insecure
        )


async def serve(
    settings: ServeSettings,
    announce: Callable[[ListenAddresses], None],
    until: Callable[[Callable[[], None]], None] | None = None,
    worker: WorkerProcess | None = None,
) -> int:
    """Serve until a signal says otherwise; returns the process's exit code.

    `announce` is called once calls are served. `until` is given what drains like a signal, if there is
    another reason to end. `worker` is this process, if a supervisor runs several.
    """
    from .server import Server

    log = make_log(format=settings.log_format)
    adopt_library_logs(log)
    try:
        traces = None if settings.traces is None else otlp_traces(settings.traces)
        security = settings.security
    except (TracingUnavailable, AccessUnusable) as error:
        return print_startup_error(error)
    server = Server(
        settings.root,
        host=settings.host,
        grpc_port=settings.grpc_port,
        http_host=settings.http_host,
        http_port=settings.http_port,
        grace=settings.grace,
        log=log,
        workers=settings.workers,
        chores=Chores(unlinks=settings.reaper, ticks=settings.mover),
        shares_ports=settings.shares_ports,
        group_access=settings.group_access,
        health=settings.health,
        processes=worker,
        traces=traces,
        most_queues=settings.most_queues,
        security=security,
        limits=Limits(connections=settings.connections),
        watermark=settings.memory_watermark,
    )
    if worker is not None:
        worker.join(server.observer)
    stopping = shutdown_on_signals(log, "draining")
    if until is not None:
        until(stopping.set)
    try:
        await server.start()
    except tuple(EXIT_CODES) as error:
        return print_startup_error(error)
    announce(
        ListenAddresses(
            root=server.root,
            grpc_address=server.grpc_address,
            http_url=server.http_url,
            health_url=server.health_url,
        )
    )
    await stopping.wait()
    await server.stop()
    return os.EX_OK

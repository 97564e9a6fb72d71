"""A store with its fronts, in this process: gRPC for clients, HTTP for operators and browsers.

Owns the order in which things start and stop. Knows nothing of signals, exit codes or terminals, so
that tests and `spoolrack.testing` run the very server that `serve` does. Starting can fail: the root
(`RootUnusable`, `RootInUse`, `UnknownFormat`) or an address (`AddressUnusable`).
"""

from __future__ import annotations

import asyncio
import os
from functools import partial
from random import Random
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import grpc
from grpc_reflection.v1alpha.reflection import SERVICE_NAME
from spoolrack_store.model.background_work import BackgroundWork
from spoolrack_store.model.clock import Clock, SystemClock
from spoolrack_store.model.disk_watermark import DiskWatermark
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.shards import parse_shard
from spoolrack_store.store import Store

from ..access.security import AccessFiles, Security
from ..app.application import Application
from ..app.background_tasks import BackgroundTasks
from ..app.health import Health
from ..app.memory import MemoryLimiter
from ..app.scheduler import Scheduler
from ..app.store_access import ConcurrencyLimit
from ..metrics.instrumentation import Instrumentation
from ..metrics.observer import Observer
from ..rpc.calls import ServerCalls
from ..rpc.health_service import SERVICE, HealthService
from ..rpc.public_calls import PublicCalls
from ..rpc.reflection import reflection_of
from ..rpc.served import SERVED
from ..rpc.services import Services
from ..rpc.strangers import DESCRIPTORS, Strangers
from ..siblings.worker_processes import WorkerProcess
from ..system.addresses import AddressUnusable, address_text, reserve
from ..system.cgroup import memory_limit
from ..system.error_log import ErrorLog
from ..system.limits import Limits
from ..system.logs import Log, make_log
from ..system.system_limits import connections_within
from .loop_driver import LoopDriver
from .serve_settings import ServeSettings

if TYPE_CHECKING:
    # aiohttp takes a third of the time that a server takes to start: without HTTP it isn't loaded.
    from ..gateway.gateway import Gateway
    from ..http.request_bodies import HttpLimits
    from ..metrics.otel import OtelTraces
    from ..sqs.sqs_endpoint import SqsEndpoint
    from .probes import Probes


STRANGERS_EVERY: Final = 1.0
"""Seconds between two looks at the connections of the gRPC port."""


class Server:
    """A server of one root. Lives in one event loop, and is started once.

    async with Server(root) as server:
        channel = grpc.aio.insecure_channel(server.grpc_address)
    """

    def __init__(
        self,
        settings: ServeSettings | str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        log: Log | None = None,
        http_limits: HttpLimits | None = None,
        background: BackgroundWork | None = None,
        process: WorkerProcess | None = None,
        traces: OtelTraces | None = None,
        security: Security | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Take the settings, or a root that is served with default settings at free ports of loopback.

        `http_limits` bounds slow HTTP clients. `background`, `security` and `limits` follow from the
        settings unless they are given.
        """
        if not isinstance(settings, ServeSettings):
            settings = ServeSettings(root=os.fspath(settings))
        self._settings = settings
        self.root = settings.root
        self.host, self.grpc_port = settings.grpc
        """`grpc_port` is the bound port once the server has started; `http_port` likewise."""
        self.http_host: str = self.host
        self.http_port: int | None = None
        if settings.http is not None:
            self.http_host, self.http_port = settings.http
        self.sqs_host: str = self.host
        self.sqs_port: int | None = None
        if settings.sqs is not None:
            self.sqs_host, self.sqs_port = settings.sqs
        self._clock = clock or SystemClock()
        self._random = random
        self._log = log or make_log()
        self._http_limits = http_limits
        self._workers = ConcurrencyLimit(settings.workers)
        self._background = background or BackgroundWork(unlinks=settings.reaper, ticks=settings.mover)
        self._security = security or settings.security
        self._limits = limits
        self._access_files: AccessFiles | None = None
        self._health = Health()
        self._health.is_starting = True
        self._is_stalled = False
        self.background = BackgroundTasks(self._health, self._log)
        self.observer = Observer(self._health, self._clock, process, settings.metrics_queues, self.root)
        self._traces = traces
        self._instrumentation = Instrumentation(
            self.observer.operations, traces, refusals=ErrorLog(self._log)
        )
        self._probes = self._make_probes(settings.health)
        self._memory = MemoryLimiter(self._log, settings.memory_watermark)
        self._calls: ServerCalls | None = None
        self._store: Store | None = None
        self._app: Application | None = None
        self._services: Services | None = None
        self._grpc: grpc.aio.Server | None = None
        self._fronts: list[Gateway | SqsEndpoint] = []
        """Those over HTTP."""

    def _make_probes(self, address: tuple[str, int] | None) -> Probes | None:
        if address is None:
            return None
        from .probes import probes_of

        return probes_of(self._health, *address, self._log)

    @property
    def grpc_address(self) -> str:
        return address_text(self.host, self.grpc_port)

    @property
    def http_url(self) -> str | None:
        if self.http_port is None:
            return None
        return self._url(self.http_host, self.http_port)

    @property
    def sqs_url(self) -> str | None:
        return None if self.sqs_port is None else self._url(self.sqs_host, self.sqs_port)

    def _url(self, host: str, port: int) -> str:
        scheme = "http" if self._security.tls is None else "https"
        return f"{scheme}://{address_text(host, port)}"

    @property
    def health_url(self) -> str | None:
        return None if self._probes is None else f"http://{self._probes.address}"

    @property
    def store(self) -> Store:
        """The server's store, while it runs."""
        if self._store is None:
            raise RuntimeError("the server doesn't run")
        return self._store

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Return once calls are served; a failed start leaves nothing open."""
        self._security.check((self.host, self.grpc_port))
        for address in self._http_addresses():
            self._security.check(address)
        if self.sqs_port is not None:
            self._security.check_sqs(self.sqs_host, self.sqs_port)
        self._access_files = access_files = self._security.load(self._log)
        limits = self._limits = self._limits or self._limits_within()
        reserve(self.host, self.grpc_port, shares=self._settings.shares_ports).close()
        for host, port in self._http_addresses():
            reserve(host, port, shares=self._settings.shares_ports).close()
        if self._probes is not None:
            await self._probes.start()
        # A test's clock doesn't set timers of the loop.
        driver = LoopDriver(self._clock) if isinstance(self._clock, SystemClock) else None
        try:
            self._store = store = await asyncio.to_thread(self._open, driver)
        except BaseException:
            await self._close_last()
            raise
        try:
            self._listen_to(store)
            self._health.doubt = store.doubt
            self.observer.begin(store.metrics, reaps=self._background.unlinks, describe=store.queue)
            self.background.start("samples", self.observer.sample_slot)
            self._health.stall = store.metrics.stall
            self.background.start("stalls", self._look_for_stalls)
            await self._start_grpc(store, access_files, limits)
            await self._start_http(store, access_files)
            await self._start_sqs(store, access_files)
        except BaseException:
            await self.stop(grace=0)
            raise
        self._health.is_starting = False
        if self._settings.number == 0:
            self._memory.warn_if_too_small(memory_limit())
        self._log.info(
            "serving",
            root=self.root,
            identity=store.root_id,
            **({} if store.shard is None else {"shard": str(store.shard)}),
            grpc=self.grpc_address,
            http=self.http_url or "none",
            sqs=self.sqs_url or "none",
        )

    def _limits_within(self) -> Limits:
        """Return the limits of the settings, as far as the system allows them."""
        limit = self._settings.connections
        connections = connections_within(
            limit, has_http=self.http_port is not None, has_sqs=self.sqs_port is not None
        )
        if connections < limit:
            self._log.warning(
                "the limit of open files allows fewer connections at each port",
                connections=connections,
                wanted=limit,
            )
        return Limits(connections=connections)

    def _http_addresses(self) -> list[tuple[str, int]]:
        """Return where HTTP and SQS are to be served."""
        found = [] if self.http_port is None else [(self.http_host, self.http_port)]
        return found if self.sqs_port is None else [*found, (self.sqs_host, self.sqs_port)]

    def _open(self, driver: LoopDriver | None) -> Store:
        return Store.open(
            self.root,
            clock=self._clock,
            random=self._random,
            background=self._background,
            group_access=self._settings.group_access,
            hosts=self._settings.hosts,
            shard=None if self._settings.shard is None else parse_shard(self._settings.shard),
            driver=driver,
            watermark=DiskWatermark(
                bytes=self._settings.min_free_space, files=self._settings.min_free_inodes
            ),
        )

    async def stop(self, grace: float | None = None) -> None:
        """Drain, and return once all is closed; calls that haven't ended after `grace` seconds are
        cancelled.

        Drained means: health reports it, nothing is leased any more, new calls and streams end with a
        status that says "try again", and the sends and deletes in flight are committed and answered.
        """
        store, self._store = self._store, None
        if store is None:
            return
        grace = self._settings.grace if grace is None else grace
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        await self.background.stop()
        self._health.finish("The server is shutting down.")
        if self._calls is not None:
            self._calls.refuse()
        for front in self._fronts:
            front.refuse()
        await asyncio.to_thread(store.drain)
        if self._services is not None:
            self._services.drain()
        if self._grpc is not None and self._calls is not None:
            await self._calls.quiet(grace)
            await self._grpc.stop(max(0.0, end - loop.time()))
            await self._calls.ended()
        if self._app is not None:
            await self._app.close()
        for front in self._fronts:
            await front.stop(max(0.0, end - loop.time()))
        await self.observer.end()
        await asyncio.to_thread(store.close)
        await self._close_last()
        self._services = self._grpc = self._calls = None
        self._fronts.clear()
        self._log.info("stopped", root=self.root)

    async def _close_last(self) -> None:
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close)
        if self._probes is not None:
            await self._probes.stop()

    async def _start_grpc(self, store: Store, access_files: AccessFiles, limits: Limits) -> None:
        access_control = access_files.access_control
        self._calls = calls = ServerCalls(
            self._log, self._instrumentation, access_control, self._memory, store.root_id, store.shard
        )
        self._app = Application(
            store,
            self._clock,
            self._log,
            self._workers,
            self.observer.with_consumers,
            access_control.may_send,
            responses=self._memory.responses,
        )
        self._services = Services(self._app, self._clock, self._instrumentation)
        self.observer.observe_flow(self._services.credits, self._memory)
        # Two servers on one port share its calls: neither would notice, if that isn't what is wanted.
        port = ("grpc.so_reuseport", int(self._settings.shares_ports))
        self._grpc = server = grpc.aio.server(options=(*limits.grpc_options(), port))
        names = [service.full_name for service in (*SERVED, SERVICE)]
        server.add_generic_rpc_handlers(
            (
                *calls.handlers(self._services.methods()),
                PublicCalls(limits).handlers(SERVICE, HealthService(self._health)),
                reflection_of([*names, SERVICE_NAME], access_control),
                calls.unknown_methods(),
            )
        )
        try:
            if access_files.tls is None:
                self.grpc_port = server.add_insecure_port(self.grpc_address)
            else:
                self.grpc_port = server.add_secure_port(self.grpc_address, access_files.tls.for_grpc())
        except RuntimeError as error:
            raise AddressUnusable(self.grpc_address, "another process was faster") from error
        await server.start()
        if os.path.isdir(DESCRIPTORS):
            calls.strangers = Strangers(self.grpc_port, limits.connections)
            self.background.start("connections", partial(self._look_for_strangers, calls.strangers))
        self.background.start("memory", self._memory.watch)
        may_send = access_files.access_control.may_send
        scheduler = Scheduler(store, self._clock, self._log, may_send)
        self.observer.observe_schedules(lambda: scheduler.resting)
        self.background.start("schedules", scheduler.look)
        self._health.stale = lambda: access_files.stale
        self.observer.observe_access(lambda: access_files.ages)
        if access_files.is_watching:
            self.background.start("access files", access_files.look)

    async def _look_for_strangers(self, strangers: Strangers) -> None:
        await asyncio.sleep(STRANGERS_EVERY)
        before = strangers.shut_down
        await asyncio.to_thread(strangers.look)
        if strangers.shut_down and not before:
            self._log.warning(
                "the gRPC port has nearly as many connections as it may: those without a call of a "
                "known caller are closed",
                port=self.grpc_port,
            )

    async def _start_http(self, store: Store, access_files: AccessFiles) -> None:
        if self.http_port is None:
            return
        from ..dashboard.assets import dashboard_routes
        from ..gateway.gateway import Gateway

        gateway = Gateway(
            Application(
                store,
                self._clock,
                self._log,
                self._workers,
                self.observer.with_consumers,
                access_files.access_control.may_send,
                responses=self._memory.responses,
            ),
            self._health,
            self._clock,
            self._log,
            self._http_limits,
            self._instrumentation,
            self.observer,
            access_files.access_control,
            self._memory,
            dashboard_routes(),
        )
        self.http_port = await self._listen(gateway, self.http_host, self.http_port, access_files)

    async def _start_sqs(self, store: Store, access_files: AccessFiles) -> None:
        if self.sqs_port is None:
            return
        from ..sqs.signatures import Authenticator
        from ..sqs.sqs_endpoint import SqsEndpoint

        sqs = SqsEndpoint(
            Application(store, self._clock, self._log, self._workers, responses=self._memory.responses),
            self._clock,
            self._log,
            self._http_limits,
            self._instrumentation,
            access_files.access_control,
            self._memory,
            Authenticator(access_files.sqs_keys, self._clock),
            self._settings.sqs_url,
            self._settings.sqs_account,
        )
        self.sqs_port = await self._listen(sqs, self.sqs_host, self.sqs_port, access_files)

    async def _listen(
        self, front: Gateway | SqsEndpoint, host: str, port: int, access_files: AccessFiles
    ) -> int:
        """Start to serve HTTP at an address; return the port."""
        self._fronts.append(front)
        try:
            return await front.start(
                host,
                port,
                shares_port=self._settings.shares_ports,
                tls=None if access_files.tls is None else access_files.tls.for_asyncio(),
                limits=self._limits,
            )
        except OSError as error:
            raise AddressUnusable(address_text(host, port), error.strerror or str(error)) from error

    async def _look_for_stalls(self) -> None:
        """Tell the beginning and the end of a stall of commits."""
        await asyncio.sleep(1)
        stalled = self._health.stalled
        if bool(stalled) == self._is_stalled:
            return
        self._is_stalled = bool(stalled)
        if stalled:
            self._log.error("nothing is committed, and the server isn't ready", why=stalled)
        else:
            self._log.info("commits go on")
        self._health.look()

    def _listen_to(self, store: Store) -> None:
        loop = asyncio.get_running_loop()

        def report(error: StoreError) -> None:
            self._log.error("the store failed: restart the server", why=str(error))
            self._health.fail(str(error))

        def failed(error: StoreError) -> None:
            # From a thread of the store.
            loop.call_soon_threadsafe(report, error)

        store.on_failure(failed)

"""Supervisor: several worker processes on one root and one pair of ports.

It serves no calls. The kernel spreads connections over the workers. The supervisor reserves the ports,
so that no other program takes them, restarts dead workers, and forwards a signal to all as a drain. A
control channel to each worker carries the others' metrics; when it breaks, because the supervisor is
gone, a worker drains by itself. The supervisor answers probes for all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ..access.security import Insecure
from ..access.watched_files import AccessUnusable
from ..siblings.control_channel import ControlChannel
from ..siblings.worker_processes import WorkerProcesses
from ..system.addresses import AddressUnusable, address_text, reserve
from ..system.logs import Log, make_log
from .serve import ListenAddresses
from .serve_settings import ServeSettings
from .shutdown import print_startup_error, shutdown_on_signals

if TYPE_CHECKING:
    from .probes import Probes

WORKER_MODULE: Final = "spoolrack_server.process.worker_main"
READY: Final = b"ready\n"
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
"""Seconds before a server is started again: doubled each time, until one has served."""
MOST_FAILURES: Final = 10
"""Failed starts in a row, with no worker serving, after which the supervisor gives up."""


class Supervisor:
    """The supervisor of several worker processes. Lives in one event loop, and is started once."""

    def __init__(self, settings: ServeSettings, count: int, log: Log) -> None:
        """`settings` name the ports that are reserved."""
        self._settings = replace(settings, shares_ports=True, health=None)
        self.workers = WorkerProcesses()
        self._count = count
        self.log = log
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._ready: dict[int, asyncio.Event] = {n: asyncio.Event() for n in range(count)}
        self._serving: set[int] = set()
        self._failures = 0
        self._ending = asyncio.Event()
        self.code = os.EX_OK
        """The exit code of the process."""

    async def run(self, announce: Callable[[], None]) -> None:
        """Return once all have ended; `announce` is called once all serve."""
        # The first one alone: it finishes what a crash left, and says what is wrong with the root.
        tasks = [self._start(0)]
        if await self._is_ready(0):
            tasks += [self._start(n) for n in range(1, self._count)]
            if all([await self._is_ready(n) for n in range(1, self._count)]):
                announce()
        await asyncio.gather(*tasks)

    def _start(self, n: int) -> asyncio.Task[None]:
        """Start the task of worker `n`. A fault in it ends all: `run` raises it."""
        task = asyncio.create_task(self._run_worker(n))
        task.add_done_callback(lambda task: None if task.exception() is None else self.end())
        return task

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    def end(self) -> None:
        """Drain all worker processes."""
        self._ending.set()
        self.signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)

    async def _is_ready(self, n: int) -> bool:
        """Return once server `n` serves, or never will."""
        waits = [asyncio.create_task(event.wait()) for event in (self._ready[n], self._ending)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        return self._ready[n].is_set()

    async def _run_worker(self, n: int) -> None:
        """Let server `n` run, over and over, until the end."""
        pause = FIRST_PAUSE
        while not self._ending.is_set():
            try:
                has_served, code = await self._run_once(n)
            except OSError as error:
                # No descriptor, process or memory is left for it now.
                self.log.error("a server can't be started", server=n, why=str(error))
                has_served, code = False, os.EX_OSERR
            if self._ending.is_set():
                # One that was only starting had nothing to drain, and ends in any way.
                if has_served:
                    self.code = self.code or (code if code >= 0 else 128 - code)
                return
            if has_served:
                pause = FIRST_PAUSE
            elif not self._should_restart(n, code):
                return
            self.log.warning("a server has died and is started again", server=n, code=code)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _should_restart(self, n: int, code: int) -> bool:
        """Return whether to start a worker again after its `code`."""
        self._failures += 1
        was_ever_ready = self._ready[n].is_set()
        if was_ever_ready and (self._serving or self._failures < MOST_FAILURES):
            return True
        self.log.error("the servers can't be started", code=code)
        self.code = code if code > 0 else os.EX_SOFTWARE
        self.end()
        return False

    async def _run_once(self, n: int) -> tuple[bool, int]:
        """Start a server and wait for its end: whether it has served, and its exit code."""
        ours, theirs = socket.socketpair()
        settings = json.dumps(replace(self._settings, number=n).to_json())
        with theirs, contextlib.ExitStack() as unless_started:
            unless_started.callback(ours.close)
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", WORKER_MODULE, settings),
                stdin=theirs.fileno(),
                stdout=asyncio.subprocess.PIPE,
                # Ctrl-C at a terminal goes to the supervisor alone, which lets them drain once.
                start_new_session=True,
            )
            unless_started.pop_all()
        self._running[n] = process
        channel = await ControlChannel.open(ours, self.workers.answers_to(n))
        listening = asyncio.create_task(channel.run())
        self.workers.add(n, channel)
        try:
            if self._ending.is_set():
                process.terminate()
            assert process.stdout is not None
            has_served = await process.stdout.readline() == READY
            if has_served:
                self._failures = 0
                self._serving.add(n)
                self._ready[n].set()
            return has_served, await process.wait()
        finally:
            self._serving.discard(n)
            del self._running[n]
            self.workers.remove(n)
            listening.cancel()
            channel.close()
            await asyncio.gather(listening, return_exceptions=True)


async def supervise(
    settings: ServeSettings, count: int, announce: Callable[[ListenAddresses], None]
) -> int:
    """Serve with `count` processes until a signal; return the exit code."""
    log = make_log(format=settings.log_format)
    with contextlib.ExitStack() as reserved:
        try:
            security = settings.security
            security.check(*filter(None, (settings.grpc, settings.http, settings.sqs)))
            if settings.sqs is not None:
                security.check_sqs(*settings.sqs)
            grpc = _reserve(reserved, *settings.grpc)
            http = None if settings.http is None else _reserve(reserved, *settings.http)
            sqs = None if settings.sqs is None else _reserve(reserved, *settings.sqs)
        except (AccessUnusable, AddressUnusable, Insecure) as error:
            return print_startup_error(error, settings.log_format)
        settings = replace(settings, grpc=grpc, http=http, sqs=sqs)
        scheme = "http" if security.tls is None else "https"
        supervisor = Supervisor(settings, count, log)
        try:
            probes = await _probes(supervisor, settings.health)
        except AddressUnusable as error:
            return print_startup_error(error, settings.log_format)
        ending = shutdown_on_signals(log, "draining", supervisor.signal)
        drain = asyncio.create_task(_drain(supervisor, ending))
        await supervisor.run(
            lambda: announce(
                ListenAddresses(
                    root=settings.root,
                    grpc_address=address_text(*grpc),
                    http_url=None if http is None else f"{scheme}://{address_text(*http)}",
                    health_url=None if probes is None else f"http://{probes.address}",
                    sqs_url=None if sqs is None else f"{scheme}://{address_text(*sqs)}",
                )
            )
        )
        drain.cancel()
        if probes is not None:
            await probes.stop()
    return supervisor.code


async def _probes(supervisor: Supervisor, address: tuple[str, int] | None) -> Probes | None:
    """Return a listener for probes, listening, if there shall be one."""
    if address is None:
        return None
    from .probes import probes_of_all

    probes = probes_of_all(
        supervisor.workers, *address, supervisor.log, is_draining=lambda: supervisor.is_ending
    )
    await probes.start()
    return probes


async def _drain(supervisor: Supervisor, ending: asyncio.Event) -> None:
    await ending.wait()
    supervisor.end()


def _reserve(reserved: contextlib.ExitStack, host: str, port: int) -> tuple[str, int]:
    """Reserve a port that no other program listens at, for the worker processes; return its address."""
    if port != 0:
        reserve(host, port).close()
    taken: socket.socket = reserved.enter_context(reserve(host, port, shares=True))
    return host, taken.getsockname()[1]

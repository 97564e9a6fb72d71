"""Observer of one server: collects its metrics for a scrape, and those of the other worker processes.

Owns the counts of calls, an hour of samples of each queue, and the thread in which both are collected:
one scrape at a time, however many ask. Knows nothing of permissions. A worker process that doesn't
answer in time is left out, and the answer says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Final, TypeVar

from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import Queue
from spoolrack_store.store_metrics import StoreMetrics

from ..app.health import Health
from ..app.memory import MemoryLimiter
from ..siblings.lease_consumers import has_unknown_consumers, known_leases, with_consumers
from ..siblings.worker_processes import CONSUMERS, HISTORY, METRIC_ROWS, PROCESS, WorkerProcess
from ..system.cgroup import machine_memory, memory_limit
from .call_metrics import CallMetrics
from .collectors import MOST_QUEUES, collect_process, collect_root, collect_store
from .exposition import written
from .history import EVERY, History, Series, combined
from .metrics import Row, rows_from_json

T = TypeVar("T")


PROBE_TIMEOUT: Final = 1.0
"""Seconds that a probe waits for the disk's facts."""
COUNT_INTERVAL: Final = Millis(25_000)
"""Between the beginnings of two counts of folders, at least. A count is part of a sample, so it comes
with each third one."""
COUNT_SHARE: Final = 100


class Observer:
    """The observer of one server. Lives in one event loop."""

    def __init__(
        self,
        health: Health,
        clock: Clock,
        process: WorkerProcess | None = None,
        most_queues: int = MOST_QUEUES,
        root: str = "",
    ) -> None:
        """`process` is this one, if a supervisor runs several; `root` is shown as the folder that is
        served."""
        self.operations = CallMetrics()
        self._root = os.path.abspath(root) if root else ""
        self._began = clock.monotonic()
        self._history = History()
        self._health = health
        self._clock = clock
        self._process = process or WorkerProcess(0)
        self._most = most_queues
        self._store_metrics: StoreMetrics | None = None
        self._describe: Callable[[str], Queue] | None = None
        self._quarantined: int | None = None
        self._removed: int | None = None
        """What lies in quarantine/ and remove/, as counted last: a scrape lists no folder."""
        self._next_count = 0
        self._credits: Callable[[], tuple[int, int]] | None = None
        self._memory: MemoryLimiter | None = None
        self._access_ages: Callable[[], Mapping[str, float]] = dict
        self._resting: Callable[[], int] = lambda: 0
        self._reaps = True
        self._is_over = False
        self._gathering = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "spoolrack-metrics")

    def begin(
        self,
        store_metrics: StoreMetrics,
        *,
        reaps: bool,
        describe: Callable[[str], Queue] | None = None,
    ) -> None:
        """Start observing an open store; `describe` returns a queue with its oldest leases."""
        self._describe = describe
        self._store_metrics = store_metrics
        self._reaps = reaps

    def observe_flow(self, credits: Callable[[], tuple[int, int]], memory: MemoryLimiter) -> None:
        """Observe the memory's watermark, too, and the number of messages that all consumers may hold,
        and that they hold."""
        self._credits = credits
        self._memory = memory

    def observe_access(self, ages: Callable[[], Mapping[str, float]]) -> None:
        """Observe how long ago each kind of access file was found to be as in force, too."""
        self._access_ages = ages

    def observe_schedules(self, resting: Callable[[], int]) -> None:
        """Observe how many schedules have obstacles, too."""
        self._resting = resting

    async def end(self) -> None:
        """Stop observing, before the store closes."""
        self._store_metrics = self._credits = self._describe = None
        self._is_over = True
        # A scrape in progress must not meet a closed store.
        async with self._gathering:
            self._thread.shutdown()

    @property
    def state(self) -> str:
        return self._health.state

    async def lives(self, loop: asyncio.AbstractEventLoop) -> bool:
        return await self._health.lives(loop)

    async def answer(self, what: str) -> Any:
        """Return this process's answer to its siblings; see `siblings` for the questions."""
        if what == METRIC_ROWS:
            return await self.own()
        if what == PROCESS:
            return self.process()
        if what.startswith(HISTORY):
            # Nothing is kept of the queue: that is an answer, too.
            return await self._beside(lambda: self._history.of(what.removeprefix(HISTORY))) or {}
        if what.startswith(CONSUMERS):
            return await self._beside(lambda: self._known_leases(what.removeprefix(CONSUMERS)))
        raise AssertionError(what)

    # Consumers of leases.

    def _known_leases(self, queue: str) -> list[dict[str, Any]]:
        if self._describe is None:
            return []
        try:
            return known_leases(self._describe(queue))
        except StoreError:
            return []  # This process can't tell; the one that asks has its own answer.

    async def with_consumers(self, queue: Queue) -> Queue:
        """Return the queue with the consumers of its oldest leases that the other processes know."""
        if not has_unknown_consumers(queue):
            return queue
        others = await self._process.others(CONSUMERS + queue.name)
        return with_consumers(queue, others.values())

    # The last hour.

    async def sample_slot(self) -> None:
        """Sample, and return when the next slot begins."""
        # Before the sample: a slot that begins during it isn't passed over.
        left = EVERY - self._clock.wall() % EVERY
        await self.sample()
        await asyncio.sleep(left / 1_000)

    async def sample(self) -> None:
        """Add a sample of all queues to the history."""
        store_metrics = self._store_metrics
        if store_metrics is not None:
            await self._beside(lambda: self._sample(store_metrics))

    def _sample(self, store_metrics: StoreMetrics) -> None:
        self._history.sample(store_metrics.queues(), self._clock.wall(), self._clock.monotonic())
        self._count_folders(store_metrics)

    def _count_folders(self, store_metrics: StoreMetrics) -> None:
        """Count quarantine/, and remove/ unless this process reaps; seldom enough that it takes no more
        than a hundredth of the time."""
        began = self._clock.monotonic()
        if began < self._next_count:
            return
        self._quarantined = store_metrics.quarantined()
        if not self._reaps:
            self._removed = store_metrics.removed()
        took = self._clock.monotonic() - began
        self._next_count = began + max(COUNT_INTERVAL, COUNT_SHARE * took)

    async def history(self, queue: str) -> Series:
        """Return the last hour of a queue, with the rates of all processes of this server added up."""
        others = await self._process.others(HISTORY + queue)
        return combined(await self._beside(lambda: self._history.of(queue)), others)

    async def trends(self, queues: Iterable[str]) -> dict[str, list[int | None]]:
        """Return the ready messages over the last hour, of those of `queues` that had any."""
        return await self._beside(lambda: self._history.trends(queues))

    # The machine.

    @property
    def uptime(self) -> int:
        """Milliseconds since this process began to serve."""
        return self._clock.monotonic() - self._began

    def process(self) -> dict[str, Any]:
        """Return the id of this process, its memory in bytes and its uptime in milliseconds."""
        rows = {name: value for name, _, value in collect_process()}
        resident = rows.get("spoolrack_process_resident_memory_bytes")
        return {"pid": os.getpid(), "resident": resident, "uptime": self.uptime}

    async def resources(self) -> dict[str, Any]:
        """Return the disk of the root, the processes that write there, and the memory of each process
        of this server."""
        others = await self._process.others(PROCESS)
        processes = {**others, self._process.number: self.process()}
        store_metrics = self._store_metrics
        assert store_metrics is not None
        space = await self._beside(store_metrics.space)
        disk = None
        if space is not None:
            files = None if space.files is None else {"free": space.files, "total": space.all_files}
            disk = {
                "free": space.bytes,
                "total": space.all_bytes,
                "files": files,
                "refuses_sends": store_metrics.refuses_sends(space),
            }
        return {
            "root": self._root,
            "disk": disk,
            "processes": [{"number": n, **(each or {})} for n, each in sorted(processes.items())],
            "memory_limit": memory_limit(),
            "machine_memory": machine_memory(),
            "owners": [asdict(owner) for owner in await self._beside(store_metrics.owners)],
            "quarantined": store_metrics.quarantined_count,
        }

    async def refusals(self) -> list[str]:
        """Return the resources at whose watermarks sends are refused: "disk", "memory".

        A disk that doesn't answer for a second is left out, because probes wait for this.
        """
        resources: list[str] = []
        if self._store_metrics is not None:
            try:
                async with asyncio.timeout(PROBE_TIMEOUT):
                    space = await self._beside(self._store_metrics.space)
            except TimeoutError:
                space = None
            if space is not None and self._store_metrics.refuses_sends(space):
                resources.append("disk")
        if self._memory is not None and self._memory.is_over:
            resources.append("memory")
        return resources

    # Scrapes.

    async def own(self) -> list[Row]:
        """Return the metrics of this process."""
        async with self._gathering:
            own = list(self._of_calls())
            return own + await self._beside(self._of_store)

    async def page(self, accept: str) -> tuple[bytes, str]:
        """Return the answer to a scrape that accepts these types, and its content type."""
        others = await self._process.others(METRIC_ROWS)
        async with self._gathering:
            processes: dict[int, list[Row]] = {
                number: [
                    ("spoolrack_process_answers", [], int(rows is not None)),
                    *rows_from_json(rows or ()),
                ]
                for number, rows in others.items()
            }
            own = [*self._of_calls(), ("spoolrack_process_answers", [], 1)]
            return await self._beside(lambda: self._written(own, processes, accept))

    async def _beside(self, look: Callable[[], T]) -> T:
        """Return `look()`, run in the observer's thread; after the shutdown, in the caller's."""
        if self._is_over:
            return look()
        return await asyncio.get_running_loop().run_in_executor(self._thread, look)

    def _written(
        self, own_rows: list[Row], processes: dict[int, list[Row]], accept: str
    ) -> tuple[bytes, str]:
        processes[self._process.number] = [*own_rows, *self._of_store()]
        root: list[Row] = []
        if self._store_metrics is not None:
            root = list(collect_root(self._store_metrics, self._clock, self._quarantined, self._most))
        return written(root, dict(sorted(processes.items())), accept)

    def _of_calls(self) -> Iterator[Row]:
        """Collect the metrics that live in the event loop."""
        health = self._health
        yield "spoolrack_serving", [], int(health.is_serving)
        yield "spoolrack_draining", [], int(health.is_final)
        yield "spoolrack_resting_schedules", [], self._resting()
        for what, age in self._access_ages().items():
            yield "spoolrack_access_file_age_seconds", [what], age
        for task, why in health.background.items():
            yield "spoolrack_background_failing", [task], int(bool(why))
        if self._memory is not None:
            yield "spoolrack_memory_watermark_bytes", [], self._memory.watermark or 0
            yield "spoolrack_memory_used_bytes", [], self._memory.used
            yield "spoolrack_memory_refuses_sends", [], int(self._memory.is_over)
        yield from self.operations.rows()
        if self._credits is not None:
            limit, held = self._credits()
            yield "spoolrack_credits", [], limit
            yield "spoolrack_credits_in_use", [], held

    def _of_store(self) -> list[Row]:
        rows = list(collect_process())
        if self._store_metrics is not None:
            rows += collect_store(self._store_metrics, self._most, self._removed)
        return rows

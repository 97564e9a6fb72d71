"""The metrics of this process, and of the root, as rows.

A collection takes a few microseconds a queue, in a thread that isn't the event loop's. The number of
queues with series of their own is bounded: the oldest queues have them, so that none comes and goes
with others, and the rest share those of the queue `*`, which can't be a queue's name.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version
from itertools import islice
from typing import Final

from prometheus_client import ProcessCollector
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.statistics import QueueMetrics
from spoolrack_store.store_metrics import StoreMetrics

from ..system.logs import dropped_lines
from .metrics import METRICS, Row, histogram_row

MOST_QUEUES: Final = 1_000
"""Bound on queues with series of their own."""
OTHERS: Final = "*"
"""Stands for the rest."""

_system: Final = ProcessCollector(namespace="spoolrack", registry=None)


def collect_root(
    store_metrics: StoreMetrics, clock: Clock, quarantined: int | None, most: int
) -> Iterator[Row]:
    """Collect the metrics that are the same in every process. In any thread."""
    root = store_metrics.root()
    yield "spoolrack_build", [version("spoolrack"), platform.python_version()], 1
    yield "spoolrack_root", [root.id], 1
    if root.shard is not None:
        yield "spoolrack_shard", [str(root.shard.number), str(root.shard.count)], 1
    yield "spoolrack_queues", [], root.queues
    yield "spoolrack_deduplication_keys", [], root.deduplication_keys
    yield "spoolrack_reservations", ["held"], root.reservations_held
    yield "spoolrack_reservations", ["lost"], root.reservations_lost
    yield "spoolrack_overdue_seconds", [], root.overdue / 1_000
    yield "spoolrack_clock_jump_seconds", [], root.clock_jump / 1_000
    if root.stages is not None:
        yield "spoolrack_stages", [], root.stages
    if quarantined is not None:
        yield "spoolrack_quarantine_items", [], quarantined
    yield from _of_disk(store_metrics)
    of_queue = partial(_of_queue, now=clock.wall(), dead=root.dead_letter_queues)
    queues = store_metrics.queues()
    for queue in islice(queues, most):
        yield from of_queue(queue)
    rest = list(queues)
    if rest:
        yield from of_queue(_together(rest))
    dead_letters = [_messages(queue) for queue in rest if queue.name in root.dead_letter_queues]
    if dead_letters:
        yield "spoolrack_dead_letters", [OTHERS], sum(dead_letters)


def collect_store(store_metrics: StoreMetrics, most: int, removed: int | None) -> Iterator[Row]:
    """Collect the work done and the backlog of this process's store. In any thread.

    `removed` is what lies in `remove/`, where another process shall unlink it.
    """
    root, statistics = store_metrics.root(), store_metrics.statistics
    yield "spoolrack_store_failed", [], int(root.failed)
    stall = store_metrics.stall()
    yield "spoolrack_commit_stall_seconds", [], 0.0 if stall is None else stall.seconds
    yield "spoolrack_waiting_receives", [], root.waiting
    yield "spoolrack_redrives", [], root.redrives
    yield histogram_row("spoolrack_commit_duration_seconds", [], statistics.commits)
    yield histogram_row("spoolrack_commit_requests", [], statistics.requests)
    yield histogram_row("spoolrack_sync_duration_seconds", [], statistics.syncs)
    yield "spoolrack_sync_failures", [], statistics.failed_syncs
    yield "spoolrack_quarantined", [], root.quarantined
    yield "spoolrack_unlinked", [], root.unlinked
    yield "spoolrack_reaper_waiting", [], root.to_be_unlinked if removed is None else removed
    own, rest = set(store_metrics.oldest(most)), Counter[str]()
    for queue, counts in list(statistics.messages.items()):
        for operation, count in list(counts.items()):
            if queue in own:
                yield "spoolrack_messages", [queue, operation], count
            else:
                rest[operation] += count
    for operation, count in rest.items():
        yield "spoolrack_messages", [OTHERS, operation], count


def collect_process() -> Iterator[Row]:
    """Collect the operating system's metrics of this process, and the log's."""
    yield "spoolrack_log_lines_dropped", [], dropped_lines()
    for family in _system.collect():
        if family.name in METRICS:
            yield family.name, [], family.samples[0].value


def _of_queue(queue: QueueMetrics, now: int, dead: frozenset[str]) -> Iterator[Row]:
    name, oldest = queue.name, queue.oldest_ready
    yield "spoolrack_queue_messages", [name, "ready"], queue.ready
    yield "spoolrack_queue_messages", [name, "leased"], queue.leased
    yield "spoolrack_queue_messages", [name, "delayed"], queue.delayed
    yield "spoolrack_queue_bytes", [name], queue.bytes
    age = 0.0 if oldest is None else max(0, now - oldest) / 1_000
    yield "spoolrack_queue_oldest_ready_age_seconds", [name], age
    yield "spoolrack_queue_oldest_ready_receives", [name], queue.oldest_ready_receives
    if name in dead:
        yield "spoolrack_dead_letters", [name], _messages(queue)


def _messages(queue: QueueMetrics) -> int:
    return queue.ready + queue.leased + queue.delayed


def _together(queues: Sequence[QueueMetrics]) -> QueueMetrics:
    """Return the queues without series of their own as one: sums, and of the oldest the most."""
    firsts = [queue.first_ready for queue in queues if queue.first_ready]
    return QueueMetrics(
        name=OTHERS,
        ready=sum(queue.ready for queue in queues),
        leased=sum(queue.leased for queue in queues),
        delayed=sum(queue.delayed for queue in queues),
        bytes=sum(queue.bytes for queue in queues),
        first_ready=min(firsts, default=""),
        oldest_ready_receives=max(queue.oldest_ready_receives for queue in queues),
        entered=sum(queue.entered for queue in queues),
        left=sum(queue.left for queue in queues),
    )


def _of_disk(store_metrics: StoreMetrics) -> Iterator[Row]:
    space = store_metrics.space()
    if space is None:
        return
    yield "spoolrack_disk_size_bytes", [], space.all_bytes
    yield "spoolrack_disk_free_bytes", [], space.bytes
    yield "spoolrack_disk_refuses_sends", [], int(store_metrics.refuses_sends(space))
    if space.files is not None:
        yield "spoolrack_disk_inodes", [], space.all_files
        yield "spoolrack_disk_inodes_free", [], space.files

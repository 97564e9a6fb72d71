"""The metrics: the one list, which docs/how-to/observability.md repeats and a test compares.

A metric is a row until it is written for Prometheus, so that it can come from another process. Knows
nothing of the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from spoolrack_store.model.statistics import SECONDS, SIZES, Histogram

Kind = Literal["gauge", "counter", "histogram", "info"]

Row = tuple[str, Sequence[str], float | tuple[Sequence[int], float]]
"""A metric's name, the values of its labels, and its value; of a histogram, its counts and the sum."""


@dataclass(frozen=True, slots=True)
class Metric:
    name: str
    """Without the endings that Prometheus adds to a counter's, an info's and a histogram's."""
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    is_of_process: bool = False
    """Whether each process has its own; the others are of the root, and any process can report them."""


def _gauge(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, "gauge", help, labels)


def _counter(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, "counter", help, labels)


def _histogram(name: str, help: str, bounds: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name, "histogram", help, labels, bounds)


def _info(name: str, help: str, *labels: str) -> Metric:
    return Metric(name, "info", help, labels)


_OF_ROOT: Final = (
    _info("spoolrack_build", "Version of the server and of Python.", "version", "python"),
    _info("spoolrack_root", "Identity of the root; copies of the root have the same.", "id"),
    _info(
        "spoolrack_shard",
        "Number of the root's shard and count of shards; absent: no shard.",
        "shard",
        "shards",
    ),
    _gauge("spoolrack_queues", "Queues."),
    _gauge("spoolrack_queue_messages", "Messages, by queue and state.", "queue", "state"),
    _gauge("spoolrack_queue_bytes", "Bytes of bodies and attributes, in all states.", "queue"),
    _gauge(
        "spoolrack_queue_oldest_ready_age_seconds",
        "Time since the send of the oldest ready message; 0: none is ready.",
        "queue",
    ),
    _gauge(
        "spoolrack_queue_oldest_ready_receives",
        "Receives of the oldest ready message so far; 0: none is ready.",
        "queue",
    ),
    _gauge(
        "spoolrack_dead_letters",
        "Messages in all states, of queues that are the dead-letter queue of another.",
        "queue",
    ),
    _gauge("spoolrack_deduplication_keys", "Remembered deduplication ids."),
    _gauge("spoolrack_reservations", "Uncommitted reservations.", "state"),
    _gauge("spoolrack_stages", "Stages; absent if several processes have the root open."),
    _gauge(
        "spoolrack_overdue_seconds",
        "Time since the end of the oldest lease or delay whose message isn't ready yet; 0: none.",
    ),
    _gauge(
        "spoolrack_clock_jump_seconds",
        "How far the wall clock is ahead of the time that has passed, if it jumped in the last day.",
    ),
    _gauge("spoolrack_quarantine_items", "Files in quarantine/, counted every half minute."),
    _gauge("spoolrack_disk_size_bytes", "Size of the root's file system."),
    _gauge("spoolrack_disk_free_bytes", "Free bytes of the root's file system for the server's user."),
    _gauge(
        "spoolrack_disk_refuses_sends",
        "1 while sends are refused because of the disk's free space or inodes.",
    ),
    _gauge("spoolrack_disk_inodes", "Inodes of the root's file system; absent: no limit."),
    _gauge("spoolrack_disk_inodes_free", "Free inodes of the root's file system; absent: no limit."),
)
_OF_PROCESS: Final = (
    _gauge(
        "spoolrack_serving",
        "1 while the process serves; 0 while it starts or drains, or once it has failed.",
    ),
    _gauge("spoolrack_draining", "1 while the process drains."),
    _gauge("spoolrack_resting_schedules", "Schedules whose ticks obstacles keep from being sent."),
    _gauge(
        "spoolrack_access_file_age_seconds",
        "Time since what is in force was last found to be what the access file says.",
        "file",
    ),
    _gauge("spoolrack_background_failing", "1 while a background task of the process fails.", "task"),
    _gauge("spoolrack_memory_watermark_bytes", "Memory above which sends are refused; 0: no bound."),
    _gauge(
        "spoolrack_memory_used_bytes",
        "Memory compared with the watermark: anonymous memory, without the mapped files of libraries.",
    ),
    _gauge(
        "spoolrack_memory_refuses_sends", "1 while sends are refused because of the memory watermark."
    ),
    _gauge("spoolrack_store_failed", "1 once the store has failed, until a restart."),
    _gauge(
        "spoolrack_commit_stall_seconds",
        "Time for which a commit waits for the disk, or for the process that holds the lock; 0: it "
        "doesn't.",
    ),
    _histogram(
        "spoolrack_operation_duration_seconds",
        "Duration of calls and requests, by operation and status code.",
        SECONDS,
        "operation",
        "code",
    ),
    _gauge("spoolrack_streams", "Open streaming calls.", "operation"),
    _counter(
        "spoolrack_streams_ended",
        "Ended streaming calls, by operation and status code.",
        "operation",
        "code",
    ),
    _gauge("spoolrack_credits", "Bound on messages that are leased by streams of receives."),
    _gauge("spoolrack_credits_in_use", "Messages that are leased by streams of receives."),
    _gauge("spoolrack_waiting_receives", "Waiting receives."),
    _gauge("spoolrack_redrives", "Redrives that this process runs."),
    _counter("spoolrack_messages", "Messages, by queue and operation.", "queue", "operation"),
    _histogram(
        "spoolrack_commit_duration_seconds",
        "Duration of a commit, from its first change to its answers.",
        SECONDS,
    ),
    _histogram("spoolrack_commit_requests", "Requests that share a commit.", SIZES),
    _histogram("spoolrack_sync_duration_seconds", "Duration of syncs that succeeded.", SECONDS),
    _counter("spoolrack_sync_failures", "Failed syncs; the first one stops the process."),
    _counter("spoolrack_quarantined", "Files and folders put into quarantine."),
    _counter("spoolrack_unlinked", "Deleted messages whose files were unlinked."),
    _gauge(
        "spoolrack_reaper_waiting", "Deleted files and folders that the reaper has not unlinked yet."
    ),
    _counter("spoolrack_log_lines_dropped", "Log lines that could not be written."),
    _gauge("spoolrack_process_answers", "1 if the process answered in time, else 0."),
    _counter("spoolrack_process_cpu_seconds", "Processor time, of user and system."),
    _gauge("spoolrack_process_resident_memory_bytes", "Memory in use."),
    _gauge("spoolrack_process_virtual_memory_bytes", "Address space in use."),
    _gauge("spoolrack_process_open_fds", "Open file descriptors."),
    _gauge("spoolrack_process_max_fds", "Limit of open file descriptors."),
    _gauge("spoolrack_process_start_time_seconds", "Unix time of the process's start."),
)

METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric
    for metric in (*_OF_ROOT, *(replace(metric, is_of_process=True) for metric in _OF_PROCESS))
}
"""By name, in the order in which they are shown."""


def rows_from_json(rows: Iterable[Any]) -> list[Row]:
    """Return rows of JSON as tuples."""
    return [
        (name, labels, (value[0], value[1]) if isinstance(value, list) else value)
        for name, labels, value in rows
    ]


def histogram_row(name: str, labels: Sequence[str], histogram: Histogram) -> Row:
    """Return a histogram's row; `METRICS` knows its bounds."""
    return name, labels, (list(histogram.counts), histogram.sum)

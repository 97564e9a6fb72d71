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


_OF_ROOT: Final = (
    Metric("spoolrack_build", "info", "Version of the server and of Python.", ("version", "python")),
    Metric(
        "spoolrack_root", "info", "Identity of the root; copies of the root have the same.", ("id",)
    ),
    Metric(
        "spoolrack_shard",
        "info",
        "Number of the root's shard and count of shards; absent: no shard.",
        ("shard", "shards"),
    ),
    Metric("spoolrack_queues", "gauge", "Queues."),
    Metric("spoolrack_queue_messages", "gauge", "Messages, by queue and state.", ("queue", "state")),
    Metric(
        "spoolrack_queue_bytes", "gauge", "Bytes of bodies and attributes, in all states.", ("queue",)
    ),
    Metric(
        "spoolrack_queue_oldest_ready_age_seconds",
        "gauge",
        "Time since the send of the oldest ready message; 0: none is ready.",
        ("queue",),
    ),
    Metric(
        "spoolrack_queue_oldest_ready_receives",
        "gauge",
        "Receives of the oldest ready message so far; 0: none is ready.",
        ("queue",),
    ),
    Metric(
        "spoolrack_dead_letters",
        "gauge",
        "Messages in all states, of queues that are the dead-letter queue of another.",
        ("queue",),
    ),
    Metric("spoolrack_deduplication_keys", "gauge", "Remembered deduplication ids."),
    Metric("spoolrack_reservations", "gauge", "Uncommitted reservations.", ("state",)),
    Metric("spoolrack_stages", "gauge", "Stages; absent if several processes have the root open."),
    Metric(
        "spoolrack_overdue_seconds",
        "gauge",
        "Time since the end of the oldest lease or delay whose message isn't ready yet; 0: none.",
    ),
    Metric("spoolrack_quarantine_items", "gauge", "Files in quarantine/, counted every half minute."),
    Metric("spoolrack_disk_size_bytes", "gauge", "Size of the root's file system."),
    Metric(
        "spoolrack_disk_free_bytes",
        "gauge",
        "Free bytes of the root's file system for the server's user.",
    ),
    Metric(
        "spoolrack_disk_refuses_sends",
        "gauge",
        "1 while sends are refused because of the disk's free space or inodes.",
    ),
    Metric("spoolrack_disk_inodes", "gauge", "Inodes of the root's file system; absent: no limit."),
    Metric(
        "spoolrack_disk_inodes_free",
        "gauge",
        "Free inodes of the root's file system; absent: no limit.",
    ),
)
_OF_PROCESS: Final = (
    Metric(
        "spoolrack_serving",
        "gauge",
        "1 while the process serves; 0 while it starts or drains, or once it has failed.",
    ),
    Metric("spoolrack_draining", "gauge", "1 while the process drains."),
    Metric(
        "spoolrack_memory_watermark_bytes",
        "gauge",
        "Memory above which sends are refused; 0: no bound.",
    ),
    Metric(
        "spoolrack_memory_used_bytes",
        "gauge",
        "Memory compared with the watermark: anonymous memory, without the mapped files of libraries.",
    ),
    Metric(
        "spoolrack_memory_refuses_sends",
        "gauge",
        "1 while sends are refused because of the memory watermark.",
    ),
    Metric("spoolrack_store_failed", "gauge", "1 once the store has failed, until a restart."),
    Metric(
        "spoolrack_operation_duration_seconds",
        "histogram",
        "Duration of calls and requests, by operation and status code.",
        ("operation", "code"),
        SECONDS,
    ),
    Metric("spoolrack_streams", "gauge", "Open streaming calls.", ("operation",)),
    Metric(
        "spoolrack_streams_ended",
        "counter",
        "Ended streaming calls, by operation and status code.",
        ("operation", "code"),
    ),
    Metric("spoolrack_credits", "gauge", "Bound on messages that are leased by streams of receives."),
    Metric("spoolrack_credits_in_use", "gauge", "Messages that are leased by streams of receives."),
    Metric("spoolrack_waiting_receives", "gauge", "Waiting receives."),
    Metric("spoolrack_redrives", "gauge", "Redrives that this process runs."),
    Metric(
        "spoolrack_messages",
        "counter",
        "Messages, by queue and operation.",
        ("queue", "operation"),
    ),
    Metric(
        "spoolrack_commit_duration_seconds",
        "histogram",
        "Duration of a commit, from its first change to its answers.",
        (),
        SECONDS,
    ),
    Metric("spoolrack_commit_requests", "histogram", "Requests that share a commit.", (), SIZES),
    Metric(
        "spoolrack_sync_duration_seconds", "histogram", "Duration of syncs that succeeded.", (), SECONDS
    ),
    Metric("spoolrack_sync_failures", "counter", "Failed syncs; the first one stops the process."),
    Metric("spoolrack_quarantined", "counter", "Files and folders put into quarantine."),
    Metric("spoolrack_unlinked", "counter", "Deleted messages whose files were unlinked."),
    Metric(
        "spoolrack_reaper_waiting",
        "gauge",
        "Deleted files and folders that the reaper has not unlinked yet.",
    ),
    Metric("spoolrack_log_lines_dropped", "counter", "Log lines that could not be written."),
    Metric("spoolrack_process_answers", "gauge", "1 if the process answered in time, else 0."),
    Metric("spoolrack_process_cpu_seconds", "counter", "Processor time, of user and system."),
    Metric("spoolrack_process_resident_memory_bytes", "gauge", "Memory in use."),
    Metric("spoolrack_process_virtual_memory_bytes", "gauge", "Address space in use."),
    Metric("spoolrack_process_open_fds", "gauge", "Open file descriptors."),
    Metric("spoolrack_process_max_fds", "gauge", "Limit of open file descriptors."),
    Metric("spoolrack_process_start_time_seconds", "gauge", "Unix time of the process's start."),
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

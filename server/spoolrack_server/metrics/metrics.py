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
    Metric("spoolrack_root", "info", "Identity of the root, which its copies have, too.", ("id",)),
    Metric("spoolrack_shard", "info", "Which shard the root is, if it is one.", ("shard", "shards")),
    Metric("spoolrack_queues", "gauge", "Queues."),
    Metric("spoolrack_queue_messages", "gauge", "Messages, by queue and state.", ("queue", "state")),
    Metric(
        "spoolrack_queue_bytes", "gauge", "Bytes of bodies and attributes, in all states.", ("queue",)
    ),
    Metric(
        "spoolrack_queue_oldest_ready_age_seconds",
        "gauge",
        "Time since the send of the oldest message that is ready; 0 if none is.",
        ("queue",),
    ),
    Metric(
        "spoolrack_queue_oldest_ready_receives",
        "gauge",
        "How often the oldest message that is ready was received before; 0 if none is.",
        ("queue",),
    ),
    Metric(
        "spoolrack_dead_letters",
        "gauge",
        "Messages in a queue that is another one's dead-letter queue, in all states.",
        ("queue",),
    ),
    Metric("spoolrack_deduplication_keys", "gauge", "Deduplication ids that are remembered."),
    Metric("spoolrack_reservations", "gauge", "Reservations that aren't committed.", ("state",)),
    Metric("spoolrack_stages", "gauge", "Stages; absent where several processes have the root open."),
    Metric(
        "spoolrack_overdue_seconds",
        "gauge",
        "How long ago the first lease or delay has ended whose message isn't brought back.",
    ),
    Metric("spoolrack_quarantine_items", "gauge", "Files in quarantine/, counted every half minute."),
    Metric("spoolrack_disk_size_bytes", "gauge", "Size of the root's file system."),
    Metric("spoolrack_disk_free_bytes", "gauge", "Free bytes of it for this process's user."),
    Metric("spoolrack_disk_refuses_sends", "gauge", "1 while sends are refused for its free room."),
    Metric(
        "spoolrack_disk_inodes", "gauge", "How many files the file system can have; absent: no limit."
    ),
    Metric("spoolrack_disk_inodes_free", "gauge", "How many more it can have; absent: no limit."),
)
_OF_PROCESS: Final = (
    Metric("spoolrack_serving", "gauge", "1 while it serves; 0 if it starts, drains or has failed."),
    Metric("spoolrack_draining", "gauge", "1 while the process drains."),
    Metric(
        "spoolrack_memory_watermark_bytes", "gauge", "Memory past which sends are refused; 0: no bound."
    ),
    Metric(
        "spoolrack_memory_used_bytes",
        "gauge",
        "Memory that is compared with it: anonymous memory, without the mapped files of libraries.",
    ),
    Metric("spoolrack_memory_refuses_sends", "gauge", "1 while sends are refused for it."),
    Metric("spoolrack_store_failed", "gauge", "1 once the store has failed, until a restart."),
    Metric(
        "spoolrack_operation_duration_seconds",
        "histogram",
        "Calls and requests, by what they asked for and how they ended.",
        ("operation", "code"),
        SECONDS,
    ),
    Metric("spoolrack_streams", "gauge", "Streaming calls that are open.", ("operation",)),
    Metric(
        "spoolrack_streams_ended",
        "counter",
        "Streaming calls that have ended, and how.",
        ("operation", "code"),
    ),
    Metric("spoolrack_credits", "gauge", "Messages that the streams of receives may hold together."),
    Metric("spoolrack_credits_in_use", "gauge", "Messages that they hold."),
    Metric("spoolrack_waiting_receives", "gauge", "Receives that wait for a message."),
    Metric("spoolrack_redrives", "gauge", "Redrives that the process drives."),
    Metric(
        "spoolrack_messages",
        "counter",
        "Messages, by queue and what was done to them.",
        ("queue", "operation"),
    ),
    Metric(
        "spoolrack_commit_duration_seconds",
        "histogram",
        "From a commit's first change to its answers.",
        (),
        SECONDS,
    ),
    Metric("spoolrack_commit_requests", "histogram", "Requests that share a commit.", (), SIZES),
    Metric("spoolrack_sync_duration_seconds", "histogram", "Syncs that succeeded.", (), SECONDS),
    Metric("spoolrack_sync_failures", "counter", "Failed syncs: the first one stops the process."),
    Metric("spoolrack_quarantined", "counter", "Files and folders put into quarantine."),
    Metric("spoolrack_unlinked", "counter", "Deleted messages whose files were unlinked."),
    Metric("spoolrack_reaper_waiting", "gauge", "Deleted files and folders that wait to be unlinked."),
    Metric("spoolrack_log_lines_dropped", "counter", "Lines of the log that could not be written."),
    Metric("spoolrack_process_answers", "gauge", "1 if the process answered in time, else 0."),
    Metric("spoolrack_process_cpu_seconds", "counter", "Processor time, of user and system."),
    Metric("spoolrack_process_resident_memory_bytes", "gauge", "Memory in use."),
    Metric("spoolrack_process_virtual_memory_bytes", "gauge", "Address space in use."),
    Metric("spoolrack_process_open_fds", "gauge", "Open file descriptors."),
    Metric("spoolrack_process_max_fds", "gauge", "How many it may have."),
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

"""Looks at queues: their counts, and their messages for a batch read. Knows nothing of Spark.

Nothing is leased, and each look may be repeated. The driver divides a queue by send times, so that each
task asks the server for a share of its own. A send time doesn't change: a message that moves meanwhile
is in one share, in whatever state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from .._shards import QueuePattern
from ..errors import SpoolrackError
from ..v1 import queue_service_pb2 as rpc
from ._light_client import LightClient, of_each
from ._options import ReadOptions

MISSING: Final = "QUEUE_NOT_FOUND"
PAGE: Final = 1_000
WORTH: Final = 20_000
"""Messages of a share, at least, if the option numPartitions doesn't say."""
SHARES: Final = 16
_MOST_SKIP: Final = 100_000
"""The contract's."""


@dataclass(frozen=True, slots=True)
class PeekShare:
    """Messages of a queue, sent from a time on and before another one, in Unix milliseconds."""

    queue: str
    begin: int | None = None
    end: int | None = None


def counts_of(caller: LightClient, options: ReadOptions, *, must_exist: bool) -> dict[str, Any]:
    """Return the counts (`QueueCounts`) of the queues that exist, by name.

    Raise `QueueNotFound` for one that is named, `must_exist` and doesn't.
    """
    counts = _matching(caller, options.queues) if options.queues else {}
    for queue in options.named if must_exist or not options.queues else ():
        if queue not in counts:
            try:
                request = rpc.GetQueueRequest(name=queue)
                counts[queue] = caller.of(queue)("GetQueue", request).queue.counts
            except SpoolrackError as error:
                if must_exist or error.reason != MISSING:
                    raise
    return counts


def _matching(caller: LightClient, words: Sequence[str]) -> dict[str, Any]:
    """Return the counts of the queues of all shards that match one of the words."""
    patterns = [QueuePattern(word) for word in words]
    prefix = commonprefix([each.prefix for each in patterns])  # noqa: RUF071  # names, no paths
    shards = caller.shards

    def of_shard(number: int) -> dict[str, Any]:
        request = rpc.ListQueuesRequest(page_size=PAGE, prefix=prefix)
        return {
            queue.name: queue.counts
            for page in shards[number].pages("ListQueues", request)
            for queue in page.queues
            if any(pattern.matches(queue.name) for pattern in patterns)
        }

    found = of_each(range(len(shards)), of_shard)
    return {name: counts for each in found.values() for name, counts in each.items()}


def shares(caller: LightClient, options: ReadOptions) -> list[PeekShare]:
    """Return shares with about as many messages each."""
    totals = {
        queue: counts.ready_count + counts.leased_count + counts.delayed_count
        for queue, counts in counts_of(caller, options, must_exist=True).items()
    }
    each = -(-sum(totals.values()) // (options.partitions or SHARES))
    if options.partitions is None:
        each = max(each, WORTH)
    parts = []
    for queue, total in totals.items():
        whole = PeekShare(queue, options.since, options.until)
        bounds = sorted(set(_bounds(caller, options, whole, each))) if 0 < each < total else []
        parts += [
            PeekShare(queue, begin, end)
            for begin, end in zip([whole.begin, *bounds], [*bounds, whole.end], strict=True)
        ]
    return parts


def _bounds(caller: LightClient, options: ReadOptions, whole: PeekShare, each: int) -> Iterator[int]:
    """Yield the send time of each message by whose number `each` divides, in Unix milliseconds."""
    request = _request(options, whole, page_size=1)
    request.skip = min(each, _MOST_SKIP)
    left = each
    for page in caller.of(whole.queue).pages("ListMessages", request):
        left -= request.skip
        for message in page.messages:  # One, or none if it was deleted just now.
            if left == 0:
                yield message.send_time.ToMilliseconds()
                left = each
            left -= 1
        request.skip = min(left, _MOST_SKIP)


def peek(caller: LightClient, options: ReadOptions, share: PeekShare) -> Iterator[Any]:
    """Yield the messages of a share in lists, as they are."""
    request = _request(options, share, page_size=PAGE)
    if "body" in options.columns:
        request.view = rpc.MESSAGE_VIEW_FULL
    for page in caller.of(share.queue).pages("ListMessages", request):
        if page.messages:
            yield list(page.messages)


def _request(options: ReadOptions, share: PeekShare, *, page_size: int) -> rpc.ListMessagesRequest:
    return rpc.ListMessagesRequest(
        queue=share.queue,
        page_size=page_size,
        states=options.states,
        sent_since=_timestamp(share.begin),
        sent_before=_timestamp(share.end),
    )


def _timestamp(moment: int | None) -> Timestamp | None:
    if moment is None:
        return None
    return Timestamp(seconds=moment // 1_000, nanos=moment % 1_000 * 1_000_000)

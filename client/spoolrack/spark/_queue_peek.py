"""Looks at a queue for a batch read: nothing is leased, and it may be repeated. Knows nothing of Spark.

The driver divides the queue by send times, so that each task asks the server for a share of its own. A
send time doesn't change: a message that moves meanwhile is in one share, in whatever state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from ..v1 import queue_service_pb2 as rpc
from ._light_client import Caller, Patience
from ._options import ReadOptions

PAGE: Final = 1_000
WORTH: Final = 20_000
"""Messages of a share, at least, if the option numPartitions doesn't say."""
SHARES: Final = 16
_MOST_SKIP: Final = 100_000
"""The contract's."""


@dataclass(frozen=True, slots=True)
class Share:
    """Messages that were sent from a time on and before another one, in Unix milliseconds."""

    begin: int | None = None
    end: int | None = None


def shares(options: ReadOptions, patience: Patience) -> list[Share]:
    """Return shares with about as many messages each."""
    place = options.place
    caller = Caller(place.address, patience, place.credentials)
    counts = caller("GetQueue", rpc.GetQueueRequest(name=place.queue)).queue.counts
    total = counts.ready_count + counts.leased_count + counts.delayed_count
    each = -(-total // (options.partitions or SHARES))
    if options.partitions is None:
        each = max(each, WORTH)
    bounds = sorted(set(_bounds(caller, options, each))) if 0 < each < total else []
    return [
        Share(begin, end)
        for begin, end in zip([options.since, *bounds], [*bounds, options.until], strict=True)
    ]


def _bounds(caller: Caller, options: ReadOptions, each: int) -> Iterator[int]:
    """Yield the send time of each message by whose number `each` divides, in Unix milliseconds."""
    request = _request(options, Share(options.since, options.until), page_size=1)
    left = each
    while True:
        request.skip = min(left, _MOST_SKIP)
        page = caller("ListMessages", request)
        left -= request.skip
        for message in page.messages:  # One, or none if it was deleted just now.
            if left == 0:
                yield message.send_time.ToMilliseconds()
                left = each
            left -= 1
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def peek(options: ReadOptions, share: Share, patience: Patience) -> Iterator[Any]:
    """Yield the messages of a share in lists, as they are."""
    place = options.place
    caller = Caller(place.address, patience, place.credentials)
    request = _request(options, share, page_size=PAGE)
    if "body" in options.columns:
        request.view = rpc.MESSAGE_VIEW_FULL
    while True:
        page = caller("ListMessages", request)
        if page.messages:
            yield list(page.messages)
        if not page.next_page_token:
            return
        request.page_token = page.next_page_token


def _request(options: ReadOptions, share: Share, *, page_size: int) -> rpc.ListMessagesRequest:
    return rpc.ListMessagesRequest(
        queue=options.place.queue,
        page_size=page_size,
        states=options.states,
        sent_since=_timestamp(share.begin),
        sent_before=_timestamp(share.end),
    )


def _timestamp(moment: int | None) -> Timestamp | None:
    if moment is None:
        return None
    return Timestamp(seconds=moment // 1_000, nanos=moment % 1_000 * 1_000_000)

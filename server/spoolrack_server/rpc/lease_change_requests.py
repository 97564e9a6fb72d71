"""Requests that extend, release or reject: validation by column, and the responses.

The store takes the leases together that are changed alike: a request becomes as many of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.dead_letter_records import check_explanation
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import (
    ChangeVisibility,
    LastReceive,
    RejectMessages,
    ReleaseMessages,
    Request,
)
from spoolrack_store.model.settings import MAX_DELAY, MAX_VISIBILITY
from spoolrack_store.store import Store

from ..app.store_access import SubmittedRequest
from ..wire import convert
from ..wire.status import status_of

Change = TypeVar("Change", bound=Hashable)
Results = Sequence[Any]
"""A result for each message; the errors are `StoreError`s."""


def extend(store: Store, request: rpc.ExtendLeasesRequest) -> SubmittedRequest:
    """Submit extensions to the store; raise the `StoreError` of a request that is invalid as a
    whole."""
    queue, extensions = convert.queue_name(request.queue), request.extensions
    convert.check_count(len(extensions), "extensions")
    last: dict[int, LastReceive] = {}

    def visibility_of(position: int) -> Millis:
        extension = extensions[position]
        if extension.HasField("last_receive"):
            last[position] = convert.last_receive(extension.last_receive)
        return convert.millis(
            extension.visibility_timeout, "visibility_timeout", least=1, most=MAX_VISIBILITY
        )

    def request_of(visibility: Millis, positions: Sequence[int]) -> ChangeVisibility:
        return ChangeVisibility(
            queue=queue,
            receipts=[extensions[position].receipt for position in positions],
            visibility=visibility,
            last_receives={
                place: last[position] for place, position in enumerate(positions) if position in last
            },
        )

    return _submit(store, len(extensions), visibility_of, request_of, _extend_response)


def release(store: Store, request: rpc.ReleaseRequest) -> SubmittedRequest:
    """Submit releases to the store; raise the `StoreError` of a request that is invalid as a whole."""
    queue, releases = convert.queue_name(request.queue), request.releases
    convert.check_count(len(releases), "releases")

    def wanted_of(position: int) -> tuple[Millis | None, str, bool]:
        release = releases[position]
        delay = None
        if release.HasField("delay"):
            delay = convert.millis(release.delay, "delay", most=MAX_DELAY)
        check_explanation(release.reason)
        return delay, release.reason, release.uncounted

    def request_of(
        wanted: tuple[Millis | None, str, bool], positions: Sequence[int]
    ) -> ReleaseMessages:
        delay, reason, is_uncounted = wanted
        return ReleaseMessages(
            queue=queue,
            receipts=[releases[position].receipt for position in positions],
            delay=delay,
            explanation=reason,
            is_uncounted=is_uncounted,
        )

    return _submit(store, len(releases), wanted_of, request_of, _release_response)


def reject(store: Store, request: rpc.RejectRequest) -> SubmittedRequest:
    """Submit rejections to the store; raise the `StoreError` of a request that is invalid as a
    whole."""
    queue, rejections = convert.queue_name(request.queue), request.rejections
    convert.check_count(len(rejections), "rejections")

    def reason_of(position: int) -> str:
        check_explanation(rejections[position].reason)
        return rejections[position].reason

    def request_of(reason: str, positions: Sequence[int]) -> RejectMessages:
        receipts = [rejections[position].receipt for position in positions]
        return RejectMessages(queue=queue, receipts=receipts, explanation=reason)

    return _submit(store, len(rejections), reason_of, request_of, _reject_response)


def _submit(
    store: Store,
    count: int,
    change_of: Callable[[int], Change],
    request_of: Callable[[Change, Sequence[int]], Request[Any]],
    response_of: Callable[[Results], Message],
) -> SubmittedRequest:
    """Hand the store a request for all positions of the same change."""
    alike: dict[Change, list[int]] = {}
    refused: dict[int, StoreError] = {}
    for position in range(count):
        try:
            alike.setdefault(change_of(position), []).append(position)
        except StoreError as error:
            refused[position] = error
    submitted = [
        (positions, store.submit(request_of(change, positions))) for change, positions in alike.items()
    ]

    def encoded() -> bytes:
        results: dict[int, Any] = dict(refused)
        for positions, future in submitted:
            results.update(zip(positions, future.result(), strict=True))
        return response_of([results[position] for position in range(count)]).SerializeToString()

    return SubmittedRequest([future for _, future in submitted], encoded)


def _extend_response(results: Results) -> rpc.ExtendLeasesResponse:
    response = rpc.ExtendLeasesResponse()
    for result in results:
        if isinstance(result, StoreError):
            response.results.add(error=status_of(result))
        else:
            response.results.add(lease_expire_time=convert.timestamp(result))
    return response


def _release_response(results: Results) -> rpc.ReleaseResponse:
    response = rpc.ReleaseResponse()
    for result in results:
        if isinstance(result, StoreError):
            response.results.add(error=status_of(result))
        else:
            response.results.add(deliver_time=convert.timestamp(result))
    return response


def _reject_response(results: Results) -> rpc.RejectResponse:
    response = rpc.RejectResponse()
    for result in results:
        if result is None:
            response.results.add().rejected.SetInParent()
        else:
            response.results.add(error=status_of(result))
    return response

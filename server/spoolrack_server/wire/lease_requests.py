"""Requests that delete, extend, release or reject: validation by item, and the responses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.dead_letter_records import check_explanation
from spoolrack_store.model.errors import InvalidRequest, StoreError
from spoolrack_store.model.message_content import MAX_DELAY
from spoolrack_store.model.operations import Delete, LastReceive
from spoolrack_store.model.settings import MAX_VISIBILITY

from ..app.bounds import message_id
from ..app.caller import Caller
from ..app.leases import Changes, Leases, ReleaseTerms
from ..app.store_access import Submitted
from . import convert, encoding
from .status import status_of

Item = TypeVar("Item", rpc.LeaseExtension, rpc.MessageRelease, rpc.MessageRejection)
Change = TypeVar("Change")
Results = Sequence[Any]
"""A result for each message; the errors are `StoreError`s."""


LeaseRequest = rpc.DeleteRequest | rpc.ExtendLeasesRequest | rpc.ReleaseRequest | rpc.RejectRequest


def submit(leases: Leases, caller: Caller, request: LeaseRequest) -> Submitted[bytes]:
    """Submit a request; its result is the encoded response. Raise the `StoreError` of one that is
    invalid as a whole."""
    encode: Callable[[Results], bytes]
    done: Submitted[Results]
    match request:
        case rpc.DeleteRequest():
            delete, encode = deletion(request.queue, request.targets)
            done = leases.delete(caller, delete)
        case rpc.ExtendLeasesRequest():
            extended, last_receives = extensions(request.extensions)
            done = leases.extend(caller, request.queue, extended, last_receives)
            encode = partial(_times, rpc.ExtendLeasesResponse, "lease_expire_time")
        case rpc.ReleaseRequest():
            done = leases.release(caller, request.queue, releases(request.releases))
            encode = partial(_times, rpc.ReleaseResponse, "deliver_time")
        case rpc.RejectRequest():
            done = leases.reject(caller, request.queue, rejections(request.rejections))
            encode = _reject_response
    return Submitted(done.futures, lambda: encode(done.result()))


# Deletes.


def deletion(
    queue: str, targets: Sequence[rpc.DeleteTarget]
) -> tuple[Delete, Callable[[Results], bytes]]:
    """Return the delete of the valid targets, and a function that encodes its response."""
    convert.check_count(len(targets), "targets")
    receipts = [target.receipt for target in targets]
    with_receives = [target for target in targets if target.HasField("last_receive")]
    if all(receipts) and not with_receives:
        return Delete(queue=queue, receipts=receipts), encoding.delete_response
    by_receipt: dict[int, str] = {}
    by_id: dict[int, str] = {}
    refused: dict[int, StoreError] = {}
    last_receives: dict[int, LastReceive] = {}
    for position, target in enumerate(targets):
        try:
            match target.WhichOneof("target"):
                case "receipt":
                    if target.HasField("last_receive"):
                        last_receives[len(by_receipt)] = convert.last_receive(target.last_receive)
                    by_receipt[position] = target.receipt
                case "id" if target.HasField("last_receive"):
                    raise InvalidRequest(
                        what="last_receive", value=target.id, rule="goes with a receipt, not with an id"
                    )
                case "id":
                    by_id[position] = message_id(target.id)
                case _:
                    raise InvalidRequest(what="a target", value="", rule="must name a receipt or an id")
        except StoreError as error:
            refused[position] = error

    def encoded(answers: Results) -> bytes:
        results: dict[int, StoreError | None] = dict(refused)
        results.update(zip([*by_receipt, *by_id], answers, strict=True))
        return encoding.delete_response([results[position] for position in range(len(results))])

    delete = Delete(
        queue=queue,
        receipts=list(by_receipt.values()),
        ids=list(by_id.values()),
        last_receives=last_receives,
    )
    return delete, encoded


# Changes.


def extensions(
    items: Sequence[rpc.LeaseExtension],
) -> tuple[Changes[Millis], dict[int, LastReceive]]:
    """Return the extensions, and by position the receives whose leases may be over."""
    last: dict[int, LastReceive] = {}

    def change_of(item: rpc.LeaseExtension, position: int) -> Millis:
        if item.HasField("last_receive"):
            last[position] = convert.last_receive(item.last_receive)
        return convert.millis(
            item.visibility_timeout, "visibility_timeout", least=1, most=MAX_VISIBILITY
        )

    return _changes(items, "extensions", change_of), last


def releases(items: Sequence[rpc.MessageRelease]) -> Changes[ReleaseTerms]:
    def change_of(item: rpc.MessageRelease, _: int) -> ReleaseTerms:
        delay = None
        if item.HasField("delay"):
            delay = convert.millis(item.delay, "delay", most=MAX_DELAY)
        check_explanation(item.reason)
        return ReleaseTerms(delay, item.reason, item.uncounted)

    return _changes(items, "releases", change_of)


def rejections(items: Sequence[rpc.MessageRejection]) -> Changes[str]:
    def change_of(item: rpc.MessageRejection, _: int) -> str:
        check_explanation(item.reason)
        return item.reason

    return _changes(items, "rejections", change_of)


def _changes(
    items: Sequence[Item], what: str, change_of: Callable[[Item, int], Change]
) -> list[tuple[str, Change] | StoreError]:
    convert.check_count(len(items), what)
    changes: list[tuple[str, Change] | StoreError] = []
    for position, item in enumerate(items):
        try:
            changes.append((item.receipt, change_of(item, position)))
        except StoreError as error:
            changes.append(error)
    return changes


# Responses.


def _times(
    kind: type[rpc.ExtendLeasesResponse] | type[rpc.ReleaseResponse], field: str, results: Results
) -> bytes:
    """Return a response with the time of each message in `field`, or its error."""
    response = kind()
    for result in results:
        if isinstance(result, StoreError):
            response.results.add(error=status_of(result))
        else:
            response.results.add(**{field: convert.timestamp(result)})
    return response.SerializeToString()


def _reject_response(results: Results) -> bytes:
    response = rpc.RejectResponse()
    for result in results:
        if result is None:
            response.results.add().rejected.SetInParent()
        else:
            response.results.add(error=status_of(result))
    return response.SerializeToString()

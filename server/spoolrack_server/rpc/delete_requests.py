"""Delete requests: validation by column, and the response."""

from __future__ import annotations

from collections.abc import Sequence

from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_store.model.errors import InvalidRequest, StoreError
from spoolrack_store.model.operations import Delete, LastReceive
from spoolrack_store.store import Store

from ..app.store_access import SubmittedRequest
from ..wire import convert, encoding


def start(store: Store, queue: str, targets: Sequence[rpc.DeleteTarget]) -> SubmittedRequest:
    """Submit a delete to the store; raise the `StoreError` of a request that is invalid as a whole."""
    convert.queue_name(queue)
    convert.check_count(len(targets), "targets")
    receipts = [target.receipt for target in targets]
    named = [position for position, target in enumerate(targets) if target.HasField("last_receive")]
    if all(receipts) and not named:
        future = store.submit(Delete(queue=queue, receipts=receipts))
        return SubmittedRequest((future,), lambda: encoding.delete_response(future.result()))
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
                    by_id[position] = convert.message_id(target.id)
                case _:
                    raise InvalidRequest(what="a target", value="", rule="must name a receipt or an id")
        except StoreError as error:
            refused[position] = error
    delete = Delete(
        queue=queue,
        receipts=list(by_receipt.values()),
        ids=list(by_id.values()),
        last_receives=last_receives,
    )
    answering = store.submit(delete)

    def encoded() -> bytes:
        results: dict[int, StoreError | None] = dict(refused)
        results.update(zip([*by_receipt, *by_id], answering.result(), strict=True))
        return encoding.delete_response([results[position] for position in range(len(results))])

    return SubmittedRequest((answering,), encoded)

"""Requests that change messages, unary or of a stream: to a use case, and its result to a response."""

from __future__ import annotations

from spoolrack.v1 import queue_service_pb2 as rpc

from ..app.application import Application
from ..app.caller import Caller
from ..app.store_access import Submitted
from ..wire import encoding, lease_changes
from ..wire.outgoing_messages import send_of


class MessageRequests:
    """Submits requests; raises the `StoreError` of one that is invalid as a whole."""

    def __init__(self, app: Application) -> None:
        self._sends = app.sends
        self._leases = app.leases

    async def send(self, caller: Caller, request: rpc.SendRequest) -> Submitted[bytes]:
        sent = await self._sends.send(caller, *send_of(request.queue, request.messages))
        return Submitted(sent.futures, lambda: encoding.send_response(sent.result()))

    def delete(self, caller: Caller, request: rpc.DeleteRequest) -> Submitted[bytes]:
        delete, encode = lease_changes.deletion(request.queue, request.targets)
        deleted = self._leases.delete(caller, delete)
        return Submitted(deleted.futures, lambda: encode(deleted.result()))

    def extend(self, caller: Caller, request: rpc.ExtendLeasesRequest) -> Submitted[bytes]:
        changes, last_receives = lease_changes.extensions(request.extensions)
        changed = self._leases.extend(caller, request.queue, changes, last_receives)
        return Submitted(changed.futures, lambda: lease_changes.extend_response(changed.result()))

    def release(self, caller: Caller, request: rpc.ReleaseRequest) -> Submitted[bytes]:
        changes = lease_changes.releases(request.releases)
        released = self._leases.release(caller, request.queue, changes)
        return Submitted(released.futures, lambda: lease_changes.release_response(released.result()))

    def reject(self, caller: Caller, request: rpc.RejectRequest) -> Submitted[bytes]:
        changes = lease_changes.rejections(request.rejections)
        rejected = self._leases.reject(caller, request.queue, changes)
        return Submitted(rejected.futures, lambda: lease_changes.reject_response(rejected.result()))

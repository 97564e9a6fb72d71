"""The transport to a server, over gRPC.

Sends, receives that needn't wait, and deletes share a stream each.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from google.protobuf.empty_pb2 import Empty

from .._call_values import Answer, Call, ReadReservation
from .._credentials import NONE, Credentials
from .._runtime import Runtime
from .._values import (
    DeleteResult,
    Envelope,
    InterruptedStream,
    LeaseExtension,
    LeaseResult,
    MessageRejection,
    MessageRelease,
    Outgoing,
    SendResult,
    Target,
)
from ..errors import ClientClosed, SpoolrackError
from ..v1 import queue_service_pb2 as rpc
from . import ClientTransport
from . import grpc_values as convert
from .grpc_calls import (
    ChannelCalls,
    Frames,
    ReportingFrames,
    ReportingRequests,
    TaggedCalls,
    open_calls,
)
from .grpc_channels import Metadata
from .grpc_methods import answer_of, request_of
from .grpc_streams import RequestStream, StreamedCalls
from .whole_files import WholeFiles

log = logging.getLogger("spoolrack")

GIVE_BACK_TIMEOUT: Final = 5.0
"""Seconds to release messages whose receiver has left."""


class GrpcDeliveries:
    """The frames of a StreamReceive."""

    def __init__(self, frames: ReportingFrames) -> None:
        self._frames = frames
        self.report = frames.report
        self.stop = frames.stop

    @property
    def on_connected(self) -> Callable[[], None]:
        return self._frames.on_connected

    @on_connected.setter
    def on_connected(self, action: Callable[[], None]) -> None:
        self._frames.on_connected = action

    async def next(self) -> Sequence[Envelope]:
        while True:
            response: rpc.StreamReceiveResponse = await self._frames.next()
            if response.HasField("received"):
                return convert.leased(response.received)
            if response.HasField("stopped"):
                raise ClientClosed("The stream was closed.")
            # A frame that only a later server knows.

    def connected(self) -> bool:
        return self._frames.connected()

    def cancel(self) -> None:
        self._frames.cancel()


class GrpcPages:
    """The frames of a ReadReservation."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    async def next(self) -> Sequence[Envelope]:
        # A frame may have no messages, where all of its were deleted; here that would be the end.
        while (response := await self._frames.next_or_end()) is not None:
            if response.messages:
                return [convert.envelope(message) for message in response.messages]
        return []

    def cancel(self) -> None:
        self._frames.cancel()


class GrpcTransport:
    """`transports.ClientTransport` over one channel to `host:port`."""

    def __init__(
        self,
        address: str,
        runtime: Runtime,
        credentials: Credentials = NONE,
        metadata: Metadata = (),
        shared: ChannelCalls | None = None,
    ) -> None:
        """`shared`: the calls of a channel that this transport is to share; else it has its own."""
        self._address = address
        self._credentials = credentials
        self._calls: ChannelCalls = (
            open_calls(address, runtime, credentials, metadata)
            if shared is None
            else TaggedCalls(shared, metadata)
        )
        self._stub = self._calls.stub
        self.send_file = WholeFiles(self.send, runtime).send
        stub, unary = self._stub, self._calls.unary
        self._sends: RequestStream[rpc.SendResponse] = RequestStream(
            stub.StreamSend,
            lambda request, left: unary(stub.Send, request, left),
            address,
            self._calls,
            runtime,
        )
        self._deletes: RequestStream[rpc.DeleteResponse] = RequestStream(
            stub.StreamDelete,
            lambda request, left: unary(stub.Delete, request, left),
            address,
            self._calls,
            runtime,
        )

        self._receives: RequestStream[rpc.ReceiveResponse] = RequestStream(
            stub.StreamReceive,
            self._receive_refused,
            address,
            self._calls,
            runtime,
            fields=("receive", "received"),
            joins=False,
            late=self._late,
        )
        self._receiving = threading.Lock()
        """Held by the caller that receives by the stream, which serves one at a time."""
        self._has_receive_frames = True
        """Whether the server answers receives on a stream, as far as is known."""
        self._found = True
        """Whether the last receive has found messages."""

    @property
    def target(self) -> str:
        return f"grpc{'s' if self._credentials.is_secure else ''}://{self._address}"

    @property
    def all(self) -> Sequence[ClientTransport]:
        return (self,)

    def home(self, queue: str) -> str:
        return self.target

    async def call(self, request: Call[Answer], *, timeout: float) -> Answer:
        method = getattr(self._stub, type(request).__name__)
        return answer_of(request, await self._calls.unary(method, request_of(request), timeout))

    def read(self, request: ReadReservation) -> GrpcPages:
        return GrpcPages(self._calls.frames(self._stub.ReadReservation, request_of(request)))

    async def send(
        self, queue: str, messages: Sequence[Outgoing], *, timeout: float
    ) -> list[SendResult]:
        response = await self._sends.request(_send_request(queue, messages), timeout)
        return [convert.send_result(result) for result in response.results]

    def send_stream(self, queue: str) -> StreamedCalls[Outgoing, SendResult]:
        request_of = partial(_send_request, queue)
        return StreamedCalls(self._sends, self._address, request_of, convert.send_result)

    async def receive(
        self,
        queue: str,
        *,
        max_messages: int,
        wait: float,
        visibility_timeout: float | None,
        timeout: float,
    ) -> Sequence[Envelope]:
        request = rpc.ReceiveRequest(
            queue=queue,
            max_messages=max_messages,
            visibility_timeout=convert.optional_duration(visibility_timeout),
        )
        # A receive that may have to wait is a call of its own, which can be cancelled.
        is_worth_it = self._has_receive_frames and (self._found or not wait)
        if is_worth_it and self._receiving.acquire(blocking=False):
            try:
                streamed = rpc.StreamReceiveRequest(receive=request)
                response = await self._receives.request(streamed, timeout)
            finally:
                self._receiving.release()
            self._found = bool(response.messages)
            if self._found or not wait:
                return convert.leased(response)
        request.wait.CopyFrom(convert.duration(wait))
        response = await self._calls.unary(self._stub.Receive, request, timeout, self._late)
        self._found = bool(response.messages)
        return convert.leased(response)

    async def _receive_refused(
        self, request: rpc.ReceiveRequest, timeout: float
    ) -> rpc.ReceiveResponse:
        """Receive by a unary call, and by such alone from now on: the server is an older one."""
        self._has_receive_frames = False
        return await self._calls.unary(self._stub.Receive, request, timeout, self._late)

    async def _late(self, response: rpc.ReceiveResponse) -> None:
        """Release messages that came after their receiver had left."""
        if response.messages:
            queue = response.messages[0].receipt.partition(":")[0]
            await self._give_back(queue, convert.leased(response))

    async def _give_back(self, queue: str, envelopes: Sequence[Envelope]) -> None:
        """Release messages whose receiver has left: they are ready again at once, uncounted."""
        if not envelopes:
            return
        releases = [MessageRelease(envelope.receipt, count=False) for envelope in envelopes]
        try:
            await self.release(queue, releases, timeout=GIVE_BACK_TIMEOUT)
        except SpoolrackError as error:
            log.warning(
                "%d messages of %s came after their receiver had left, could not be released, and stay "
                "leased until their visibility timeout ends: %s",
                *(len(releases), queue, error),
            )

    def stream(
        self,
        queue: str,
        *,
        max_in_flight: int,
        max_bytes_in_flight: int,
        visibility_timeout: float | None,
        concurrency: int,
        stream_id: str = "",
        interrupted: Sequence[InterruptedStream] = (),
    ) -> GrpcDeliveries:
        start = rpc.ReceiveStart(
            queue=queue,
            max_in_flight=max_in_flight,
            max_bytes_in_flight=max_bytes_in_flight,
            visibility_timeout=convert.optional_duration(visibility_timeout),
            concurrency=concurrency,
            stream_id=stream_id,
            interrupted=[
                rpc.InterruptedStream(stream_id=each.stream_id, arrived=each.arrived)
                for each in interrupted
            ],
        )
        # Deletes and lease changes have calls of their own: a handler may outlive the stream.
        requests = ReportingRequests(
            self._stub.StreamReceive,
            self._stub.one_request.StreamReceive,
            rpc.StreamReceiveRequest(start=start),
            lambda numbers: rpc.StreamReceiveRequest(
                report=rpc.ReceiveReport(
                    begun=numbers[0], max_in_flight=numbers[1], max_bytes_in_flight=numbers[2]
                )
            ),
            rpc.StreamReceiveRequest(stop=Empty()),
        )
        return GrpcDeliveries(self._calls.reporting(requests))

    async def delete(
        self, queue: str, targets: Sequence[Target], *, timeout: float
    ) -> list[DeleteResult]:
        response = await self._deletes.request(_delete_request(queue, targets), timeout)
        return [convert.delete_result(result) for result in response.results]

    def delete_stream(self, queue: str) -> StreamedCalls[Target, DeleteResult]:
        request_of = partial(_delete_request, queue)
        return StreamedCalls(self._deletes, self._address, request_of, convert.delete_result)

    async def extend(
        self, queue: str, extensions: Sequence[LeaseExtension], *, timeout: float
    ) -> list[LeaseResult]:
        request = rpc.ExtendLeasesRequest(queue=queue, extensions=map(convert.extension, extensions))
        response = await self._calls.unary(self._stub.ExtendLeases, request, timeout)
        return [convert.extension_result(result) for result in response.results]

    async def release(
        self, queue: str, releases: Sequence[MessageRelease], *, timeout: float
    ) -> list[LeaseResult]:
        request = rpc.ReleaseRequest(
            queue=queue, releases=[convert.release(wanted) for wanted in releases]
        )
        response = await self._calls.unary(self._stub.Release, request, timeout)
        return [convert.lease_result(result) for result in response.results]

    async def reject(
        self, queue: str, rejections: Sequence[MessageRejection], *, timeout: float
    ) -> list[LeaseResult]:
        request = rpc.RejectRequest(
            queue=queue,
            rejections=[
                rpc.MessageRejection(receipt=wanted.receipt, reason=wanted.reason)
                for wanted in rejections
            ],
        )
        response = await self._calls.unary(self._stub.Reject, request, timeout)
        return [convert.lease_result(result) for result in response.results]

    def end_idle_streams(self) -> None:
        """End the streams of sends, receives and deletes that have nothing in flight; the next request
        opens another one."""
        self._sends.end_if_idle()
        self._receives.end_if_idle()
        self._deletes.end_if_idle()

    async def close(self) -> None:
        await self._sends.close()
        await self._receives.close()
        await self._deletes.close()
        await self._calls.close()


def _send_request(queue: str, messages: Sequence[Outgoing]) -> rpc.StreamSendRequest:
    streamed = rpc.StreamSendRequest()
    streamed.request.queue = queue
    streamed.request.messages.extend(map(convert.outgoing, messages))
    return streamed


def _delete_request(queue: str, targets: Sequence[Target]) -> rpc.StreamDeleteRequest:
    streamed = rpc.StreamDeleteRequest()
    streamed.request.queue = queue
    streamed.request.targets.extend(map(convert.target, targets))
    return streamed

"""The calls of all services of the contract on one channel."""

from __future__ import annotations

from typing import Any

from ..v1.queue_service_pb2_grpc import QueueServiceStub
from ..v1.redrive_service_pb2_grpc import RedriveServiceStub
from ..v1.reservation_service_pb2_grpc import ReservationServiceStub
from ..v1.schedule_service_pb2_grpc import ScheduleServiceStub
from ..v1.staging_service_pb2_grpc import StagingServiceStub


class Stubs(
    QueueServiceStub,
    StagingServiceStub,
    ReservationServiceStub,
    RedriveServiceStub,
    ScheduleServiceStub,
):
    """The stubs of all services in one: names of methods are unique among them."""

    def __init__(self, channel: Any) -> None:
        for stub in Stubs.__bases__:
            stub.__init__(self, channel)  # type: ignore[misc]  # generated: its stub has __new__
        one_request: Any = _OneRequestChannel(channel)
        self.one_request: Any = QueueServiceStub(one_request)
        """The queue service's streams, each for a single request, which is the call's argument."""


class _OneRequestChannel:
    """A channel on which a stream of requests has one, sent together with the beginning of the call.

    `grpc.aio` writes the requests of an iterator later. If the server has refused the call by then, the
    failed write becomes the status `INTERNAL`, and the server's own status is lost.
    """

    def __init__(self, channel: Any) -> None:
        self.unary_unary = channel.unary_unary
        self.unary_stream = channel.unary_stream
        self.stream_stream = channel.unary_stream

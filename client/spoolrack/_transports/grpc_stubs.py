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
        for stub in (
            QueueServiceStub,
            StagingServiceStub,
            ReservationServiceStub,
            RedriveServiceStub,
            ScheduleServiceStub,
        ):
            stub.__init__(self, channel)  # type: ignore[call-arg]  # generated: its stub has __new__

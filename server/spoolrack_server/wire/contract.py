"""The services of the contract, and their methods: names of methods are unique among all services."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from spoolrack.v1 import (
    queue_service_pb2,
    redrive_service_pb2,
    reservation_service_pb2,
    schedule_service_pb2,
    staging_service_pb2,
)

SERVICES: Final[tuple[ServiceDescriptor, ...]] = tuple(
    service
    for file in (
        queue_service_pb2,
        staging_service_pb2,
        reservation_service_pb2,
        redrive_service_pb2,
        schedule_service_pb2,
    )
    for service in file.DESCRIPTOR.services_by_name.values()
)
METHODS: Final[Mapping[str, MethodDescriptor]] = {
    method.name: method for service in SERVICES for method in service.methods
}

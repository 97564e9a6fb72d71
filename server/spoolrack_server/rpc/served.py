"""What gRPC serves: the services of the contract, and KEDA's beside them, which is no part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

from ..wire.contract import SERVICES
from .keda import externalscaler_pb2

SERVED: Final[tuple[ServiceDescriptor, ...]] = (
    *SERVICES,
    externalscaler_pb2.DESCRIPTOR.services_by_name["ExternalScaler"],
)
SERVED_METHODS: Final[Mapping[str, MethodDescriptor]] = {
    method.name: method for service in SERVED for method in service.methods
}

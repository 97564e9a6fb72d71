"""Calls of KEDA's external scaler, as KEDA makes them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from google.protobuf.message_factory import GetMessageClass
from spoolrack_server.rpc.keda import externalscaler_pb2 as pb

from .server_rig import Client


def scaler_calls(client: Client) -> Any:
    """Return the calls of the service by name."""
    calls = SimpleNamespace()
    for method in pb.DESCRIPTOR.services_by_name["ExternalScaler"].methods:
        kind = client.channel.unary_stream if method.server_streaming else client.channel.unary_unary
        call = kind(
            f"/externalscaler.ExternalScaler/{method.name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        setattr(calls, method.name, call)
    return calls

"""gRPC server reflection, for authenticated callers only."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2
from spoolrack_store.model.errors import StoreError

from ..access.access_control import AccessControl
from .authorized_calls import Context, caller_of
from .calls import abort


def reflection_of(names: Sequence[str], access_control: AccessControl) -> grpc.GenericRpcHandler:
    """Return the reflection of the services `names`, for authenticated callers."""
    library: Any = reflection.aio.ReflectionServicer(names)

    async def reflect(requests: AsyncIterable[Any], context: Context) -> AsyncIterator[Any]:
        try:
            caller_of(context, access_control)
        except StoreError as error:
            await abort(context, error)
        async for response in library.ServerReflectionInfo(requests, context):
            yield response

    handler = grpc.stream_stream_rpc_method_handler(
        reflect,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(
        reflection.SERVICE_NAME, {"ServerReflectionInfo": handler}
    )

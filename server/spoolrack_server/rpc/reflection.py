"""gRPC server reflection, for authenticated callers only."""

# ruff: noqa: N802 - the contract names the methods

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc
from spoolrack_store.model.errors import StoreError

from ..access.access_control import AccessControl
from ..wire.status import INTERNAL, failure_of
from .authorized_calls import Context, caller_of


class _Reflection(reflection.aio.ReflectionServicer):
    def __init__(self, names: Sequence[str], access_control: AccessControl) -> None:
        super().__init__(names)
        self._access_control = access_control

    async def ServerReflectionInfo(  # type: ignore[override]  # its stub is not what it is
        self,
        request_iterator: AsyncIterable[reflection_pb2.ServerReflectionRequest],
        context: Context,
    ) -> AsyncIterator[Any]:
        try:
            caller_of(context, self._access_control)
        except StoreError as error:
            failure = failure_of(error) or INTERNAL
            await context.abort(failure.code, failure.message, failure.trailing_metadata())
        found: Any = super().ServerReflectionInfo(request_iterator, context)
        async for response in found:
            yield response


def reflect(server: grpc.aio.Server, names: Sequence[str], access_control: AccessControl) -> None:
    """Add the reflection of the services `names`, for authenticated callers."""
    add: Any = reflection_pb2_grpc.add_ServerReflectionServicer_to_server
    add(_Reflection(names, access_control), server)

"""Resources of a client: stages, reservations, redrives and schedules."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import fields
from typing import Any, ClassVar, Generic, TypeVar

from .client_context import ClientContext

Value = TypeVar("Value")


class Resource(Generic[Value]):
    """Objects of one kind at a server, for threads or tasks."""

    _handle_type: ClassVar[Callable[..., Any]]
    """The value with operations."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context

    def _handle(self, value: Value) -> Any:
        of_value = {each.name: getattr(value, each.name) for each in fields(value)}  # type: ignore[arg-type]
        made = self._handle_type(**of_value)
        # No field: a copy of the value as a dictionary has none of the client.
        object.__setattr__(made, "_resource", self)
        return made

    async def _handles(self, values: AsyncIterator[Value]) -> AsyncIterator[Any]:
        async for value in values:
            yield self._handle(value)

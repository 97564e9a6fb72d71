"""Pagination of lists."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TypeVar

from .._call_values import ListCall
from .._transports import ClientTransport
from .._values import Page, Seconds
from .client_context import ClientContext

T = TypeVar("T")


async def pages(
    context: ClientContext,
    request: ListCall[T],
    timeout: Seconds | None,
    transport: ClientTransport | None = None,
) -> AsyncGenerator[Page[T], None]:
    """Fetch one page after the other, from `transport` if it is given; `request` gets the token of the
    next one. `timeout` is for each of them."""
    call = (transport or context.transport).call
    while True:
        page: Page[T] = await context.call(call, timeout, request)
        yield page
        if not page.next_token:
            return
        request.page_token = page.next_token


async def items(
    context: ClientContext, request: ListCall[T], timeout: Seconds | None
) -> AsyncGenerator[T, None]:
    """Yield the items of all pages."""
    async for page in pages(context, request, timeout):
        for item in page.items:
            yield item

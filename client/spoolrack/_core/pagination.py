"""Pagination of lists."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

from .._values import Page, Seconds
from .client_context import ClientContext

T = TypeVar("T")


async def pages(
    context: ClientContext,
    fetch: Callable[..., Awaitable[Page[T]]],
    timeout: Seconds | None,
    **which: Any,
) -> AsyncGenerator[Page[T], None]:
    """Fetch one page after the other by `fetch(token=, timeout=, **which)`; the first one has an empty
    token. `timeout` is for each of them."""
    token = ""
    while True:
        page = await context.call(fetch, timeout, token=token, **which)
        yield page
        token = page.next_token
        if not token:
            return


async def items(
    context: ClientContext,
    fetch: Callable[..., Awaitable[Page[T]]],
    timeout: Seconds | None,
    **which: Any,
) -> AsyncGenerator[T, None]:
    """Yield the items of all pages."""
    async for page in pages(context, fetch, timeout, **which):
        for item in page.items:
            yield item

"""Pagination of lists."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from typing import Protocol, TypeVar

from .._client_context import ClientContext
from .._values import Item, Page, Seconds

T = TypeVar("T")


class Fetch(Protocol[Item]):
    """Fetches the page of a token; the first one has an empty token."""

    def __call__(self, *, token: str, timeout: float) -> Awaitable[Page[Item]]: ...


async def pages(
    context: ClientContext, fetch: Fetch[T], timeout: Seconds | None
) -> AsyncGenerator[Page[T], None]:
    """Fetch one page after the other. `timeout` is for each of them."""
    token = ""
    while True:
        page = await context.call(fetch, timeout, token=token)
        yield page
        token = page.next_token
        if not token:
            return


async def items(
    context: ClientContext, fetch: Fetch[T], timeout: Seconds | None
) -> AsyncGenerator[T, None]:
    """Yield the items of all pages."""
    async for page in pages(context, fetch, timeout):
        for item in page.items:
            yield item

"""Pagination of lists."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Protocol, TypeVar

from .._client_context import ClientContext
from .._values import Seconds


class _Paginated(Protocol):
    @property
    def next_token(self) -> str: ...


Page = TypeVar("Page", bound=_Paginated)


async def pages(
    context: ClientContext, fetch: Callable[[str, float], Awaitable[Page]], timeout: Seconds | None
) -> AsyncGenerator[Page, None]:
    """Fetch one page after the other: `fetch(token, seconds)`. `timeout` is for each of them."""
    token = ""
    while True:

        async def once(left: float, token: str = token) -> Page:
            return await fetch(token, left)

        page = await context.call(once, timeout)
        yield page
        token = page.next_token
        if not token:
            return

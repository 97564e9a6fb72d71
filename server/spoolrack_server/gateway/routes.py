"""Which method of which path is answered by whom: the one list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from .messages import MessageEndpoints
from .pages import Pages
from .queues import QueueEndpoints

Endpoint = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    """As OpenAPI writes it."""
    endpoint: Endpoint
    is_page: bool = False
    """Served also while the server drains."""


def routes(queues: QueueEndpoints, messages: MessageEndpoints, pages: Pages) -> Sequence[Route]:
    return (
        Route("GET", "/-/health", pages.health, is_page=True),
        Route("HEAD", "/-/health", pages.health, is_page=True),
        Route("GET", "/-/openapi.json", pages.openapi, is_page=True),
        Route("HEAD", "/-/openapi.json", pages.openapi, is_page=True),
        Route("GET", "/{queue}", queues.get),
        Route("HEAD", "/{queue}", queues.get),
        Route("PUT", "/{queue}", queues.put),
        Route("DELETE", "/{queue}", queues.delete),
        # No HEAD: a receive that shows no message would hide one.
        Route("GET", "/{queue}/messages", messages.receive),
        Route("POST", "/{queue}/messages", messages.send),
        Route("GET", "/{queue}/messages/{id}", messages.get),
        Route("HEAD", "/{queue}/messages/{id}", messages.get),
        Route("DELETE", "/{queue}/messages/{id}", messages.delete),
    )


def pattern(path: str) -> str:
    """The path as aiohttp's router wants it, where nothing under `/-/` is a queue's."""
    return path.replace("{queue}", "{queue:(?!-(?:/|$))[^/]+}")

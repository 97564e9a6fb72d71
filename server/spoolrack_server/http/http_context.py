"""The shared objects of an HTTP front: its use cases, its clock, and the bounds of its requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import Draining, InvalidRequest, MessageTooLarge

from ..app.application import Application
from ..app.memory import MemoryLimiter
from ..system.logs import Log
from ..wire.json_form import Request, parsed
from . import request_bodies
from .http_errors import SettingsTooLarge
from .request_bodies import HttpLimits, UploadMemory

JSON: Final = "application/json"
LARGEST_JSON: Final = 1024 * 1024
"""Bytes of a request: a schedule has 128 KiB in body and attributes, at six characters each at most."""
PRIVATE: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Headers of JSON, which may hold a message's content."""


class HttpContext:
    """The shared objects of all endpoints. Lives in one event loop."""

    def __init__(
        self,
        app: Application,
        clock: Clock,
        log: Log,
        http_limits: HttpLimits | None = None,
        memory: MemoryLimiter | None = None,
    ) -> None:
        self.app = app
        self.clock = clock
        self.memory = memory or MemoryLimiter(log)
        self.http_limits = http_limits or HttpLimits()
        self.upload_memory = UploadMemory(self.http_limits.memory)
        self._draining = asyncio.Event()

    async def json(self, request: web.Request) -> dict[str, Any]:
        """Return the object in a body of JSON; an empty one without a body."""
        if not request.can_read_body:
            return {}
        try:
            with self.upload_memory.share() as share:
                raw = await request_bodies.read(
                    request, queue="", limit=LARGEST_JSON, http_limits=self.http_limits, share=share
                )
        except MessageTooLarge as error:
            raise SettingsTooLarge(limit=LARGEST_JSON) from error
        if not raw.strip():
            return {}
        if request.content_type != JSON:
            raise InvalidRequest(
                what="Content-Type", value=request.content_type, rule=f"must be {JSON}"
            )
        return _object_in(raw)

    async def call_in(
        self, request: web.Request, kind: type[Request], *, without: Collection[str] = ()
    ) -> Request:
        """Return the contract's request in the body, the query and the path together; names in
        `without` are the handler's, and no fields of it. Raise `InvalidRequest`."""
        content, named = await self.json(request), {**request.query, **request.match_info}
        if twice := sorted(content.keys() & named.keys()):
            rule = "goes into the path or the query alone"
            raise InvalidRequest(what=twice[0], value=str(content[twice[0]]), rule=rule)
        for name in without:
            named.pop(name, None)
        return parsed(content | named, kind, without=without)

    def drain(self) -> None:
        """End the waits of requests."""
        self._draining.set()

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds; raise `Draining` if the server shuts down before."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._draining.wait(), seconds)
            raise Draining


def answer(content: Mapping[str, Any], *, status: int = 200, **headers: str) -> web.Response:
    return web.json_response(content, status=status, headers={**PRIVATE, **headers})


def _object_in(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; raise `InvalidRequest` for anything else."""
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        begin = raw[:40].decode(errors="replace")
        raise InvalidRequest(what="the body", value=begin, rule=f"must be JSON ({error})") from error
    if not isinstance(value, dict):
        begin = raw[:40].decode(errors="replace")
        raise InvalidRequest(what="the body", value=begin, rule="must be a JSON object, as {...}")
    return value

"""The JSON of the dashboard's changes, and a second check against cross-site requests.

A change needs a header that no form and no link of another site can carry (CSRF): a script of another
site can add it only after a CORS preflight, which this server never grants. There are no cookies, and
only our own script puts a token into a request; but a client's certificate, or the loopback interface
of an open server, would make a foreign page's request look like the operator's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from spoolrack_store.model.errors import InvalidRequest, MessageTooLarge

from ..http.context import HttpContext
from ..http.json_requests import object_in

OURS: Final = "X-Spoolrack-Dashboard"
"""The header of a change."""
LARGEST_BODY: Final = 128 * 1024
"""Bytes of JSON: a selection of a thousand ids has 40,000."""


async def change(context: HttpContext, request: web.Request) -> Mapping[str, Any]:
    """Return the JSON object of a change's body. Raises `InvalidRequest` before any change."""
    if OURS not in request.headers or request.content_type != "application/json":
        raise InvalidRequest(
            what="a change",
            value=request.content_type,
            rule=f"must come as application/json with the header {OURS}: another site could have "
            "sent this",
        )
    try:
        return object_in(await context.body(request, LARGEST_BODY))
    except MessageTooLarge as error:
        raise InvalidRequest(
            what="the body", value="more", rule=f"has {LARGEST_BODY} bytes at most"
        ) from error


def text(content: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a text of the request; raise `InvalidRequest`."""
    found = content.get(name, default)
    if not isinstance(found, str):
        raise InvalidRequest(what=name, value=found, rule="must be a text")
    return found


def whole(content: Mapping[str, Any], name: str, default: int = 0) -> int:
    """Return a whole number of the request; raise `InvalidRequest`."""
    found = content.get(name, default)
    if not isinstance(found, int) or isinstance(found, bool):
        raise InvalidRequest(what=name, value=found, rule="must be a whole number")
    return found


def texts(content: Mapping[str, Any], name: str, *, most: int) -> list[str]:
    """Return a list of texts of the request; raise `InvalidRequest`."""
    found = content.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise InvalidRequest(what=name, value=type(found).__name__, rule="must be a list of texts")
    if len(found) > most:
        raise InvalidRequest(what=name, value=len(found), rule=f"has {most} entries at most")
    return found

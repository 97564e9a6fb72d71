"""The dashboard's files, as the wheel has them: read once, and served with security headers.

Only the files in `static/` at the server's start can be requested. The Content-Security-Policy allows
resources from this origin alone, forbids inline scripts, HTML made of text (Trusted Types), and frames
of other sites.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

from ..http.http_errors import NoSuchPage
from ..http.route import Route

PAGE: Final = "index.html"
_TYPES: Final[Mapping[str, str]] = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # It is asked each time whether it has changed: a new server has new files under the old names.
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    content: bytes
    packed: bytes
    type: str
    tag: str


def dashboard_routes() -> Sequence[Route]:
    """Return the routes of the page and its files, which hold no data: it asks HTTP like a program."""
    assets = Assets()
    return [
        Route("GET", path, endpoint, is_page=True, is_open=True)
        for path, endpoint in (
            ("/", assets.root),
            ("/-/dashboard", assets.page),
            ("/-/dashboard/", assets.redirect),
            ("/-/dashboard/{asset:.+}", assets.asset),
        )
    ]


class Assets:
    def __init__(self) -> None:
        folder = resources.files(__package__).joinpath("static")
        self._assets = dict(_assets(folder, ""))

    async def page(self, request: web.Request) -> web.StreamResponse:
        return self._answer(request, PAGE)

    async def asset(self, request: web.Request) -> web.StreamResponse:
        return self._answer(request, request.match_info["asset"])

    async def root(self, request: web.Request) -> web.StreamResponse:
        """Redirect a browser to the page; raises `NoSuchPage` for programs, which accept no HTML."""
        if "text/html" not in request.headers.get("Accept", ""):
            raise NoSuchPage(path=request.path)
        return web.Response(status=303, headers={"Location": "-/dashboard", "Vary": "Accept"})

    async def redirect(self, request: web.Request) -> web.StreamResponse:
        """Redirect a path without its final slash, which the page's relative links need."""
        return web.Response(status=308, headers={"Location": "../dashboard"})

    def _answer(self, request: web.Request, path: str) -> web.Response:
        asset = self._assets.get(path)
        if asset is None:
            raise NoSuchPage(path=request.path)
        headers = {**_HEADERS, "ETag": asset.tag}
        if asset.tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        body = asset.content
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            body = asset.packed
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, content_type=asset.type, charset="utf-8", headers=headers)


def _assets(folder: Traversable, prefix: str) -> Iterator[tuple[str, Asset]]:
    for each in folder.iterdir():
        path = f"{prefix}{each.name}"
        if each.is_dir():
            yield from _assets(each, f"{path}/")
            continue
        type = _TYPES.get(each.name.rpartition(".")[2])
        if type is not None:
            content = each.read_bytes()
            # Weak, as it comes packed or not.
            tag = f'W/"{hashlib.sha256(content).hexdigest()[:32]}"'
            packed = gzip.compress(content, mtime=0)
            yield path, Asset(content=content, packed=packed, type=type, tag=tag)

"""Asking for the dashboard's files and its JSON, of an open server and of one that knows who asks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import spoolrack_server.dashboard
from spoolrack_server.access.security import Security
from spoolrack_server.dashboard.change_requests import OURS
from spoolrack_server.process.server import Server
from spoolrack_store.model.clock import Clock

from tests.support.http_rig import Answer, Http, http_to

STATIC = Path(spoolrack_server.dashboard.__file__).parent / "static"
CHANGE = {"Content-Type": "application/json", OURS: "1"}


TOKENS = {"alice": b"a", "bob": b"b"}
ALICE = {"Authorization": "Bearer a"}
BOB = {"Authorization": "Bearer b"}
RULES = "alice all *\nbob monitor jobs-*\nbob receive,monitor mail\n"


async def get(http: Http, path: str, **headers: str) -> Answer:
    return await http.ask(
        "GET", path, headers={"Accept-Encoding": "identity", **headers}, described=False
    )


async def api(http: Http, path: str, **headers: str) -> Any:
    answer = await get(http, f"/-/api/{path}", **headers)
    assert answer.status == 200, answer
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return answer.json


async def change(http: Http, path: str, content: Any, **headers: str) -> Answer:
    return await http.ask(
        "POST", f"/-/api/{path}", json.dumps(content), {**CHANGE, **headers}, described=False
    )


def assets() -> list[str]:
    return sorted(
        str(path.relative_to(STATIC))
        for path in STATIC.rglob("*")
        if path.is_file() and path.suffix != ".json"
    )


@asynccontextmanager
async def guarded(
    folder: Path, rules: str, clock: Clock | None = None
) -> AsyncIterator[tuple[Server, Http]]:
    """Run a server with the tokens "a" of alice and "b" of bob."""
    tokens, permissions = folder / "tokens", folder / "permissions"
    lines = [f"{name} sha256:{hashlib.sha256(token).hexdigest()}\n" for name, token in TOKENS.items()]
    tokens.write_text("".join(lines))
    tokens.chmod(0o600)
    permissions.write_text(rules)
    security = Security(tokens=str(tokens), permissions=str(permissions))
    async with (
        Server(folder / "root", security=security, clock=clock) as server,
        http_to(server) as http,
    ):
        yield server, http


async def fill(http: Http) -> None:
    for queue in ("jobs-1", "mail", "secret"):
        answer = await http.ask("PUT", f"/{queue}", headers=ALICE)
        assert answer.status == 201
        assert (await http.ask("POST", f"/{queue}/messages", b"x", ALICE)).status == 201

"""Permissions over HTTP: every route, for strangers, for some and for others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from spoolrack_server.access.security import Security
from spoolrack_server.gateway.routes import routes
from spoolrack_server.http.route import Route, with_heads
from spoolrack_server.process.server import Server
from spoolrack_store.model.stage_requests import Stage

from tests.support.access_rig import Files, bearer, reads_again, serving
from tests.support.http_rig import Answer, Http, raw_to

ID = "01890000-0000-7000-8000-000000000000"


class _Any:
    """Stands for endpoints that are never called."""

    def __getattr__(self, name: str) -> object:
        return _Any()


ROUTES = list(with_heads(routes(_Any(), _Any(), _Any())))  # type: ignore[arg-type]


def path_of(route: Route, queue: str) -> str:
    path = route.path.replace("{queue}", queue).replace("{id}", ID).replace("{sequence_number}", "1")
    return re.sub(r"{\w+}", "s", path)


@pytest.fixture
async def server(tmp_path: Path, files: Files) -> AsyncIterator[Server]:
    security = Security(
        tokens=files.write_tokens("owner", "alice", "carol"),
        permissions=files.write_permissions("owner all *", "alice all a*"),
    )
    async with serving(tmp_path / "root", security) as server:
        yield server


@asynccontextmanager
async def as_caller(server: Server, *headers: str) -> AsyncIterator[Http]:
    authorizations = [("Authorization", header) for header in headers]
    async with aiohttp.ClientSession(server.http_url, headers=authorizations) as session:
        yield Http(session)


def test_every_route_of_a_queue_says_what_it_takes() -> None:
    for route in ROUTES:
        assert "{queue}" not in route.path or route.needs is not None, route
        assert not route.path.startswith("/-/health") or route.is_open, route
    assert not any(route.is_open for route in ROUTES if "{queue}" in route.path)


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((), id="none"),
        pytest.param(("Bearer srk_" + "x" * 43,), id="unknown"),
        pytest.param(("Basic b3duZXI6eA==",), id="basic"),
    ],
)
async def test_a_stranger_is_refused_by_every_route_that_is_not_open(
    server: Server, headers: tuple[str, ...]
) -> None:
    async with as_caller(server, *headers) as stranger:
        for route in ROUTES:
            answer = await stranger.ask(route.method, path_of(route, "q"))
            if route.is_open:
                assert answer.status == 200, route
                continue
            assert answer.status == 401, route
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            if route.method != "HEAD":
                assert answer.reason == "UNAUTHENTICATED"
        for path in ("/-/nothing", "/a/b/c/d"):
            assert (await stranger.ask("GET", path, described=False)).status == 401


async def test_two_tokens_in_one_request_are_refused(server: Server, files: Files) -> None:
    token = bearer(files.tokens["owner"])
    async with as_caller(server, token, token) as client:
        assert (await client.ask("GET", "/q")).status == 401


@pytest.mark.parametrize(
    "foreign", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}]
)
async def test_a_page_of_another_site_is_refused_whatever_it_is_known_as(
    server: Server, files: Files, foreign: Mapping[str, str]
) -> None:
    """A browser that shows a client's certificate shows it for any page."""
    async with as_caller(server, bearer(files.tokens["owner"])) as owner:
        await owner.create("jobs")
        for method, path in (
            ("POST", "/jobs/messages"),
            ("GET", "/jobs/messages"),
            ("DELETE", "/jobs"),
        ):
            answer = await owner.ask(method, path, None, foreign)
            assert (answer.status, answer.reason) == (403, "CROSS_ORIGIN")
        assert (await owner.ask("GET", "/jobs", None, foreign)).status == 200


async def test_a_caller_without_permission_learns_nothing_of_a_queue(
    server: Server, files: Files
) -> None:
    async def told(client: Http) -> Mapping[str, tuple[int, bytes]]:
        answers = {
            f"{route.method} {route.path}": await client.ask(route.method, path_of(route, "q"))
            for route in ROUTES
            if "{queue}" in route.path
        }
        return {name: (answer.status, answer.body) for name, answer in answers.items()}

    async with (
        as_caller(server, bearer(files.tokens["carol"])) as carol,
        as_caller(server, bearer(files.tokens["owner"])) as owner,
    ):
        without = await told(carol)
        await owner.create("q")
        assert await told(carol) == without
        for route in ROUTES:
            if not route.is_open and route.needs is not None:
                assert (await carol.ask(route.method, path_of(route, "q"))).status == 403, route
    assert {status for status, _ in without.values()} == {403}


async def test_a_permission_for_some_queues_is_none_for_others(server: Server, files: Files) -> None:
    async with (
        as_caller(server, bearer(files.tokens["alice"])) as alice,
        as_caller(server, bearer(files.tokens["owner"])) as owner,
    ):
        for queue in ("a1", "b1"):
            await owner.create(queue)
            await owner.send(b"x", queue)
        for route in ROUTES:
            if "{queue}" not in route.path:
                continue
            answer = await alice.ask(route.method, path_of(route, "b1"))
            assert answer.status == 403, route
            assert (await owner.counts("b1"))["ready_count"] == 1
            answer = await alice.ask(route.method, path_of(route, "a1"))
            assert answer.status not in (401, 403), route


async def test_lists_leave_out_what_the_caller_may_not_see_and_say_what_it_may_do(
    server: Server, files: Files
) -> None:
    async def change(client: Http, method: str, path: str, **content: object) -> Answer:
        return await client.ask(
            method, f"/-/{path}", json.dumps(content), {"Content-Type": "application/json"}
        )

    async with (
        as_caller(server, bearer(files.tokens["alice"])) as alice,
        as_caller(server, bearer(files.tokens["owner"])) as owner,
    ):
        for queue in ("a1", "b1", "b2"):
            await owner.create(queue)
            await owner.send(b"x", queue)
        for queue in ("a1", "b1", "b2"):
            server.store.submit(
                Stage(stage=f"s-{queue}", chunk_number=0, queue=queue, bodies=[b""])
            ).result()
            await change(owner, "POST", f"queues/{queue}/reservations", stream=f"s-{queue}")
            target = "b2" if queue == "a1" else "a1"
            await change(owner, "POST", f"queues/{queue}/redrives", destination=target)
        for kind in ("stages", "reservations", "redrives", "queues", "ages"):
            mine, every = [
                (await client.ask("GET", f"/-/{kind}")).json["queues" if kind == "ages" else kind]
                for client in (alice, owner)
            ]
            assert (kind, len(mine), len(every)) == (kind, 1, 3)
        # Those that are hidden count for nothing.
        assert len((await alice.ask("GET", "/-/redrives?last=1")).json["redrives"]) == 1
        (queue,) = (await alice.ask("GET", "/-/queues?fields=name,permissions")).json["queues"]
        assert queue == {"name": "a1", "permissions": ["send", "receive", "manage", "monitor"]}
        may = (await alice.ask("GET", "/-/server")).json
        assert (may["identity"], may["permissions"]["all_queues"]) == ("alice", [])
        assert may["permissions"]["some_queues"] == queue["permissions"]
        assert (await alice.ask("GET", "/-/server/resources")).status == 403
        await owner.create("b3", dead_letter_queue="a1", max_receives=1)
        for client, sources in ((alice, []), (owner, ["b3"])):
            dead = (await client.ask("GET", "/a1")).json
            assert (dead["is_dead_letter_queue"], dead["dead_letter_sources"]) == (True, sources)
        denied = await change(alice, "POST", "queues/a1/redrives", destination="b1")
        assert (denied.status, denied.reason) == (403, "PERMISSION_DENIED")


async def test_dead_letters_need_a_permission_where_they_go(server: Server, files: Files) -> None:
    async with as_caller(server, bearer(files.tokens["alice"])) as alice:
        settings = json.dumps({"max_receives": 3, "dead_letter_queue": "b1"})
        answer = await alice.ask("PUT", "/a1", settings, {"Content-Type": "application/json"})
        assert (answer.status, answer.reason) == (403, "PERMISSION_DENIED")


async def test_a_name_that_can_be_no_queue_is_refused_as_that(server: Server, files: Files) -> None:
    async with as_caller(server, bearer(files.tokens["alice"])) as alice:
        answer = await alice.ask("GET", "/%2A")
        assert (answer.status, answer.reason) == (400, "INVALID_QUEUE_NAME")


async def test_a_token_that_is_taken_away_ends_the_receives_and_sends_of_its_holder_that_wait(
    server: Server, files: Files
) -> None:
    async with (
        as_caller(server, bearer(files.tokens["owner"])) as owner,
        as_caller(server, bearer(files.tokens["alice"])) as alice,
    ):
        await owner.create("a1")
        await owner.create("a2", max_messages=1)
        await owner.send(b"x", "a2")
        polls = [asyncio.create_task(each.receive("?wait=3600", "a1")) for each in (alice, owner)]
        sending = asyncio.create_task(alice.ask("POST", "/a2/messages?wait=3600", b"y"))
        assert server._access_files is not None
        access_control = server._access_files.access_control
        while len(access_control._checks) < 3:
            await asyncio.sleep(0.001)
        files.write_tokens("owner")
        assert reads_again(server)
        access_control.recheck()
        # Its connections are closed; where the library asks again by itself, it is told why.
        for waiting in (polls[0], sending):
            with contextlib.suppress(aiohttp.ClientError):
                assert (await waiting).status == 401
        await owner.send(b"x", "a1")
        assert (await polls[1]).body == b"x"
        assert (await owner.receive("", "a2")).body == b"x"
        assert (await owner.ask("DELETE", "/a2/messages")).json == {"purged_count": 1}


async def test_a_send_that_has_begun_is_finished_though_its_token_is_taken_away(
    server: Server, files: Files
) -> None:
    async with as_caller(server, bearer(files.tokens["owner"])) as owner, raw_to(server) as raw:
        await owner.create("a1")
        credentials = f"Authorization: {bearer(files.tokens['alice'])}"
        await raw.say(
            "POST /a1/messages HTTP/1.1", credentials, "Content-Length: 1", "Expect: 100-continue"
        )
        assert (await raw.head())[0] == 100
        files.write_tokens("owner")
        assert reads_again(server)
        assert server._access_files is not None
        server._access_files.access_control.recheck()
        await raw.say(body=b"x")
        assert (await raw.answer())[0] == 201
        assert (await owner.receive("", "a1")).body == b"x"

"""Requests that can't be read are refused with a reason and what it is about, and change nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.support.http_rig import Http

JSON = {"Content-Type": "application/json"}
SEND = "POST /q/messages"
SPANS = ("-1", "x", "", "1e3", "inf", "nan", "1_0", "31536001", "1.", "\u0661")
SNAKES = "%F0%9F%90%8D" * 129
STATUS = {"ATTRIBUTES_TOO_LARGE": 431, "SETTINGS_TOO_LARGE": 413, "QUEUE_NOT_FOUND": 404}
"""All others: 400."""


class Refused(NamedTuple):
    """A request; `content` is JSON where it is no bytes. `{leased}` is a message with a lease."""

    request: str
    told: str = ""
    """What the message of the refusal has."""
    reason: str = "INVALID_REQUEST"
    content: Any = None
    what: str = ""
    """Of its metadata."""
    headers: Mapping[str, str] | list[tuple[str, str]] | None = None


def send(header: str, *values: str, told: str = "", reason: str = "INVALID_REQUEST") -> list[Refused]:
    return [Refused(SEND, told or header, reason, b"x", headers={header: value}) for value in values]


def queries(request: str, *parameters: str, reason: str = "INVALID_REQUEST") -> Iterator[Refused]:
    for query in parameters:
        yield Refused(f"{request}?{query}", query.partition("=")[0], reason)


def settings(request: str, *bodies: bytes, reason: str = "INVALID_SETTING") -> Iterator[Refused]:
    return (Refused(request, "", reason, body, headers=JSON) for body in bodies)


def fields(request: str, *rows: tuple[Any, str]) -> Iterator[Refused]:
    return (Refused(f"POST /-/{request}", content=content, what=what) for content, what in rows)


def schedule(request: str, *contents: Any) -> Iterator[Refused]:
    return (Refused(request, content=content) for content in contents)


REFUSED: Mapping[str, list[Refused]] = {
    "moments and spans": [
        *send(
            "X-Message-Deliver-Time",
            "",
            "x",
            "5",
            "2026-12-24T18:00:00",
            "1969-01-01T00:00:00Z",
            told=" ",
        ),
        *send("X-Message-Delay", *SPANS),
        *queries("GET /q/messages", *(f"wait={quote(span)}" for span in SPANS)),
        *queries("GET /q/messages", *(f"visibility_timeout={quote(span)}" for span in SPANS)),
        *queries(
            "GET /q/messages", "wait=3600.001", "visibility_timeout=0", "visibility_timeout=43201"
        ),
        *queries(SEND, "wait=-1", "wait=3601", "wait=soon", "wait="),
    ],
    "ids": [Refused(f"{method} /q/messages/17") for method in ("GET", "DELETE")],
    "names of queues": [
        Refused(f"{method} /{name}{rest}", "", "INVALID_QUEUE_NAME")
        for name in ("-a", ".a", "x" * 81, "a%20b", "a%2Fb", "%2e", "q%00", "%C3%A4")
        for method, rest in (("PUT", ""), ("GET", ""), ("GET", "/messages"), ("POST", "/messages"))
    ],
    "headers": [
        *send("X-Message-Priority", "10", "-1", "high", "", "1.0", "٣"),
        *(
            each
            for header in ("X-Message-Deduplication-Id", "X-Message-Group")
            for each in (
                *send(
                    header,
                    "",
                    "x" * 129,
                    SNAKES,
                    told="characters, not 1 to 128",
                    reason="INVALID_MESSAGE",
                ),
                *send(header, "%ff", "%ED%A0%80"),
                Refused(SEND, header, content=b"x", headers=[(header, "a"), (header, "a")]),
            )
        ),
        *(
            each
            for header in ("X-Message-Dely", "x-message-deduplication-ID-", "X-Message-")
            for each in send(header, "60")
        ),
    ],
    "attributes": [
        Refused(SEND, "", reason, b"x", headers=headers)
        for headers, reason in (
            ([("X-Attribute-a", "1"), ("X-Binary-Attribute-a", "AAAA")], "INVALID_REQUEST"),
            ([("X-Attribute-a", "%FF")], "INVALID_REQUEST"),
            ([("X-Attribute-%FF", "1")], "INVALID_REQUEST"),
            ([("X-Attribute-", "1")], "INVALID_MESSAGE"),
            ([("X-Attribute-" + "a" * 257, "1")], "INVALID_MESSAGE"),
            ([("X-Binary-Attribute-a", "!")], "INVALID_REQUEST"),
            ([("X-Binary-Attribute-a", "grün")], "INVALID_REQUEST"),
            ([(f"X-Attribute-{n}", "x" * 8_000) for n in range(9)], "ATTRIBUTES_TOO_LARGE"),
        )
    ],
    "settings": [
        *settings(
            "PUT /new",
            *(b"{", b"\xff", b"[" * 20_000 + b"]" * 20_000, b"[]", b"7"),
            reason="INVALID_REQUEST",
        ),
        *settings("PUT /new", b"[" * 100_000 + b"]" * 100_000, reason="INVALID_REQUEST"),
        *settings("PUT /new", b" " * 1_048_577, reason="SETTINGS_TOO_LARGE"),
        *settings(
            "PUT /new",
            *(b'{"colour": "red"}', b'{"labels": ["team"]}', b'{"labels": {"team": 5}}'),
            *(b'{"relaxed_leases": true}', b'{"lease_durability": true}'),
            *(
                b'{"visibility_timeout": %s}' % wrong
                for wrong in (b'"30"', b"true", b"Infinity", b"NaN", b"1e400", b"[]")
            ),
            *(b'{"delivery_delay": -1}', b'{"max_messages": 1.5}'),
            *(
                b'{"dead_letter_queue": %s, "max_receives": 1}' % wrong
                for wrong in (b"5", rb'"\ud800"')
            ),
        ),
        *settings("PATCH /plain", b'{"labels": []}', b'{"max_receives": 3}', b'{"nonsense": 1}'),
    ],
    "lists": [
        *queries(
            "GET /-/queues/q/messages",
            *("page_size=-1", "page_token=x", "attribute=kind", "sent_since=now", "states=gone"),
            *("max_body_bytes=65537", "attribute=a=1&attribute=a=2", "binary_attribute=a=!"),
        ),
        *queries("GET /-/queues", "fields=name,colour", "fields=name.x", "fields=permissions.x"),
        *queries("GET /-/reservations/s/0/messages", "begin_index=-1"),
        *queries("GET /-/redrives", *(f"last={wrong}" for wrong in ("x", "", "-1", "1001", "%D9%A1"))),
        *queries("GET /-/redrives", f"last={'1' * 5_000}"),
        *queries("GET /-/stages", "page_size=-1"),
        *queries("GET /-/ages", "first=7"),
        *queries("GET /-/queues/q/ages", "first=x"),
        Refused("GET /-/queues/nobody/ages", "", "QUEUE_NOT_FOUND"),
        Refused("GET /-/queues/nobody/history", "", "QUEUE_NOT_FOUND"),
        Refused("GET /-/queues/%2e%2e/history", "", "INVALID_QUEUE_NAME"),
    ],
    "purges": [
        *queries("DELETE /q/messages", "sent_before=yesterday", "sent_before=2026-01-01T00:00:00"),
        *queries("DELETE /q/messages", "states=gone", "states=a,"),
        Refused("DELETE /q/messages", content={"name": "r"}),
        Refused("DELETE /none/messages", "", "QUEUE_NOT_FOUND"),
    ],
    "changes of a lease": [
        Refused("POST {leased}/extend", "visibility_timeout"),
        *queries(
            "POST {leased}/extend",
            *(f"visibility_timeout={wrong}" for wrong in ("0", "43200.1", "soon")),
        ),
        *queries("POST {leased}/release", "delay=-1", "uncounted=maybe", f"reason={'x' * 1_025}"),
    ],
    "schedules": [
        *schedule(
            "PUT /-/queues/q/schedules/s",
            *({}, {"cron": "soon"}, {"cron": 7}, {"cron": "* * * * *", "time_zone": "Mars"}),
            {"cron": "* * * * *", "attributes": ["kind"]},
            {"cron": "* * * * *", "binary_body": "?"},
            {"cron": "* * * * *", "body": "a", "binary_body": "AAE="},
            {"cron": "* * * * *", "when": "now"},
            {"cron": "* * * * *", "name": "t"},
        ),
        *schedule(
            "PATCH /-/queues/q/schedules/there",
            *({"cron": "soon"}, {"name": "t"}, {"queue": "r"}, {"paused": True}, {"when": "now"}),
        ),
        Refused(
            "PUT /-/queues/q/schedules/s",
            "must be one of attributes, binary_attributes, binary_body, body, cron, group, time_zone",
            content={"cron": "* * * * *", "priority": 4},
        ),
    ],
    "fields": [
        *fields(
            "queues/q/redrives",
            *(({"rate": 1}, "the field"), ({"queue": "other"}, "queue")),
            *(({"message_ids": "x"}, "id"), ({"message_ids": [1]}, "message_ids")),
            ({"destination": ["x"]}, "destination"),
            ({"max_messages_per_second": 2**40}, "max_messages_per_second"),
            ({"max_messages_per_second": True}, "max_messages_per_second"),
            *(([], "the body"), ("\ud800", "the body")),
        ),
        *fields(
            "queues/q/reservations",
            ({"stream": "s", "sequence_number": 1.5}, "sequence_number"),
            *(({"stream": "s", "wait": wrong}, "wait") for wrong in ("soon", 1e300, 4_000)),
            ({"stream": "a/b"}, "stream"),
        ),
        *fields("publish", ({"writer": "w", "stages": None}, "stages")),
        *fields("reservations/s/commit", ({"only_read": "perhaps"}, "only_read")),
        *fields("reservations/s/x/extend", ({}, "sequence_number")),
        Refused("GET /-/redrives/x", what="id"),
        Refused(
            "POST /-/queues/q/redrives",
            content=b"{}",
            headers={"Content-Type": "text/plain"},
            what="Content-Type",
        ),
    ],
    "parameters": [
        *(
            Refused(request, allowed, "UNKNOWN_PARAMETER")
            for request, allowed in (
                ("GET /q/messages?vsibility=60", "visibility_timeout, wait"),
                ("GET /q/messages?visibility_timeout=60&Wait=1", "visibility_timeout, wait"),
                ("GET /q/messages?=", "visibility_timeout, wait"),
                ("POST /q/messages?delay=60", "use wait"),
                ("PUT /q?visibility_timeout=60", "none"),
                ("DELETE /q?if-empty", "none"),
                ("GET /q?x", "none"),
                ("GET {leased}?x=1", "none"),
                ("GET /-/metrics?name[]=x", "none"),
                ("GET /-/openapi.json?x=1", "none"),
                ("GET /-/queues?cotnains=x", "contains"),
                ("GET /-/queues/q/messages?limt=1", "page_size"),
                ("GET /-/stages?x=1", "page_size"),
                ("GET /-/trends?first=1", "contains"),
            )
        ),
        *(
            Refused(f"GET /q/messages?{query}")
            for query in (
                *("visibility_timeout=1&visibility_timeout=2", "wait=0&wait=0"),
                *("visibility_timeout", "visibility_timeout="),
            )
        ),
    ],
}

TOLD = Path(__file__).with_name("refusals.txt")
"""For each group of `REFUSED` its name, and a line for each of its requests: reason and message."""
ANSWERS = {
    name: lines for name, *lines in map(str.splitlines, TOLD.read_text().rstrip("\n").split("\n\n"))
}


async def state_of(http: Http) -> list[Any]:
    """Return all that a refused request could have changed."""
    queues = (await http.ask("GET", "/-/queues?fields=name,version,counts,labels")).json["queues"]
    for queue in queues:
        queue["counts"].pop("oldest_age", None)
    paths = ("queues/q/messages", "queues/q/schedules", "reservations", "redrives", "stages")
    return [queues, *[(await http.ask("GET", f"/-/{path}")).json for path in paths]]


@pytest.mark.parametrize("what", REFUSED)
async def test_a_request_that_cannot_be_read_is_refused_and_changes_nothing(
    http: Http, what: str
) -> None:
    await http.create("plain")
    await http.create()
    await http.ask("PUT", "/-/queues/q/schedules/there", json.dumps({"cron": "* * * * *"}), JSON)
    await http.send()
    leased = await http.receive("?visibility_timeout=3600")
    await http.send()
    before = await state_of(http)
    answers = []
    for row in REFUSED[what]:
        method, _, path = row.request.partition(" ")
        headers = row.headers
        if "{leased}" in path:
            path = path.replace("{leased}", f"/q/messages/{leased.id}")
            headers = {"If-Match": leased.headers["X-Message-Receipt"]}
        content = row.content
        if content is not None and not isinstance(content, bytes):
            content, headers = json.dumps(content).encode(), headers or JSON
        is_described = row.reason != "UNKNOWN_PARAMETER" and not path.startswith("/q/messages?wait=")
        answer = await http.ask(method, path, content, headers, described=is_described)
        assert (row, answer.status, answer.reason) == (row, STATUS.get(row.reason, 400), row.reason)
        error = answer.json
        told = error["message"] + error["metadata"].get("rule", "")
        assert row.told in told, (row, told)
        assert row.what in ("", error["metadata"].get("what")), (row, error)
        # Python's own words for what is no JSON are those of its version.
        message = re.sub(r"must be JSON \(.*\)", "must be JSON (...)", error["message"])
        answers.append(f"{row.request[:60]}: {error['reason']}: {message[:600]}")
        assert await state_of(http) == before, row
    assert answers == ANSWERS[what]

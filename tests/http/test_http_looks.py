"""A look at one message over HTTP: without a lease, whole or in part."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import MIB
from tests.support.http_rig import Http

BODY = bytes(range(256)) * (3 * MIB // 256) + b"the end"


@pytest.mark.parametrize("body", [BODY, b"0123456789"])
async def test_a_part_of_a_body_is_that_part(http: Http, body: bytes) -> None:
    await http.create("q", max_message_size=4 * MIB)
    id = await http.send(body)
    for range, part in (
        ("bytes=0-0", slice(0, 1)),
        ("bytes=2-4", slice(2, 5)),
        ("bytes=5-", slice(5, None)),
        ("bytes=-3", slice(-3, None)),
        ("bytes=-99999999", slice(0, None)),
        ("bytes=1-" + "9" * 100, slice(1, None)),
    ):
        first, last, _ = part.indices(len(body))
        for method in ("GET", "HEAD"):
            answer = await http.ask(method, f"/q/messages/{id}", None, {"Range": range})
            assert (range, answer.status) == (range, 206)
            assert answer.body == (body[part] if method == "GET" else b""), range
            assert answer.headers["Content-Range"] == f"bytes {first}-{last - 1}/{len(body)}"
            assert answer.headers["Content-Length"] == str(last - first)


async def test_a_part_that_is_not_there_is_refused(http: Http) -> None:
    await http.create()
    id = await http.send(b"0123456789")
    for range in ("bytes=10-", "bytes=10-20", "bytes=-0", "bytes=" + "9" * 100 + "-"):
        answer = await http.ask("GET", f"/q/messages/{id}", None, {"Range": range})
        assert (range, answer.status, answer.reason) == (range, 416, "RANGE_NOT_SATISFIABLE")
        assert answer.headers["Content-Range"] == "bytes */10"


async def test_a_range_that_can_not_be_read_is_passed_over(http: Http) -> None:
    await http.create()
    id = await http.send(b"0123456789")
    for range in ("bytes=-", "bytes=4-2", "bytes=0-1,3-4", "lines=1-2", "bytes 0-1", "bytes=a-b", ""):
        answer = await http.ask("GET", f"/q/messages/{id}", None, {"Range": range})
        assert (range, answer.status, answer.body) == (range, 200, b"0123456789")


async def test_a_download_can_go_on_where_it_broke_off(http: Http) -> None:
    await http.create("q", max_message_size=4 * MIB)
    id = await http.send(BODY)
    whole = await http.ask("GET", f"/q/messages/{id}")
    assert whole.body == BODY
    assert whole.headers["Accept-Ranges"] == "bytes"
    headers = {"Range": "bytes=1000000-", "If-Range": whole.headers["ETag"]}
    rest = await http.ask("GET", f"/q/messages/{id}", None, headers)
    assert (rest.status, rest.body) == (206, BODY[1_000_000:])
    headers["If-Range"] = '"another"'
    assert (await http.ask("GET", f"/q/messages/{id}", None, headers)).status == 200


async def test_an_empty_body_has_no_parts(http: Http) -> None:
    await http.create()
    id = await http.send(b"")
    assert (await http.ask("GET", f"/q/messages/{id}")).body == b""
    answer = await http.ask("GET", f"/q/messages/{id}", None, {"Range": "bytes=0-"})
    assert answer.status == 416


async def test_a_receive_is_never_a_part(http: Http) -> None:
    await http.create()
    await http.send(b"0123456789")
    answer = await http.ask("GET", "/q/messages", None, {"Range": "bytes=2-4"})
    assert (answer.status, answer.body) == (200, b"0123456789")


def spoil(root: Path, id: str) -> None:
    """Change the first byte of a message's body, whose file a commit may just be publishing."""
    for _ in range(1_000):
        for path in (*root.glob(f"bodies/{id}"), *root.rglob(f"*{id}*")):
            with suppress(FileNotFoundError), path.open("r+b") as file:
                file.write(b"X")
                return
    raise AssertionError("its file isn't found")


async def test_a_damaged_message_is_not_shown(http: Http, tmp_path: Path) -> None:
    await http.create("q", max_message_size=4 * MIB)
    id = await http.send(BODY)
    spoil(tmp_path / "root", id)
    answer = await http.ask("GET", f"/q/messages/{id}", None, {"Range": "bytes=100-200"})
    assert (answer.status, answer.reason) == (500, "MESSAGE_DAMAGED")


async def test_a_message_does_not_become_a_page_of_this_server(http: Http) -> None:
    await http.create()
    id = await http.send(b"<script>alert(1)</script>", **{"Content-Type": "text/html"})
    for path in (f"/q/messages/{id}", "/q/messages"):
        headers = (await http.ask("GET", path)).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert "sandbox" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"


async def test_a_large_body_is_sent_by_the_kernel_from_its_file(
    http: Http, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    real = os.sendfile

    def counted(socket: int, file: int, offset: int, count: int) -> int:
        sent.append(real(socket, file, offset, count))
        return sent[-1]

    monkeypatch.setattr(os, "sendfile", counted)
    await http.create()
    body = os.urandom(1_000_000)
    id = await http.send(body)
    assert (await http.ask("GET", f"/q/messages/{id}")).body == body
    assert sum(sent) == len(body), "a look"
    part = await http.ask("GET", f"/q/messages/{id}", headers={"Range": "bytes=500000-"})
    assert (part.body, sum(sent)) == (body[500_000:], 1_500_000)
    assert (await http.receive()).body == body
    assert sum(sent) == 2_500_000, "and a receive"

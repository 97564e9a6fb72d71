"""Files of any size by the command line: over HTTP in a stream, into a folder by a copy or a link."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pytest
import spoolrack.aio
from aiohttp import web
from aiohttp.test_utils import TestServer
from spoolrack_server.cli.kit.exit_codes import UNAVAILABLE, Failed
from spoolrack_server.cli.messages.shell_runner import Runner
from spoolrack_server.process.server import Server
from spoolrack_store.files.local_disk import LocalDisk

from tests.cli.cli_rig import Result, Spoolrack

HUGE = 64 * 1024 * 1024 + 5
Program = Callable[..., Awaitable[Result]]


@pytest.fixture
def huge(tmp_path: Path) -> Path:
    path = tmp_path / "holiday.mov"
    path.write_bytes(b"begin")
    os.truncate(path, HUGE)
    return path


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(tmp_path / "root") as server:
        yield server


@pytest.fixture
def program(server: Server, offline: Spoolrack, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Runs the program beside the server, without its HTTP port."""
    monkeypatch.setenv("SPOOLRACK_URL", server.grpc_address)
    return partial(asyncio.to_thread, offline)


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def test_a_folder_takes_a_file_by_a_copy_and_by_a_link(
    on_root: Spoolrack, huge: Path, tmp_path: Path
) -> None:
    assert on_root("queues", "create", "films", "--max-message-size", "1GiB").code == 0
    sent = [
        on_root("send", "films", "--file", str(huge), "--attribute", "kind=copy"),
        on_root("send", "films", "--link", str(huge), "--priority", "1"),
    ]
    assert [result.code for result in sent] == [0, 0], sent
    copied, linked = (result.out.strip() for result in sent)
    assert (tmp_path / "root" / "bodies" / linked).samefile(huge)
    received = on_root("receive", "films", "--max", "0", "--delete", "--to", str(tmp_path / "films"))
    assert received.out.split() == [str(tmp_path / "films" / id) for id in (linked, copied)]
    assert {digest(Path(path)) for path in received.out.split()} == {digest(huge)}
    assert on_root("receive", "films").code == 1
    assert sorted(os.listdir(tmp_path / "films")) == sorted([copied, linked])


def test_other_looks_at_a_large_body_tell_where_it_is(
    on_root: Spoolrack, huge: Path, tmp_path: Path
) -> None:
    on_root("queues", "create", "films", "--max-message-size", "1GiB")
    id = on_root("send", "films", "--link", str(huge)).out.strip()
    path = tmp_path / "root" / "bodies" / id
    shown = json.loads(on_root("peek", "films", "--json").out)
    assert (shown["body"], shown["body_size"], shown["body_path"]) == (None, HUGE, str(path))
    assert str(HUGE) in on_root("peek", "films").out
    exported = on_root("export", "films", "--output", str(tmp_path / "archive"))
    assert (exported.code, id in exported.err) == (65, True)
    plain = on_root("receive", "films")
    assert (plain.code, str(path) in plain.err) == (2, True)
    command = 'test "$(head -c 5)" = begin && test "$(head -c 5 "$SPOOLRACK_MESSAGE_PATH")" = begin'
    assert on_root("receive", "films", "--exec", command).code == 0
    assert on_root("receive", "films").code == 1


@pytest.fixture
def archived(on_root: Spoolrack, huge: Path, tmp_path: Path) -> Path:
    """The archive of a queue that had a small message, a large one and a small one."""
    settings = ("--max-message-size", "1GiB", "--archive-retention", "7d")
    on_root("queues", "create", "films", *settings)
    large = ("--file", str(huge), "-a", "kind=film", "--group", "g")
    for sent in (("before",), large, ("after",)):
        assert on_root("send", "films", *sent).code == 0
    taken = on_root("receive", "films", "--max", "0", "--delete", "--to", str(tmp_path / "first"))
    assert len(taken.out.split()) == 3
    archive = tmp_path / "root" / "archive"
    on_root("queues", "list")  # Closing it unlinks what the first one had no time for.
    assert len(list((archive / "films").glob("*/*.body"))) == 1
    return archive


def test_a_large_body_is_replayed_by_a_link_in_its_place(
    on_root: Spoolrack, archived: Path, huge: Path, tmp_path: Path
) -> None:
    replayed = on_root("replay", "films")
    assert (replayed.code, replayed.out, replayed.err) == (0, "3 messages sent to films.\n", "")
    (kept,) = (archived / "films").glob("*/*.body")
    (body,) = (tmp_path / "root" / "bodies").iterdir()
    assert body.samefile(kept)
    (found,) = map(json.loads, on_root("peek", "films", "--json", "--group", "g").out.splitlines())
    assert (found["attributes"], found["body_size"]) == ({"kind": "film"}, HUGE)
    received = on_root("receive", "films", "--max", "0", "--delete", "--to", str(tmp_path / "films"))
    before, large, after = sorted(map(Path, received.out.split()), key=lambda path: path.name)
    assert (before.read_bytes(), after.read_bytes()) == (b"before", b"after")
    assert digest(large) == digest(huge)


def test_a_large_body_of_another_file_system_is_copied(
    on_root: Spoolrack, archived: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(LocalDisk, "link_from", no_link)
    assert on_root("replay", "films").code == 0
    (kept,) = (archived / "films").glob("*/*.body")
    (body,) = (tmp_path / "root" / "bodies").iterdir()
    assert (body.samefile(kept), digest(body)) == (False, digest(kept))


def no_link(*_: object) -> int:
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def test_a_damaged_large_body_is_named_and_the_others_are_sent(
    on_root: Spoolrack, archived: Path
) -> None:
    (kept,) = (archived / "films").glob("*/*.body")
    kept.chmod(0o600)
    with kept.open("r+b") as file:
        file.write(b"BEGIN")
    replayed = on_root("replay", "films")
    assert (replayed.code, replayed.out) == (65, "2 messages sent to films.\n")
    assert "the checksum of its body differs" in replayed.err


def test_a_replay_that_breaks_off_says_where_it_goes_on(on_root: Spoolrack, archived: Path) -> None:
    on_root("queues", "set", "films", "--max-message-size", "1MiB")
    broken = on_root("replay", "films")
    assert broken.code == 65
    (since,) = re.findall(r"1 message sent to films; go on with --since (\S+)", broken.err)
    on_root("queues", "set", "films", "--max-message-size", "1GiB")
    assert on_root("replay", "films", "--since", since).out == "2 messages sent to films.\n"


async def test_a_large_body_is_replayed_to_a_server_over_http(
    program: Program, server: Server, huge: Path, tmp_path: Path
) -> None:
    settings = ("--max-message-size", "1GiB", "--archive-retention", "7d")
    await program("queues", "create", "films", *settings)
    by_http = ("--http-url", str(server.http_url))
    assert (await program("send", "films", "--file", str(huge), *by_http)).code == 0
    into = ("--to", str(tmp_path / "films"), "--delete")
    assert (await program("receive", "films", *into, *by_http)).code == 0
    archive = tmp_path / "root" / "archive"
    while not list((archive / "films").glob("*/*.body")):
        await asyncio.sleep(0.01)
    left_out = await program("replay", "films", "--archive", str(archive))
    assert (left_out.code, left_out.out) == (65, "0 messages sent to films.\n")
    assert "give --http-url" in left_out.err
    replayed = await program("replay", "films", "--archive", str(archive), *by_http)
    assert (replayed.code, replayed.err) == (0, "")
    received = await program("receive", "films", *into, *by_http)
    assert digest(Path(received.out.strip())) == digest(huge)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--file", "{huge}", "--link", "{huge}"), "Choose one of BODY, --file, --link and --lines."),
        (("--file", "{huge}"), "takes 1048576 at most"),
        (("--link", "{huge}"), "takes 1048576 at most"),
        (("--link", "/dev/null"), "it must be a regular file"),
        (("--link", "/nowhere"), "it must be there"),
    ],
)
def test_an_unsendable_body_is_reported(
    on_root: Spoolrack, huge: Path, tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    on_root("queues", "create", "films")
    result = on_root("send", "films", *(argument.format(huge=huge) for argument in arguments))
    assert result.code != 0
    assert why in result.err
    assert os.listdir(tmp_path / "root" / "new") == []


async def test_a_server_takes_and_gives_a_file_over_http(
    program: Program, server: Server, huge: Path, tmp_path: Path
) -> None:
    await program("queues", "create", "films", "--max-message-size", "1GiB")
    refused = await program("send", "films", "--file", str(huge))
    assert (refused.code, "--http-url" in refused.err) == (2, True)
    by_http = ("--http-url", str(server.http_url))
    on_root = ("--root", str(tmp_path / "root"))
    assert (await program("send", "films", "--link", str(huge), *on_root)).code == 0
    plain = await program("receive", "films")
    assert (plain.code, "--to DIR or --exec CMD, with --http-url" in plain.err) == (2, True)
    ran = tmp_path / "ran"
    # No command runs without the body.
    result = await program("receive", "films", "--exec", f"touch {ran}")
    assert (result.code, "--http-url" in result.err, ran.exists()) == (2, True, False)
    assert (await program("receive", "films", "--exec", f"test $(wc -c) = {HUGE}", *by_http)).code == 0
    assert (await program("receive", "films")).code == 1
    sent = await program(
        *("send", "films", "--file", str(huge), "-a", "näme=wört", "--group", "g ü"),
        *("--priority", "2", "--deduplication-id", "i d", *by_http),
    )
    assert (sent.code, sent.err) == (0, "")
    again = await program("send", "films", "--file", str(huge), "--deduplication-id", "i d", *by_http)
    assert again.out == sent.out
    shown = json.loads((await program("peek", "films", "--json")).out)
    assert (shown["attributes"]["näme"], shown["group"], shown["priority"]) == ("wört", "g ü", 2)
    into = ("--to", str(tmp_path / "films"), "--delete")
    left = await program("receive", "films", *into)
    assert (left.code, "--http-url" in left.err) == (2, True)
    received = await program("receive", "films", *into, *by_http)
    assert (received.code, received.err) == (0, "")
    assert digest(Path(received.out.strip())) == digest(huge)
    assert os.listdir(tmp_path / "films") == [sent.out.strip()]


async def test_a_refusal_of_the_http_port_is_reported(
    program: Program, server: Server, huge: Path
) -> None:
    await program("queues", "create", "films")
    result = await program("send", "films", "--file", str(huge), "--http-url", str(server.http_url))
    assert (result.code, "1048576" in result.err) == (65, True)
    result = await program("send", "none", "--file", str(huge), "--http-url", str(server.http_url))
    assert (result.code, "none" in result.err) == (1, True)
    result = await program("send", "films", "--file", str(huge), "--http-url", "http://127.0.0.1:1")
    assert (result.code, "can't be reached" in result.err) == (69, True)
    result = await program("send", "films", "--file", str(huge), "--http-url", "films")
    assert (result.code, "--http-url" in result.err) == (2, True)


class Broken:
    """A server that dies while it gives a body."""

    def save(self, queue: str, id: str, file: IO[bytes]) -> None:
        file.write(b"the first half")
        raise Failed("http://127.0.0.1:8080 can't be reached: no answer in time", UNAVAILABLE)


def test_a_command_that_had_a_part_of_its_body_has_failed(capfd: pytest.CaptureFixture[str]) -> None:
    now = datetime.now(UTC)
    message: Any = SimpleNamespace(
        queue_name="films", id="1", attributes={}, receive_count=1, sent_at=now, group="", priority=0
    )
    message.is_body_left_out, message.path, message.visibility_timeout = True, None, 30.0
    http: Any = Broken()
    assert not Runner("cat", None, lambda: http).run(message)
    told = capfd.readouterr()
    assert told.out == "the first half"
    assert "had not all of message 1: http://127.0.0.1:8080 can't be reached" in told.err


async def test_a_message_stays_leased_while_its_body_comes(
    program: Program, server: Server, huge: Path, tmp_path: Path
) -> None:
    await program(
        "queues", "create", "films", "--max-message-size", "1GiB", "--visibility-timeout", "3s"
    )
    assert (
        await program("send", "films", "--link", str(huge), "--root", str(tmp_path / "root"))
    ).code == 0
    ends: set[datetime] = set()

    async def slow(request: web.Request) -> web.Response:
        """Answer once the lease was extended twice."""
        async with spoolrack.aio.connect(server.grpc_address) as client:
            while len(ends) < 3:
                async for message in client.queue("films").peek(["leased"]):
                    assert message.lease_expires_at is not None
                    ends.add(message.lease_expires_at)
                await asyncio.sleep(0.01)
        return web.Response(body=b"begin")

    application = web.Application()
    application.router.add_get("/films/messages/{id}", slow)
    async with TestServer(application) as stalled:
        by_http = ("--http-url", str(stalled.make_url("")))
        result = await program("receive", "films", "--to", str(tmp_path / "to"), "--delete", *by_http)
    assert (result.code, result.err) == (0, "")
    assert (await program("receive", "films")).code == 1

"""Tokens and certificates of a client that are replaced while it runs."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import pickle
from pathlib import Path
from typing import Any

import kombu
import pytest
import spoolrack
import spoolrack.kombu
import trustme
from spoolrack import aio
from spoolrack._credentials import credentials_for
from spoolrack.errors import InvalidCredentials, Unauthenticated
from spoolrack.spark._credentials_option import credentials_in
from spoolrack.spark._light_client import LightClient
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.access.security import Security
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.manual_clock import ManualClock

from tests.support import STUCK
from tests.support.access_rig import Files, reads_again, serving
from tests.support.serving import PROGRAM


async def in_thread(call: Any, *arguments: Any, **options: Any) -> Any:
    return await asyncio.to_thread(call, *arguments, **options)


async def test_a_client_asks_for_its_token_again_when_it_is_refused(
    tmp_path: Path, files: Files
) -> None:
    security = Security(tokens=files.write_tokens("alice"))
    async with serving(tmp_path / "root", security) as server:
        asked: list[str] = []

        def token() -> str:
            asked.append(files.tokens["alice"])
            return asked[-1]

        client = spoolrack.connect(server.grpc_address, token=token)
        async with aio.connect(server.grpc_address, token=token) as waiting:
            queue = await waiting.create_queue("jobs")
            blocking = client.queue("jobs")
            await in_thread(blocking.send, b"1")
            async with queue.messages() as messages:
                await (await anext(messages)).delete()
                # The token is replaced. Every kind of call goes on: unary, streams, and a stream that
                # waits.
                assert len(asked) == 2
                del files.tokens["alice"]
                files.write_tokens("alice")
                assert reads_again(server)
                await in_thread(blocking.send, b"2")
                message = await anext(messages)
                assert message.body == b"2"
                await message.delete()
                assert (await in_thread(blocking.info)).counts.ready_count == 0
                await queue.send(b"3")
            # It isn't asked for each call.
            assert len(asked) == 4
        await in_thread(client.close)


async def test_a_refusal_stands_as_long_as_the_token_is_the_same(tmp_path: Path, files: Files) -> None:
    security = Security(tokens=files.write_tokens("alice"))
    async with serving(tmp_path / "root", security) as server:
        async with aio.connect(server.grpc_address, token=lambda: "srk_" + "0" * 43) as client:
            with pytest.raises(Unauthenticated) as raised:
                await client.queue("jobs").send(b"1")
        assert not raised.value.retryable


async def test_a_token_that_cant_be_had_leaves_the_former_one_in_use(
    tmp_path: Path, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    security = Security(tokens=files.write_tokens("alice"))
    async with serving(tmp_path / "root", security) as server:
        answers = [files.tokens["alice"]]
        async with aio.connect(server.grpc_address, token=lambda: answers.pop()) as client:
            await client.create_queue("jobs")
            files.tokens["alice"] = "srk_" + "0" * 43
            files.write_tokens("alice")
            assert reads_again(server)
            with caplog.at_level(logging.WARNING), pytest.raises(Unauthenticated):
                await client.queue("jobs").send(b"1")
        assert "the function for the token has failed" in caplog.text


@pytest.mark.parametrize("kind", ["blocking", "tasks", "spark"])
async def test_renewed_certificates_are_shown_at_the_next_connection(
    tmp_path: Path, files: Files, ca: trustme.CA, other_ca: trustme.CA, kind: str
) -> None:
    shown = files.write_client(ca, common_name="alice")
    trusted = files.write_ca(ca)
    server_files = files.write_certificate(ca)

    def security(client_ca: trustme.CA) -> Security:
        clients = files.write_ca(client_ca, "clients.pem")
        return Security(tls=dataclasses.replace(server_files, client_ca=clients))

    async with serving(tmp_path / "root", security(ca)) as server:
        port = server.grpc_port
        url = f"grpcs://127.0.0.1:{port}"
        client = spoolrack.connect(
            url, ca=trusted, certificate=shown.certificate, key=shown.key, timeout=STUCK
        )
        task_client = aio.connect(
            url, ca=trusted, certificate=shown.certificate, key=shown.key, timeout=STUCK
        )
        text = f"ca={trusted};certificate={shown.certificate};key={shown.key}"
        address = f"127.0.0.1:{port}"
        light = LightClient(address, STUCK, credentials_in(text, address, "127.0.0.1", is_secure=True))
        await task_client.create_queue("jobs")
        await in_thread(client.queue("jobs").send, b"1")
        await in_thread(light, "GetQueue", rpc.GetQueueRequest(name="jobs"))
    # From now on only certificates of another CA are accepted, and the client has one.
    fresh = files.write_client(other_ca, common_name="alice")
    Path(fresh.certificate).rename(shown.certificate)
    Path(fresh.key).rename(shown.key)
    again = ServeSettings(root=str(tmp_path / "root"), grpc=("127.0.0.1", port))
    async with Server(again, clock=ManualClock(), security=security(other_ca)):
        match kind:
            case "blocking":
                await in_thread(client.queue("jobs").send, b"2")
            case "tasks":
                await task_client.queue("jobs").send(b"2")
            case "spark":
                await in_thread(light, "GetQueue", rpc.GetQueueRequest(name="jobs"))
        await task_client.close()
        await in_thread(client.close)


def test_credentials_that_go_to_an_executor_are_those_of_now(files: Files) -> None:
    path = files.write("token", "srk_1\n")
    before = credentials_in(f"token-file={path}", "127.0.0.1:1", "127.0.0.1", is_secure=False)
    files.write("token", "srk_2\n")
    sent = pickle.dumps(before)
    assert before.token == "srk_1"
    executor = pickle.loads(sent)
    assert executor.token == "srk_2"
    # The executor may have the file, too. If it hasn't, what it got stays.
    files.write("token", "srk_3\n")
    assert executor.renewed().token == "srk_3"
    Path(path).unlink()
    assert executor.renewed().token == "srk_2"


def test_damaged_files_leave_the_former_certificates_in_use(
    files: Files, ca: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    trusted = files.write_ca(ca)
    credentials = credentials_for("a:1", "a", is_secure=True, ca=trusted)
    files.write("ca.pem", "half of it")
    assert credentials.renewed() is credentials
    assert "stay as they are" in caplog.text
    with pytest.raises(InvalidCredentials):
        credentials_for("a:1", "a", is_secure=True, ca=trusted)


async def test_a_long_command_goes_on_with_the_new_token_of_its_file(
    tmp_path: Path, files: Files
) -> None:
    security = Security(tokens=files.write_tokens("alice"))
    async with serving(tmp_path / "root", security) as server:
        path = files.write("alice.token", files.tokens["alice"])
        async with aio.connect(server.grpc_address, token=lambda: files.tokens["alice"]) as client:
            jobs = await client.create_queue("jobs")
            await jobs.send("one\n")
            command = await asyncio.create_subprocess_exec(
                *(*PROGRAM, "receive", "jobs", "--follow", "--max", "2", "--exec", "cat"),
                *("--url", server.grpc_address, "--token-file", path),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            assert command.stdout is not None
            assert await command.stdout.readline() == b"one\n"
            del files.tokens["alice"]
            files.write_tokens("alice")
            files.write("alice.token", files.tokens["alice"])
            assert reads_again(server)
            await jobs.send("two\n")
            out, err = await command.communicate()
            assert (out, command.returncode) == (b"two\n", 0), err


async def test_a_connection_of_kombu_goes_on_with_the_new_token(tmp_path: Path, files: Files) -> None:
    security = Security(tokens=files.write_tokens("alice"))
    async with serving(tmp_path / "root", security) as server:
        options = {"token": lambda: files.tokens["alice"]}
        url = f"spoolrack://{server.grpc_address}"
        connection = kombu.Connection(url, transport_options=options)
        queue = await in_thread(connection.SimpleQueue, "jobs")
        await in_thread(queue.put, "one")
        assert (await in_thread(queue.get, timeout=STUCK)).payload == "one"
        del files.tokens["alice"]
        files.write_tokens("alice")
        assert reads_again(server)
        await in_thread(queue.put, "two")
        assert (await in_thread(queue.get, timeout=STUCK)).payload == "two"
        await in_thread(connection.close)

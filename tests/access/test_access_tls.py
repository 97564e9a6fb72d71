"""TLS at both ports: certificates of both sides, their exchange while the server runs, and refusals."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
import random
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import spoolrack
import spoolrack.aio
import trustme
from spoolrack.errors import InvalidCredentials, PermissionDenied, Unauthenticated, Unreachable
from spoolrack.spark._light_client import LightClient
from spoolrack.spark._options import queue_address
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.access.security import Security
from spoolrack_server.cli.kit.http_bodies import HttpBodies
from spoolrack_server.process.server import Server

from tests.support.access_rig import ClientFiles, Files, bearer, looks, reads_again, serving

ONCE = spoolrack.RetryPolicy(attempts=1)


def url(server: Server) -> str:
    return f"grpcs://{server.grpc_address}"


async def in_thread(work: Any, *arguments: Any) -> Any:
    return await asyncio.to_thread(work, *arguments)


def names_seen(server: Server, **credentials: Any) -> list[str]:
    """Return what a blocking client is shown by ListQueues."""
    with spoolrack.connect(url(server), retry=ONCE, **credentials) as client:
        return [queue.name for queue in client.list_queues()]


def certificate_of(port: int, ca: str) -> str:
    """Return the serial number of the certificate that is shown at a port, which `ca` has signed."""
    context = ssl.create_default_context(cafile=ca)
    with (
        socket.create_connection(("127.0.0.1", port)) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        found = connection.getpeercert()
    assert found is not None
    return str(found["serialNumber"])


@contextlib.asynccontextmanager
async def asked_over_https(
    server: Server, ca: str, client: ClientFiles | None = None, **headers: str
) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cafile=ca)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(server.http_url, connector=connector, headers=headers) as session:
        yield session


async def test_both_ports_speak_tls_and_nothing_else(
    tmp_path: Path, files: Files, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    trusted = files.write_ca(ca)
    async with serving(tmp_path / "root", Security(tls=files.write_certificate(ca))) as server:
        assert server.http_url is not None
        assert server.http_url.startswith("https://127.0.0.1:")
        async with spoolrack.aio.connect(url(server), ca=trusted) as client:
            await client.create_queue("q")
            await client.queue("q").send("hello")
            async for message in client.queue("q").messages():
                assert message.text == "hello"
                await message.delete()
                break
        async with asked_over_https(server, trusted) as http, http.get("/q") as answer:
            assert answer.status == 200
        assert await in_thread(lambda: names_seen(server, ca=trusted)) == ["q"]
        # By its certificate the server is known, and another CA's is not enough.
        stranger = files.write_ca(other_ca, "other.pem")
        with pytest.raises(Unreachable):
            await in_thread(lambda: names_seen(server, ca=stranger))
        # In clear nothing is said.
        with spoolrack.connect(f"grpc://{server.grpc_address}", retry=ONCE) as plain:
            with_it = asyncio.to_thread(lambda: list(plain.list_queues()))
            with pytest.raises(Unreachable):
                await with_it
        for port in (server.grpc_port, server.http_port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /q HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"HTTP" not in await reader.read()
            writer.close()


async def test_large_bodies_go_over_tls_as_they_are(
    tmp_path: Path, files: Files, ca: trustme.CA
) -> None:
    """Without TLS the kernel sends them from the file; here they go through us, and as far as that
    says, the same holds: messages that were not taken come back."""
    trusted = files.write_ca(ca)
    body = random.Random(1).randbytes(5 * 1024 * 1024)
    settings = {"max_message_size": 8 * 1024 * 1024}
    async with (
        serving(tmp_path / "root", Security(tls=files.write_certificate(ca))) as server,
        asked_over_https(server, trusted) as http,
    ):
        async with http.put("/q", json=settings) as answer:
            assert answer.status == 201
        async with http.post("/q/messages", data=io.BytesIO(body)) as answer:
            assert answer.status == 201
            at = answer.headers["Location"]
        async with http.get(at) as answer:
            assert await answer.read() == body
        async with http.get(at, headers={"Range": "bytes=1000-2000000"}) as answer:
            assert answer.status == 206
            assert await answer.read() == body[1000:2000001]
        # A client that disconnects in the middle has not received it.
        async with http.get("/q/messages") as answer:
            await answer.content.readexactly(1_000)
            answer.close()
        for _ in looks():
            async with http.get("/q") as answer:
                if (await answer.json())["counts"]["ready_count"] == 1:
                    break
        async with http.get("/q/messages") as answer:
            assert answer.status == 200
            assert await answer.read() == body


@pytest.mark.parametrize(
    "version", [ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
)
async def test_tls_is_1_2_or_newer(
    tmp_path: Path, files: Files, ca: trustme.CA, version: ssl.TLSVersion
) -> None:
    trusted = files.write_ca(ca)
    context = ssl.create_default_context(cafile=trusted)
    # Otherwise this side would refuse it, as it should.
    context.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    async with serving(tmp_path / "root", Security(tls=files.write_certificate(ca))) as server:
        for port in (server.grpc_port, server.http_port):
            shake = asyncio.open_connection("127.0.0.1", port, ssl=context)
            if version < ssl.TLSVersion.TLSv1_2:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await shake
            else:
                _, writer = await shake
                assert writer.get_extra_info("ssl_object").version() == version.name.replace("_", ".")
                writer.close()


async def test_the_certificate_s_name_is_the_caller(
    tmp_path: Path, files: Files, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    trusted = files.write_ca(ca)
    tls = dataclasses.replace(files.write_certificate(ca), client_ca=trusted)
    security = Security(
        tls=tls,
        permissions=files.write_permissions(
            "alice.example.org all a*", "bob monitor b1", "token all *"
        ),
        tokens=files.write_tokens("token"),
    )
    alice = files.write_client(ca, "alice.example.org", common_name="bob")
    bob = files.write_client(ca, common_name="bob")
    mallory = files.write_client(other_ca, "alice.example.org")
    token = files.tokens["token"]
    async with serving(tmp_path / "root", security) as server:

        def seen(who: ClientFiles | None, token: str | None = None) -> list[str]:
            shown = {} if who is None else dataclasses.asdict(who)
            return names_seen(server, ca=trusted, token=token, **shown)

        async with spoolrack.aio.connect(
            url(server), ca=trusted, **dataclasses.asdict(alice), token=token
        ) as client:
            for name in ("a1", "b1", "c1"):
                await client.create_queue(name)
        # The DNS name comes before the common name; a token before both.
        assert await in_thread(seen, alice) == ["a1"]
        assert await in_thread(seen, bob) == ["b1"]
        assert await in_thread(seen, bob, token) == ["a1", "b1", "c1"]
        with pytest.raises(Unauthenticated):
            await in_thread(seen, bob, "srk_unknown")
        # No certificate, or another CA's, doesn't come through the handshake.
        for who, said in ((None, token), (mallory, None)):
            with pytest.raises(Unreachable):
                await in_thread(seen, who, said)
        with pytest.raises(PermissionDenied, match="bob may not send"):
            async with spoolrack.aio.connect(
                url(server), ca=trusted, **dataclasses.asdict(bob)
            ) as client:
                await client.queue("b1").send("x")
        for who, path, status in ((alice, "/a1", 200), (alice, "/b1", 403), (bob, "/b1", 200)):
            async with asked_over_https(server, trusted, who) as http, http.get(path) as answer:
                assert answer.status == status
        said = {"Authorization": bearer(token)}
        async with asked_over_https(server, trusted, bob, **said) as http, http.get("/c1") as answer:
            assert answer.status == 200
        with pytest.raises(aiohttp.ClientError):
            async with asked_over_https(server, trusted) as http, http.get("/a1"):
                pass


async def test_certificates_are_exchanged_while_connections_live(
    tmp_path: Path, files: Files, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    trusted, next_ca = files.write_ca(ca), files.write_ca(other_ca, "next.pem")
    async with serving(tmp_path / "root", Security(tls=files.write_certificate(ca))) as server:
        ports = (server.grpc_port, server.http_port)
        before = [await in_thread(certificate_of, port, trusted) for port in ports]
        async with spoolrack.aio.connect(url(server), ca=trusted) as client:
            await client.create_queue("q")
            files.write_certificate(other_ca)
            # Between two renames the key is not the certificate's; the version read then is refused.
            for _ in range(10):
                if reads_again(server):
                    break
            after = [await in_thread(certificate_of, port, next_ca) for port in ports]
            assert before[0] == before[1]
            assert after[0] == after[1] != before[0]
            # Connected clients notice nothing.
            await client.queue("q").send("x")
        assert await in_thread(lambda: names_seen(server, ca=next_ca)) == ["q"]


@pytest.mark.parametrize("slip", ["garbage", "the key of another", "gone"])
async def test_a_broken_new_certificate_changes_nothing(
    tmp_path: Path, files: Files, ca: trustme.CA, slip: str, capsys: pytest.CaptureFixture[str]
) -> None:
    trusted = files.write_ca(ca)
    tls = files.write_certificate(ca)
    async with serving(tmp_path / "root", Security(tls=tls)) as server:
        ports = (server.grpc_port, server.http_port)
        before = [await in_thread(certificate_of, port, trusted) for port in ports]
        match slip:
            case "garbage":
                files.write("server.pem", "garbage")
            case "the key of another":
                files.write("server.key", ca.issue_cert("x").private_key_pem.bytes())
            case "gone":
                Path(tls.certificate).unlink()
        assert not reads_again(server)
        assert [await in_thread(certificate_of, port, trusted) for port in ports] == before
        files.write_certificate(ca)
        assert reads_again(server)
        after = [await in_thread(certificate_of, port, trusted) for port in ports]
        assert after[0] == after[1] != before[0]
    (said,) = [line for line in capsys.readouterr().err.splitlines() if "level=error" in line]
    assert "the old one stays" in said


async def test_the_command_line_shows_its_certificate_at_the_http_port_too(
    tmp_path: Path, files: Files, ca: trustme.CA
) -> None:
    trusted = files.write_ca(ca)
    security = Security(tls=dataclasses.replace(files.write_certificate(ca), client_ca=trusted))
    shown = dataclasses.asdict(files.write_client(ca, "alice"))
    async with (
        serving(tmp_path / "root", security) as server,
        spoolrack.aio.connect(url(server), ca=trusted, **shown) as client,
    ):
        id = await (await client.create_queue("films")).send(b"reel")
        bodies, body = HttpBodies(server.http_url, {"ca": trusted, **shown}), io.BytesIO()
        await in_thread(bodies.save, "films", id, body)
        assert body.getvalue() == b"reel"


async def test_a_new_client_ca_changes_the_accepted_clients(
    tmp_path: Path, files: Files, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    trusted, clients = files.write_ca(ca), files.write_ca(ca, "clients.pem")
    tls = dataclasses.replace(files.write_certificate(ca), client_ca=clients)
    alice, bob = files.write_client(ca, "alice"), files.write_client(other_ca, "bob")
    async with serving(tmp_path / "root", Security(tls=tls)) as server:

        async def come(who: ClientFiles) -> tuple[bool, bool]:
            """Over gRPC, and over HTTP."""
            shown = dataclasses.asdict(who)
            try:
                await in_thread(lambda: names_seen(server, ca=trusted, **shown))
                first = True
            except Unreachable:
                first = False
            try:
                async with asked_over_https(server, trusted, who) as http, http.get("/-/health"):
                    return first, True
            except aiohttp.ClientError:
                return first, False

        assert (await come(alice), await come(bob)) == ((True, True), (False, False))
        files.write_ca(other_ca, "clients.pem")
        assert reads_again(server)
        assert (await come(alice), await come(bob)) == ((False, False), (True, True))


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1", "127.example.org", "[fe80::1]", "0.0.0.0"])
async def test_a_token_is_never_sent_in_clear_to_another_machine(host: str) -> None:
    for connect in (spoolrack.connect, spoolrack.aio.connect):
        with pytest.raises(InvalidCredentials, match="in clear"):
            connect(f"grpc://{host}:1", token="srk_x")
    with spoolrack.connect(f"grpc://{host}:1", token="srk_x", insecure=True) as client:
        assert "srk_x" not in repr(client)
    with spoolrack.connect(f"grpcs://{host}:1", token="srk_x") as client:
        assert "srk_x" not in repr(client)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_a_token_may_be_sent_in_clear_to_this_machine(host: str) -> None:
    spoolrack.connect(f"{host}:1", token="srk_x").close()


def test_credentials_that_can_not_be_used_are_refused_at_once(files: Files, ca: trustme.CA) -> None:
    mine = files.write_client(ca, "me")
    trusted = files.write_ca(ca)
    for why, target, given in (
        ("goes with its key", "grpcs://h", {"certificate": mine.certificate}),
        ("can't be used as certificates", "grpcs://h", {"ca": mine.key}),
        ("No such file", "grpcs://h", {"ca": trusted + "x"}),
        ("can't be used as", "grpcs://h", {"certificate": mine.certificate, "key": trusted}),
        ("go with grpcs://", "grpc://h", {"ca": trusted}),
        ("not one: it has spaces", "grpcs://h", {"token": "a b"}),
        ("not one", "grpcs://h", {"token": "a\n"}),
        ("is a folder, not a server: leave out token", f"file://{files.folder}", {"token": "x"}),
        ("leave out ca", f"vsqs://{files.folder}", {"ca": trusted}),
    ):
        with pytest.raises(InvalidCredentials, match=why):
            spoolrack.connect(target, **given)  # type: ignore[arg-type]


async def test_a_call_of_each_kind_carries_the_token_of_its_client(
    tmp_path: Path, files: Files
) -> None:
    """Unary calls, streams of requests over both of gRPC's surfaces, and streams of answers."""
    security = Security(tokens=files.write_tokens("me"))
    token = files.tokens["me"]

    def work(server: Server) -> list[bytes]:
        with spoolrack.connect(server.grpc_address, token=token) as client:
            client.create_queue("q")
            queue = client.queue("q")
            queue.send("one")
            queue.send_many(["two", "three"])
            with client.batch() as batch:
                batch.send_to("q", "four")
            bodies = []
            for message in queue.messages():
                bodies.append(message.body)
                message.delete()
                if len(bodies) == 4:
                    return bodies
        raise AssertionError

    async with serving(tmp_path / "root", security) as server:
        assert sorted(await in_thread(work, server)) == [b"four", b"one", b"three", b"two"]
        async with spoolrack.aio.connect(server.grpc_address, token=token) as client:
            await client.queue("q").send("five")
            async for message in client.queue("q").messages():
                await message.delete()
                break
        with spoolrack.connect(server.grpc_address, retry=ONCE) as stranger:
            sending = asyncio.to_thread(lambda: stranger.queue("q").send("x"))
            with pytest.raises(Unauthenticated, match="send a token"):
                await sending


def no_sleep(seconds: float) -> None:
    raise AssertionError(f"a refused certificate is not waited for, but {seconds} s were")


async def test_a_client_is_told_what_is_wrong_with_tls_as_far_as_grpc_tells(
    tmp_path: Path, files: Files, ca: trustme.CA, other_ca: trustme.CA
) -> None:
    trusted, foreign = files.write_ca(ca), files.write_ca(other_ca, "other.pem")
    tls = files.write_certificate(ca)
    stranger = files.write_client(other_ca, "me")
    security = Security(tls=dataclasses.replace(tls, client_ca=files.write_ca(ca, "clients.pem")))
    shown = {"certificate": stranger.certificate, "key": stranger.key}

    async def told(at: str, **credentials: Any) -> str:
        with pytest.raises(Unreachable) as refused:
            async with spoolrack.aio.connect(at, retry=ONCE, **credentials) as client:
                await client.queue("q").info()
        return str(refused.value)

    async with serving(tmp_path / "root", security) as server:
        for credentials in ({"ca": trusted}, {"ca": trusted, **shown}):
            assert "refuse the one that it is shown" in await told(url(server), **credentials)
        assert "use grpcs://" in await told(server.grpc_address)
        assert "no CA that this client trusts" in await told(url(server), ca=foreign)
        place = queue_address(url(server), "q", credentials=f"ca={foreign}")
        asking = LightClient(place.address, 30.0, place.credentials, sleep=no_sleep)
        with pytest.raises(Unreachable, match="no CA that this client trusts"):
            await in_thread(asking, "GetQueue", rpc.GetQueueRequest(name="q"))
    async with Server(tmp_path / "plain") as server:
        assert "no TLS is spoken there" in await told(url(server), ca=trusted)
        assert "HTTP/1 and not gRPC" in await told(f"{server.http_host}:{server.http_port}")

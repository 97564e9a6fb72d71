"""Idle connections don't close the gRPC port: those of no known caller make room for new ones."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from spoolrack_server.access.security import Security
from spoolrack_server.process.server import Server
from spoolrack_server.rpc.strangers import Strangers, peer_of
from spoolrack_server.system.limits import Limits

from tests.support.access_rig import Files, as_caller, bearer, serving

LIMIT = 20


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    files = Files(tmp_path)
    security = Security(tokens=files.write_tokens("alice"))
    async with serving(tmp_path / "root", security, limits=Limits(connections=LIMIT)) as server:
        server.token = files.tokens["alice"]  # type: ignore[attr-defined]
        yield server


def strangers_of(server: Server) -> Strangers:
    assert server._calls is not None
    assert server._calls.strangers is not None
    return server._calls.strangers


async def test_a_known_caller_keeps_its_connection_and_strangers_make_room(server: Server) -> None:
    strangers = strangers_of(server)
    token = bearer(server.token)  # type: ignore[attr-defined]
    with ExitStack() as stack:
        async with as_caller(server, token) as alice:
            await alice.create()
            idle = [
                stack.enter_context(socket.create_connection(("127.0.0.1", server.grpc_port)))
                for _ in range(LIMIT - 1)
            ]
            while strangers.shut_down < 2:  # Two of twenty are kept free; alice has one.
                strangers.look()
                await asyncio.sleep(0)
            async with as_caller(server, token) as another:
                await another.counts()
            await alice.counts()
            assert strangers.shut_down <= LIMIT
            # One that was shut down has got no more than what the server says first.
            ended = [each for each in idle if await asyncio.to_thread(has_ended, each)]
            assert len(ended) >= 2


def has_ended(connection: socket.socket) -> bool:
    """Return whether the server has closed a connection, without waiting for it."""
    connection.settimeout(0.05)
    try:
        while connection.recv(1_000):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


async def test_below_the_limit_no_connection_is_closed(server: Server) -> None:
    strangers = strangers_of(server)
    with ExitStack() as stack:
        for _ in range(LIMIT - 2):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.grpc_port)))
        for _ in range(10):
            strangers.look()
            await asyncio.sleep(0.01)
        assert strangers.shut_down == 0


def test_the_address_with_the_most_strangers_loses_its_oldest() -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port: int = listening.getsockname()[1]

        def connect(address: str) -> socket.socket:
            made = socket.create_connection(("127.0.0.1", port), source_address=(address, 0))
            stack.enter_context(made)
            stack.enter_context(listening.accept()[0])
            return made

        strangers = Strangers(port, limit=10)
        lone = connect("127.0.0.2")
        many = []
        for _ in range(8):
            many.append(connect("127.0.0.3"))
            strangers.look()
        strangers.known.add(":".join(map(str, ("ipv4", *many[0].getsockname()))))
        strangers.look()
        assert strangers.shut_down == 0, "one of ten is free"
        many.append(connect("127.0.0.3"))
        strangers.look()
        assert [has_ended(each) for each in [lone, *many]] == [False, False, True] + [False] * 7
        connect("127.0.0.4")
        strangers.look()
        assert [has_ended(each) for each in [lone, *many[2:]]] == [False, True] + [False] * 6


def test_what_is_noted_of_callers_that_have_gone_is_forgotten() -> None:
    strangers = Strangers(1, limit=10)
    for port in range(1_000):
        strangers.known.add(f"ipv4:127.0.0.1:{port}")
    strangers.look()
    assert (strangers.known, strangers._known_peers) == (set(), set())


def test_no_connection_is_shut_down_before_its_second_look() -> None:
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        port: int = listening.getsockname()[1]
        for _ in range(10):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            stack.enter_context(listening.accept()[0])
        strangers = Strangers(port, limit=10)
        strangers.look()
        assert strangers.shut_down == 0
        strangers.look()
        assert strangers.shut_down == 1


@pytest.mark.parametrize(
    ("text", "peer"),
    [
        ("ipv4:192.0.2.1:41234", ("192.0.2.1", 41234)),
        ("ipv6:%5B2001:db8::1%5D:41234", ("2001:db8::1", 41234)),
        ("ipv6:%5Bfe80::1%25eth0%5D:1", ("fe80::1", 1)),
        ("ipv6:%5B::ffff:192.0.2.1%5D:1", ("192.0.2.1", 1)),
        ("unix:", ("", 0)),
        ("", ("", 0)),
    ],
)
def test_a_peer_is_read_as_grpc_names_it(text: str, peer: tuple[str, int]) -> None:
    assert peer_of(text) == peer

"""Listen addresses: each port of a server listens alike, also where connections of another linger."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_server.system.addresses import AddressUnusable, reserve

HOST = "127.0.0.1"


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.fixture
def lingering() -> Iterator[int]:
    """Return a port at which nothing listens any more, and a connection lingers."""
    listening = socket.create_server((HOST, 0))
    port: int = listening.getsockname()[1]
    with socket.create_connection((HOST, port)):
        taken, _ = listening.accept()
        taken.close()
        listening.close()
        yield port


async def test_worker_processes_start_where_a_connection_of_the_former_server_lingers(
    tmp_path: Path, lingering: int
) -> None:
    settings = ServeSettings(
        root=str(tmp_path / "root"), grpc=(HOST, lingering), http=None, shares_ports=True
    )
    with reserve(HOST, lingering, shares=True):
        for number in (0, 1):
            async with Server(replace(settings, number=number)) as server:
                assert server.grpc_port == lingering


@pytest.mark.parametrize("has_lingering", [False, True])
def test_no_other_program_listens_at_a_reserved_port(lingering: int, has_lingering: bool) -> None:
    with reserve(HOST, lingering if has_lingering else 0, shares=True) as reserved:
        port = reserved.getsockname()[1]
        with pytest.raises(AddressUnusable, match="already in use"):
            reserve(HOST, port)
        reserve(HOST, port, shares=True).close()


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(AddressUnusable, match="from 0 to 65535"):
        reserve(HOST, port)


@pytest.mark.skipif(not _has_ipv6(), reason="needs IPv6 on the loopback")
async def test_every_port_listens_at_all_addresses_of_both_kinds(tmp_path: Path) -> None:
    everywhere = ("::", 0)
    settings = ServeSettings(
        root=str(tmp_path / "root"),
        grpc=everywhere,
        http=everywhere,
        sqs=everywhere,
        health=everywhere,
        insecure=True,
    )
    async with Server(settings) as server:
        assert server.health_url is not None
        health = int(server.health_url.rpartition(":")[2])
        for port in (server.grpc_port, server.http_port, server.sqs_port, health):
            for host in (HOST, "::1"):
                _, writer = await asyncio.open_connection(host, port)
                writer.close()


async def test_both_addresses_of_a_name_are_listened_at(tmp_path: Path) -> None:
    local = ("localhost", 0)
    settings = ServeSettings(root=str(tmp_path / "root"), http=local, sqs=local)
    found = {each[4][0] for each in socket.getaddrinfo("localhost", 0, type=socket.SOCK_STREAM)}
    async with Server(settings) as server:
        for port in (server.http_port, server.sqs_port):
            for host in found:
                _, writer = await asyncio.open_connection(host, port)
                writer.close()

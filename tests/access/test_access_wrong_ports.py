"""A client that calls a port of another protocol, or one of two addresses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import spoolrack
import trustme
from spoolrack.errors import Unreachable
from spoolrack_server.access.security import Security

from tests.support.access_rig import Files, serving
from tests.support.ports import free_port

ONCE = spoolrack.RetryPolicy(attempts=1)


async def test_grpc_with_tls_at_the_port_for_https_says_which_port_is_meant(
    tmp_path: Path, files: Files, ca: trustme.CA
) -> None:
    trusted = files.write_ca(ca)
    async with serving(tmp_path / "root", Security(tls=files.write_certificate(ca))) as server:

        def ask() -> None:
            url = f"grpcs://127.0.0.1:{server.http_port}"
            with (
                spoolrack.connect(url, ca=trusted, retry=ONCE) as client,
                pytest.raises(Unreachable, match="speaks TLS and not gRPC"),
            ):
                client.queue("jobs").info()

        await asyncio.to_thread(ask)


@pytest.mark.parametrize(("host", "says"), [("localhost", True), ("127.0.0.1", False)])
def test_localhost_that_is_refused_says_that_it_may_have_two_addresses(host: str, says: bool) -> None:
    with (
        spoolrack.connect(f"{host}:{free_port()}", retry=ONCE) as client,
        pytest.raises(Unreachable) as raised,
    ):
        client.queue("jobs").info()
    assert ("try 127.0.0.1" in str(raised.value)) is says

"""Reserves that wait, and what stays reserved when the client is gone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack_server.app.application import Application
from spoolrack_server.rpc.services import Services
from spoolrack_server.system.logs import make_log
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.operations import CreateQueue, Receive, Send, messages_of
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.server.reservation_rig import asked, bodies, commit, listed, reserve
from tests.support.server_rig import LONG, Client, refused, served

pytestmark = pytest.mark.timeout(300)  # Hundreds of syncs in a test, which other tests make slow.

NOBODY: Any = None
"""The context of a call that never gets so far as to use it."""


async def test_a_client_that_leaves_while_it_waits_reserves_nothing_or_finds_it_again(
    client: Client,
) -> None:
    await client.create()
    for sequence_number in range(200):
        call = client.stub.Reserve(asked(sequence_number, wait=LONG))
        # At different moments of its way to the store and back.
        for _ in range(sequence_number % 20):
            await client.counts()
        sending = client.send(b"%d" % sequence_number)
        call.cancel()
        await sending
        # No other reader can keep it, or this would wait until the test's own limit.
        assert (await reserve(client, sequence_number, wait=LONG)).message_count == 1
        assert await bodies(client, sequence_number) == [b"%d" % sequence_number]
        assert (await commit(client, sequence_number)).deleted_count == 1


async def test_a_client_that_left_before_anything_was_ready_leaves_nothing_reserved(
    client: Client,
) -> None:
    await client.create()
    for sequence_number in range(50):
        call = client.stub.Reserve(asked(sequence_number, wait=LONG))
        for _ in range(5):
            await client.counts()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        # The server hears of a cancellation before it hears of what follows on the same connection.
        await client.counts()
    await client.send(b"x")
    (message,) = await client.receive()
    assert await client.delete(message.receipt) == []
    assert not (await listed(client)).reservations


@pytest.mark.parametrize("asked_again", [False, True])
async def test_a_reservation_made_as_its_client_disconnects_is_undone_unless_repeated(
    tmp_path: Path, asked_again: bool
) -> None:
    clock = ManualClock()
    with Store.open(tmp_path, clock=clock) as store:
        app = Application(store, clock, make_log())
        reserving = Services(app, clock)
        for name in ("q", "empty"):
            store.submit(CreateQueue(name=name, settings=QueueSettings())).result()
        store.submit(Send(queue="q", bodies=[b"1"])).result()
        call = asyncio.ensure_future(reserving.Reserve(asked(), NOBODY))
        await asyncio.sleep(0)
        # The loop stands still until the answer has come, and hears of the cancellation first.
        store.submit(Receive(queue="empty")).result()
        assert store.queue("q").counts.leased_count == 1
        if asked_again:
            store.submit(Reserve(queue="q", stream="r", sequence_number=0)).result()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await app.close()
        received = messages_of(store.submit(Receive(queue="q")).result())
        if asked_again:
            assert [made.sequence_number for made in store.reservations()] == [0]
            assert received == []
        else:
            assert store.reservations() == []
            assert [message.receive_count for message in received] == [1]


async def test_a_reserve_waits_behind_the_receives_that_came_before_it(client: Client) -> None:
    await client.create()
    receiving = client.stub.Receive(queues.ReceiveRequest(queue="q", wait=LONG))
    for _ in range(20):
        await client.counts()
    reserving = client.stub.Reserve(asked(wait=LONG))
    for _ in range(20):
        await client.counts()
    await client.send(b"1")
    assert [message.body for message in (await receiving).messages] == [b"1"]
    await client.send(b"2")
    assert (await reserving).reservation.message_count == 1
    assert await bodies(client) == [b"2"]


async def test_a_drain_ends_a_reserve_that_waits_with_a_status_that_says_try_again(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as (server, client):
        await client.create()
        call = client.stub.Reserve(asked(wait=LONG))
        for _ in range(20):
            await client.counts()
        await server.stop()
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert no.retry_millis

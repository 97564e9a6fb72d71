"""The RPCs about redrives: dead letters go back in the background, whatever becomes of the server."""

from __future__ import annotations

import asyncio
import zlib
from pathlib import Path
from typing import Any

import grpc
import pytest
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import redrive_service_pb2 as rpc
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import LAST_MOMENT, Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord, encode_records
from spoolrack_store.model.names import Death, Name, Stem, dead_letter_path
from spoolrack_store.model.transitions import State

from tests.server.redrive_rig import (
    NOWHERE,
    die,
    ended,
    listed,
    peek,
    start,
)
from tests.support.server_rig import Client, refused, served


async def test_redrives_are_listed_in_pages(client: Client, clock: ManualClock) -> None:
    await client.create()
    for name in ("d1", "d2"):
        await client.create(name)
    made = []
    for name in ("d1", "d2", "d1", "d1", "d2"):
        clock.advance(Millis(1))
        made.append((await ended(client, (await start(client, name, destination="q")).id)).id)
    assert [each.id for each in (await listed(client)).redrives] == made
    found: list[str] = []
    token = ""
    for _ in range(3):
        page = await listed(client, queue="d1", page_size=1, page_token=token)
        found.extend(each.id for each in page.redrives)
        token = page.next_page_token
    assert found == [made[0], made[2], made[3]]
    assert token == ""


BEYOND: list[tuple[str, Any]] = [
    *(
        ("StartRedrive", rpc.StartRedriveRequest(queue="dead", **wrong))
        for wrong in (
            {"message_ids": ["../x"]},
            {"message_ids": [""]},
            {"message_ids": [NOWHERE] * 1_001},
            {"max_messages_per_second": -1},
            {"max_messages_per_second": 100_001},
            {"destination": "dead"},
        )
    ),
    *(("GetRedrive", rpc.GetRedriveRequest(id=id)) for id in ("", "../x", "x" * 1_000)),
    *(("CancelRedrive", rpc.CancelRedriveRequest(id=id)) for id in ("", "../x", "x" * 1_000)),
    ("ListRedrives", rpc.ListRedrivesRequest(page_size=-1)),
    ("ListRedrives", rpc.ListRedrivesRequest(page_token="../x")),
]


@pytest.mark.parametrize(("method", "request_"), BEYOND)
async def test_a_value_beyond_its_bounds_is_refused(client: Client, method: str, request_: Any) -> None:
    await client.create("dead")
    no = await refused(getattr(client.stub, method)(request_))
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert list((await listed(client)).redrives) == []


async def test_a_bad_name_of_a_queue_is_refused(client: Client) -> None:
    await client.create("dead")
    for call in (
        start(client, "../q"),
        start(client, destination="../q"),
        start(client, source_queue="a/b"),
        listed(client, queue="../q"),
    ):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_QUEUE_NAME")


async def test_a_redrive_wakes_waiting_receives(client: Client, clock: ManualClock) -> None:
    await die(client, clock, b"a")
    stream = client.stream()
    reading = asyncio.ensure_future(stream.read())
    await start(client)
    frame = await reading
    assert [(message.body, message.receive_count) for message in frame.messages] == [(b"a", 1)]
    stream.cancel()


# Dead-letter records.


async def test_a_peeked_dead_letter_has_its_record(client: Client, clock: ManualClock) -> None:
    begin = clock.wall()
    (id,) = await die(client, clock, b"poison")
    request = queues.GetMessageRequest(queue="dead", id=id)
    got = (await client.stub.GetMessage(request)).message
    (seen,) = await peek(client, "dead")
    (facts,) = (await client.stub.ListMessages(queues.ListMessagesRequest(queue="dead"))).messages
    for message in (got, seen, facts):
        (death,) = message.dead_letter_records
        assert (death.source_queue, death.reason, death.receive_count) == ("q", "max_receives", 1)
        assert death.first_receive_time.ToMilliseconds() == begin
        assert death.dead_letter_time.ToMilliseconds() == begin + 1_000
    (received,) = await client.receive(queue="dead")
    assert list(received.dead_letter_records) == []


async def test_pages_with_long_histories_are_small_enough_for_any_client(
    tmp_path: Path, clock: ManualClock
) -> None:
    source = "q" * 80
    async with served(tmp_path, clock) as (_, client):
        await client.create("dead")
    record = DeadLetterRecord(
        source_queue=source,
        reason="max_receives",
        receives=2_000_000_000,
        first_receive=LAST_MOMENT,
        dead_lettered_at=LAST_MOMENT,
        redriven_to=source,
        redriven_at=LAST_MOMENT,
    )
    body, content = bytes(1_500), encode_records([record] * 100)
    for number in range(1_000):
        stem = Stem(id=f"01890a5d-ac96-774b-bcce-{number:012x}", size=len(body), crc=zlib.crc32(body))
        death = Death(file="0123uv")
        name = Name(stem=stem, state=State.READY, queue="dead", members=stem.full, death=death)
        (tmp_path / name.path).write_bytes(body)
        (tmp_path / dead_letter_path(stem.id, death.file)).write_bytes(content)
    async with (
        served(tmp_path, clock) as (server, _),
        grpc.aio.insecure_channel(server.grpc_address) as channel,
    ):
        seen = await peek(Client(channel), "dead", page_size=1_000)
    assert len(seen) == 1_000
    assert {len(message.dead_letter_records) for message in seen} == {20}

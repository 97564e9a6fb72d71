"""The RPCs about redrives: dead letters go back in the background, whatever becomes of the server."""

from __future__ import annotations

import asyncio
import zlib
from pathlib import Path
from typing import Any

import grpc
import pytest
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import redrive_service_pb2 as rpc
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import LAST_MOMENT, Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord, encode_records
from spoolrack_store.model.names import Death, Name, Stem, dead_letter_path
from spoolrack_store.model.transitions import State

from tests.server.redrive_rig import (
    CANCELLED,
    DONE,
    NOWHERE,
    RUNNING,
    bodies,
    cancel,
    die,
    ended,
    get,
    listed,
    moved,
    peek,
    start,
)
from tests.support.server_rig import LONG, Client, refused, served


async def test_a_redrive_moves_dead_letters_to_where_they_came_from(
    client: Client, clock: ManualClock
) -> None:
    await die(client, clock, b"a", b"b")
    await die(client, clock, b"c", queue="p")
    begin = clock.wall()
    begun = await start(client)
    assert (begun.queue, begun.destination, begun.source_queue) == ("dead", "", "")
    assert begun.max_messages_per_second == 0
    assert begun.start_time.ToMilliseconds() == begin
    redrive = await ended(client, begun.id)
    assert (redrive.id, redrive.state) == (begun.id, DONE)
    assert (redrive.moved_count, redrive.failed_count, redrive.remaining_count) == (3, 0, 0)
    assert redrive.last_failure == ""
    assert redrive.end_time.ToMilliseconds() == begin
    assert await bodies(client, "q") == [b"a", b"b"]
    assert await bodies(client, "p") == [b"c"]
    assert await bodies(client, "dead") == []
    for queue, ready in (("q", 2), ("p", 1), ("dead", 0)):
        counts = await client.counts(queue)
        assert (counts.ready_count, counts.leased_count, counts.delayed_count) == (ready, 0, 0)


async def test_a_redrive_moves_what_was_selected_to_where_it_was_told(
    client: Client, clock: ManualClock
) -> None:
    a, _, c = await die(client, clock, b"a", b"b", b"c")
    await die(client, clock, b"d", queue="p")
    await client.create("other")
    redrive = await start(client, message_ids=[a, c.upper(), NOWHERE], destination="other")
    assert redrive.destination == "other"
    assert (await ended(client, redrive.id)).moved_count == 2
    assert await bodies(client, "other") == [b"a", b"c"]
    redrive = await start(client, source_queue="p")
    assert redrive.source_queue == "p"
    assert (await ended(client, redrive.id)).moved_count == 1
    assert await bodies(client, "p") == [b"d"]
    assert await bodies(client, "dead") == [b"b"]


async def test_a_redrive_keeps_to_its_rate_and_tells_how_far_it_is(
    client: Client, clock: ManualClock
) -> None:
    await die(client, clock, *(b"%d" % number for number in range(20)))
    redrive = await start(client, max_messages_per_second=5)
    for least in (1, 5, 10, 19):
        found = await moved(client, clock, redrive.id, least)
        assert 20 - 1 <= found.moved_count + found.remaining_count <= 20, "one may be on its way"
    found = await ended(client, redrive.id, clock)
    assert (found.moved_count, found.remaining_count) == (20, 0)
    assert found.end_time.ToMilliseconds() - found.start_time.ToMilliseconds() >= 3_000


async def test_a_cancelled_redrive_moves_no_more(client: Client, clock: ManualClock) -> None:
    await die(client, clock, *(b"%d" % number for number in range(9)))
    redrive = await start(client, max_messages_per_second=1)
    gone = await cancel(client, redrive.id)
    assert gone.state == CANCELLED
    clock.advance(Millis(60_000))
    found = await get(client, redrive.id)
    assert (found.state, found.moved_count) == (CANCELLED, gone.moved_count)
    assert (await client.counts("dead")).ready_count == 9 - gone.moved_count
    assert (await cancel(client, redrive.id)).end_time == gone.end_time
    again = await ended(client, (await start(client)).id)
    assert (await cancel(client, again.id)).state == DONE


async def test_a_queue_has_one_redrive_at_a_time(client: Client, clock: ManualClock) -> None:
    await die(client, clock, b"a", b"b", b"c")
    await client.create("grave")
    redrive = await start(client, max_messages_per_second=1)
    no = await refused(start(client))
    assert (no.code, no.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "REDRIVE_RUNNING")
    assert (no.metadata["queue"], no.metadata["redrive"]) == ("dead", redrive.id)
    assert no.retry_millis is None
    # That of another queue is another one.
    assert (await ended(client, (await start(client, "grave", destination="q")).id)).state == DONE


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


async def test_a_missing_resource_is_not_found(client: Client) -> None:
    await client.create("dead")
    for call in (get(client, NOWHERE), cancel(client, NOWHERE)):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.NOT_FOUND, "REDRIVE_NOT_FOUND")
        assert no.metadata["redrive"] == NOWHERE
    for call in (start(client, "nowhere"), start(client, destination="nowhere")):
        assert (await refused(call)).reason == "QUEUE_NOT_FOUND"
    assert list((await listed(client)).redrives) == []


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


async def test_a_redrive_goes_on_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    async with served(tmp_path, clock) as (_, client):
        ids = await die(client, clock, *(b"%d" % number for number in range(10)))
        redrive = await start(client, max_messages_per_second=2)
        before = await moved(client, clock, redrive.id, 2)
        assert before.state == RUNNING
    async with served(tmp_path, clock) as (_, client):
        found = await get(client, redrive.id)
        assert (found.state, found.start_time) == (RUNNING, redrive.start_time)
        # A second's work may be missing in the count, and was done all the same.
        assert found.moved_count >= before.moved_count - 2
        assert found.remaining_count <= 10 - before.moved_count
        done = await ended(client, redrive.id, clock)
        assert 8 <= done.moved_count <= 10
        assert sorted(message.id for message in await peek(client, "q")) == sorted(ids)
    async with served(tmp_path, clock) as (_, client):
        (found,) = (await listed(client)).redrives
        assert found == done


async def test_a_redrive_wakes_waiting_receives(client: Client, clock: ManualClock) -> None:
    await die(client, clock, b"a")
    stream = client.stream()
    reading = asyncio.ensure_future(stream.read())
    await start(client)
    frame = await reading
    assert [(message.body, message.receive_count) for message in frame.received.messages] == [(b"a", 1)]
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
        assert (death.source_queue, death.receive_count) == ("q", 1)
        assert death.reason == pb.DEAD_LETTER_REASON_MAX_RECEIVES
        assert death.first_receive_time.ToMilliseconds() == begin
        assert death.dead_letter_time.ToMilliseconds() == begin + 1_000
    (received,) = await client.receive(queue="dead")
    assert list(received.dead_letter_records) == []


async def test_a_history_goes_with_its_message_through_a_redrive(
    client: Client, clock: ManualClock
) -> None:
    (id,) = await die(client, clock, b"poison")
    await ended(client, (await start(client)).id)
    await client.receive()
    clock.advance(Millis(1_000))
    assert await client.receive() == []
    (message,) = await client.receive(queue="dead", wait=LONG)
    assert message.id == id
    (seen,) = await peek(client, "dead")
    assert [death.source_queue for death in seen.dead_letter_records] == ["q", "q"]
    assert (
        seen.dead_letter_records[0].dead_letter_time.ToMilliseconds()
        < seen.dead_letter_records[1].dead_letter_time.ToMilliseconds()
    )


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

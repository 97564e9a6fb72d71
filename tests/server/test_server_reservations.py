"""The RPCs about reservations: messages that are leased under a name, until they are committed."""

from __future__ import annotations

import grpc
from spoolrack.v1 import reservation_service_pb2 as rpc

from tests.server.reservation_rig import BIG, bodies, listed, read, reserve
from tests.support.server_rig import Client, refused


async def test_reads_from_the_beginning_are_counted(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client)
    for span in ({}, {"begin_index": 1}, {"end_index": 1}):
        await read(client, **span)
    (told,) = (await listed(client)).reservations
    assert told.read_count == 2


async def test_reservations_are_listed_by_stream_and_number_a_page_at_a_time(client: Client) -> None:
    await client.create("a")
    await client.create("b")
    await client.send(*[b"x"] * 6, queue="a")
    await client.send(*[b"x"] * 6, queue="b")
    wanted = []
    for stream, sequence_number, queue in (
        ("s", 10, "a"),
        ("s", 9, "b"),
        ("r", 2, "a"),
        ("s-1", 0, "a"),
        ("r", BIG, "b"),
        ("s", 100, "a"),
    ):
        await reserve(client, sequence_number, stream=stream, queue=queue, max_messages=1)
        wanted.append((stream, sequence_number))
    found: list[rpc.Reservation] = []
    sizes: list[int] = []
    token = ""
    for _ in range(10):
        page = await listed(client, page_size=4, page_token=token)
        found += page.reservations
        sizes.append(len(page.reservations))
        token = page.next_page_token
        if not token:
            break
    assert sizes == [4, 2]
    assert [(told.stream, told.sequence_number) for told in found] == sorted(wanted)
    of_a = (await listed(client, queue="a")).reservations
    assert [(told.stream, told.sequence_number) for told in of_a] == [
        ("r", 2),
        ("s", 10),
        ("s", 100),
        ("s-1", 0),
    ]
    assert [told.sequence_number for told in (await listed(client, stream="s")).reservations] == [
        9,
        10,
        100,
    ]
    assert [
        told.sequence_number for told in (await listed(client, stream="s", queue="b")).reservations
    ] == [9]
    assert not (await listed(client, stream="none")).reservations


async def test_a_commit_may_ask_whether_a_set_was_read_and_a_look_is_no_read(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client)
    assert await bodies(client) == [b"1", b"2"]

    asked_for = rpc.CommitReservationsRequest(stream="r", last_sequence_number=0, only_read=True)
    no = await refused(client.stub.CommitReservations(asked_for))
    assert (no.code, no.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RESERVATION_UNREAD")
    assert no.metadata == {"stream": "r", "sequence_number": "0"}

    assert await bodies(client, begin_index=1, mark_read=True) == [b"2"]
    assert (await client.stub.CommitReservations(asked_for)).deleted_count == 2

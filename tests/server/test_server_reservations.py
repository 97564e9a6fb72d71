"""The RPCs about reservations: messages that are leased under a name, until they are committed."""

from __future__ import annotations

from pathlib import Path

import grpc
from google.protobuf.duration_pb2 import Duration
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import reservation_service_pb2 as rpc
from spoolrack_store.manual_clock import ManualClock

from tests.server.reservation_rig import (
    BIG,
    asked,
    bodies,
    commit,
    listed,
    read,
    reading,
    release,
    reserve,
)
from tests.support.server_rig import LONG, Client, Refusal, refused, served


async def extend_refused(client: Client, sequence_number: int = 0) -> Refusal:
    return await refused(
        client.stub.ExtendReservation(
            rpc.ExtendReservationRequest(stream="r", sequence_number=sequence_number)
        )
    )


async def test_a_reservation_holds_messages_that_can_be_read_again_and_again(
    client: Client, clock: ManualClock
) -> None:
    await client.create()
    ids = await client.send(b"1", b"22", b"333")
    made = await reserve(client, max_messages=2)
    assert (made.queue, made.stream, made.sequence_number) == ("q", "r", 0)
    assert (made.message_count, made.byte_count, made.read_count) == (2, 3, 0)
    assert made.state == rpc.RESERVATION_STATE_HELD
    assert made.expire_time.ToMilliseconds() == clock.wall() + 30_000
    for _ in range(3):
        found = await read(client)
        assert [message.body for message in found] == [b"1", b"22"]
        assert [message.id for message in found] == ids[:2]
        assert {(message.receipt, message.receive_count) for message in found} == {("", 1)}
    counts = await client.counts()
    assert (counts.ready_count, counts.leased_count) == (1, 2)
    assert [message.body for message in await client.receive(10)] == [b"333"]


async def test_the_same_name_again_gives_the_same_messages(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2", b"3")
    made = await reserve(client, max_messages=2, visibility_timeout=Duration(seconds=60))
    again = await reserve(client, max_messages=1, visibility_timeout=Duration(seconds=5))
    assert again == made
    assert await bodies(client) == [b"1", b"2"]
    assert (await reserve(client, 1)).message_count == 1
    assert await bodies(client, 1) == [b"3"]


async def test_a_part_of_a_reservation_can_be_read(client: Client) -> None:
    await client.create()
    await client.send(*[b"%d" % n for n in range(10)])
    await reserve(client)
    assert await bodies(client, begin_index=2, end_index=5) == [b"2", b"3", b"4"]
    assert await bodies(client, begin_index=8) == [b"8", b"9"]
    assert await bodies(client, end_index=1) == [b"0"]
    assert await bodies(client, begin_index=9, end_index=100) == [b"9"]
    assert await bodies(client, begin_index=3, end_index=3) == []
    assert await bodies(client, begin_index=10) == []


async def test_a_message_deleted_since_is_left_out_and_keeps_its_place(client: Client) -> None:
    await client.create()
    ids = await client.send(b"0", b"1", b"2", b"3")
    await reserve(client)
    target = queues.DeleteTarget(id=ids[1])
    await client.stub.Delete(queues.DeleteRequest(queue="q", targets=[target]))
    assert await bodies(client) == [b"0", b"2", b"3"]
    assert await bodies(client, begin_index=2) == [b"2", b"3"]
    (told,) = (await listed(client)).reservations
    assert told.message_count == 4
    assert (await commit(client, 0)).deleted_count == 3


async def test_reads_from_the_beginning_are_counted(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client)
    for span in ({}, {"begin_index": 1}, {"end_index": 1}):
        await read(client, **span)
    (told,) = (await listed(client)).reservations
    assert told.read_count == 2


async def test_with_nothing_ready_nothing_is_reserved(client: Client) -> None:
    await client.create()
    response = await client.stub.Reserve(asked())
    assert not response.HasField("reservation")
    assert not (await listed(client)).reservations
    await client.send(b"1")
    assert (await reserve(client)).message_count == 1


async def test_a_reservation_has_no_more_bytes_than_asked_for_but_one_message(client: Client) -> None:
    await client.create()
    await client.send(b"x" * 100, b"x" * 100, b"x" * 100, b"x" * 100)
    assert (await reserve(client, 0, max_bytes=50)).message_count == 1
    assert (await reserve(client, 1, max_bytes=250)).message_count == 2
    assert (await reserve(client, 2, max_bytes=BIG)).message_count == 1


async def test_a_reservation_takes_more_than_one_call_can_send(client: Client) -> None:
    await client.create()
    sent: list[bytes] = []
    for chunk in range(5):
        more = [b"%d" % (chunk * 1_000 + n) for n in range(1_000)]
        await client.send(*more)
        sent += more
    assert (await reserve(client)).message_count == 1_000
    assert (await reserve(client, 1, max_messages=100_000)).message_count == 4_000
    assert await bodies(client) + await bodies(client, 1) == sent
    assert (await commit(client, 1)).deleted_count == 5_000


async def test_a_confirmation_lengthens_the_hold(client: Client, clock: ManualClock) -> None:
    await client.create()
    await client.send(b"1")
    await reserve(client, visibility_timeout=Duration(seconds=10))
    clock.advance(9_000)
    longer = await client.stub.ExtendReservation(
        rpc.ExtendReservationRequest(
            stream="r", sequence_number=0, visibility_timeout=Duration(seconds=100)
        )
    )
    assert longer.reservation.expire_time.ToMilliseconds() == clock.wall() + 100_000
    clock.advance(99_000)
    assert await bodies(client) == [b"1"]
    as_at_first = await client.stub.ExtendReservation(
        rpc.ExtendReservationRequest(stream="r", sequence_number=0)
    )
    assert as_at_first.reservation.expire_time.ToMilliseconds() == clock.wall() + 10_000
    clock.advance(9_000)
    assert await client.receive() == []


async def test_a_commit_deletes_all_sets_up_to_a_number_and_may_be_repeated(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2", b"3", b"4")
    for sequence_number in range(3):
        await reserve(client, sequence_number, max_messages=1)
    done = await commit(client, 1)
    assert (done.deleted_count, list(done.lost_sequence_numbers)) == (2, [])
    for last_sequence_number in (1, 0):
        again = await commit(client, last_sequence_number)
        assert (again.deleted_count, list(again.lost_sequence_numbers)) == (0, [])
    assert [told.sequence_number for told in (await listed(client)).reservations] == [2]
    assert await bodies(client, 2) == [b"3"]
    counts = await client.counts()
    assert (counts.ready_count, counts.leased_count) == (1, 1)


async def test_a_committed_reservation_cannot_be_reserved_again(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client, 5, max_messages=1)
    await commit(client, 5)
    for sequence_number in (5, 4, 0):
        calls = (client.stub.Reserve(asked(sequence_number)), reading(client, sequence_number).read())
        for call in calls:
            no = await refused(call)
            assert (no.code, no.reason) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "RESERVATION_COMMITTED",
            )
            assert no.metadata["committed"] == "5"
    assert (await client.counts()).leased_count == 0
    assert (await reserve(client, 6)).message_count == 1


async def test_a_released_reservation_is_lost_and_its_messages_are_anybodys(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client)
    for _ in range(2):
        await release(client)
    for call in (
        client.stub.Reserve(asked()),
        client.stub.ExtendReservation(rpc.ExtendReservationRequest(stream="r", sequence_number=0)),
        reading(client).read(),
    ):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RESERVATION_LOST")
        assert (no.metadata["stream"], no.metadata["sequence_number"]) == ("r", "0")
    assert [message.body for message in await client.receive(10)] == [b"1", b"2"]
    done = await commit(client, 0)
    assert (done.deleted_count, list(done.lost_sequence_numbers)) == (0, [0])
    assert (await client.counts()).leased_count == 2


async def test_a_hold_that_is_over_is_told_as_lost(client: Client, clock: ManualClock) -> None:
    await client.create()
    await client.send(b"1")
    await reserve(client, visibility_timeout=Duration(seconds=5))
    clock.advance(5_001)
    (message,) = await client.receive(wait=LONG)
    assert (message.body, message.receive_count) == (b"1", 2)
    assert (await extend_refused(client)).reason == "RESERVATION_LOST"
    (told,) = (await listed(client)).reservations
    assert told.state == rpc.RESERVATION_STATE_LOST
    assert list((await commit(client, 0)).lost_sequence_numbers) == [0]
    assert await client.delete(message.receipt) == []


async def test_an_unknown_reservation_is_not_found(client: Client) -> None:
    for call in (
        client.stub.ExtendReservation(rpc.ExtendReservationRequest(stream="r", sequence_number=3)),
        reading(client, 3).read(),
    ):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.NOT_FOUND, "RESERVATION_NOT_FOUND")
        assert no.metadata == {"stream": "r", "sequence_number": "3"}


async def test_a_queue_that_is_not_there_has_nothing_to_reserve(client: Client) -> None:
    no = await refused(client.stub.Reserve(asked(wait=LONG)))
    assert (no.code, no.reason) == (grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND")


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


async def test_an_operator_sees_a_message_that_breaks_its_reader_and_frees_it(client: Client) -> None:
    await client.create()
    await client.send(b"poison")
    await reserve(client)
    for _ in range(7):
        await read(client)
    (told,) = (await listed(client, queue="q")).reservations
    assert (told.stream, told.sequence_number, told.read_count) == ("r", 0, 7)
    await release(client)
    assert [message.body for message in await client.receive()] == [b"poison"]


async def test_a_reservation_outlives_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with served(tmp_path, clock) as (_, client):
        await client.create()
        await client.send(b"1", b"2", b"3")
        made = await reserve(client, max_messages=2, visibility_timeout=Duration(seconds=100))
        await reserve(client, 1, visibility_timeout=Duration(seconds=100))
        await client.send(b"other's")
        await client.stub.Reserve(asked(stream="other"))
        await commit(client, 0, stream="other")
    async with served(tmp_path, clock) as (_, client):
        assert await reserve(client) == made
        assert await bodies(client) == [b"1", b"2"]
        assert (await commit(client, 0)).deleted_count == 2
        no = await refused(client.stub.Reserve(asked(stream="other")))
        assert no.reason == "RESERVATION_COMMITTED"
    async with served(tmp_path, clock) as (_, client):
        assert (await commit(client, 0)).deleted_count == 0
        assert await bodies(client, 1) == [b"3"]


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

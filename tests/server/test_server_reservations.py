"""The RPCs about reservations: messages that are leased under a name, until they are committed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from server_rig import LONG, Client, Refusal, refused, served
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import reservation_pb2 as rpc
from spoolrack_server.asking import FRAME_BYTES
from spoolrack_store.testing import ManualClock

MIB = 1024 * 1024
BIG = 2**63 - 1


def asked(seq: int = 0, *, stream: str = "r", queue: str = "q", **more: Any) -> rpc.ReserveRequest:
    return rpc.ReserveRequest(queue=queue, stream=stream, seq=seq, **more)


async def reserve(client: Client, seq: int = 0, **more: Any) -> rpc.Reservation:
    response: rpc.ReserveResponse = await client.stub.Reserve(asked(seq, **more))
    assert response.HasField("reservation"), "nothing was ready"
    return response.reservation


def reading(client: Client, seq: int = 0, stream: str = "r", **span: int) -> Any:
    return client.stub.ReadReservation(rpc.ReadReservationRequest(stream=stream, seq=seq, **span))


async def read(client: Client, seq: int = 0, **more: Any) -> list[pb.Message]:
    return [message async for frame in reading(client, seq, **more) for message in frame.messages]


async def bodies(client: Client, seq: int = 0, **more: Any) -> list[bytes]:
    return [message.body for message in await read(client, seq, **more)]


async def commit(client: Client, up_to: int, stream: str = "r") -> rpc.CommitReservationsResponse:
    response: rpc.CommitReservationsResponse = await client.stub.CommitReservations(
        rpc.CommitReservationsRequest(stream=stream, up_to=up_to)
    )
    return response


async def release(client: Client, seq: int = 0, stream: str = "r") -> None:
    await client.stub.ReleaseReservation(rpc.ReleaseReservationRequest(stream=stream, seq=seq))


async def listed(client: Client, **more: Any) -> rpc.ListReservationsResponse:
    response: rpc.ListReservationsResponse = await client.stub.ListReservations(
        rpc.ListReservationsRequest(**more)
    )
    return response


async def confirm_refused(client: Client, seq: int = 0) -> Refusal:
    return await refused(client.stub.Confirm(rpc.ConfirmRequest(stream="r", seq=seq)))


async def test_a_reservation_holds_messages_that_can_be_read_again_and_again(
    client: Client, clock: ManualClock
) -> None:
    await client.create()
    ids = await client.send(b"1", b"22", b"333")
    made = await reserve(client, max_messages=2)
    assert (made.queue, made.stream, made.seq) == ("q", "r", 0)
    assert (made.messages, made.bytes, made.reads) == (2, 3, 0)
    assert made.state == rpc.RESERVATION_STATE_HELD
    assert made.expire_time.ToMilliseconds() == clock.wall() + 30_000
    for _ in range(3):
        found = await read(client)
        assert [message.body for message in found] == [b"1", b"22"]
        assert [message.id for message in found] == ids[:2]
        assert {(message.receipt, message.receive_count) for message in found} == {("", 1)}
    counts = await client.counts()
    assert (counts.ready, counts.leased) == (1, 2)
    assert [message.body for message in await client.receive(10)] == [b"333"]


async def test_the_same_name_again_gives_the_same_messages(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2", b"3")
    made = await reserve(client, max_messages=2, hold=Duration(seconds=60))
    again = await reserve(client, max_messages=1, hold=Duration(seconds=5))
    assert again == made
    assert await bodies(client) == [b"1", b"2"]
    assert (await reserve(client, 1)).messages == 1
    assert await bodies(client, 1) == [b"3"]


async def test_a_part_of_a_reservation_can_be_read(client: Client) -> None:
    await client.create()
    await client.send(*[b"%d" % n for n in range(10)])
    await reserve(client)
    assert await bodies(client, begin=2, end=5) == [b"2", b"3", b"4"]
    assert await bodies(client, begin=8) == [b"8", b"9"]
    assert await bodies(client, end=1) == [b"0"]
    assert await bodies(client, begin=9, end=100) == [b"9"]
    assert await bodies(client, begin=3, end=3) == []
    assert await bodies(client, begin=10) == []


async def test_what_was_deleted_since_is_left_out_and_keeps_its_place(client: Client) -> None:
    await client.create()
    ids = await client.send(b"0", b"1", b"2", b"3")
    await reserve(client)
    target = queues.DeleteTarget(id=ids[1])
    await client.stub.Delete(queues.DeleteRequest(queue="q", targets=[target]))
    assert await bodies(client) == [b"0", b"2", b"3"]
    assert await bodies(client, begin=2) == [b"2", b"3"]
    (told,) = (await listed(client)).reservations
    assert told.messages == 4
    assert (await commit(client, 0)).messages == 3


async def test_reads_from_the_beginning_are_counted(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client)
    for span in ({}, {"begin": 1}, {"end": 1}):
        await read(client, **span)
    (told,) = (await listed(client)).reservations
    assert told.reads == 2


async def test_with_nothing_ready_nothing_is_reserved(client: Client) -> None:
    await client.create()
    response = await client.stub.Reserve(asked())
    assert not response.HasField("reservation")
    assert not (await listed(client)).reservations
    await client.send(b"1")
    assert (await reserve(client)).messages == 1


async def test_a_reservation_has_no_more_bytes_than_asked_for_but_one_message(client: Client) -> None:
    await client.create()
    await client.send(b"x" * 100, b"x" * 100, b"x" * 100, b"x" * 100)
    assert (await reserve(client, 0, max_bytes=50)).messages == 1
    assert (await reserve(client, 1, max_bytes=250)).messages == 2
    assert (await reserve(client, 2, max_bytes=BIG)).messages == 1


async def test_a_reservation_takes_more_than_one_call_can_send(client: Client) -> None:
    await client.create()
    sent: list[bytes] = []
    for chunk in range(5):
        more = [b"%d" % (chunk * 1_000 + n) for n in range(1_000)]
        await client.send(*more)
        sent += more
    assert (await reserve(client)).messages == 1_000
    assert (await reserve(client, 1, max_messages=100_000)).messages == 4_000
    assert await bodies(client) + await bodies(client, 1) == sent
    assert (await commit(client, 1)).messages == 5_000


async def test_a_confirmation_lengthens_the_hold(client: Client, clock: ManualClock) -> None:
    await client.create()
    await client.send(b"1")
    await reserve(client, hold=Duration(seconds=10))
    clock.advance(9_000)
    longer = await client.stub.Confirm(
        rpc.ConfirmRequest(stream="r", seq=0, hold=Duration(seconds=100))
    )
    assert longer.reservation.expire_time.ToMilliseconds() == clock.wall() + 100_000
    clock.advance(99_000)
    assert await bodies(client) == [b"1"]
    as_at_first = await client.stub.Confirm(rpc.ConfirmRequest(stream="r", seq=0))
    assert as_at_first.reservation.expire_time.ToMilliseconds() == clock.wall() + 10_000
    clock.advance(9_000)
    assert await client.receive() == []


async def test_a_commit_deletes_all_sets_up_to_a_number_and_may_be_repeated(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2", b"3", b"4")
    for seq in range(3):
        await reserve(client, seq, max_messages=1)
    done = await commit(client, 1)
    assert (done.messages, list(done.lost)) == (2, [])
    for up_to in (1, 0):
        again = await commit(client, up_to)
        assert (again.messages, list(again.lost)) == (0, [])
    assert [told.seq for told in (await listed(client)).reservations] == [2]
    assert await bodies(client, 2) == [b"3"]
    counts = await client.counts()
    assert (counts.ready, counts.leased) == (1, 1)


async def test_what_is_committed_cannot_be_reserved_again(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client, 5, max_messages=1)
    await commit(client, 5)
    for seq in (5, 4, 0):
        calls = (client.stub.Reserve(asked(seq)), reading(client, seq).read())
        for call in calls:
            no = await refused(call)
            assert (no.code, no.reason) == (
                grpc.StatusCode.FAILED_PRECONDITION,
                "RESERVATION_COMMITTED",
            )
            assert no.metadata["committed"] == "5"
    assert (await client.counts()).leased == 0
    assert (await reserve(client, 6)).messages == 1


async def test_a_released_reservation_is_lost_and_its_messages_are_anybodys(client: Client) -> None:
    await client.create()
    await client.send(b"1", b"2")
    await reserve(client)
    for _ in range(2):
        await release(client)
    for call in (
        client.stub.Reserve(asked()),
        client.stub.Confirm(rpc.ConfirmRequest(stream="r", seq=0)),
        reading(client).read(),
    ):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "RESERVATION_LOST")
        assert (no.metadata["stream"], no.metadata["seq"]) == ("r", "0")
    assert [message.body for message in await client.receive(10)] == [b"1", b"2"]
    done = await commit(client, 0)
    assert (done.messages, list(done.lost)) == (0, [0])
    assert (await client.counts()).leased == 2


async def test_a_hold_that_is_over_is_told_as_lost(client: Client, clock: ManualClock) -> None:
    await client.create()
    await client.send(b"1")
    await reserve(client, hold=Duration(seconds=5))
    clock.advance(5_001)
    (message,) = await client.receive(wait=LONG)
    assert (message.body, message.receive_count) == (b"1", 2)
    assert (await confirm_refused(client)).reason == "RESERVATION_LOST"
    (told,) = (await listed(client)).reservations
    assert told.state == rpc.RESERVATION_STATE_LOST
    assert list((await commit(client, 0)).lost) == [0]
    assert await client.delete(message.receipt) == []


async def test_what_was_never_reserved_is_not_found(client: Client) -> None:
    for call in (
        client.stub.Confirm(rpc.ConfirmRequest(stream="r", seq=3)),
        reading(client, 3).read(),
    ):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.NOT_FOUND, "RESERVATION_NOT_FOUND")
        assert no.metadata == {"stream": "r", "seq": "3"}


async def test_a_queue_that_is_not_there_has_nothing_to_reserve(client: Client) -> None:
    no = await refused(client.stub.Reserve(asked(wait=LONG)))
    assert (no.code, no.reason) == (grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND")


# Long polls.


async def test_a_reserve_that_waits_gets_what_is_sent_meanwhile(client: Client) -> None:
    await client.create()
    call = client.stub.Reserve(asked(wait=LONG))
    await client.send(b"here")
    assert (await call).reservation.messages == 1
    assert await bodies(client) == [b"here"]


async def test_a_reserve_that_waits_in_vain_answers_when_its_time_is_over(
    client: Client, clock: ManualClock
) -> None:
    await client.create()
    call = client.stub.Reserve(asked(wait=Duration(seconds=20)))
    for _ in range(1_000):
        # The call may reach the store after any of these.
        clock.advance(20_000)
        await client.counts()
        if call.done():
            break
    assert not (await call).HasField("reservation")
    assert not (await listed(client)).reservations


async def test_a_client_that_leaves_while_it_waits_reserves_nothing_or_finds_it_again(
    client: Client,
) -> None:
    await client.create()
    for seq in range(200):
        call = client.stub.Reserve(asked(seq, wait=LONG))
        # At different moments of its way to the store and back.
        for _ in range(seq % 20):
            await client.counts()
        sending = client.send(b"%d" % seq)
        call.cancel()
        await sending
        # Nobody else can have it for good, or this would wait until the test's own limit.
        assert (await reserve(client, seq, wait=LONG)).messages == 1
        assert await bodies(client, seq) == [b"%d" % seq]
        assert (await commit(client, seq)).messages == 1


async def test_a_client_that_left_before_anything_was_ready_leaves_nothing_reserved(
    client: Client,
) -> None:
    await client.create()
    for seq in range(50):
        call = client.stub.Reserve(asked(seq, wait=LONG))
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
    assert (await reserving).reservation.messages == 1
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


# Reads of many bytes.


async def test_a_read_comes_in_frames_that_any_client_takes(client: Client) -> None:
    await client.create(max_message_size=8 * MIB)
    sizes = [3 * MIB, 10, MIB, MIB, 8 * MIB, *[100 * 1024] * 50]
    for size in sizes:
        await client.send(bytes(size))
    assert (await reserve(client)).bytes == sum(sizes)
    found: list[int] = []
    async for frame in reading(client):
        assert frame.messages
        # Beside the bodies there are ids, times and the frame's own few bytes.
        assert len(frame.messages) == 1 or frame.ByteSize() <= FRAME_BYTES * 1.01
        found += [len(message.body) for message in frame.messages]
    assert found == sizes


async def test_a_read_is_never_far_ahead_of_its_reader(client: Client) -> None:
    await client.create()
    count = 64
    ids = [id for _ in range(count) for id in await client.send(bytes(MIB))]
    await reserve(client, max_bytes=BIG)
    call = reading(client)
    first = await call.read()
    # Nobody reads on, while others delete: what was read ahead would still come.
    for _ in range(100):
        await client.counts()
    target = queues.DeleteTarget(id=ids[-1])
    await client.stub.Delete(queues.DeleteRequest(queue="q", targets=[target]))
    found = [*first.messages, *await to_the_end(call)]
    assert [message.id for message in found] == ids[:-1]


async def test_a_drain_ends_a_read_with_a_status_that_says_try_again(tmp_path: Path) -> None:
    async with served(tmp_path) as (server, client):
        await client.create()
        for _ in range(64):
            await client.send(bytes(MIB))
        await reserve(client, max_bytes=BIG)
        call = reading(client)
        await call.read()
        stopping = asyncio.ensure_future(server.stop(grace=100))
        while not (await client_refusals(client)):
            pass
        no = await refused(to_the_end(call))
        assert (no.code, no.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        await stopping


async def to_the_end(call: Any) -> list[pb.Message]:
    found: list[pb.Message] = []
    while (frame := await call.read()) is not grpc.aio.EOF:
        found += frame.messages
    return found


async def client_refusals(client: Client) -> bool:
    try:
        await client.counts()
    except grpc.aio.AioRpcError:
        return True
    return False


async def test_a_reader_that_leaves_harms_nobody(client: Client) -> None:
    await client.create()
    for _ in range(16):
        await client.send(bytes(MIB))
    await reserve(client)
    for frames in range(20):
        call = reading(client)
        for _ in range(frames % 5):
            await call.read()
        call.cancel()
    assert len(await read(client)) == 16


# Lists.


async def test_reservations_are_listed_by_stream_and_number_a_page_at_a_time(client: Client) -> None:
    await client.create("a")
    await client.create("b")
    await client.send(*[b"x"] * 6, queue="a")
    await client.send(*[b"x"] * 6, queue="b")
    wanted = []
    for stream, seq, queue in (
        ("s", 10, "a"),
        ("s", 9, "b"),
        ("r", 2, "a"),
        ("s-1", 0, "a"),
        ("r", BIG, "b"),
        ("s", 100, "a"),
    ):
        await reserve(client, seq, stream=stream, queue=queue, max_messages=1)
        wanted.append((stream, seq))
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
    assert [(told.stream, told.seq) for told in found] == sorted(wanted)
    of_a = (await listed(client, queue="a")).reservations
    assert [(told.stream, told.seq) for told in of_a] == [("r", 2), ("s", 10), ("s", 100), ("s-1", 0)]
    assert [told.seq for told in (await listed(client, stream="s")).reservations] == [9, 10, 100]
    assert [told.seq for told in (await listed(client, stream="s", queue="b")).reservations] == [9]
    assert not (await listed(client, stream="none")).reservations


async def test_an_operator_sees_a_message_that_breaks_its_reader_and_frees_it(client: Client) -> None:
    await client.create()
    await client.send(b"poison")
    await reserve(client)
    for _ in range(7):
        await read(client)
    (told,) = (await listed(client, queue="q")).reservations
    assert (told.stream, told.seq, told.reads) == ("r", 0, 7)
    await release(client)
    assert [message.body for message in await client.receive()] == [b"poison"]


async def test_a_reservation_outlives_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with served(tmp_path, clock) as (_, client):
        await client.create()
        await client.send(b"1", b"2", b"3")
        made = await reserve(client, max_messages=2, hold=Duration(seconds=100))
        await reserve(client, 1, hold=Duration(seconds=100))
        await commit(client, 0, stream="other")
    async with served(tmp_path, clock) as (_, client):
        assert await reserve(client) == made
        assert await bodies(client) == [b"1", b"2"]
        assert (await commit(client, 0)).messages == 2
        no = await refused(client.stub.Reserve(asked(stream="other")))
        assert no.reason == "RESERVATION_COMMITTED"
    async with served(tmp_path, clock) as (_, client):
        assert (await commit(client, 0)).messages == 0
        assert await bodies(client, 1) == [b"3"]


BEYOND: list[tuple[str, Any]] = [
    *(
        ("Reserve", asked(**wrong))
        for wrong in (
            {"stream": ""},
            {"stream": "x" * 81},
            {"stream": "../x"},
            {"stream": "a.1"},
            {"stream": "a@1"},
            {"seq": -1},
            {"max_messages": -1},
            {"max_messages": 100_001},
            {"max_bytes": -1},
            {"hold": Duration()},
            {"hold": Duration(nanos=999_000_000)},
            {"hold": Duration(seconds=12 * 3600 + 1)},
            {"hold": Duration(seconds=1, nanos=-1)},
            {"wait": Duration(seconds=-1)},
            {"wait": Duration(seconds=3601)},
        )
    ),
    ("Confirm", rpc.ConfirmRequest(stream="a/b")),
    ("Confirm", rpc.ConfirmRequest(stream="r", seq=-1)),
    ("Confirm", rpc.ConfirmRequest(stream="r", hold=Duration())),
    ("CommitReservations", rpc.CommitReservationsRequest(stream="..")),
    ("CommitReservations", rpc.CommitReservationsRequest(stream="r", up_to=-1)),
    ("ReleaseReservation", rpc.ReleaseReservationRequest(stream="")),
    ("ReleaseReservation", rpc.ReleaseReservationRequest(stream="r", seq=-1)),
    ("ListReservations", rpc.ListReservationsRequest(stream="a b")),
    ("ListReservations", rpc.ListReservationsRequest(page_size=1_001)),
    *(
        ("ListReservations", rpc.ListReservationsRequest(page_token=token))
        for token in (
            "r",
            "r.",
            ".1",
            "r.-1",
            "r.x",
            "r.\u0661",
            f"r.{BIG + 1}",
            "r." + "9" * 5_000,
            "../x.1",
        )
    ),
]


@pytest.mark.parametrize(("method", "request_"), BEYOND)
async def test_what_is_beyond_its_bounds_is_refused(client: Client, method: str, request_: Any) -> None:
    await client.create()
    await client.send(b"x")
    no = await refused(getattr(client.stub, method)(request_))
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert (await client.counts()).leased == 0


@pytest.mark.parametrize(
    ("stream", "span"),
    [("a/b", {}), ("r", {"begin": -1}), ("r", {"end": -1}), ("r", {"begin": 5, "end": 4})],
)
async def test_a_read_beyond_its_bounds_is_refused(
    client: Client, stream: str, span: dict[str, int]
) -> None:
    no = await refused(reading(client, stream=stream, **span).read())
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


async def test_a_bad_name_of_a_queue_is_refused(client: Client) -> None:
    for call in (
        client.stub.Reserve(asked(queue="../q")),
        client.stub.ListReservations(rpc.ListReservationsRequest(queue="../q")),
    ):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_QUEUE_NAME")

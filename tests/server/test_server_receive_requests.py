"""Requests in a stream of receives: answers in order between the messages, errors that end nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.empty_pb2 import Empty
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack_server.process.server import Server
from spoolrack_server.rpc import streams
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.errors import QueueNotFound, StoreError
from spoolrack_store.model.operations import CreateQueue, DeleteQueue, Receive
from spoolrack_store.model.operations import Send as SendMessages
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.support.server_rig import Client, refused
from tests.support.statuses import reason_of

from .served import served

Request = rpc.StreamReceiveRequest


class Stream:
    """A stream of receives that is open in both directions."""

    def __init__(self, client: Client, **wanted: Any) -> None:
        self.call = client.stub.StreamReceive()
        self._first = Request(start=rpc.ReceiveStart(queue="q", **wanted))
        self.messages: list[pb.Message] = []

    async def begin(self) -> Stream:
        await self.call.write(self._first)
        return self

    async def receive(self, count: int) -> Sequence[pb.Message]:
        while len(self.messages) < count:
            response = await self.call.read()
            assert response.received.HasField("visibility_timeout")
            self.messages += response.received.messages
        found, self.messages = self.messages[:count], self.messages[count:]
        return found

    async def answer(self) -> rpc.StreamReceiveResponse:
        """Return the next answer to a request; the messages before it are kept."""
        while True:
            response: rpc.StreamReceiveResponse = await self.call.read()
            if not response.HasField("received"):
                return response
            self.messages += response.received.messages


def delete(number: int, *receipts: str, queue: str = "") -> Request:
    targets = [rpc.DeleteTarget(receipt=receipt) for receipt in receipts]
    return Request(correlation_id=number, delete=rpc.DeleteRequest(queue=queue, targets=targets))


async def test_a_consumer_receives_and_deletes_on_one_stream(client: Client) -> None:
    await client.create()
    await client.send(*[b"%d" % n for n in range(100)])
    stream = await Stream(client, max_in_flight=3).begin()
    for n in range(100):
        (message,) = await stream.receive(1)
        assert message.body == b"%d" % n
        await stream.call.write(delete(n, message.receipt))
        answer = await stream.answer()
        assert answer.correlation_id == n
        assert [result.WhichOneof("result") for result in answer.delete.results] == ["deleted"]
    counts = await client.counts()
    assert (counts.ready_count, counts.leased_count) == (0, 0)


async def test_each_kind_of_request_is_answered_as_its_unary_call_is(client: Client) -> None:
    await client.create("dead")
    await client.create(dead_letter_queue="dead", max_receives=5)
    await client.send(b"extend", b"release", b"reject", b"delete")
    stream = await Stream(client).begin()
    extended, released, rejected, deleted = await stream.receive(4)
    await stream.call.write(
        Request(
            correlation_id=1,
            extend=rpc.ExtendLeasesRequest(
                extensions=[
                    rpc.LeaseExtension(receipt=receipt, visibility_timeout=Duration(seconds=600))
                    for receipt in (extended.receipt, "none")
                ]
            ),
        )
    )
    release = rpc.MessageRelease(receipt=released.receipt, delay=Duration(seconds=60), reason="later")
    await stream.call.write(
        Request(correlation_id=2, release=rpc.ReleaseRequest(queue="q", releases=[release]))
    )
    rejection = rpc.MessageRejection(receipt=rejected.receipt, reason="never")
    await stream.call.write(Request(correlation_id=3, reject=rpc.RejectRequest(rejections=[rejection])))
    await stream.call.write(delete(-4, deleted.receipt))
    found = [await stream.answer() for _ in range(4)]
    assert [answer.correlation_id for answer in found] == [1, 2, 3, -4]
    assert [answer.WhichOneof("frame") for answer in found] == ["extend", "release", "reject", "delete"]
    ends, wrong = found[0].extend.results
    assert ends.lease_expire_time.seconds >= extended.lease_expire_time.seconds + 500
    assert reason_of(wrong.error) == "INVALID_RECEIPT"
    assert found[1].release.results[0].HasField("deliver_time")
    assert found[2].reject.results[0].HasField("rejected")
    assert found[3].delete.results[0].HasField("deleted")
    counts = await client.counts()
    assert (counts.delayed_count, counts.leased_count) == (1, 1)
    assert (await client.counts("dead")).ready_count == 1


async def test_an_invalid_request_is_answered_and_its_stream_goes_on(client: Client) -> None:
    await client.create()
    await client.create("other")
    await client.send(b"1")
    stream = await Stream(client).begin()
    (message,) = await stream.receive(1)
    wrong = [
        Request(correlation_id=1),
        Request(correlation_id=2, start=rpc.ReceiveStart(queue="q")),
        delete(3, message.receipt, queue="other"),
        delete(4),
        Request(correlation_id=5, release=rpc.ReleaseRequest()),
        Request(correlation_id=6, reject=rpc.RejectRequest()),
        Request(correlation_id=7, extend=rpc.ExtendLeasesRequest()),
        Request(correlation_id=8, report=rpc.ReceiveReport(begun=0)),
        Request(correlation_id=9, reject=rpc.RejectRequest(rejections=[{"reason": "x" * 1_025}])),
    ]
    for request in wrong:
        await stream.call.write(request)
    found = [await stream.answer() for _ in wrong]
    assert [answer.correlation_id for answer in found] == list(range(1, 10))
    assert {reason_of(answer.error) for answer in found[:8]} == {"INVALID_REQUEST"}
    assert len(found[8].reject.results) == 1
    assert found[8].reject.results[0].HasField("error")
    await stream.call.write(delete(10, message.receipt))
    assert (await stream.answer()).delete.results[0].HasField("deleted")
    await client.send(b"2")
    assert [each.body for each in await stream.receive(1)] == [b"2"]


async def test_a_stopped_stream_answers_requests_and_delivers_nothing(client: Client) -> None:
    await client.create()
    await client.send(*[b"x"] * 7)
    stream = await Stream(client, max_in_flight=5).begin()
    (message, *_) = await stream.receive(5)
    await stream.call.write(Request(correlation_id=1, stop=Empty()))
    answer = await stream.answer()
    assert (answer.correlation_id, answer.HasField("stopped")) == (1, True)
    await stream.call.write(delete(2, message.receipt))
    assert (await stream.answer()).correlation_id == 2
    await stream.call.write(Request(correlation_id=3, stop=Empty()))
    assert (await stream.answer()).HasField("stopped")
    counts = await client.counts()
    assert (counts.leased_count, counts.ready_count, stream.messages) == (4, 2, [])
    await stream.call.done_writing()
    assert await stream.call.read() is grpc.aio.EOF
    assert await stream.call.code() == grpc.StatusCode.OK


async def test_no_message_is_lost_on_its_way_to_a_stream_that_is_stopped(client: Client) -> None:
    await client.create()
    for _ in range(20):
        await client.send(b"1", b"2")
        call = client.stub.StreamReceive()
        await call.write(Request(start=rpc.ReceiveStart(queue="q")))
        await client.until_leased(2)
        await call.write(Request(stop=Empty()))
        await call.done_writing()
        *frames, last = [frame async for frame in call]
        assert last.HasField("stopped")
        # Messages that were leased and not yet written are given back.
        await client.until_leased(sum(len(frame.received.messages) for frame in frames))
        await client.stub.PurgeQueue(rpc.PurgeQueueRequest(name="q"))


async def test_a_first_request_that_asks_for_something_else_ends_the_stream(client: Client) -> None:
    await client.create()
    for first in (
        Request(delete=rpc.DeleteRequest(queue="q")),
        Request(report=rpc.ReceiveReport(begun=1)),
        Request(stop=Empty()),
        Request(),
    ):
        no = await refused(client.stub.StreamReceive(iter([first])).read())
        assert no.code == grpc.StatusCode.INVALID_ARGUMENT


async def test_requests_past_the_window_wait_and_are_answered_in_order(client: Client) -> None:
    count = 3 * streams.WINDOW_REQUESTS
    await client.create()
    await client.send(*[b"x"] * count)
    stream = await Stream(client, max_in_flight=count).begin()
    receipts = [message.receipt for message in await stream.receive(count)]

    async def ask() -> None:
        for number, receipt in enumerate(receipts):
            await stream.call.write(delete(number, receipt))
        await stream.call.done_writing()

    asking = asyncio.create_task(ask())
    found = [await stream.answer() for _ in receipts]
    await asking
    assert [answer.correlation_id for answer in found] == list(range(count))
    # The client has ended its side, and receives on.
    await client.send(b"more")
    assert [each.body for each in await stream.receive(1)] == [b"more"]


async def test_a_queue_that_is_deleted_ends_the_stream_after_its_answers(client: Client) -> None:
    await client.create()
    await client.send(b"1")
    stream = await Stream(client).begin()
    (message,) = await stream.receive(1)
    await stream.call.write(delete(1, message.receipt))
    await client.stub.DeleteQueue(rpc.DeleteQueueRequest(name="q"))
    answer = await stream.answer()
    assert answer.correlation_id == 1
    no = await refused(stream.call.read())
    assert no.reason == "QUEUE_NOT_FOUND"


async def test_a_drain_answers_what_it_took_and_ends_the_stream(server: Server, client: Client) -> None:
    await client.create()
    await client.send(*[b"x"] * 50)
    stream = await Stream(client).begin()
    receipts = [message.receipt for message in await stream.receive(50)]
    for number, receipt in enumerate(receipts):
        await stream.call.write(delete(number, receipt))
    first = await stream.answer()
    stopping = asyncio.create_task(server.stop())
    answered = [first.correlation_id]

    async def listen() -> None:
        while True:
            answered.append((await stream.answer()).correlation_id)

    assert (await refused(listen())).code == grpc.StatusCode.UNAVAILABLE
    await stopping
    assert answered == list(range(len(answered)))


async def test_a_drain_ends_a_stream_that_has_not_said_what_it_wants(
    server: Server, client: Client
) -> None:
    stream = client.stub.StreamReceive()
    for _ in range(20):
        await client.create()  # Until then the server has met the stream.
    # With so much grace, a stream that isn't refused is waited for beyond the test's own limit.
    stopping = asyncio.create_task(server.stop(grace=86_400.0))
    no = await refused(stream.read())
    assert (no.code, no.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
    await stopping


class Connection:
    """A call of which the test sends the requests, and takes each response when it wants to."""

    def __init__(self) -> None:
        self.requests: asyncio.Queue[Request] = asyncio.Queue()
        self.written: list[rpc.StreamReceiveResponse] = []
        self.offered = asyncio.Event()
        """A response waits to be taken."""
        self.taken = asyncio.Event()
        self.is_reading = False
        self.size = 0
        self.on_refusal: Callable[[StoreError], None] | None = None

    # As `Requests`.

    async def first(self) -> Request:
        return Request(start=rpc.ReceiveStart(queue="q"))

    async def next(self) -> Request:
        self.is_reading = True
        try:
            return await self.requests.get()
        finally:
            self.is_reading = False

    def refuse(self, error: StoreError) -> None:
        assert self.on_refusal is not None
        self.on_refusal(error)

    def require(self, request: Request) -> None:
        return None

    def reserve(self) -> int:
        return 0

    def leave(self, taken: int) -> None:
        return None

    def announce(self, request: object) -> None:
        return None

    # As the context.

    def peer(self) -> str:
        return "a consumer"

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def send_initial_metadata(self, metadata: object) -> None:
        return None

    async def write(self, response: bytes) -> None:
        assert not self.offered.is_set(), "gRPC takes one response at a time"
        self.offered.set()
        await self.taken.wait()
        self.written.append(rpc.StreamReceiveResponse.FromString(response))
        self.offered.clear()
        self.taken.clear()


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path, clock=ManualClock()) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result()
        store.submit(SendMessages(queue="q", bodies=[b"1"])).result()
        yield store


async def test_an_answer_waits_until_the_frame_before_it_is_taken(store: Store) -> None:
    (app, methods), connection = served(store, ManualClock()), Connection()
    call: Any = connection
    serving = asyncio.create_task(methods["StreamReceive"](call, call))
    await connection.offered.wait()
    await connection.requests.put(delete(7, "no receipt"))
    store.submit(Receive(queue="q")).result()  # By then the delete is answered.
    await turns()
    connection.taken.set()
    while len(connection.written) < 2:
        await connection.offered.wait()
        connection.taken.set()
        await turns()
    assert [len(each.received.messages) for each in connection.written] == [1, 0]
    assert connection.written[1].correlation_id == 7
    serving.cancel()
    await asyncio.wait({serving})
    await app.close()


async def test_a_stop_waits_for_the_frames_that_are_being_written(store: Store) -> None:
    (app, methods), connection = served(store, ManualClock()), Connection()
    call: Any = connection
    serving = asyncio.create_task(methods["StreamReceive"](call, call))
    await connection.offered.wait()
    await connection.requests.put(Request(correlation_id=7, stop=Empty()))
    await turns()
    store.submit(SendMessages(queue="q", bodies=[b"2"])).result()
    await turns()
    while len(connection.written) < 2:
        await connection.offered.wait()
        connection.taken.set()
        await turns()
    assert [each.WhichOneof("frame") for each in connection.written] == ["received", "stopped"]
    counts = store.queue("q").counts
    assert (counts.leased_count, counts.ready_count) == (1, 1)
    serving.cancel()
    await asyncio.wait({serving})
    await app.close()


async def test_a_queue_that_is_deleted_cuts_no_answer_off(store: Store) -> None:
    (app, methods), connection = served(store, ManualClock()), Connection()
    call: Any = connection
    serving = asyncio.create_task(methods["StreamReceive"](call, call))
    await connection.offered.wait()
    connection.taken.set()
    await turns()
    await connection.requests.put(delete(7, "no receipt"))
    await connection.offered.wait()
    for request in (DeleteQueue(name="q"), CreateQueue(name="r", settings=QueueSettings())):
        store.submit(request).result()  # After the second the receive has heard of the first.
    await turns()
    connection.taken.set()
    with pytest.raises(QueueNotFound):
        await serving
    assert connection.written[-1].correlation_id == 7
    await app.close()

"""A small load of every operation, over gRPC: step by step by one client, then by several at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
from google.protobuf.duration_pb2 import Duration
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc

PATIENCE: Final = Duration(seconds=600)
"""Longer than any step takes: no lease ends by itself."""
MANY_TRIES: Final = 10_000
DELAY: Final = Duration(nanos=50_000_000)


class Client:
    """One connection."""

    def __init__(self, address: str, queue: str = "q") -> None:
        # Channels of one process would share a connection.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(address, options=options)
        self._stub: Any = Stubs(self._channel)
        self.queue = queue

    def close(self) -> None:
        self._channel.close()

    def create(self, name: str, **settings: Any) -> None:
        settings = {"visibility_timeout": PATIENCE, **settings}
        request = rpc.CreateQueueRequest(
            queue=pb.Queue(name=name, settings=pb.QueueSettings(**settings))
        )
        self._stub.CreateQueue(request)

    def create_when_free(self, name: str) -> None:
        """Create it, as soon as what was deleted under this name is put away."""
        for _ in range(MANY_TRIES):
            try:
                return self.create(name)
            except grpc.RpcError as refusal:
                if refusal.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise
        raise AssertionError(f"{name} is never free")

    def update(self, name: str, **settings: Any) -> None:
        request = rpc.UpdateQueueRequest(
            queue=pb.Queue(name=name, settings=pb.QueueSettings(**settings))
        )
        self._stub.UpdateQueue(request)

    def delete_queue(self, name: str) -> None:
        self._stub.DeleteQueue(rpc.DeleteQueueRequest(name=name))

    def purge(self) -> int:
        answer = self._stub.PurgeQueue(rpc.PurgeQueueRequest(name=self.queue))
        purged: int = answer.purged_count
        return purged

    def send(self, *bodies: bytes, delay: Duration | None = None) -> list[str]:
        messages = _outgoing(bodies, delay)
        answer = self._stub.Send(rpc.SendRequest(queue=self.queue, messages=messages))
        return [result.sent.id for result in answer.results]

    def send_streamed(self, calls: Sequence[Sequence[bytes]]) -> None:
        """Send each call once the one before is answered."""
        requests = (
            rpc.StreamSendRequest(
                correlation_id=at, request=rpc.SendRequest(queue=self.queue, messages=_outgoing(bodies))
            )
            for at, bodies in enumerate(calls)
        )
        for at, answer in enumerate(self._stub.StreamSend(requests)):
            assert answer.correlation_id == at

    def receive(self, most: int) -> list[str]:
        """Wait for messages; their receipts."""
        request = rpc.ReceiveRequest(queue=self.queue, max_messages=most, wait=PATIENCE)
        messages = self._stub.Receive(request).messages
        assert messages
        return [message.receipt for message in messages]

    def receive_streamed(self, count: int) -> Iterator[str]:
        """Yield the receipts of so many messages, as they come."""
        start = rpc.ReceiveStart(queue=self.queue, max_in_flight=10)
        stream = self._stub.StreamReceive(iter([rpc.StreamReceiveRequest(start=start)]))
        for frame in stream:
            for message in frame.received.messages:
                count -= 1
                yield message.receipt
            if count <= 0:
                break
        stream.cancel()

    def delete(self, *receipts: str) -> None:
        self._delete([rpc.DeleteTarget(receipt=receipt) for receipt in receipts])

    def delete_ids(self, *ids: str) -> None:
        self._delete([rpc.DeleteTarget(id=id) for id in ids])

    def _delete(self, targets: Sequence[rpc.DeleteTarget]) -> None:
        answer = self._stub.Delete(rpc.DeleteRequest(queue=self.queue, targets=targets))
        assert not any(result.HasField("error") for result in answer.results)

    def extend(self, *receipts: str) -> None:
        longer = Duration(seconds=1_200)
        extensions = [rpc.LeaseExtension(receipt=each, visibility_timeout=longer) for each in receipts]
        answer = self._stub.ExtendLeases(
            rpc.ExtendLeasesRequest(queue=self.queue, extensions=extensions)
        )
        assert not any(result.HasField("error") for result in answer.results)

    def release(self, *receipts: str) -> None:
        releases = [rpc.MessageRelease(receipt=each, delay=Duration()) for each in receipts]
        answer = self._stub.Release(rpc.ReleaseRequest(queue=self.queue, releases=releases))
        assert not any(result.HasField("error") for result in answer.results)


def _outgoing(bodies: Sequence[bytes], delay: Duration | None = None) -> list[pb.OutgoingMessage]:
    attributes = {"kind": pb.Attribute(string_value="audited")}
    return [pb.OutgoingMessage(body=body, attributes=attributes, delay=delay) for body in bodies]


def step_by_step(address: str) -> None:
    """Do every operation, one after the other, so that each answer can be compared with all dirty
    state: singles, whole batches, parts of batches, and queues."""
    client = Client(address)
    client.create("graves")
    client.create("q", max_receives=2, dead_letter_queue="graves")
    client.update("q", visibility_timeout=Duration(seconds=900))
    _life_of_singles(client)
    _life_of_batches(client)
    _dead_letters(client)
    client.create("loose", lease_durability=pb.LEASE_DURABILITY_RELAXED)
    client.queue = "loose"
    client.send(b"one", b"two", b"three")
    client.extend(*client.receive(1))
    client.delete(*client.receive(2))
    _ends_of_queues(client)
    client.close()


def _life_of_singles(client: Client) -> None:
    client.send(b"single")
    receipts = client.receive(1)
    client.extend(*receipts)
    client.release(*receipts)
    client.delete(*client.receive(1))
    client.delete_ids(*client.send(b"unseen"))
    client.send(b"")
    client.delete(*client.receive(1))
    client.send(b"later", delay=DELAY)
    client.delete(*client.receive(1))
    client.send_streamed([[b"streamed"], [b"streamed", b"in pairs"]])
    for receipt in client.receive_streamed(3):
        client.delete(receipt)


def _life_of_batches(client: Client) -> None:
    client.send(*(b"whole %d" % n for n in range(5)))
    receipts = client.receive(5)
    client.extend(*receipts)
    client.release(*receipts)
    client.delete(*client.receive(5))
    client.send(*(b"parted %d" % n for n in range(5)))
    client.delete(*client.receive(1))
    first, second, *rest = client.receive(4)
    client.delete(first)
    client.extend(second)
    client.delete(*rest)
    client.delete(second)
    ids = client.send(b"by", b"their", b"ids")
    client.delete_ids(ids[0])
    client.delete_ids(*ids[1:])
    client.send(b"two", b"later", delay=DELAY)
    client.delete(*client.receive(2))


def _dead_letters(client: Client) -> None:
    client.send(b"poisonous")
    client.send(b"poisonous", b"pair")
    for _ in range(2):
        client.release(*client.receive(3))
    client.queue = "graves"
    client.delete(*client.receive(3))
    client.queue = "q"


def _ends_of_queues(client: Client) -> None:
    for _ in range(2):
        client.create_when_free("short")
        client.queue = "short"
        client.send(b"leased")
        client.receive(1)
        client.send(b"ready", b"in", b"a batch")
        client.send(b"delayed", delay=PATIENCE)
        assert client.purge() == 5
        client.send(b"again", b"and again")
        client.receive(1)
        client.send(b"delayed", delay=PATIENCE)
        client.delete_queue("short")
        client.queue = "q"


def at_once(address: str, clients: int = 4, rounds: int = 6) -> None:
    """Clients that send, receive, extend, release and delete, each what it was given."""
    Client(address).create("shared")

    def live(number: int) -> None:
        client = Client(address, "shared")
        for turn in range(rounds):
            client.send(b"%d" % number)
            client.send(*(b"%d of %d" % (n, number) for n in range(3)))
            receipts = client.receive(1 + (number + turn) % 4)
            client.extend(*receipts)
            if turn % 3 == 0:
                client.release(*receipts)
            else:
                client.delete(*receipts)
        client.close()

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(live, range(clients)))

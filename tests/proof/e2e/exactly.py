"""A pipeline that counts every message: writers that publish or repeat, and a reader that reserves.

Each asks again and again until it is answered, whatever becomes of the server meanwhile, by the bare
stubs, so that no retry is the client's own. Written messages are in the queue once, and committed ones
were read once: any other count is a fault.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Self

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import reservation_service_pb2, staging_service_pb2

from tests.support.run_processes import SILENCE, Served

QUEUE: Final = "exactly"
HOLD: Final = Duration(seconds=12 * 3600)
"""Longer than any run: nothing may be lost that way, and what a killed server had leased for a set that
it never made must come back without."""
WAIT: Final = Duration(nanos=200_000_000)
PAUSE: Final = 0.02
"""Seconds between two tries."""
AGAIN: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
"""Codes that a client gets when its server dies or drains."""
_OPTIONS: Final = (
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.use_local_subchannel_pool", 1),
)


@dataclass(slots=True)
class Tally:
    """Counts of the pipeline. Threads share it."""

    written: Counter[bytes] = field(default_factory=Counter)
    """Bodies that were acknowledged, each of which must be there once."""
    read: Counter[bytes] = field(default_factory=Counter)
    """Bodies of the sets that were committed."""
    ids: dict[bytes, str] = field(default_factory=dict)
    """By body, of the messages that were sent and not published: the id that was answered."""
    duplicates: int = 0
    """Sends that were answered as repetitions."""
    repeated: int = 0
    """Chunks, publications and sets that were there already when they were asked for."""
    tries: int = 0
    """Calls that failed and were made again."""
    faults: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, **more: int) -> None:
        with self._lock:
            for name, count in more.items():
                setattr(self, name, getattr(self, name) + count)

    def wrong(self, what: str) -> None:
        self.faults.append(what)

    def __str__(self) -> str:
        return (
            f"{self.written.total()} written, {self.read.total()} read, {self.duplicates} duplicates, "
            f"{self.repeated} repeated, {self.tries} calls failed"
        )


class Pipeline:
    """Writers and one reader at one queue, in threads, until `finish`."""

    def __init__(self, servers: Sequence[Served], random: Random) -> None:
        """The servers share a root. Each call goes to the next of them, and so does a repetition."""
        self.tally = Tally()
        self._random = random
        self._writing_ends = threading.Event()
        self._reading_ends = threading.Event()
        self._failed: list[BaseException] = []
        self._channels = [grpc.insecure_channel(served.address, options=_OPTIONS) for served in servers]
        stubs = [Stubs(channel) for channel in self._channels]
        self._stubs: Iterator[Any] = itertools.cycle(stubs)
        self._ask(
            "CreateQueue", queues.CreateQueueRequest(queue=pb.Queue(name=QUEUE, settings=_settings()))
        )
        self._writers = [
            self._thread(write, name, Random(random.randrange(1 << 32)))
            for write, name in (
                (self._publish, "p1"),
                (self._publish, "p2"),
                (self._send, "s1"),
                (self._send, "s2"),
            )
        ]
        self._reader = self._thread(self._read)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._writing_ends.set()
        self._reading_ends.set()
        for thread in (*self._writers, self._reader):
            thread.join(SILENCE)
        for channel in self._channels:
            channel.close()

    def advance(self, least: float, most: float) -> None:
        """Let all go on until something more was written and read, and then up to a random moment."""
        end = time.monotonic() + SILENCE
        written, read = self.tally.written.total(), self.tally.read.total()
        while self.tally.written.total() == written or self.tally.read.total() == read:
            self._check()
            assert time.monotonic() < end, f"nothing is going on: {self.tally}"
            time.sleep(PAUSE)
        time.sleep(self._random.uniform(least, most))

    def finish(self) -> Tally:
        """Write no more, read what is there, and say what came of it."""
        self._writing_ends.set()
        for thread in self._writers:
            thread.join(SILENCE)
            assert not thread.is_alive(), f"stuck: {thread.name}"
        end = time.monotonic() + SILENCE
        while self.tally.read.total() < self.tally.written.total():
            self._check()
            assert time.monotonic() < end, self._missing()
            time.sleep(PAUSE)
        self._reading_ends.set()
        self._reader.join(SILENCE)
        self._check()
        counts = self._ask("GetQueue", queues.GetQueueRequest(name=QUEUE)).queue.counts
        if counts.ready_count or counts.leased_count or counts.delayed_count:
            self.tally.wrong(f"left in the queue: {counts}")
        stages = self._ask("ListStages", staging_service_pb2.ListStagesRequest()).stages
        if stages:
            self.tally.wrong(f"left of stages: {stages}")
        return self.tally

    def _missing(self) -> str:
        """Return what should have been read by now, and where it may be."""
        names = sorted(body.split()[0].decode() for body in self.tally.written - self.tally.read)
        counts = self._ask("GetQueue", queues.GetQueueRequest(name=QUEUE)).queue.counts
        held = self._ask("ListReservations", reservation_service_pb2.ListReservationsRequest())
        return f"{len(names)} are missing, with {counts} and {held}: {names[:20]}"

    def _check(self) -> None:
        if self._failed:
            raise self._failed[0]

    def _thread(self, run: Callable[..., None], *arguments: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                run(*arguments)
            except BaseException as error:
                self._failed.append(error)
                raise

        name = f"{run.__name__} {''.join(map(str, arguments[:1]))}"
        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        return thread

    # Writers.

    def _publish(self, writer: str, random: Random) -> None:
        for epoch in _numbers(self._writing_ends):
            stages: list[str] = []
            bodies: list[bytes] = []
            for number in range(random.randrange(4)):
                name = f"{writer}-{epoch}-{number}"
                stages.append(name)
                for chunk in range(random.randint(1, 3)):
                    sizes = [random.choice((0, 10, 100, 5_000)) for _ in range(random.randint(1, 60))]
                    made = [
                        b"%s:%d:%d:%d:%d " % (writer.encode(), epoch, number, chunk, place)
                        + bytes(size)
                        for place, size in enumerate(sizes)
                    ]
                    bodies += made
                    self._stage(name, chunk, made)
            answer = self._ask(
                "Publish", staging_service_pb2.PublishRequest(writer=writer, epoch=epoch, stages=stages)
            )
            if answer.duplicate:
                self.tally.add(repeated=1)
            elif answer.message_count != len(bodies):
                self.tally.wrong(f"{answer.message_count} of {len(bodies)} published: {stages}")
            if answer.last_epoch != epoch:
                self.tally.wrong(f"epoch {epoch} of {writer} is {answer.last_epoch}")
            self.tally.written.update(bodies)

    def _stage(self, name: str, chunk: int, bodies: list[bytes]) -> None:
        messages = [pb.OutgoingMessage(body=body) for body in bodies]
        answer = self._ask(
            "Stage",
            staging_service_pb2.StageRequest(
                stage=name, chunk_number=chunk, queue=QUEUE, messages=messages
            ),
        )
        if answer.message_count != len(bodies):
            self.tally.wrong(f"{answer.message_count} of {len(bodies)} staged: {name} {chunk}")
        self.tally.add(repeated=answer.duplicate)

    def _send(self, sender: str, random: Random) -> None:
        for number in _numbers(self._writing_ends):
            bodies = [
                b"%s:%d:%d " % (sender.encode(), number, place) + bytes(random.choice((0, 100, 1_000)))
                for place in range(random.choice((1, 1, 20)))
            ]
            messages = [
                pb.OutgoingMessage(body=body, deduplication_id=body.split()[0].decode())
                for body in bodies
            ]
            answer = self._ask("Send", queues.SendRequest(queue=QUEUE, messages=messages))
            for body, result in zip(bodies, answer.results, strict=True):
                if result.HasField("error"):
                    self.tally.wrong(f"not sent: {result.error}")
                self.tally.add(duplicates=result.sent.duplicate)
                self.tally.ids[body] = result.sent.id
            self.tally.written.update(bodies)

    # Readers.

    def _read(self) -> None:
        for sequence_number in _numbers(self._reading_ends):
            while not (
                answer := self._ask(
                    "Reserve",
                    reservation_service_pb2.ReserveRequest(
                        queue=QUEUE,
                        stream="r",
                        sequence_number=sequence_number,
                        max_messages=500,
                        visibility_timeout=HOLD,
                        wait=WAIT,
                    ),
                )
            ).HasField("reservation"):
                if self._reading_ends.is_set():
                    return
            self._read_set(answer.reservation)

    def _read_set(self, made: reservation_service_pb2.Reservation) -> None:
        """Read it twice, and commit it."""
        sequence_number = made.sequence_number
        request = reservation_service_pb2.ReadReservationRequest(
            stream="r", sequence_number=sequence_number
        )
        first = self._ask("ReadReservation", request)
        self._ask(
            "ExtendReservation",
            reservation_service_pb2.ExtendReservationRequest(
                stream="r", sequence_number=sequence_number
            ),
        )
        again = self._ask("ReadReservation", request)
        ids = [message.id for message in first]
        if ids != [message.id for message in again] or len(ids) != made.message_count:
            self.tally.wrong(
                f"set {sequence_number} of {made.message_count} is {len(ids)} and then {len(again)}"
            )
        answer = self._ask(
            "CommitReservations",
            reservation_service_pb2.CommitReservationsRequest(
                stream="r", last_sequence_number=sequence_number
            ),
        )
        if answer.lost_sequence_numbers or answer.deleted_count not in (0, made.message_count):
            self.tally.wrong(
                f"commit of set {sequence_number}, {made.message_count} messages: {answer}"
            )
        for message in first:
            if self.tally.ids.get(message.body, message.id) != message.id:
                self.tally.wrong(f"{message.body[:40]!r} was answered with another id")
        self.tally.read.update(message.body for message in first)

    def _ask(self, method: str, request: Any) -> Any:
        """Return the answer, however often it takes; of a read, all messages."""
        end = time.monotonic() + SILENCE
        while True:
            call = getattr(next(self._stubs), method)
            try:
                answer = call(request, timeout=SILENCE)
                if method == "ReadReservation":
                    return [message for frame in answer for message in frame.messages]
                return answer
            except grpc.RpcError as error:
                failed = error
            told = f"{failed.code()} {_reason(failed)}: {failed.details()}"
            assert failed.code() in AGAIN, told
            assert time.monotonic() < end, told
            self.tally.add(tries=1)
            time.sleep(PAUSE)


def check(tally: Tally) -> None:
    print(tally)
    assert not tally.faults, tally.faults[:5]
    lost, more = tally.written - tally.read, tally.read - tally.written
    assert not lost, list(lost)[:5]
    assert not more, list(more)[:5]
    assert max(tally.written.values()) == 1
    assert tally.ids


def _settings() -> pb.QueueSettings:
    return pb.QueueSettings(deduplication_window=Duration(seconds=24 * 3600))


def _numbers(until: threading.Event) -> Iterator[int]:
    number = 0
    while not until.is_set():
        yield number
        number += 1


def _reason(error: grpc.RpcError) -> str:
    raw = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    info = ErrorInfo()
    for detail in Status.FromString(raw).details:
        if detail.Unpack(info):
            return str(info.reason)
    return "without a reason"

"""How each reason is provoked at a real server, from outside: by calls, and by spoiling its files.

One function for each reason; it returns the request that is refused with it, after whatever must have
happened before. `NOT_PROVOKED` says of the rest why no client can bring them about here.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1 import redrive_service_pb2 as redrives
from spoolrack.v1 import reservation_service_pb2 as sets
from spoolrack.v1 import staging_service_pb2 as stages

NOBODY: Final = "01999999-9999-7999-8999-999999999999"

ADOPTED_WITHIN: Final = 60.0
"""Seconds."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A server, and names of the test's own."""

    stub: Stubs
    root: Path
    queue: str

    def create(self, name: str = "", **settings: object) -> None:
        request = rpc.CreateQueueRequest(
            queue=pb.Queue(name=name or self.queue, settings=pb.QueueSettings(**settings))
        )
        self.stub.CreateQueue(request)

    def send(self, *bodies: bytes) -> list[str]:
        messages = [pb.OutgoingMessage(body=body) for body in bodies]
        sent = self.stub.Send(rpc.SendRequest(queue=self.queue, messages=messages))
        return [result.sent.id for result in sent.results]

    def receive(self) -> pb.Message:
        (message,) = self.stub.Receive(rpc.ReceiveRequest(queue=self.queue)).messages
        return message

    def reserve(self, sequence_number: int = 0) -> None:
        request = sets.ReserveRequest(
            queue=self.queue, stream=self.queue, sequence_number=sequence_number
        )
        assert self.stub.Reserve(request).HasField("reservation")


Provoked = tuple[str, Message, dict[str, str]]
"""The method, the request, and facts that the refusal must carry."""
Provoke = Callable[[Scene], Provoked]


def _invalid_queue_name(scene: Scene) -> Provoked:
    return "CreateQueue", rpc.CreateQueueRequest(queue=pb.Queue(name="no/name")), {"name": "no/name"}


def _invalid_setting(scene: Scene) -> Provoked:
    settings = pb.QueueSettings(visibility_timeout=Duration(seconds=100_000))
    return (
        "CreateQueue",
        rpc.CreateQueueRequest(queue=pb.Queue(name=scene.queue, settings=settings)),
        {"name": "visibility_timeout"},
    )


def _invalid_request(scene: Scene) -> Provoked:
    scene.create()
    return "Send", rpc.SendRequest(queue=scene.queue), {"value": "0"}


def _invalid_message(scene: Scene) -> Provoked:
    scene.create()
    nameless = pb.OutgoingMessage(attributes={"": pb.Attribute(string_value="?")})
    request = stages.StageRequest(stage=scene.queue, queue=scene.queue, messages=[nameless])
    return "Stage", request, {}


def _queue_not_found(scene: Scene) -> Provoked:
    return "GetQueue", rpc.GetQueueRequest(name=scene.queue), {"queue": scene.queue}


def _message_not_found(scene: Scene) -> Provoked:
    scene.create()
    request = rpc.GetMessageRequest(queue=scene.queue, id=NOBODY)
    return "GetMessage", request, {"queue": scene.queue, "id": NOBODY}


def _stage_not_found(scene: Scene) -> Provoked:
    request = stages.PublishRequest(writer=scene.queue, epoch=0, stages=["missing"])
    return "Publish", request, {"stage": "missing"}


def _reservation_not_found(scene: Scene) -> Provoked:
    request = sets.ExtendReservationRequest(stream=scene.queue, sequence_number=0)
    return "ExtendReservation", request, {"stream": scene.queue, "sequence_number": "0"}


def _version_mismatch(scene: Scene) -> Provoked:
    scene.create()
    request = rpc.DeleteQueueRequest(name=scene.queue, version=7)
    return "DeleteQueue", request, {"queue": scene.queue, "version": "1", "expected": "7"}


def _queue_exists(scene: Scene) -> Provoked:
    scene.create()
    other = rpc.CreateQueueRequest(
        queue=pb.Queue(name=scene.queue, settings=pb.QueueSettings(max_messages=1))
    )
    return "CreateQueue", other, {"queue": scene.queue, "differing": "max_messages is 0, not 1"}


def _reservation_lost(scene: Scene) -> Provoked:
    scene.create()
    scene.send(b"1")
    scene.reserve()
    scene.stub.ReleaseReservation(sets.ReleaseReservationRequest(stream=scene.queue, sequence_number=0))
    return (
        "ExtendReservation",
        sets.ExtendReservationRequest(stream=scene.queue, sequence_number=0),
        {"sequence_number": "0"},
    )


def _reservation_committed(scene: Scene) -> Provoked:
    scene.create()
    scene.send(b"1")
    scene.reserve()
    scene.stub.CommitReservations(
        sets.CommitReservationsRequest(stream=scene.queue, last_sequence_number=0)
    )
    return (
        "ExtendReservation",
        sets.ExtendReservationRequest(stream=scene.queue, sequence_number=0),
        {"committed": "0"},
    )


def _reservation_unread(scene: Scene) -> Provoked:
    scene.create()
    scene.send(b"1")
    scene.reserve()
    request = sets.CommitReservationsRequest(stream=scene.queue, last_sequence_number=0, only_read=True)
    return "CommitReservations", request, {"stream": scene.queue, "sequence_number": "0"}


def _stage_incomplete(scene: Scene) -> Provoked:
    scene.create()
    message = pb.OutgoingMessage(body=b"1")
    scene.stub.Stage(stages.StageRequest(stage=scene.queue, queue=scene.queue, messages=[message]))
    request = stages.PublishRequest(writer=scene.queue, stages=[scene.queue], message_count=2)
    return "Publish", request, {"held": "1", "expected": "2"}


def _epoch_differs(scene: Scene) -> Provoked:
    scene.stub.Publish(stages.PublishRequest(writer=scene.queue, epoch=7, digest="one"))
    other = stages.PublishRequest(writer=scene.queue, epoch=7, digest="another")
    return "Publish", other, {"writer": scene.queue, "epoch": "7"}


def _epoch_passed(scene: Scene) -> Provoked:
    scene.stub.Publish(stages.PublishRequest(writer=scene.queue, epoch=7, digest="one"))
    older = stages.PublishRequest(writer=scene.queue, epoch=6, digest="one")
    return "Publish", older, {"writer": scene.queue, "epoch": "6", "last_epoch": "7"}


def _chunk_differs(scene: Scene) -> Provoked:
    scene.create()
    first, other = (
        stages.StageRequest(
            stage=scene.queue, queue=scene.queue, messages=[pb.OutgoingMessage(body=body)]
        )
        for body in (b"1", b"2")
    )
    scene.stub.Stage(first)
    return "Stage", other, {"stage": scene.queue, "chunk": "0"}


def _name_taken(scene: Scene) -> Provoked:
    scene.create()
    scene.send(b"1")
    scene.reserve()
    other = f"{scene.queue}.other"
    scene.create(other)
    request = sets.ReserveRequest(queue=other, stream=scene.queue, sequence_number=0)
    return "Reserve", request, {"kind": "stream", "name": scene.queue}


def _message_damaged(scene: Scene) -> Provoked:
    scene.create()
    # A message sent over the wire is in memory yet; a file put there by hand isn't.
    (scene.root / "new" / f"{scene.queue}:{uuid.uuid4()}").write_bytes(b"as it was sent")
    end = time.monotonic() + ADOPTED_WITHIN
    while not (adopted := list((scene.root / "queues" / scene.queue).iterdir())):
        assert time.monotonic() < end
        time.sleep(0.05)
    (file,) = adopted
    id = file.name[:36]
    file.write_bytes(b"as it was spent"[:14])
    return "GetMessage", rpc.GetMessageRequest(queue=scene.queue, id=id), {"id": id}


def _redrive_not_found(scene: Scene) -> Provoked:
    return "GetRedrive", redrives.GetRedriveRequest(id=NOBODY), {"redrive": NOBODY}


def _redrive_running(scene: Scene) -> Provoked:
    letters = f"{scene.queue}.letters"
    scene.create(letters)
    scene.create(max_receives=1, dead_letter_queue=letters)
    scene.send(b"1", b"2", b"3")
    for _ in range(3):
        # Released, the message goes to the dead letters before it could come again.
        release = rpc.MessageRelease(receipt=scene.receive().receipt, delay=Duration())
        scene.stub.Release(rpc.ReleaseRequest(queue=scene.queue, releases=[release]))
    slow = redrives.StartRedriveRequest(queue=letters, max_messages_per_second=1)
    started = scene.stub.StartRedrive(slow).redrive
    return "StartRedrive", slow, {"queue": letters, "redrive": started.id}


def _no_dead_letter_queue(scene: Scene) -> Provoked:
    scene.create()
    scene.send(b"1")
    rejection = rpc.MessageRejection(receipt=scene.receive().receipt)
    return (
        "Reject",
        rpc.RejectRequest(queue=scene.queue, rejections=[rejection]),
        {"queue": scene.queue},
    )


def _sending_paused(scene: Scene) -> Provoked:
    scene.create(sending=pb.FLOW_PAUSED)
    message = pb.OutgoingMessage(body=b"no")
    request = rpc.SendRequest(queue=scene.queue, messages=[message])
    return "Send", request, {"queue": scene.queue}


PROVOKE: Final[dict[str, Provoke]] = {
    "INVALID_QUEUE_NAME": _invalid_queue_name,
    "INVALID_SETTING": _invalid_setting,
    "INVALID_REQUEST": _invalid_request,
    "INVALID_MESSAGE": _invalid_message,
    "QUEUE_NOT_FOUND": _queue_not_found,
    "MESSAGE_NOT_FOUND": _message_not_found,
    "STAGE_NOT_FOUND": _stage_not_found,
    "RESERVATION_NOT_FOUND": _reservation_not_found,
    "REDRIVE_NOT_FOUND": _redrive_not_found,
    "REDRIVE_RUNNING": _redrive_running,
    "NO_DEAD_LETTER_QUEUE": _no_dead_letter_queue,
    "QUEUE_EXISTS": _queue_exists,
    "VERSION_MISMATCH": _version_mismatch,
    "SENDING_PAUSED": _sending_paused,
    "RESERVATION_LOST": _reservation_lost,
    "RESERVATION_COMMITTED": _reservation_committed,
    "RESERVATION_UNREAD": _reservation_unread,
    "STAGE_INCOMPLETE": _stage_incomplete,
    "EPOCH_DIFFERS": _epoch_differs,
    "EPOCH_PASSED": _epoch_passed,
    "CHUNK_DIFFERS": _chunk_differs,
    "NAME_TAKEN": _name_taken,
    "MESSAGE_DAMAGED": _message_damaged,
}
"""By reason: a call that fails with it."""

IN_RESULTS: Final = {
    "MESSAGE_TOO_LARGE": "test_the_valid_messages_of_a_batch_are_sent_and_the_invalid_say_why",
    "ATTRIBUTES_TOO_LARGE": "test_attributes_that_are_too_large_are_refused_with_their_size",
    "QUEUE_FULL": "test_a_full_queue_names_the_time_to_wait",
    "INVALID_RECEIPT": "test_a_receipt_that_is_none_is_refused_beside_others",
    "STALE_RECEIPT": "test_a_stale_receipt_is_refused_beside_one_that_is_good",
}
"""Never a call's status, but that of one message of many: the tests that read them."""
ELSEWHERE: Final = {"DRAINING": "test_a_drain_ends_a_stream_and_the_same_connection_serves_again"}
"""The tests that need a server of their own."""
NOT_PROVOKED: Final = {
    "SCHEDULE_NOT_FOUND": "no example knows schedules",
    "SCHEDULE_EXISTS": "likewise",
    "QUEUE_BEING_DELETED": "for a moment only, which a client can't prolong",
    "TOO_MANY_DEDUPLICATION_IDS": "needs four million sends",
    "DISK_FULL": "needs a disk that is full",
    "MEMORY_LIMIT": "needs a server that is short of memory",
    "DISK_ERROR": "needs a disk that fails",
    "STORE_FAILED": "needs a disk that fails",
    "OUTCOME_UNKNOWN": "needs a disk that fails",
    "INTERNAL_ERROR": "would be a defect of ours",
    "UNAUTHENTICATED": "needs a server that asks for tokens",
    "PERMISSION_DENIED": "likewise",
    "ROOT_DIFFERS": "needs metadata, which no example sends",
    "WRONG_SHARD": "needs a server that is a shard",
}
"""Why not; each language reads them from a server that fails as it is told to."""

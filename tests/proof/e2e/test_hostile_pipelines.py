"""Bad input for stages, reservations, redrives and deduplication ids: refused, and nothing outside is
touched."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import columns_pb2
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import redrive_service_pb2 as redrive
from spoolrack.v1 import reservation_service_pb2 as reservation
from spoolrack.v1 import staging_service_pb2 as staging
from spoolrack_server.wire import contract

from tests.proof.e2e.outside import Outside, litter_pipelines
from tests.support import MIB
from tests.support.run_processes import Served

METHODS: Final = (
    *(
        "Stage",
        "Publish",
        "AbortStage",
        "ListStages",
        "Reserve",
        "ExtendReservation",
        "ReadReservation",
    ),
    *("CommitReservations", "ReleaseReservation", "ListReservations", "Send"),
)
OURS: Final = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE}
"""Effects that bad input must never have."""
ROUNDS: Final = 75
TEXTS: Final = (
    *("", ".", "..", "../outside", "/etc", "a/b", "a\0b", "jobs\0", "s\n", " s", "s:x", "s@1", "s~1"),
    *("s,s1", "-", "_", "é", "ｓ", "\u202es", "*", "x" * 64, "x" * 65, "x" * 80, "x" * 81, "x" * MIB),  # noqa: RUF001
    *(
        "s@0000000000000",
        "w.0",
        "r.1",
        "r.-1",
        "r.99999999999999999999",
        "s",
        "s",
        "r",
        "w",
        "jobs",
        "jobs",
    ),
)
NUMBERS: Final = (0, 0, 1, 2, 3, -1, 1_000, 1_001, 2**31 - 1, -(2**31))
LARGE: Final = (*NUMBERS, 999_999_999, 1_000_000_000, 2**63 - 1, -(2**63), 100_000, 100_001)
SECONDS: Final = (0, 1, 5, -1, 60, 43_200, 43_201, 315_576_000_000, 2**63 - 1, -(2**63))
GOOD: Final[Mapping[str, Sequence[Any]]] = {
    **dict.fromkeys(("stage", "stages"), ("s", "s", "t", "u")),
    **dict.fromkeys(("queue", "name"), ("jobs",)),
    **dict.fromkeys(("writer", "stream"), ("w", "r")),
    **dict.fromkeys(("chunk_number", "epoch", "sequence_number", "last_sequence_number"), range(200)),
    **dict.fromkeys(("begin_index", "end_index"), (0, 0, 1)),
    **dict.fromkeys(("max_messages", "max_bytes", "page_size"), (0, 1, 10)),
    **dict.fromkeys(("time_to_live", "visibility_timeout"), (Duration(seconds=1), Duration(seconds=5))),
    "epoch_retention": (Duration(seconds=60),),
    "delay": (Duration(),),
    "deduplication_id": ("",),
    "page_token": ("", "s"),
    "messages": (pb.OutgoingMessage(body=b"x"),),
}
NANOS: Final = (0, 0, 0, 1, -1, 999_999_999, 1_000_000_000, -(2**31))


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path / "outside")


@pytest.fixture
def stub(served: Served) -> Iterator[Any]:
    options = (("grpc.max_send_message_length", -1),)
    with grpc.insecure_channel(served.address, options=options) as channel:
        stub = Stubs(channel)
        stub.CreateQueue(queues.CreateQueueRequest(queue=pb.Queue(name="jobs")))
        yield stub


def value_of(field: FieldDescriptor, random: Random) -> Any:
    """Good, mostly: a request that is wrong all over is refused for the first of its faults."""
    if field.name in GOOD and random.random() < 0.8:
        return random.choice(GOOD[field.name])
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_BYTES:
                return random.randbytes(random.choice((0, 1, 100)))
            return random.choice(TEXTS)
        case FieldDescriptor.CPPTYPE_INT64:
            return random.choice(LARGE)
        case FieldDescriptor.CPPTYPE_INT32:
            return random.choice(NUMBERS)
        case FieldDescriptor.CPPTYPE_BOOL:
            return random.choice((True, False))
        case FieldDescriptor.CPPTYPE_MESSAGE if field.message_type is Duration.DESCRIPTOR:
            return Duration(seconds=random.choice(SECONDS), nanos=random.choice(NANOS))
        case FieldDescriptor.CPPTYPE_MESSAGE if field.message_type is Timestamp.DESCRIPTOR:
            return Timestamp(seconds=random.choice(SECONDS), nanos=random.choice(NANOS))
        case FieldDescriptor.CPPTYPE_MESSAGE if field.message_type is pb.OutgoingMessage.DESCRIPTOR:
            return made(pb.OutgoingMessage, random)
        case FieldDescriptor.CPPTYPE_MESSAGE if (
            field.message_type is columns_pb2.MessageColumns.DESCRIPTOR
        ):
            return columns_pb2.MessageColumns(
                bodies=random.randbytes(random.choice((0, 1, 100))),
                body_sizes=[random.choice(LARGE) for _ in range(random.choice((0, 1, 2)))],
                groups={random.choice(NUMBERS): random.choice(TEXTS)},
            )
    raise AssertionError(f"no hostile value for {field.full_name}")


def made(kind: type[Message], random: Random) -> Any:
    """Return a message of which each field is absent, good or bad, as chance has it."""
    message: Any = kind()
    for field in kind.DESCRIPTOR.fields:
        if random.random() < 0.1 or field.name in ("wait", "attributes"):
            continue  # A wait of an hour would be kept.
        if field.name == "columns" and random.random() < 0.8:
            continue  # In place of messages, which most requests have.
        if field.is_repeated:
            count = random.choice((1, 1, 2, 20))
            getattr(message, field.name).extend(value_of(field, random) for _ in range(count))
        elif field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            getattr(message, field.name).CopyFrom(value_of(field, random))
        else:
            setattr(message, field.name, value_of(field, random))
    return message


def code_of(stub: Any, method: str, request: Message) -> grpc.StatusCode:
    try:
        answer = getattr(stub, method)(request, timeout=120)
        if method == "ReadReservation":
            for _ in answer:
                pass
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        return code
    return grpc.StatusCode.OK


def serves(stub: Any) -> bool:
    """Return whether messages that are staged now can be published, reserved, read and committed."""
    stub.PurgeQueue(queues.PurgeQueueRequest(name="jobs"))
    with contextlib.suppress(grpc.RpcError):  # There is none, but after a request that made it.
        stub.AbortStage(staging.AbortStageRequest(stage="still"))
    messages = [pb.OutgoingMessage(body=b"still there?"), pb.OutgoingMessage(body=b"yes")]
    stub.Stage(staging.StageRequest(stage="still", queue="jobs", messages=messages))
    epoch = stub.Publish(staging.PublishRequest(writer="still")).last_epoch + 1
    published = stub.Publish(staging.PublishRequest(writer="still", epoch=epoch, stages=["still"]))
    stub.Reserve(reservation.ReserveRequest(queue="jobs", stream="still", sequence_number=epoch))
    frames = stub.ReadReservation(
        reservation.ReadReservationRequest(stream="still", sequence_number=epoch)
    )
    found = [message.body for frame in frames for message in frame.messages]
    committed = stub.CommitReservations(
        reservation.CommitReservationsRequest(stream="still", last_sequence_number=epoch)
    )
    return (published.message_count, found, committed.deleted_count) == (
        2,
        [b"still there?", b"yes"],
        2,
    )


@pytest.mark.parametrize("method", METHODS)
def test_any_request_is_answered_without_an_internal_error(
    served: Served, stub: Any, outside: Outside, random: Random, method: str
) -> None:
    descriptor = contract.METHODS[method]
    kind = GetMessageClass(descriptor.input_type)
    met: Counter[grpc.StatusCode] = Counter()
    for number in range(ROUNDS):
        request = made(kind, random)
        if "sequence_number" in kind.DESCRIPTOR.fields_by_name and random.random() < 0.5:
            request.stream, request.sequence_number = "r", number
        # Chance hardly makes one that is accepted.
        if number % 10 == 0 and method == "Publish":
            request = staging.PublishRequest(writer="hostile", epoch=number, stages=["s"])
        if number % 10 == 0 and method == "CommitReservations":
            request = reservation.CommitReservationsRequest(stream="r", last_sequence_number=number)
        # The others, too, so that there is something to meet.
        message = pb.OutgoingMessage(body=random.randbytes(10))
        for name, asked in (
            ("Send", queues.SendRequest(queue="jobs", messages=[message])),
            ("Stage", staging.StageRequest(stage="s", queue="jobs", messages=[message])),
            ("Reserve", reservation.ReserveRequest(queue="jobs", stream="r", sequence_number=number)),
            (method, request),
        ):
            code = code_of(stub, name, asked)
            assert code not in OURS, (name, str(asked)[:1_000], served.member.last_words)
        met[code] += 1
    # Bad and good requests were met; what they have left is sound, also after a restart.
    assert met[grpc.StatusCode.INVALID_ARGUMENT] > 1, met
    assert met[grpc.StatusCode.OK] > 1, met
    assert serves(stub)
    assert outside.is_untouched()
    served.kill()
    served.restart()
    stub.GetQueue(queues.GetQueueRequest(name="jobs"), wait_for_ready=True)
    assert serves(stub)
    assert outside.is_untouched()


def test_bad_names_touch_nothing(served: Served, stub: Any, outside: Outside) -> None:
    before = tree(served.root)
    for name in ("..", "../outside", "a/b", "/etc", "a\0b", "s\n", "s@1", "x" * 81, "é", "x" * MIB, ""):
        message = pb.OutgoingMessage(body=b"x")
        for method, request in (
            ("Stage", staging.StageRequest(stage=name, queue="jobs", messages=[message])),
            ("Publish", staging.PublishRequest(writer=name)),
            ("Publish", staging.PublishRequest(writer="w", stages=[name])),
            ("AbortStage", staging.AbortStageRequest(stage=name)),
            ("Reserve", reservation.ReserveRequest(queue="jobs", stream=name)),
            ("ExtendReservation", reservation.ExtendReservationRequest(stream=name)),
            ("ReadReservation", reservation.ReadReservationRequest(stream=name)),
            ("CommitReservations", reservation.CommitReservationsRequest(stream=name)),
            ("ReleaseReservation", reservation.ReleaseReservationRequest(stream=name)),
            ("StartRedrive", redrive.StartRedriveRequest(queue=name)),
            ("StartRedrive", redrive.StartRedriveRequest(queue="jobs", destination=name or ".")),
            ("StartRedrive", redrive.StartRedriveRequest(queue="jobs", source_queue=name or ".")),
            ("StartRedrive", redrive.StartRedriveRequest(queue="jobs", message_ids=[name])),
            ("GetRedrive", redrive.GetRedriveRequest(id=name)),
            ("CancelRedrive", redrive.CancelRedriveRequest(id=name)),
            ("ListRedrives", redrive.ListRedrivesRequest(queue=name or ".")),
            ("ListRedrives", redrive.ListRedrivesRequest(page_token=name or ".")),
        ):
            code = code_of(stub, method, request)
            assert code is grpc.StatusCode.INVALID_ARGUMENT, (method, name[:100])
    assert tree(served.root) == before
    assert serves(stub)
    assert outside.is_untouched()


def tree(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if "quarantine" not in path.parts}


def test_a_deduplication_id_is_any_text_and_never_a_path(
    served: Served, stub: Any, outside: Outside
) -> None:
    ids = ["../../outside/secret", "/etc/passwd", "a\0b", "\n", "x,k1", "\u202e", "é" * 128, " ", "."]
    messages = [pb.OutgoingMessage(body=b"x", deduplication_id=id) for id in ids]
    request = queues.SendRequest(queue="jobs", messages=messages)
    first = [result.sent.id for result in stub.Send(request).results]
    assert len(set(first)) == len(ids)
    served.kill()
    served.restart()
    again = stub.Send(request, wait_for_ready=True).results
    assert [result.sent.id for result in again] == first
    assert all(result.sent.duplicate for result in again)
    assert outside.is_untouched()


def test_files_put_into_the_folders_of_a_running_server_affect_no_message(
    served: Served, stub: Any, outside: Outside
) -> None:
    litter_pipelines(served.root, "jobs", outside)
    assert serves(stub)
    for end in (served.kill, served.stop, served.kill):
        end()
        served.restart()
        stub.GetQueue(queues.GetQueueRequest(name="jobs"), wait_for_ready=True)
        assert serves(stub)
        for method, request in (
            ("ListStages", staging.ListStagesRequest()),
            ("ListReservations", reservation.ListReservationsRequest()),
        ):
            assert code_of(stub, method, request) is grpc.StatusCode.OK
        for name in ("linked", "file", "pipe", "empty", "within", "deep", "text", "folder"):
            for method, request in (
                ("Publish", staging.PublishRequest(writer=name, epoch=7, stages=[name])),
                ("AbortStage", staging.AbortStageRequest(stage=name)),
                ("Reserve", reservation.ReserveRequest(queue="jobs", stream=name)),
                ("CommitReservations", reservation.CommitReservationsRequest(stream=name)),
            ):
                assert code_of(stub, method, request) not in OURS, (method, name)
        assert outside.is_untouched()
    kept = [path for path in served.root.rglob("README") if path.is_file()]
    assert len(kept) == 5, "a foreign file is never destroyed"

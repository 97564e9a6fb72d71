"""Bad input for redrives: refused, and nothing outside is touched."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass
from spoolrack._transports.grpc_stubs import Stubs
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as queues
from spoolrack.v1 import redrive_service_pb2 as rpc
from spoolrack_server.wire import contract

from tests.e2e.outside import Outside
from tests.e2e.test_hostile_pipelines import OURS, check, code_of, made, tree
from tests.support import MIB
from tests.support.run_processes import Served

ROUNDS: Final = 50
METHODS: Final = ("StartRedrive", "GetRedrive", "ListRedrives", "CancelRedrive")
LOOKS: Final = 10_000
PAUSE: Final = threading.Event()


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    return Outside(tmp_path / "outside")


@pytest.fixture
def stub(served: Served) -> Iterator[Any]:
    options = (("grpc.max_send_message_length", -1),)
    with grpc.insecure_channel(served.address, options=options) as channel:
        stub = Stubs(channel)
        for name in ("jobs", "other"):
            stub.CreateQueue(queues.CreateQueueRequest(queue=pb.Queue(name=name)))
        yield stub


def serves(stub: Any) -> bool:
    """Return whether what is sent now can be redriven."""
    for name in ("from", "to"):
        stub.CreateQueue(queues.CreateQueueRequest(queue=pb.Queue(name=name)))
    body = b"still there?"
    stub.Send(queues.SendRequest(queue="from", messages=[pb.OutgoingMessage(body=body)]))
    begun = stub.StartRedrive(rpc.StartRedriveRequest(queue="from", destination="to")).redrive
    for _ in range(LOOKS):
        found = stub.GetRedrive(rpc.GetRedriveRequest(id=begun.id)).redrive
        if found.state == rpc.REDRIVE_STATE_DONE:
            (message,) = stub.Receive(queues.ReceiveRequest(queue="to")).messages
            stub.Delete(queues.DeleteRequest(queue="to", targets=[queues.DeleteTarget(id=message.id)]))
            return (found.moved_count, message.body) == (1, body)
        PAUSE.wait(0.002)
    return False


@pytest.mark.parametrize("method", METHODS)
def test_any_request_is_answered_without_an_internal_error(
    served: Served, stub: Any, outside: Outside, random: Random, method: str
) -> None:
    kind = GetMessageClass(contract.METHODS[method].input_type)
    met: Counter[grpc.StatusCode] = Counter()
    for number in range(ROUNDS):
        message = pb.OutgoingMessage(body=random.randbytes(10))
        stub.Send(queues.SendRequest(queue="jobs", messages=[message]))
        known = stub.ListRedrives(rpc.ListRedrivesRequest(page_size=1_000)).redrives
        request = made(kind, random)
        if "id" in kind.DESCRIPTOR.fields_by_name and known and random.random() < 0.5:
            request.id = random.choice(known).id
        begin = rpc.StartRedriveRequest(
            queue="jobs", destination="other", max_messages_per_second=random.choice((0, 1))
        )
        others = () if method == "StartRedrive" else (("StartRedrive", begin),)
        if method == "StartRedrive" and number % 10 == 0:
            request = begin  # Chance hardly makes one that is accepted.
        for name, asked in (*others, (method, request)):
            code = code_of(stub, name, asked)
            assert code not in OURS, (name, str(asked)[:1_000], served.member.last_words)
        met[code] += 1
        if method != "CancelRedrive" and known:
            code_of(stub, "CancelRedrive", rpc.CancelRedriveRequest(id=known[-1].id))
    check(met, served, stub, outside, serves)


def test_bad_names_touch_nothing(served: Served, stub: Any, outside: Outside) -> None:
    before = tree(served.root)
    for name in ("..", "../outside", "a/b", "/etc", "a\0b", "s\n", "s@1", "x" * 81, "é", "x" * MIB):
        for method, request in (
            ("StartRedrive", rpc.StartRedriveRequest(queue=name)),
            ("StartRedrive", rpc.StartRedriveRequest(queue="jobs", destination=name)),
            ("StartRedrive", rpc.StartRedriveRequest(queue="jobs", source_queue=name)),
            ("StartRedrive", rpc.StartRedriveRequest(queue="jobs", message_ids=[name])),
            ("GetRedrive", rpc.GetRedriveRequest(id=name)),
            ("CancelRedrive", rpc.CancelRedriveRequest(id=name)),
            ("ListRedrives", rpc.ListRedrivesRequest(queue=name)),
            ("ListRedrives", rpc.ListRedrivesRequest(page_token=name)),
        ):
            code = code_of(stub, method, request)
            assert code is grpc.StatusCode.INVALID_ARGUMENT, (method, name[:100])
    assert tree(served.root) == before
    assert serves(stub)
    assert outside.is_untouched()

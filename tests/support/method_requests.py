"""A valid request of each method of the contract, and how a call of it ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import grpc
from google.protobuf.message import Message
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1 import redrive_service_pb2 as redrive
from spoolrack.v1 import reservation_service_pb2 as reservation
from spoolrack.v1 import schedule_service_pb2 as schedule
from spoolrack.v1 import staging_service_pb2 as staging
from spoolrack_server.wire import contract

from tests.support.server_rig import Client, refusal
from tests.support.statuses import reason_of

ID = "018bcfe5-6801-7000-8000-0000000000ff"
MESSAGES = [pb.OutgoingMessage(body=b"x")]
STREAMS = {"StreamSend", "StreamDelete", "StreamReceive"}


def requests(queue: str) -> Mapping[str, Message]:
    """Return a request of each method that would do something to the queue, if there were one."""
    return {
        "CreateQueue": rpc.CreateQueueRequest(queue=pb.Queue(name=queue)),
        "GetQueue": rpc.GetQueueRequest(name=queue),
        "ListQueues": rpc.ListQueuesRequest(),
        "UpdateQueue": rpc.UpdateQueueRequest(queue=pb.Queue(name=queue)),
        "DeleteQueue": rpc.DeleteQueueRequest(name=queue),
        "PurgeQueue": rpc.PurgeQueueRequest(name=queue),
        "Send": rpc.SendRequest(queue=queue, messages=MESSAGES),
        "StreamSend": rpc.StreamSendRequest(request=rpc.SendRequest(queue=queue, messages=MESSAGES)),
        "Receive": rpc.ReceiveRequest(queue=queue),
        "StreamReceive": rpc.StreamReceiveRequest(start=rpc.ReceiveStart(queue=queue)),
        "Delete": rpc.DeleteRequest(queue=queue, targets=[rpc.DeleteTarget(id=ID)]),
        "StreamDelete": rpc.StreamDeleteRequest(
            request=rpc.DeleteRequest(queue=queue, targets=[rpc.DeleteTarget(id=ID)])
        ),
        "ExtendLeases": rpc.ExtendLeasesRequest(
            queue=queue, extensions=[{"receipt": "x", "visibility_timeout": {"seconds": 1}}]
        ),
        "Release": rpc.ReleaseRequest(queue=queue, releases=[rpc.MessageRelease(receipt="x")]),
        "Reject": rpc.RejectRequest(queue=queue, rejections=[rpc.MessageRejection(receipt="x")]),
        "GetMessage": rpc.GetMessageRequest(queue=queue, id=ID),
        "ListMessages": rpc.ListMessagesRequest(queue=queue),
        "Stage": staging.StageRequest(stage="s", queue=queue, messages=MESSAGES),
        "Publish": staging.PublishRequest(writer="w", epoch=1, stages=["theirs"]),
        "AbortStage": staging.AbortStageRequest(stage="theirs"),
        "GetStage": staging.GetStageRequest(stage="theirs"),
        "ListStages": staging.ListStagesRequest(),
        "Reserve": reservation.ReserveRequest(queue=queue, stream="mine", sequence_number=0),
        "ExtendReservation": reservation.ExtendReservationRequest(stream="theirs", sequence_number=0),
        "ReadReservation": reservation.ReadReservationRequest(stream="theirs", sequence_number=0),
        "CommitReservations": reservation.CommitReservationsRequest(
            stream="theirs", last_sequence_number=0
        ),
        "ReleaseReservation": reservation.ReleaseReservationRequest(stream="theirs", sequence_number=0),
        "GetReservation": reservation.GetReservationRequest(stream="theirs", sequence_number=0),
        "ListReservations": reservation.ListReservationsRequest(queue=queue),
        "StartRedrive": redrive.StartRedriveRequest(queue=queue),
        "GetRedrive": redrive.GetRedriveRequest(id=ID),
        "ListRedrives": redrive.ListRedrivesRequest(queue=queue),
        "CancelRedrive": redrive.CancelRedriveRequest(id=ID),
        "CreateSchedule": schedule.CreateScheduleRequest(
            schedule=schedule.Schedule(queue=queue, name="s", cron="0 0 1 1 *")
        ),
        "GetSchedule": schedule.GetScheduleRequest(queue=queue, name="s"),
        "UpdateSchedule": schedule.UpdateScheduleRequest(
            schedule=schedule.Schedule(queue=queue, name="s", cron="0 0 1 1 *")
        ),
        "ListSchedules": schedule.ListSchedulesRequest(queue=queue),
        "PauseSchedule": schedule.PauseScheduleRequest(queue=queue, name="s"),
        "ResumeSchedule": schedule.ResumeScheduleRequest(queue=queue, name="s"),
        "DeleteSchedule": schedule.DeleteScheduleRequest(queue=queue, name="s"),
    }


def naming(queue: str, method: str) -> Message:
    """Return the request of a method with the queue in it, also where it may be left out."""
    request: Any = requests(queue)[method]
    if "queue" in request.DESCRIPTOR.fields_by_name and not request.queue:
        request.queue = queue
    return request


async def call(client: Client, method: str, request: Message) -> Any:
    """Return the answer, or the first of them."""
    described = contract.METHODS[method]
    stub = client.stub.one_request if described.client_streaming else client.stub
    made = getattr(stub, method)
    if described.server_streaming:
        stream = made(request)
        answer = await stream.read()
        stream.cancel()
        return answer
    return await made(request)


async def outcome(client: Client, method: str, request: Message) -> tuple[str, str]:
    """Return the parts of a refused call that its caller sees: its reason, and its message."""
    try:
        answer = await call(client, method, request)
    except grpc.aio.AioRpcError as error:
        no = refusal(error)
        return no.reason, no.message
    if method in STREAMS and answer.HasField("error"):
        return reason_of(answer.error), answer.error.message
    return "", ""

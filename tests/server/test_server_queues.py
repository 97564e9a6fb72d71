"""The RPCs that make, show, change and remove queues."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1 import redrive_service_pb2 as redrives
from spoolrack.v1 import staging_service_pb2 as staging

from tests.server.reservation_rig import asked
from tests.support.server_rig import Client, refused


async def test_an_update_changes_what_its_mask_names_and_no_more(client: Client) -> None:
    await client.create(max_messages=5, max_bytes=6)
    response = await client.stub.UpdateQueue(
        rpc.UpdateQueueRequest(
            queue=pb.Queue(name="q", settings=pb.QueueSettings(max_bytes=7, max_message_size=8)),
            update_mask=FieldMask(paths=["settings.max_bytes", "settings.max_messages"]),
        )
    )
    settings = response.queue.settings
    assert (settings.max_messages, settings.max_bytes) == (0, 7)
    assert settings.max_message_size == 1024 * 1024
    assert response.queue.version > 1


async def test_a_mask_with_an_unknown_field_changes_nothing(client: Client) -> None:
    created = await client.create()
    no = await refused(
        client.stub.UpdateQueue(
            rpc.UpdateQueueRequest(
                queue=pb.Queue(name="q", settings=pb.QueueSettings(max_bytes=7)),
                update_mask=FieldMask(paths=["settings.max_bytes", "settings.colour"]),
            )
        )
    )
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")
    assert no.metadata["value"] == "settings.colour"
    assert (await client.stub.GetQueue(rpc.GetQueueRequest(name="q"))).queue == created


async def test_a_version_is_a_precondition(client: Client) -> None:
    await client.create()
    for call in (
        client.stub.UpdateQueue(rpc.UpdateQueueRequest(queue=pb.Queue(name="q", version=2))),
        client.stub.DeleteQueue(rpc.DeleteQueueRequest(name="q", version=2)),
    ):
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.ABORTED, "VERSION_MISMATCH")
        assert (no.metadata["version"], no.metadata["expected"]) == ("1", "2")
    no = await refused(client.stub.DeleteQueue(rpc.DeleteQueueRequest(name="q", version=-1)))
    assert no.reason == "INVALID_REQUEST"
    await client.stub.DeleteQueue(rpc.DeleteQueueRequest(name="q", version=1))


async def test_an_update_names_labels_in_its_mask(client: Client) -> None:
    queue = pb.Queue(name="q", labels={"team": "a", "tier": "gold"})
    created = await client.stub.CreateQueue(rpc.CreateQueueRequest(queue=queue))
    assert created.queue.labels == queue.labels
    change = rpc.UpdateQueueRequest(
        queue=pb.Queue(name="q", labels={"team": "b"}),
        update_mask=FieldMask(paths=["labels.team", "labels.tier"]),
    )
    assert (await client.stub.UpdateQueue(change)).queue.labels == {"team": "b"}
    wrong = rpc.UpdateQueueRequest(queue=pb.Queue(name="q", labels={"x" * 129: ""}))
    no = await refused(client.stub.UpdateQueue(wrong))
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_SETTING")


@pytest.mark.parametrize(
    "request_", [rpc.ListQueuesRequest(page_size=-1), rpc.ListQueuesRequest(page_token="a/b")]
)
async def test_a_page_that_cannot_be_is_refused(
    client: Client, request_: rpc.ListQueuesRequest
) -> None:
    no = await refused(client.stub.ListQueues(request_))
    assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a\0b", "x" * 81, "x" * 5_000_000])
async def test_a_bad_queue_name_is_refused_by_every_method(client: Client, name: str) -> None:
    calls = [
        client.stub.CreateQueue(rpc.CreateQueueRequest(queue=pb.Queue(name=name))),
        client.stub.GetQueue(rpc.GetQueueRequest(name=name)),
        client.stub.UpdateQueue(rpc.UpdateQueueRequest(queue=pb.Queue(name=name))),
        client.stub.DeleteQueue(rpc.DeleteQueueRequest(name=name)),
        client.stub.PurgeQueue(rpc.PurgeQueueRequest(name=name)),
        client.stub.Send(rpc.SendRequest(queue=name, messages=[pb.OutgoingMessage()])),
        client.stub.Receive(rpc.ReceiveRequest(queue=name)),
        client.stub.Delete(rpc.DeleteRequest(queue=name, targets=[rpc.DeleteTarget(receipt="x")])),
        client.stub.ExtendLeases(
            rpc.ExtendLeasesRequest(
                queue=name, extensions=[{"receipt": "x", "visibility_timeout": {"seconds": 1}}]
            )
        ),
        client.stub.GetMessage(rpc.GetMessageRequest(queue=name, id="x")),
        client.stub.ListMessages(rpc.ListMessagesRequest(queue=name)),
        client.stream(queue=name).read(),
        client.stub.Stage(staging.StageRequest(stage="s", queue=name, messages=[pb.OutgoingMessage()])),
        client.stub.Reserve(asked(queue=name)),
        client.stub.StartRedrive(redrives.StartRedriveRequest(queue=name)),
    ]
    for call in calls:
        no = await refused(call)
        assert (no.code, no.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_QUEUE_NAME")

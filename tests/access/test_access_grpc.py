"""Permissions over gRPC: every method of the contract, for strangers, for some and for others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from spoolrack.v1 import queue_pb2 as pb
from spoolrack.v1 import queue_service_pb2 as rpc
from spoolrack.v1 import redrive_service_pb2 as redrive
from spoolrack.v1 import reservation_service_pb2 as reservation
from spoolrack.v1 import schedule_service_pb2 as schedules
from spoolrack.v1 import staging_service_pb2 as staging
from spoolrack_server.access.security import Security
from spoolrack_server.access.tokens import line_of
from spoolrack_server.process.server import Server
from spoolrack_server.rpc.served import SERVED_METHODS
from spoolrack_server.rpc.services import METHODS
from spoolrack_server.wire import contract

from tests.support.access_rig import Files, as_caller, bearer, looks, reads_again, serving
from tests.support.method_requests import MESSAGES, call, naming, outcome, requests
from tests.support.server_rig import LONG, Client, refused
from tests.support.statuses import reason_of

DENIED, UNKNOWN = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED


@pytest.fixture
async def server(tmp_path: Path, files: Files) -> AsyncIterator[Server]:
    """One that knows the owner, who may do everything, alice, whose queues begin with "a", bob, whose
    queues begin with "b", and carol, who may do nothing."""
    security = Security(
        tokens=files.write_tokens("owner", "alice", "bob", "carol"),
        permissions=files.write_permissions("owner all *", "alice all a*", "bob all b*"),
    )
    async with serving(tmp_path / "root", security) as server:
        yield server


@pytest.fixture
async def owner(server: Server, files: Files) -> AsyncIterator[Client]:
    async with as_caller(server, bearer(files.tokens["owner"])) as client:
        yield client


@pytest.fixture
async def alice(server: Server, files: Files) -> AsyncIterator[Client]:
    async with as_caller(server, bearer(files.tokens["alice"])) as client:
        yield client


@pytest.fixture
async def bob(server: Server, files: Files) -> AsyncIterator[Client]:
    async with as_caller(server, bearer(files.tokens["bob"])) as client:
        yield client


def test_every_method_of_the_contract_is_in_the_table() -> None:
    assert requests("q").keys() == contract.METHODS.keys()
    assert METHODS.keys() == SERVED_METHODS.keys()


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((), id="none"),
        pytest.param(("Bearer srk_" + "x" * 43,), id="unknown"),
        pytest.param(("Bearer ",), id="empty"),
        pytest.param(("Basic b3duZXI6eA==",), id="basic"),
    ],
)
async def test_a_stranger_is_refused_by_every_method(server: Server, headers: tuple[str, ...]) -> None:
    async with as_caller(server, *headers) as stranger:
        for method, request in requests("q").items():
            no = await refused(call(stranger, method, request))
            assert (no.code, no.reason) == (UNKNOWN, "UNAUTHENTICATED"), method
            assert "srk_" not in no.message


async def test_two_tokens_in_one_call_are_refused(server: Server, files: Files) -> None:
    token = bearer(files.tokens["owner"])
    async with as_caller(server, token, token) as client:
        assert (await refused(client.counts())).reason == "UNAUTHENTICATED"


async def test_a_caller_without_permission_learns_nothing_of_a_queue(
    server: Server, files: Files, owner: Client
) -> None:
    """The answer is the same, word for word, whether there is such a queue or not."""
    async with as_caller(server, bearer(files.tokens["carol"])) as carol:
        asked = requests("q").items()
        without = {method: await outcome(carol, method, request) for method, request in asked}
        await owner.create("q")
        with_it = {method: await outcome(carol, method, request) for method, request in asked}
    assert without == with_it
    assert {reason for reason, _ in without.values()} == {"PERMISSION_DENIED"}


async def test_a_permission_for_some_queues_is_none_for_others(alice: Client, owner: Client) -> None:
    for queue in ("a1", "b1"):
        await owner.create(queue)
        await owner.send(b"x", queue=queue)
    for method in sorted(contract.METHODS.keys() - {"ListQueues"}):
        reason, message = await outcome(alice, method, naming("b1", method))
        assert reason == "PERMISSION_DENIED", method
        assert "alice may not" in message
        assert "at the queue b1" in message
        assert (await owner.counts("b1")).ready_count == 1
        assert (await outcome(alice, method, naming("a1", method)))[0] != "PERMISSION_DENIED", method


async def test_garbage_of_a_stranger_is_not_looked_at(server: Server) -> None:
    async with as_caller(server) as stranger:
        raw = stranger.channel.unary_unary("/spoolrack.v1.QueueService/GetQueue")(b"\xff\xff")
        assert (await refused(raw)).reason == "UNAUTHENTICATED"


async def test_lists_show_what_one_may_see_in_full_pages(alice: Client, owner: Client) -> None:
    names = [f"{letter}{number}" for letter in "abc" for number in range(5)]
    for name in [*names, "a9"]:
        await owner.create(name)
    first = await alice.stub.ListQueues(rpc.ListQueuesRequest(page_size=4))
    assert [queue.name for queue in first.queues] == ["a0", "a1", "a2", "a3"]
    rest = rpc.ListQueuesRequest(page_size=4, page_token=first.next_page_token)
    second = await alice.stub.ListQueues(rest)
    assert [queue.name for queue in second.queues] == ["a4", "a9"]
    assert not second.next_page_token
    assert len((await owner.stub.ListQueues(rpc.ListQueuesRequest())).queues) == 16


async def test_dead_letters_need_a_permission_where_they_go(alice: Client, owner: Client) -> None:
    for queue in ("b1", "a2"):
        await owner.create(queue)
    settings = pb.QueueSettings(max_receives=3, dead_letter_queue="b1")
    no = await refused(
        alice.stub.CreateQueue(rpc.CreateQueueRequest(queue=pb.Queue(name="a1", settings=settings)))
    )
    assert (no.reason, no.metadata["queue"]) == ("PERMISSION_DENIED", "b1")
    await alice.create("a1", max_receives=3, dead_letter_queue="a2")
    no = await refused(
        alice.stub.UpdateQueue(rpc.UpdateQueueRequest(queue=pb.Queue(name="a1", settings=settings)))
    )
    assert no.reason == "PERMISSION_DENIED"
    named = rpc.UpdateQueueRequest(queue=pb.Queue(name="a1", settings=settings))
    named.update_mask.paths.append("settings.max_receives")
    assert (await alice.stub.UpdateQueue(named)).queue.settings.dead_letter_queue == "a2"
    asked = redrive.StartRedriveRequest(queue="a2", destination="b1")
    assert (await refused(alice.stub.StartRedrive(asked))).reason == "PERMISSION_DENIED"


async def test_a_schedule_needs_the_permission_to_send_to_its_queue(
    server: Server, files: Files, owner: Client
) -> None:
    await owner.create("a1")
    files.write_permissions("owner all *", "alice manage a*")
    assert reads_again(server)
    async with as_caller(server, bearer(files.tokens["alice"])) as alice:
        no = await refused(alice.stub.CreateSchedule(requests("a1")["CreateSchedule"]))
    assert (no.reason, no.metadata["permission"]) == ("PERMISSION_DENIED", "send")


async def test_stages_of_queues_that_one_may_not_send_to_belong_to_others(
    alice: Client, owner: Client
) -> None:
    for queue in ("a1", "b1"):
        await owner.create(queue)
    for stage, queues in {"mine": ("a1",), "theirs": ("b1",), "mixed": ("a1", "b1")}.items():
        for chunk, queue in enumerate(queues):
            staged = staging.StageRequest(
                stage=stage, chunk_number=chunk, queue=queue, messages=MESSAGES
            )
            await owner.stub.Stage(staged)
    listed = await alice.stub.ListStages(staging.ListStagesRequest())
    assert [stage.name for stage in listed.stages] == ["mine"]
    mine = await alice.stub.GetStage(staging.GetStageRequest(stage="mine"))
    assert mine.stage == listed.stages[0]
    for stage in ("theirs", "mixed", "never"):
        get = staging.GetStageRequest(stage=stage)
        assert (await refused(alice.stub.GetStage(get))).reason == "STAGE_NOT_FOUND"
    for stages in (["theirs"], ["mixed"], ["mine", "mixed"]):
        publish = staging.PublishRequest(writer="w", epoch=1, stages=stages)
        assert (await refused(alice.stub.Publish(publish))).reason == "NAME_TAKEN"
    for stage in ("theirs", "mixed"):
        no = await refused(alice.stub.AbortStage(staging.AbortStageRequest(stage=stage)))
        assert (no.code, no.reason) == (grpc.StatusCode.ALREADY_EXISTS, "NAME_TAKEN")
        assert no.metadata == {"kind": "stage", "name": stage}
    never = staging.AbortStageRequest(stage="never")
    assert (await refused(alice.stub.AbortStage(never))).reason == "STAGE_NOT_FOUND"
    there = await owner.stub.ListStages(staging.ListStagesRequest())
    assert [stage.name for stage in there.stages] == ["mine", "mixed", "theirs"]
    assert (await owner.counts("a1")).ready_count == (await owner.counts("b1")).ready_count == 0
    publish = staging.PublishRequest(writer="w", epoch=1, stages=["mine"])
    assert (await alice.stub.Publish(publish)).message_count == 1
    publish = staging.PublishRequest(writer="w", epoch=2, stages=["mixed", "theirs"])
    assert (await owner.stub.Publish(publish)).message_count == 3


async def test_a_chunk_of_a_stranger_is_never_taken_for_the_caller_s(
    alice: Client, bob: Client, owner: Client
) -> None:
    """Neither under the same number nor beside it, whichever of them is first."""
    for queue in ("a1", "b1"):
        await owner.create(queue)
    theirs = staging.StageRequest(stage="job-43", queue="a1", messages=MESSAGES)
    await alice.stub.Stage(theirs)
    for number in (0, 1):
        mine = staging.StageRequest(stage="job-43", chunk_number=number, queue="b1", messages=MESSAGES)
        no = await refused(bob.stub.Stage(mine))
        assert (no.code, no.reason) == (grpc.StatusCode.ALREADY_EXISTS, "NAME_TAKEN")
    first = staging.StageRequest(stage="job-44", queue="b1", messages=MESSAGES)
    await bob.stub.Stage(first)
    after = staging.StageRequest(stage="job-44", chunk_number=1, queue="a1", messages=MESSAGES)
    assert (await refused(alice.stub.Stage(after))).reason == "NAME_TAKEN"
    publish = staging.PublishRequest(writer="mine", stages=["job-44"])
    assert (await bob.stub.Publish(publish)).message_count == 1
    assert (await owner.counts("b1")).ready_count == 1


@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize("victim", ["bob", "owner"])
async def test_a_writer_s_name_that_a_stranger_has_used_is_a_conflict(
    server: Server, files: Files, alice: Client, owner: Client, victim: str, is_empty: bool
) -> None:
    for queue in ("a1", "b1"):
        await owner.create(queue)
    stages: list[str] = [] if is_empty else ["theirs"]
    for stage in stages:
        await alice.stub.Stage(staging.StageRequest(stage=stage, queue="a1", messages=MESSAGES))
    squat = staging.PublishRequest(writer="vw", epoch=10**9, stages=stages)
    assert not (await alice.stub.Publish(squat)).duplicate
    assert (await alice.stub.Publish(squat)).duplicate, "to itself"
    async with as_caller(server, bearer(files.tokens[victim])) as caller:
        await caller.stub.Stage(staging.StageRequest(stage="mine", queue="b1", messages=MESSAGES))
        for digest in ("", "mine"):
            asked = staging.PublishRequest(writer="vw", epoch=1, stages=["mine"], digest=digest)
            no = await refused(caller.stub.Publish(asked))
            assert (no.code, no.reason) == (grpc.StatusCode.ALREADY_EXISTS, "NAME_TAKEN")
            assert no.metadata == {"kind": "writer", "name": "vw"}
        asked = staging.PublishRequest(writer="mine", epoch=1, stages=["mine"])
        assert (await caller.stub.Publish(asked)).message_count == 1


async def test_callers_that_may_all_do_everything_share_a_writer(tmp_path: Path, files: Files) -> None:
    """Without a permissions file none is kept from another's names."""
    security = Security(tokens=files.write_tokens("host-1", "host-2"))
    async with (
        serving(tmp_path / "root", security) as server,
        as_caller(server, bearer(files.tokens["host-1"])) as first,
        as_caller(server, bearer(files.tokens["host-2"])) as second,
    ):
        asked = staging.PublishRequest(writer="w", epoch=1)
        assert not (await first.stub.Publish(asked)).duplicate
        assert (await second.stub.Publish(asked)).duplicate


async def test_a_stream_of_a_queue_that_one_may_not_receive_from_belongs_to_others(
    alice: Client, owner: Client
) -> None:
    for queue in ("a1", "b1"):
        await owner.create(queue)
        await owner.send(b"secret", queue=queue)
        reserve = reservation.ReserveRequest(
            queue=queue, stream=f"of-{queue}", sequence_number=0, visibility_timeout=LONG
        )
        await owner.stub.Reserve(reserve)
    stub, at = alice.stub, {"stream": "of-b1", "sequence_number": 0}
    for asked in (
        stub.ExtendReservation(reservation.ExtendReservationRequest(**at)),
        stub.ReadReservation(reservation.ReadReservationRequest(**at)).read(),
        stub.ReleaseReservation(reservation.ReleaseReservationRequest(**at)),
        stub.CommitReservations(
            reservation.CommitReservationsRequest(stream="of-b1", last_sequence_number=0)
        ),
        # Far ahead of all sets: no reader could reserve there any more.
        stub.CommitReservations(
            reservation.CommitReservationsRequest(stream="of-b1", last_sequence_number=2**60)
        ),
        # By the name of another reader's set, of another queue.
        stub.Reserve(reservation.ReserveRequest(queue="a1", **at)),
    ):
        assert (await refused(asked)).reason == "NAME_TAKEN"
    listed = await stub.ListReservations(reservation.ListReservationsRequest())
    assert [found.queue for found in listed.reservations] == ["a1"]
    get = reservation.GetReservationRequest(stream="of-a1", sequence_number=0)
    assert (await stub.GetReservation(get)).reservation == listed.reservations[0]
    get = reservation.GetReservationRequest(stream="of-b1", sequence_number=0)
    assert (await refused(stub.GetReservation(get))).reason == "RESERVATION_NOT_FOUND"
    assert (await owner.counts("b1")).leased_count == 1
    frame = await stub.ReadReservation(
        reservation.ReadReservationRequest(stream="of-a1", sequence_number=0)
    ).read()
    assert [message.body for message in frame.messages] == [b"secret"]
    commit = reservation.CommitReservationsRequest(stream="of-a1", last_sequence_number=0)
    assert (await stub.CommitReservations(commit)).deleted_count == 1
    assert (await stub.CommitReservations(commit)).deleted_count == 0, "it may be repeated"
    commit = reservation.CommitReservationsRequest(stream="of-b1", last_sequence_number=0)
    assert (await owner.stub.CommitReservations(commit)).deleted_count == 1
    # Its next number, and what is committed, are no stranger's either.
    following = reservation.ReserveRequest(queue="a1", stream="of-b1", sequence_number=1)
    assert (await refused(stub.Reserve(following))).reason == "NAME_TAKEN"
    assert (await refused(stub.CommitReservations(commit))).reason == "NAME_TAKEN"


@pytest.mark.parametrize("are_joined", [False, True])
async def test_one_stream_may_send_here_and_not_there(
    alice: Client, owner: Client, are_joined: bool
) -> None:
    for queue in ("a1", "b1"):
        await owner.create(queue)
    first, *more = sends = [
        rpc.StreamSendRequest(
            correlation_id=number, request=rpc.SendRequest(queue=queue, messages=MESSAGES)
        )
        for number, queue in enumerate(("a1", "b1", "a1"))
    ]
    if are_joined:
        first.more.extend(more)
        sends = [first]
    answers = [answer async for answer in alice.stub.StreamSend(iter(sends))]
    assert [reason_of(answer.error) for answer in answers] == ["", "PERMISSION_DENIED", ""]
    assert (await owner.counts("a1")).ready_count == 2
    assert (await owner.counts("b1")).ready_count == 0


async def test_a_token_that_is_taken_away_ends_the_streams_of_its_holder(
    server: Server, files: Files, alice: Client, owner: Client
) -> None:
    await owner.create("a1")
    streams = [alice.stream(queue="a1"), owner.stream(queue="a1")]
    for stream in streams:
        await stream.initial_metadata()
    waiting = asyncio.ensure_future(alice.receive(queue="a1", wait=LONG))
    assert server._access_files is not None
    access_control = server._access_files.access_control
    while len(access_control._checks) < 3:
        await asyncio.sleep(0.001)
    files.write_tokens("owner")
    assert reads_again(server)
    access_control.recheck()
    assert (await refused(streams[0].read())).reason == "UNAUTHENTICATED"
    assert (await refused(alice.counts("a1"))).reason == "UNAUTHENTICATED"
    assert (await refused(waiting)).reason == "UNAUTHENTICATED"
    # No other caller has noticed, and nothing stays leased to the client that is gone.
    await owner.send(b"x", queue="a1")
    frame = await streams[1].read()
    assert [message.body for message in frame.received.messages] == [b"x"]


@pytest.mark.parametrize("left", [(), ("alice receive a2",)], ids=["nothing", "another queue"])
async def test_a_permission_that_is_taken_away_ends_the_streams_that_need_it(
    server: Server, files: Files, alice: Client, owner: Client, left: tuple[str, ...]
) -> None:
    await owner.create("a1")
    stream = alice.stream(queue="a1")
    await stream.initial_metadata()
    files.write_permissions("owner all *", "alice send a*", *left)
    # The server looks by itself, from time to time.
    no = await refused(stream.read())
    assert (no.code, no.reason) == (DENIED, "PERMISSION_DENIED")
    await alice.send(b"x", queue="a1")


async def test_a_token_that_is_added_is_known_within_moments(
    server: Server, files: Files, owner: Client
) -> None:
    await owner.create("q")
    files.write_tokens("owner", "alice", "carol", "dave")
    files.write_permissions("owner all *", "dave monitor q")
    async with as_caller(server, bearer(files.tokens["dave"])) as dave:
        for _ in looks():
            if (await outcome(dave, "GetQueue", rpc.GetQueueRequest(name="q")))[0] == "":
                return
    raise AssertionError("never known")


async def test_a_schedule_rests_once_its_owner_may_not_send_and_has_the_owner_that_changed_it(
    server: Server, files: Files, owner: Client, alice: Client
) -> None:
    await alice.create("a")
    schedule = schedules.Schedule(queue="a", name="s", cron="* * * * *")
    created = schedules.CreateScheduleRequest(schedule=schedule)
    assert (await alice.stub.CreateSchedule(created)).schedule.owner == "alice"

    async def reasons() -> list[str]:
        reads_again(server)
        (found,) = (await owner.stub.ListSchedules(schedules.ListSchedulesRequest())).schedules
        assert found.HasField("next_tick_time") is not bool(found.obstacles)
        return [each.reason for each in found.obstacles]

    assert await reasons() == []
    rules = ("owner all *", "alice all a*")
    files.write_permissions("owner all *", "alice manage,monitor a*")
    assert await reasons() == ["OWNER_NOT_PERMITTED"]
    files.write_permissions(*rules)
    assert await reasons() == []
    tokens = dict(files.tokens)
    files.write("tokens", line_of("owner", tokens["owner"]))
    assert await reasons() == ["OWNER_NOT_PERMITTED"], "its last token is revoked"
    updated = schedules.UpdateScheduleRequest(schedule=schedules.Schedule(queue="a", name="s"))
    assert (await owner.stub.UpdateSchedule(updated)).schedule.owner == "owner"
    assert await reasons() == []


async def test_an_unknown_method_is_answered_to_known_callers_only(
    server: Server, files: Files
) -> None:
    for token, code in (("", "UNAUTHENTICATED"), ("alice", "UNIMPLEMENTED")):
        headers = (("authorization", f"Bearer {files.tokens[token]}"),) if token else ()
        async with as_caller(server) as client:
            for method in (
                "/spoolrack.v9.QueueService/Send",
                "/other.Service/Method",
                "/grpc.health.v1.Health/X",
            ):
                call = client.channel.unary_unary(method)(b"", metadata=headers)
                assert (await call.code()).name == code, method


async def test_health_needs_no_token_and_reflection_needs_one(server: Server, files: Files) -> None:
    async with as_caller(server) as stranger:
        health = health_pb2_grpc.HealthStub(stranger.channel)
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        for headers, may in (((), False), ((("authorization", bearer(files.tokens["carol"])),), True)):
            stub = reflection_pb2_grpc.ServerReflectionStub(stranger.channel)
            if may:
                asked = reflection_pb2.ServerReflectionRequest(list_services="")
                stream = stub.ServerReflectionInfo(iter([asked]), metadata=headers)
                names = {s.name for s in (await stream.read()).list_services_response.service}
                assert "spoolrack.v1.QueueService" in names
            else:
                # Nothing is sent: a write to a call that has been refused fails by an error of its own.
                stream = stub.ServerReflectionInfo(metadata=headers)
                assert (await refused(stream.read())).code == UNKNOWN


async def test_without_a_permissions_file_each_authenticated_caller_may_do_everything(
    tmp_path: Path, files: Files
) -> None:
    security = Security(tokens=files.write_tokens("alice"))
    async with (
        serving(tmp_path / "root", security) as server,
        as_caller(server, bearer(files.tokens["alice"])) as alice,
    ):
        await alice.create("q")
        assert len(await alice.send(b"x")) == 1


async def test_redrives_of_queues_that_one_may_not_manage_are_not_there(
    tmp_path: Path, files: Files
) -> None:
    """A caller with MONITOR alone sees them, and can't end them."""
    security = Security(
        tokens=files.write_tokens("owner", "alice", "looker", "keeper"),
        permissions=files.write_permissions(
            "owner all *",
            "alice all a*",
            "looker monitor dead",
            "keeper monitor dead",
            "keeper manage k*",
        ),
    )
    async with (
        serving(tmp_path / "root", security) as server,
        as_caller(server, bearer(files.tokens["owner"])) as owner,
        as_caller(server, bearer(files.tokens["alice"])) as alice,
        as_caller(server, bearer(files.tokens["looker"])) as looker,
        as_caller(server, bearer(files.tokens["keeper"])) as keeper,
    ):
        await owner.create("dead")
        await owner.create("a1")
        await owner.send(b"x", b"y", queue="dead")
        start = redrive.StartRedriveRequest(queue="dead", destination="a1", max_messages_per_second=1)
        id = (await owner.stub.StartRedrive(start)).redrive.id
        get = redrive.GetRedriveRequest(id=id)
        cancel = redrive.CancelRedriveRequest(id=id)
        everything = redrive.ListRedrivesRequest()
        assert (await refused(alice.stub.GetRedrive(get))).reason == "REDRIVE_NOT_FOUND"
        assert (await refused(alice.stub.CancelRedrive(cancel))).reason == "REDRIVE_NOT_FOUND"
        assert not (await alice.stub.ListRedrives(everything)).redrives
        assert (await looker.stub.GetRedrive(get)).redrive.id == id
        assert (await refused(looker.stub.CancelRedrive(cancel))).reason == "PERMISSION_DENIED"
        assert (await keeper.stub.GetRedrive(get)).redrive.id == id
        assert (await refused(keeper.stub.CancelRedrive(cancel))).reason == "REDRIVE_NOT_FOUND"
        assert [found.id for found in (await looker.stub.ListRedrives(everything)).redrives] == [id]
        ended = (await owner.stub.CancelRedrive(cancel)).redrive
        assert ended.state == redrive.REDRIVE_STATE_CANCELLED

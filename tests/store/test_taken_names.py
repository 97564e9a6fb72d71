"""Names of stages, writers and streams belong to those who used them first: to another caller a call
under such a name is a conflict, and never a success."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from spoolrack_store.engine import reserver
from spoolrack_store.model.errors import (
    ChunkDiffers,
    DiskError,
    EpochPassed,
    NameTaken,
    ReservationNotFound,
    StageNotFound,
)
from spoolrack_store.model.operations import Request
from spoolrack_store.model.reservation_requests import (
    MEMORY,
    CommitReservations,
    ExtendReservation,
    MarkRead,
    Release,
    Reserve,
)
from spoolrack_store.model.schedule_requests import CreateSchedule, Fire
from spoolrack_store.model.sealed import seal, unseal
from spoolrack_store.model.stage_names import Manifest
from spoolrack_store.model.stage_requests import Abort, Publish, Published, Stage

from tests.store.stage_rig import START, Rig, chunk
from tests.support.engines import applied
from tests.support.set_rig import SetRig

Q: Callable[[str], bool] = "q".__eq__
OTHER: Callable[[str], bool] = "other".__eq__
BOTH: Callable[[str], bool] = ("q", "other").__contains__


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def sets() -> SetRig:
    return SetRig()


def staged(name: str, number: int, *bodies: bytes, queue: str, allowed: Callable[[str], bool]) -> Stage:
    return replace(chunk(name, number, *bodies, queue=queue), allowed=allowed)


def published(
    owner: str, epoch: int, *stages: str, allowed: Callable[[str], bool], digest: str = ""
) -> Publish:
    return Publish(writer="w", epoch=epoch, stages=stages, allowed=allowed, owner=owner, digest=digest)


# Stages.


@pytest.mark.parametrize("number", [0, 1])
def test_a_stage_with_a_foreign_chunk_takes_no_other(rig: Rig, number: int) -> None:
    rig.ask(staged("job", 0, b"theirs", queue="q", allowed=Q))
    for again in range(2):
        with pytest.raises(NameTaken) as refused:
            rig.ask(staged("job", number, b"mine", queue="other", allowed=OTHER))
        assert dict(refused.value.facts) == {"kind": "stage", "name": "job"}, again
    assert rig.publish("w", 0, "job").message_count == 1
    assert (rig.receive(), rig.receive("other")) == ([b"theirs"], [])


def test_a_stage_takes_no_chunk_of_a_stranger(rig: Rig) -> None:
    rig.ask(staged("job", 0, b"mine", queue="other", allowed=OTHER))
    with pytest.raises(NameTaken):
        rig.ask(staged("job", 1, b"theirs", queue="q", allowed=Q))
    assert rig.ask(published("me", 0, "job", allowed=OTHER)).message_count == 1
    assert rig.receive("other") == [b"mine"]


def test_the_stage_of_another_caller_is_neither_published_nor_aborted(rig: Rig) -> None:
    rig.stage("s", 0, b"a")
    rig.stage("s", 1, b"b", queue="other")
    for request in (published("me", 0, "s", allowed=Q), Abort(stage="s", allowed=Q)):
        with pytest.raises(NameTaken):
            rig.ask(request)
    with pytest.raises(StageNotFound):
        rig.ask(Abort(stage="never", allowed=Q))
    assert rig.publish("w", 0, "s").message_count == 2


@pytest.mark.parametrize(
    "again",
    [
        chunk("s", 0, b"a", b"c", attributes={1: {"n": "v", "m": b"w"}}),
        chunk("s", 0, b"ab", b"", attributes={1: {"n": "v", "m": b"w"}}),
        chunk("s", 0, b"a", attributes={0: {"n": "v", "m": b"w"}}),
        chunk("s", 0, b"a", b"b", attributes={0: {"n": "v", "m": b"w"}}),
        chunk("s", 0, b"a", b"b", attributes={1: {"n": "v", "m": "w"}}),
        chunk("s", 0, b"a", b"b"),
        chunk("s", 0, b"a", b"b", queue="other", attributes={1: {"n": "v", "m": b"w"}}),
        chunk("s", 0, b"a", b"b", delay=0, attributes={1: {"n": "v", "m": b"w"}}),
        replace(chunk("s", 0, b"a", b"b", attributes={1: {"n": "v", "m": b"w"}}), priority=1),
        replace(chunk("s", 0, b"a", b"b", attributes={1: {"n": "v", "m": b"w"}}), groups={0: "g"}),
    ],
    ids=[
        "a body",
        "a boundary",
        "fewer",
        "another's attributes",
        "text",
        "no attributes",
        "a queue",
        "a delay",
        "a priority",
        "a group",
    ],
)
def test_another_chunk_under_a_number_is_no_repetition(rig: Rig, again: Stage) -> None:
    first = chunk("s", 0, b"a", b"b", attributes={1: {"n": "v", "m": b"w"}})
    rig.ask(first)
    for _ in range(2):
        with pytest.raises(ChunkDiffers) as refused:
            rig.ask(again)
        assert dict(refused.value.facts) == {"stage": "s", "chunk": 0}
        rig.restart()
    assert rig.ask(first).duplicate
    assert rig.publish("w", 0, "s").message_count == 2
    assert rig.receive() == [b"a", b"b"]


def test_a_repeated_chunk_may_have_its_attributes_and_groups_in_another_order(rig: Rig) -> None:
    first = chunk("s", 0, b"a", b"b", attributes={0: {"x": "1", "y": "2"}, 1: {"z": b"3"}})
    rig.ask(replace(first, groups={0: "g", 1: "h"}))
    again = chunk("s", 0, b"a", b"b", attributes={1: {"z": b"3"}, 0: {"y": "2", "x": "1"}})
    assert rig.ask(replace(again, groups={1: "h", 0: "g"})).duplicate


def test_a_chunk_with_the_checksums_of_another_is_no_repetition(rig: Rig) -> None:
    """CRC-32 of both bodies is the same: a stranger can choose such a one."""
    one, two = b"plumless", b"buckeroo"
    rig.stage("s", 0, one)
    (name,) = rig.names("staged")
    with pytest.raises(ChunkDiffers):
        rig.stage("s", 0, two)
    assert "c4ddb0c25" in name


def test_a_chunk_that_cannot_be_compared_is_not_answered(rig: Rig) -> None:
    rig.stage("s", 0, b"a")
    rig.disk.refused = ("read staged",)
    with pytest.raises(DiskError):
        rig.stage("s", 0, b"a")
    rig.disk.refused = ()
    assert rig.stage("s", 0, b"a").duplicate


# Writers.


def _squat(
    rig: Rig, owner: str, epoch: int, *, allowed: Callable[[str], bool], queue: str = ""
) -> None:
    """Publish as `w`: a message to the queue, if there is one."""
    stages = [f"of-{owner}"] if queue else []
    if queue:
        rig.ask(staged(*stages, 0, b"theirs", queue=queue, allowed=allowed))
    rig.ask(published(owner, epoch, *stages, allowed=allowed, digest="theirs"))
    rig.settle()


@pytest.mark.parametrize("queue", ["", "q"], ids=["nothing", "a message"])
@pytest.mark.parametrize("allowed", [OTHER, BOTH, lambda queue: True], ids=["one", "both", "all"])
@pytest.mark.parametrize("digest", ["", "mine"], ids=["no digest", "digest"])
def test_the_epochs_of_a_stranger_pass_for_no_publication(
    rig: Rig, queue: str, allowed: Callable[[str], bool], digest: str
) -> None:
    _squat(rig, "stranger", 10**9, allowed=Q, queue=queue)
    rig.ask(staged("mine", 0, b"mine", queue="other", allowed=allowed))
    for restarts in range(2):
        for epoch in (1, 10**9):
            with pytest.raises(NameTaken) as refused:
                rig.ask(published("me", epoch, "mine", allowed=allowed, digest=digest))
            assert dict(refused.value.facts) == {"kind": "writer", "name": "w"}, restarts
        rig.restart()
    assert rig.staged() == ["mine"], "nothing of it is lost"


@pytest.mark.parametrize("epoch", [5, 6])
@pytest.mark.parametrize("queue", ["", "other"])
def test_a_stranger_publishes_nothing_under_another_s_writer(rig: Rig, epoch: int, queue: str) -> None:
    _squat(rig, "me", 5, allowed=OTHER, queue=queue)
    rig.ask(staged("theirs", 0, b"x", queue="q", allowed=Q))
    with pytest.raises(NameTaken):
        rig.ask(published("stranger", epoch, "theirs", allowed=Q))
    assert rig.ask(published("me", 6, allowed=OTHER)).last_epoch == 6


@pytest.mark.parametrize("queue", ["", "q"])
def test_the_same_identity_finds_its_epochs_published(rig: Rig, queue: str) -> None:
    _squat(rig, "me", 5, allowed=Q, queue=queue)
    rig.restart()
    for allowed in (Q, OTHER):  # Its permissions may have changed since.
        already = Published(message_count=0, duplicate=True, last_epoch=5)
        for epoch in (4, 5):
            assert rig.ask(published("me", epoch, allowed=allowed)) == already


def test_another_identity_of_the_same_queues_goes_on_with_a_writer(rig: Rig) -> None:
    """As a service that moves to another host, whose certificate has another name."""
    _squat(rig, "host-1", 5, allowed=Q, queue="q")
    again = published("host-2", 5, allowed=Q, digest="theirs")
    assert rig.ask(again).duplicate, "by its digest"
    with pytest.raises(NameTaken):
        rig.ask(replace(again, digest=""))
    assert not rig.ask(published("host-2", 6, allowed=Q)).duplicate
    rig.settle()
    # Without a message the writer stays the queue's.
    with pytest.raises(NameTaken):
        rig.ask(published("stranger", 7, allowed=OTHER))
    assert not rig.ask(published("host-1", 7, allowed=BOTH)).duplicate


def test_a_caller_that_may_do_everything_finds_all_epochs(rig: Rig) -> None:
    """A process with the root's files, and a server without permissions, tell no callers apart."""
    _squat(rig, "me", 5, allowed=Q, queue="q")
    assert rig.publish("w", 4).duplicate
    assert not rig.publish("w", 6).duplicate
    rig.settle()
    # Once callers are told apart, the queues decide.
    assert rig.ask(published("me", 6, allowed=Q)).duplicate
    with pytest.raises(NameTaken):
        rig.ask(published("stranger", 7, allowed=OTHER))


@pytest.mark.parametrize("queue", ["", "q"])
def test_a_manifest_from_before_owners_belongs_to_its_queues(rig: Rig, queue: str) -> None:
    _squat(rig, "", 5, allowed=lambda queue: True, queue=queue)
    _forget_owners(rig)
    rig.restart()
    if queue:
        with pytest.raises(NameTaken):
            rig.ask(published("stranger", 6, allowed=OTHER))
        assert rig.ask(published("me", 5, allowed=Q)).duplicate
    else:
        with pytest.raises(NameTaken):  # It names neither an owner nor a queue.
            rig.ask(published("me", 5, allowed=Q))
    assert not rig.ask(published("me", 6, allowed=Q)).duplicate


def _forget_owners(rig: Rig) -> None:
    (name,) = rig.names("published")
    manifest = Manifest.decode(rig.disk.read(f"published/{name}"))
    content = manifest.encode()
    assert b'"owner":""' in content
    values = unseal(content)
    del values["owner"]
    rig.disk.unlink(f"published/{name}")
    rig.disk.create(f"published/{name}", [seal(values)], sync=True)


def test_an_older_epoch_with_a_digest_is_not_called_published(rig: Rig) -> None:
    rig.stage("s", 0, b"a")
    rig.publish("w", 5, digest="5-a")
    for _ in range(2):
        with pytest.raises(EpochPassed) as refused:
            rig.publish("w", 4, "s", digest="4-a")
        assert dict(refused.value.facts) == {"writer": "w", "epoch": 4, "last_epoch": 5}
        rig.restart()
    assert rig.publish("w", 4, "s").duplicate, "without one it isn't compared"
    assert rig.publish("w", 6, "s", digest="6-a").message_count == 1


# Schedules.


def test_the_names_of_a_schedule_are_its_own(rig: Rig) -> None:
    """Its token is in the name of a stage that lists show while the queue is full."""
    made = rig.ask(
        CreateSchedule(queue="q", name="nightly", cron="0 3 * * *", time_zone="UTC", body=b"go")
    )
    tick = START // 1_000 + 60
    writer = made.schedule.writer
    stage = f"{writer}-{tick}"
    foreign: tuple[Request[Any], ...] = (
        chunk(stage, 0, b"forged"),
        Publish(writer=writer, epoch=tick + 10**6, stages=[]),
        Publish(writer=writer, epoch=tick - 10**6, stages=[]),
        Publish(writer="w", epoch=0, stages=[stage]),
        Abort(stage=stage),
    )
    for request in foreign:
        with pytest.raises(NameTaken):
            rig.ask(request)
    fire = Fire(queue="q", name="nightly", token=made.schedule.token, tick=tick)
    assert rig.ask(fire)
    rig.settle()
    assert rig.receive() == [b"go"]
    assert rig.stage("schedule-nightly-1", 0, b"a").message_count == 1, "of no schedule"
    assert rig.publish("schedule-nightly", 1, "schedule-nightly-1").message_count == 1


# Streams.


def _foreign_calls(number: int, allowed: Callable[[str], bool]) -> tuple[Request[Any], ...]:
    at: dict[str, Any] = {"stream": "s", "sequence_number": number, "allowed": allowed}
    return (
        Reserve(queue="other", **at),
        ExtendReservation(**at),
        MarkRead(**at),
        Release(**at),
        CommitReservations(stream="s", last_sequence_number=number, allowed=allowed),
    )


@pytest.mark.parametrize("number", [0, 1, 9])
def test_a_stream_belongs_to_the_queues_of_its_sets(sets: SetRig, number: int) -> None:
    ids = sets.send(b"1")
    sets.send(b"theirs", queue="other")
    sets.reserve()
    for request in _foreign_calls(number, OTHER):
        with pytest.raises(NameTaken):
            sets.ask(request)
    with pytest.raises(NameTaken):
        sets.engine.reservations.begin_reading("s", number, 0, 0, OTHER)
    assert sets.ids_in() == ids
    assert (
        sets.ask(CommitReservations(stream="s", last_sequence_number=0, allowed=Q)).deleted_count == 1
    )


@pytest.mark.parametrize("number", [0, 1])
def test_a_committed_stream_belongs_to_its_queues(sets: SetRig, number: int) -> None:
    """Neither is its next number to be had by a stranger, nor is its commit the stranger's success."""
    sets.send(b"1")
    sets.reserve()
    sets.ask(CommitReservations(stream="s", last_sequence_number=0, allowed=Q))
    sets.settle()
    assert sets.names("reserved") == ["s.0"]
    sets.send(b"theirs", queue="other")
    for restarts in range(2):
        for request in _foreign_calls(number, OTHER):
            with pytest.raises(NameTaken):
                sets.ask(request)
        assert sets.names("reserved") == ["s.0"], restarts
        sets.restart()
    assert (
        sets.ask(CommitReservations(stream="s", last_sequence_number=0, allowed=Q)).deleted_count == 0
    )


def test_a_repeated_commit_that_renews_the_record_leaves_a_stream_to_its_queues(sets: SetRig) -> None:
    sets.send(b"1")
    sets.reserve()
    for _ in range(2):
        sets.ask(CommitReservations(stream="s", last_sequence_number=0))
        sets.settle()
        sets.advance(MEMORY // 2 + 1)
    assert sets.names("reserved") == ["s.0"]
    for request in _foreign_calls(1, OTHER):
        with pytest.raises(NameTaken):
            sets.ask(request)


def test_a_set_of_one_queue_is_no_answer_for_another(sets: SetRig) -> None:
    ids = sets.send(b"1")
    sets.send(b"2", queue="other")
    sets.reserve()
    for allowed in (None, BOTH):
        with pytest.raises(NameTaken):
            sets.reserve(queue="other", allowed=allowed)
    assert sets.ids_in() == ids
    assert sets.reserve(1, queue="other").queue == "other", "under a number of its own"


def test_a_set_that_is_being_leased_for_one_queue_is_no_answer_for_another(
    sets: SetRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets.engine.moves.effort, "files", 1)
    ids = [id for body in (b"1", b"2", b"3") for id in sets.send(body)]
    sets.send(b"theirs", queue="other")
    work = applied(sets.engine, Reserve(queue="q", stream="s", sequence_number=0))
    assert work.outcomes[0] is reserver.UNFINISHED
    for allowed in (None, OTHER, BOTH):
        with pytest.raises(NameTaken):
            sets.reserve(queue="other", allowed=allowed)
    while sets.engine.reservations.is_in_slices:
        work = applied(sets.engine, Reserve(queue="q", stream="s", sequence_number=0, allowed=Q))
    sets.settle()
    assert sets.ids_in() == ids


def test_a_stranger_ahead_of_a_stream_s_first_set_ends_nothing(sets: SetRig) -> None:
    sets.send(b"theirs", queue="other")
    sets.reserve(10**9, queue="other", allowed=OTHER)
    sets.ask(CommitReservations(stream="s", last_sequence_number=10**9, allowed=OTHER))
    sets.settle()
    sets.send(b"mine")
    with pytest.raises(NameTaken):
        sets.reserve(0, allowed=Q)
    with pytest.raises(NameTaken):
        sets.ask(CommitReservations(stream="s", last_sequence_number=3, allowed=Q))
    with pytest.raises(ReservationNotFound):
        sets.ask(CommitReservations(stream="t", last_sequence_number=3, allowed=Q))

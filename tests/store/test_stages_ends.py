"""The ends of stages in the new store: aborts and expiry, starts, and takeover by another process."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest
from spoolrack_store.files.disk import Facts, Space
from spoolrack_store.model.clock import DAY, SECOND, Millis
from spoolrack_store.model.disk_watermark import KEPT_BYTES
from spoolrack_store.model.errors import DiskError, DiskFull, StageIncomplete, StageNotFound
from spoolrack_store.model.stage_requests import Abort

from tests.store.stage_rig import Rig, chunk, publication
from tests.support.engines import applied


@pytest.fixture
def rig() -> Rig:
    return Rig()


# Refusals of the disk.


def test_a_publication_that_the_disk_refuses_leaves_all_staged(rig: Rig) -> None:
    rig.stage("s", 0, b"a")
    rig.disk.refused = ["create published/"]
    with pytest.raises(DiskError):
        rig.publish("w", 0, "s")
    rig.disk.refused = []
    assert rig.staged() == ["s"]
    assert not rig.publish("w", 0, "s").duplicate
    assert rig.receive() == [b"a"]


def test_a_chunk_leaves_room_on_the_disk_for_deletes(rig: Rig) -> None:
    rig.disk.room = Space(bytes=KEPT_BYTES, files=1 << 20)
    with pytest.raises(DiskFull):
        rig.stage("s", 0, b"a")
    assert rig.names("staged") == []
    rig.disk.room = Space(bytes=2 * KEPT_BYTES, files=1 << 20)
    assert not rig.stage("s", 0, b"a").duplicate


def test_a_chunk_that_a_power_cut_left_beside_its_message_is_unlinked(rig: Rig) -> None:
    rig.stage("s", 0, b"a", delay=1_000)
    (staged,) = rig.names("staged")
    rig.publish("w", 0, "s")
    assert rig.names("staged") == [staged]
    # The cut has kept the move into the queue, and undone the one before.
    stem = staged.rpartition(":")[2]
    rig.disk.link(f"staged/{staged}", f"queues/q/{stem},v2")
    rig.restart()
    assert rig.names("delay") == rig.names("staged") == []
    rig.clock.advance(1_000)
    rig.settle()
    assert (rig.receive(), rig.receive()) == ([b"a"], [])


# The end of stages that are not published.


@pytest.mark.parametrize("restarts", [False, True])
def test_a_stage_expires_on_time_however_the_clock_is_set(rig: Rig, restarts: bool) -> None:
    rig.stage("s", 0, b"a", time_to_live=SECOND * 10)
    if restarts:
        rig.restart()
    rig.clock.step_wall(3_600_000)
    rig.settle()
    assert rig.staged() == ["s"]
    rig.clock.advance(10_000)
    rig.settle()
    assert rig.staged() == []


def test_an_epoch_is_forgotten_when_its_time_has_come(rig: Rig) -> None:
    rig.publish("w", 4, epoch_retention=60_000)
    rig.clock.advance(59_999)
    rig.settle()
    assert rig.publish("w", 4).duplicate
    rig.clock.advance(1)
    rig.settle()
    assert rig.names("published") == []
    assert not rig.publish("w", 4).duplicate


# Starts after a death.


def test_a_stage_that_a_new_process_makes_again_in_the_same_millisecond_is_there_for_all(
    rig: Rig,
) -> None:
    rig.stage("s", 0, b"a")
    rig.ask(Abort(stage="s"))
    for _ in range(4):
        work = applied(rig.engine)
        if not rig.names("staged"):
            break
        if work.barrier is not None:
            work.barrier.sync()
        rig.engine.finish(work)
    other = rig.join()
    rig.ask(chunk("s", 0, b"b"), engine=other)
    assert rig.publish("w", 1, "s").message_count == 1
    rig.settle()
    assert rig.receive() == [b"b"]


def test_a_damaged_manifest_is_put_aside_and_its_epoch_stays_published(rig: Rig) -> None:
    rig.stage("s", 0, b"a")
    rig.disk.create("published/w.1", [b'{"stages":{}}\n00000000\n'], sync=True)
    rig.restart()
    (place,) = rig.names("quarantine")
    assert rig.names(f"quarantine/{place}") == ["w.1", "w.1.why"]
    rig.restart()
    assert rig.staged() == ["s"]
    assert rig.publish("w", 1, "s").duplicate, "its name says that the epoch is published"
    assert not rig.publish("w", 2, "s").duplicate


def test_a_damaged_chunk_is_put_aside_and_can_be_staged_again(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    rig.stage("s", 7, b"x", b"y")
    (name,) = rig.names("staged")
    content = rig.disk.read(f"staged/{name}")
    rig.disk.unlink(f"staged/{name}")
    rig.disk.create(f"staged/{name}", [b"z" + content[1:]], sync=True)
    rig.restart()
    (place,) = rig.names("quarantine")
    assert rig.disk.read(f"quarantine/{place}/{name}") == b"z" + content[1:]
    assert b"this chunk of a stage is damaged" in rig.disk.read(f"quarantine/{place}/{name[:200]}.why")
    assert "this chunk of a stage is damaged" in caplog.text
    assert not rig.stage("s", 7, b"x", b"y").duplicate


@pytest.mark.parametrize("torn", ["it is cut short", "its end was never written"])
def test_a_torn_chunk_was_never_staged(rig: Rig, torn: str) -> None:
    rig.stage("s", 7, b"x", b"y")
    (name,) = rig.names("staged")
    content = rig.disk.read(f"staged/{name}")
    rig.disk.unlink(f"staged/{name}")
    left = content[:-1] if torn == "it is cut short" else bytes(len(content))
    rig.disk.create(f"staged/{name}", [left], sync=True)
    rig.restart()
    assert rig.names("quarantine") == []
    assert not rig.stage("s", 7, b"x", b"y").duplicate


@pytest.mark.parametrize("end", ["deleted", "made again"])
def test_a_message_published_to_a_deleted_queue_is_unlinked(
    rig: Rig, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig.stage("s", 0, b"a")
    rig.stage("s", 1, b"c", queue="other")
    rig.publish("w", 0, "s")
    if end == "deleted":
        rig.engine.catalog._forget("q")
    else:
        record = rig.engine.catalog.records["q"]
        rig.engine.catalog.records["q"] = replace(record, created_at=Millis(5))
    caplog.set_level(logging.INFO)
    rig.settle()
    assert "is deleted: its queue has been" in caplog.text
    assert rig.receive("other") == [b"c"]
    assert rig.names("staged") == []
    assert rig.names("queues/q") == []


def test_of_two_stages_of_one_name_the_older_is_the_true_one(rig: Rig) -> None:
    rig.stage("s", 0, b"older")
    (name,) = rig.names("staged")
    content = rig.disk.read(f"staged/{name}")
    rig.ask(Abort(stage="s"))
    rig.clock.advance(1)
    rig.stage("s", 0, b"newer")
    rig.settle()
    rig.disk.create(f"staged/{name}", [content], sync=True)
    rig.restart()
    rig.publish("w", 0, "s")
    assert rig.receive() == [b"older"]
    assert rig.names("staged") == []


# Other processes.


def test_a_chunk_of_another_process_that_cannot_be_looked_at_is_not_stored_twice(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = rig.join()
    rig.stage("s", 0, b"a")
    rig.ask(chunk("s", 1, b"b"), other)
    facts = rig.disk.facts

    def refused(path: str) -> Facts:
        if ":1:" in path:
            raise OSError(5, "Input/output error", path)
        return facts(path)

    with monkeypatch.context() as broken:
        broken.setattr(rig.disk, "facts", refused)
        for request in (chunk("s", 1, b"b"), publication("w", 0, "s"), Abort(stage="s")):
            with pytest.raises(DiskError, match="try again"):
                rig.ask(request)
    assert caplog.text.count("can't be looked at for now") == 1
    assert rig.stage("s", 1, b"b").duplicate
    assert rig.publish("w", 0, "s").message_count == 2
    assert rig.receive() == [b"a", b"b"]


def test_a_stage_that_is_begun_anew_is_found_by_a_process_that_saw_the_former_only(rig: Rig) -> None:
    other = rig.join()
    rig.stage("s", 0, b"a")
    rig.commit(engine=other)
    works = [rig.engine.apply([Abort(stage="s")]), rig.engine.apply([chunk("s", 0, b"b")])]
    for work in works:
        assert work is not None
        assert work.barrier is not None
        work.barrier.sync()
        rig.engine.finish(work)
    rig.settle()

    assert rig.ask(publication("w", 0, "s"), other).message_count == 1
    assert rig.receive(engine=other) == [b"b"]


def test_a_long_past_of_the_clock_lets_no_stage_live_longer_than_it_may(rig: Rig) -> None:
    rig.stage("s", 0, b"a", time_to_live=14 * DAY)
    rig.clock.step_wall(Millis(-100 * DAY))
    rig.restart()
    rig.clock.advance(14 * DAY)
    rig.settle()
    assert rig.staged() == []


# Files that were removed by hand.


def removed(rig: Rig, number: int) -> None:
    (name,) = (name for name in rig.names("staged") if f":{number}:" in name)
    rig.disk.unlink(f"staged/{name}")


def lost(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.message for each in caplog.records if each.levelno == logging.ERROR]


def staged_in_three(rig: Rig) -> None:
    for number, body in enumerate((b"a", b"b", b"c")):
        rig.stage("s", number, body)
    rig.settle()


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_chunk_that_was_removed_costs_its_own_messages_alone_and_is_told_before_the_answer(
    rig: Rig, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    other = rig.join()
    staged_in_three(rig)
    removed(rig, number)
    # The answer says what comes.
    assert rig.publish("w", 0, "s").message_count == 2
    assert [text for text in lost(caplog) if f":{number}:" in text]
    left = [body for at, body in enumerate((b"a", b"b", b"c")) if at != number]
    assert rig.receive(engine=other) + rig.receive() == left
    assert rig.names("staged") == []


def test_a_chunk_that_is_removed_after_the_answer_stops_no_other(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    staged_in_three(rig)
    work = applied(rig.engine, publication("w", 0, "s"))
    assert work.barrier is not None
    work.barrier.sync()
    rig.engine.finish(work)
    removed(rig, 0)
    assert rig.receive() == [b"b", b"c"]
    assert any("held 1 messages of the stage s for the queue q" in text for text in lost(caplog))
    rig.settle()
    assert rig.names("staged") == []
    assert not rig.engine.stages.unfinished_ends


def test_a_publication_that_says_its_count_is_refused_without_a_chunk_which_can_be_staged_again(
    rig: Rig,
) -> None:
    staged_in_three(rig)
    removed(rig, 1)
    with pytest.raises(StageIncomplete, match="hold 2 messages, and 3 were staged"):
        rig.publish("w", 0, "s", messages=3)
    assert not rig.stage("s", 1, b"b").duplicate
    assert rig.publish("w", 0, "s", messages=3).message_count == 3
    assert sorted(rig.receive()) == [b"a", b"b", b"c"]


def test_a_chunk_that_was_removed_is_stored_when_it_is_staged_again(rig: Rig) -> None:
    rig.stage("s", 0, b"a")
    removed(rig, 0)
    assert not rig.stage("s", 0, b"a").duplicate
    assert rig.stage("s", 0, b"a").duplicate
    rig.publish("w", 0, "s")
    assert rig.receive() == [b"a"]


def test_a_stage_of_which_nothing_is_left_is_no_stage(rig: Rig) -> None:
    rig.stage("s", 0, b"a")
    removed(rig, 0)
    with pytest.raises(StageNotFound):
        rig.publish("w", 0, "s")
    assert rig.staged() == []


@pytest.mark.parametrize("can_sync_all", [True, False])
def test_a_chunk_that_is_removed_before_its_sync_does_not_stop_the_store(
    can_sync_all: bool,
) -> None:
    rig = Rig(can_sync_all=can_sync_all)
    for number, body in enumerate((b"a", b"b", b"c")):
        work = applied(rig.engine, chunk("s", number, body))  # None is synced.
    removed(rig, 2)
    assert work.barrier is not None
    assert rig.publish("w", 0, "s").message_count == 2
    assert rig.receive() == [b"a", b"b"]


def test_a_chunk_that_the_disk_refuses_to_move_stops_no_other(rig: Rig) -> None:
    staged_in_three(rig)
    rig.publish("w", 0, "s")
    (first, *_) = rig.names("staged")
    rig.disk.refused = [f"rename staged/{first}"]
    assert rig.receive() == [b"b", b"c"]
    rig.disk.refused = []
    rig.settle()
    assert rig.receive() == [b"a"]

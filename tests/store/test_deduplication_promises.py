"""Promises to senders with deduplication ids, and to operators."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Any

import pytest
from spoolrack_store.engine import deduplication
from spoolrack_store.engine.deduplication import MERGED
from spoolrack_store.engine.effort import FILES
from spoolrack_store.files.body_file import BodyFile
from spoolrack_store.files.layout import new_body_path
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.disk_watermark import DiskWatermark
from spoolrack_store.model.errors import QueueFull, TooManyDeduplicationIds
from spoolrack_store.model.operations import (
    UNFINISHED,
    Delete,
    Purge,
    Receive,
    Send,
    SendResults,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support.cuts import Bytes, Cut, Keep
from tests.support.engine_rig import EngineRig
from tests.support.engines import applied, commit
from tests.support.linked_disk import RefusingDisk, reap
from tests.support.memory_disk import fails
from tests.support.steps import slices_of, steps_of

WINDOW = Millis(20_000)
SETTINGS = QueueSettings(deduplication_window=WINDOW)


class Rig(EngineRig):
    def __init__(self, **queues: QueueSettings) -> None:
        super().__init__(queues or {"q": SETTINGS})

    def cut(self, keep: Keep = Keep.NONE) -> None:
        """Cut the power, which empties each file that wasn't synced, and start again."""
        found = self.disk.cut(Cut(keep, bytes=(Bytes.EMPTY,)))
        assert isinstance(found, RefusingDisk)
        self.disk = found
        self.restart()

    def send(self, *ids: str, queue: str = "q") -> SendResults:
        (stored,) = self.commit(sending(*ids, queue=queue))
        assert isinstance(stored, SendResults)
        return stored


def sending(*ids: str, queue: str = "q") -> Send:
    return Send(queue=queue, bodies=[b"x"] * len(ids), deduplication_ids=dict(enumerate(ids)))


def test_keys_and_segments_go_when_their_window_is_over() -> None:
    rig = Rig()
    rig.commit(Delete(queue="q", ids=rig.send("a", "b").results))  # type: ignore[arg-type]
    rig.settle()
    assert rig.names("keys")
    rig.clock.now += WINDOW
    rig.settle()
    assert not rig.names("keys")
    assert rig.engine.deduplication.count == 0


def test_messages_whose_window_is_over_leave_no_segment() -> None:
    rig = Rig()
    first = rig.send("a", "b")
    rig.clock.now += WINDOW
    rig.commit(Delete(queue="q", ids=first.results))  # type: ignore[arg-type]
    rig.settle()
    assert not rig.names("keys")
    assert not rig.names("remove")


@pytest.mark.parametrize("count", [1, 3])
def test_a_start_writes_no_second_segment_of_the_same_keys(count: int) -> None:
    rig = Rig()
    first = rig.send(*["a", "b", "c"][:count])
    rig.commit(Delete(queue="q", ids=first.results))  # type: ignore[arg-type]
    while not rig.names("keys"):
        rig.commit()
    segments = rig.names("keys")
    assert rig.names("remove")
    rig.restart()
    rig.settle()
    assert not rig.names("remove")
    assert rig.names("keys") == segments


@pytest.mark.parametrize("can_sync_all", [False, True])
def test_an_id_in_a_segment_that_a_dead_process_did_not_sync_outlives_a_power_cut(
    can_sync_all: bool,
) -> None:
    rig = Rig()
    rig.disk.can_sync_all = can_sync_all
    first = rig.send("a")
    rig.commit(Delete(queue="q", ids=first.results))  # type: ignore[arg-type]
    while not rig.names("keys"):
        work = applied(rig.engine)
        if not rig.names("keys"):
            assert work.barrier is not None
            work.barrier.sync()
            rig.engine.finish(work)
    rig.restart()
    assert not rig.names("remove")
    rig.cut(Keep.ALL)
    assert rig.send("a").results == first.results


def _full(path: str, *rest: object, **named: object) -> None:
    raise fails(errno.ENOSPC, path)


def test_a_deleted_message_stays_while_its_key_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = Rig()
    first = rig.send("a")
    rig.commit(Delete(queue="q", ids=first.results))  # type: ignore[arg-type]
    monkeypatch.setattr(rig.disk, "create", _full)
    rig.settle()
    assert rig.names("remove")
    monkeypatch.undo()
    rig.clock.now += 1_000  # A refused operation is tried again then.
    rig.settle()
    assert not rig.names("remove")
    assert rig.send("a").results == first.results


def test_a_repetition_is_answered_also_when_the_queue_is_full() -> None:
    rig = Rig(q=replace(SETTINGS, max_messages=1))
    first = rig.send("a")
    assert rig.send("a").results == first.results
    assert isinstance(rig.send("b").results[0], QueueFull)


def test_a_queue_takes_no_more_ids_than_it_may_until_the_oldest_are_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deduplication, "MAX_KEYS", 2)
    rig = Rig()
    third = rig.send("a", "b", "c").results[2]
    assert isinstance(third, TooManyDeduplicationIds)
    rig.clock.now += WINDOW
    assert rig.send("c").duplicates == set()


@pytest.mark.parametrize("can_sync_all", [False, True])
def test_a_duplicate_is_not_answered_before_the_first_is_durable(can_sync_all: bool) -> None:
    rig = Rig()
    rig.disk.can_sync_all = can_sync_all
    first = rig.engine.apply([sending("a")])
    second = rig.engine.apply([sending("a")])
    assert first is not None
    assert second is not None
    assert second.outcomes[0].duplicates == {0}
    second.barrier.sync()  # The first one's sync is still under way when the power fails.
    rig.cut()
    assert rig.send("a").results == second.outcomes[0].results


@pytest.mark.parametrize("is_synced", [False, True])
def test_another_process_refuses_what_was_leased_as_it_was_written(is_synced: bool) -> None:
    rig = Rig()
    other = rig.join()
    work = applied(
        rig.engine,
        sending("a", "b", "c"),
        Receive(queue="q", max_messages=1, visibility_timeout=Millis(1_000)),
    )
    if is_synced and work.barrier is not None:
        work.barrier.sync()
        rig.engine.finish(work)
    again = applied(other, sending("c", "b", "a"))
    assert again.outcomes[0].results == work.outcomes[0].results[::-1]


# Several processes.


@pytest.mark.parametrize("dies", [False, True])
def test_another_process_refuses_the_id_of_a_body_in_a_file_of_its_own(dies: bool) -> None:
    rig = Rig()
    sender = rig.join()
    body = BodyFile(rig.disk, new_body_path("p2", 1), DiskWatermark())
    body.write(b"x")
    asked = Send(queue="q", bodies=[b""], written=body.finish(), deduplication_ids={0: "a"})
    work = applied(sender, asked)
    if dies:
        rig.living.remove("p2")
    assert rig.send("a").results == work.outcomes[0].results


@pytest.mark.parametrize("end", ["ready", "leased", "deleted", "unlinked"])
def test_a_process_that_joins_knows_what_was_stored_before(end: str) -> None:
    rig = Rig()
    first = rig.send("a", "b", "c")
    if end != "ready":
        (found,) = rig.commit(Receive(queue="q", max_messages=9))
        if end != "leased":
            rig.commit(Delete(queue="q", receipts=[each for one in found for each in one.receipts]))
    if end == "unlinked":
        rig.settle()
        assert rig.names("remove") == []
    other = rig.join()
    again = applied(other, sending("c", "b", "a", "d"))
    assert again.outcomes[0].results[:3] == first.results[::-1]
    assert again.outcomes[0].duplicates == {0, 1, 2}
    assert rig.send("d").duplicates == {0}


@pytest.mark.parametrize("ids", [("a",), ("a", "b", "c")])
@pytest.mark.parametrize("third", [False, True])
def test_a_key_written_by_a_dead_process_is_refused_and_its_message_delivered(
    ids: tuple[str, ...], third: bool
) -> None:
    rig = Rig()
    dying = rig.join()
    asked = rig.join() if third else rig.engine
    work = applied(dying, sending(*ids))
    rig.living.remove("p2")
    rig.settle()
    again = applied(asked, sending(*ids))
    assert again.outcomes[0].results == work.outcomes[0].results
    rig.settle()
    (found,) = rig.commit(Receive(queue="q", max_messages=9))
    assert [id for each in found for id in each.ids] == work.outcomes[0].results


@pytest.mark.parametrize("ids", [("a",), ("a", "b", "c")])
def test_an_unfinished_write_of_a_dead_process_takes_no_id(ids: tuple[str, ...]) -> None:
    rig = Rig()
    dying = rig.join()
    dying.apply([sending(*ids)])
    (name,) = rig.names("new")
    content = rig.disk.read(f"new/{name}")
    rig.disk.unlink(f"new/{name}")
    rig.disk.create(f"new/{name}", [content[:-1]], sync=True)
    rig.living.remove("p2")
    assert not rig.send(*ids).duplicates
    rig.settle()
    (found,) = rig.commit(Receive(queue="q", max_messages=9))
    assert sum(len(each.ids) for each in found) == len(ids)


def test_a_process_unlinks_the_segments_of_a_dead_one_when_their_time_is_over() -> None:
    rig = Rig()
    dying = rig.join()
    rig.commit(sending("a"))
    rig.settle()
    commit(dying, Purge(queue="q"))
    for _ in range(4):
        reap(dying)
        commit(dying)
    assert len(rig.names("keys")) == 1
    rig.living.remove("p2")
    rig.clock.now += WINDOW + 1
    rig.settle()
    assert rig.names("keys") == []
    assert rig.send("a").duplicates == set()


def test_a_damaged_segment_is_put_aside_and_the_other_ids_stay_taken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rig = Rig()
    lost: list[Any] = []
    kept: list[Any] = []
    for id, ids in (("a", lost), ("b", kept)):
        ids += rig.send(id).results
        rig.commit(Purge(queue="q"))
        rig.settle()
    first, _ = sorted(rig.names("keys"))
    content = rig.disk.read(f"keys/{first}")
    rig.disk.unlink(f"keys/{first}")
    rig.disk.create(f"keys/{first}", [content.replace(b":", b";", 1)], sync=True)
    rig.restart()
    assert rig.send("b").results == kept
    assert rig.send("a").results != lost
    assert any("deduplication keys are lost" in each.message for each in caplog.records)
    assert len(rig.names("quarantine")) == 1


def _steps_of_unlinking(queues: int) -> int:
    """Return the cost of the commits in which a deleted message with an id is unlinked."""
    rig = Rig(**{f"q{number}": SETTINGS for number in range(queues)})
    rig.send("a", queue="q0")
    rig.commit(Purge(queue="q0"))

    def unlink() -> None:
        for _ in range(6):
            rig.commit()

    steps = steps_of(unlink)
    assert rig.names("remove") == []
    return steps


def test_a_message_with_an_id_is_unlinked_at_the_same_cost_however_many_queues_there_are() -> None:
    assert _steps_of_unlinking(200) == _steps_of_unlinking(20)


# Many segments.


def lives(rig: Rig, count: int, begin: int = 0) -> dict[str, Any]:
    """Send, delete and unlink messages one after the other, each with an id of its own."""
    ids: dict[str, Any] = {}
    for number in range(begin, begin + count):
        (ids[f"id{number}"],) = rig.send(f"id{number}").results
        rig.commit(Purge(queue="q"))
        for _ in range(3):
            rig.commit()
    assert rig.names("remove") == []
    return ids


def test_many_lives_leave_few_segments_and_each_id_stays_taken() -> None:
    rig = Rig()
    ids = lives(rig, 600)
    for _ in range(20):
        rig.commit()
    # Up to 15 of each of three sizes; it was one for each life.
    assert len(rig.names("keys")) < 3 * MERGED
    rig.restart()
    for deduplication_id, id in ids.items():
        assert rig.send(deduplication_id).results == [id]
    rig.clock.now += WINDOW
    for _ in range(20):
        rig.tick()
    assert rig.names("keys") == []
    assert rig.engine.deduplication.count == 0


def test_a_merge_leaves_out_what_is_free() -> None:
    rig = Rig()
    lives(rig, MERGED - 1)
    rig.clock.now += WINDOW
    lives(rig, 1, begin=MERGED)
    rig.commit()
    rig.commit()
    merged = [rig.disk.read(f"keys/{name}") for name in rig.names("keys")]
    assert sum(content.count(b":") for content in merged) == 1


def keys_per_segment(rig: Rig) -> list[int]:
    return [rig.disk.read(f"keys/{name}").count(b":") for name in rig.names("keys")]


@pytest.mark.parametrize(("keys", "segments"), [(4, [4] * MERGED), (3, [3] * (MERGED - 2) + [6])])
def test_a_merge_makes_no_large_segment_larger(
    monkeypatch: pytest.MonkeyPatch, keys: int, segments: list[int]
) -> None:
    monkeypatch.setattr(deduplication, "LARGE", 4)
    monkeypatch.setattr(deduplication, "MOST_KEYS", 8)
    rig = Rig()
    for number in range(MERGED):
        rig.send(*(f"{number} {key}" for key in range(keys)))
        rig.commit(Purge(queue="q"))
        rig.settle()
    assert sorted(keys_per_segment(rig)) == segments


@pytest.mark.parametrize("keep", list(Keep)[:2])
def test_a_power_cut_beside_a_merge_frees_no_id(keep: Keep) -> None:
    rig = Rig()
    ids = lives(rig, MERGED)
    for _ in range(4):
        work = applied(rig.engine)  # Nothing is synced.
        found = rig.disk.copy().cut(Cut(keep, bytes=(Bytes.EMPTY,)))
        after = EngineRig({"q": SETTINGS}, disk=found, clock=rig.clock)
        for deduplication_id, id in ids.items():
            (answer,) = after.commit(sending(deduplication_id))
            assert answer.results == [id]
        assert work.barrier is None or work.barrier.sync() is None
        rig.engine.finish(work)


def test_a_merge_that_the_disk_refuses_is_made_later() -> None:
    rig = Rig()
    ids = lives(rig, MERGED - 1)
    rig.disk.refused = ["read keys/"]
    ids |= lives(rig, 1, begin=MERGED)
    rig.commit()
    assert len(rig.names("keys")) == MERGED
    rig.disk.refused = []
    ids |= lives(rig, 1, begin=MERGED + 1)
    rig.settle()
    assert len(rig.names("keys")) <= 2
    rig.restart()
    assert all(rig.send(key).results == [id] for key, id in ids.items())


def test_a_start_reads_segments_in_slices_and_keyed_sends_alone_wait() -> None:
    rig = Rig(q=SETTINGS, other=SETTINGS)
    first = rig.send("a").results
    rig.commit(Purge(queue="q"))
    rig.settle()
    content = rig.disk.read(f"keys/{rig.names('keys')[0]}")
    for number in range(3 * FILES):
        rig.disk.create(f"keys/018bcfe5-6800-7000-8000-{number:012x}", [content], sync=True)
    rig.living.clear()
    rig.disk.free_locks()
    rig.engine = rig.join()
    reads = _Reads(rig.disk)
    rig.disk.read, per_commit, waited = reads, [], 0
    while True:
        keyed, plain, behind = rig.commit(
            sending("a"), Send(queue="other", bodies=[b"x"]), Send(queue="q", bodies=[b"y"])
        )
        per_commit.append(reads.take())
        assert isinstance(plain, SendResults)
        # In their queue the order of two sends is that of the calls.
        assert (keyed is UNFINISHED) == (behind is UNFINISHED)
        if keyed is not UNFINISHED:
            break
        waited += 1
    assert keyed.results == first
    assert waited
    assert max(per_commit) <= FILES


class _Reads:
    """Counts reads of segments."""

    def __init__(self, disk: RefusingDisk) -> None:
        self._read = disk.read
        self._count = 0

    def __call__(self, path: str, *rest: Any, **named: Any) -> bytes:
        self._count += path.startswith("keys/")
        return self._read(path, *rest, **named)

    def take(self) -> int:
        count, self._count = self._count, 0
        return count


def test_segments_whose_window_is_over_are_unlinked_in_slices() -> None:
    rig = Rig()
    rig.send("a")
    rig.commit(Purge(queue="q"))
    rig.settle()
    content = rig.disk.read(f"keys/{rig.names('keys')[0]}")
    for number in range(3 * FILES):
        rig.disk.create(f"keys/018bcfe5-6800-7000-8000-{number:012x}", [content], sync=True)
    rig.clock.now += WINDOW
    rig.restart()
    unlinked = slices_of(lambda: len(rig.names("keys")), rig.tick)
    assert max(unlinked) <= FILES


def test_another_processes_segment_costs_the_same_however_many_queues_there_are() -> None:
    def steps(queues: int) -> int:
        rig = Rig(**{f"q{number}": SETTINGS for number in range(queues)})
        for number in range(queues):
            rig.send(f"id{number}", queue=f"q{number}")
        other = rig.join()
        for _ in range(4):
            commit(other)
        rig.settle()
        rig.send(*(f"new{number}" for number in range(20)), queue="q0")
        rig.commit(Purge(queue="q0"))
        for _ in range(3):
            rig.commit()
        assert len(rig.names("keys")) == 1
        return steps_of(lambda: commit(other))

    assert steps(200) <= steps(2) + 100

"""Messages, stages, redrives and deduplication ids as settings change or are lost."""

from __future__ import annotations

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import QueueBeingDeleted, QueueNotFound
from spoolrack_store.model.operations import (
    DeleteQueue,
    Purge,
    Send,
    SendResults,
    UpdateQueue,
)
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage

from tests.store.trouble_rig import Rig
from tests.support.engines import begun

LEASE = 30_000


@pytest.fixture
def rig() -> Rig:
    return Rig()


def settle(rig: Rig) -> None:
    for _ in range(8):
        rig.tick()


def keyed(rig: Rig, *ids: str, queue: str = "q") -> SendResults:
    request = Send(queue=queue, bodies=[b"x"] * len(ids), deduplication_ids=dict(enumerate(ids)))
    stored = rig.ask(request)
    assert isinstance(stored, SendResults)
    return stored


def lose_settings(rig: Rig) -> None:
    """Let a start find the root without the settings of any queue."""
    for path in rig.paths("config"):
        rig.disk.unlink(path)
    rig.queues.clear()


# Deduplication ids.


def test_a_dead_letter_holds_its_id_in_its_own_queue_and_not_in_the_dead_letter_queue(rig: Rig) -> None:
    rig.add("dead")
    rig.add("dying", max_receives=1, dead_letter_queue="dead")
    first = keyed(rig, "a", queue="dying")
    assert rig.receive(queue="dying")
    rig.advance(LEASE)
    settle(rig)
    rig.start()
    assert keyed(rig, "a", queue="dying").results == first.results
    assert not keyed(rig, "a", queue="dead").duplicates
    assert rig.ask(Purge(queue="dead")) == 2
    settle(rig)
    rig.start()
    assert keyed(rig, "a", queue="dying").results == first.results


def test_a_window_that_is_set_counts_from_the_send(rig: Rig) -> None:
    rig.ask(UpdateQueue(name="q", changes={"deduplication_window": Millis(30_000)}))
    first = keyed(rig, "a")
    rig.advance(20_000)
    rig.ask(UpdateQueue(name="q", changes={"deduplication_window": Millis(100_000)}))
    rig.advance(60_000)
    assert keyed(rig, "a").results == first.results
    rig.ask(UpdateQueue(name="q", changes={"deduplication_window": Millis(30_000)}))
    assert not keyed(rig, "a").duplicates


@pytest.mark.parametrize("end", ["expired", "quarantined", "purged", "redriven"])
def test_an_id_is_taken_however_its_message_has_ended(rig: Rig, end: str) -> None:
    rig.add("dead")
    queue = "d"
    rig.add(
        queue,
        deduplication_window=Millis(10_000_000),
        retention=Millis(60_000),
        max_receives=1,
        dead_letter_queue="dead",
    )
    first = keyed(rig, "a", "b", queue=queue)
    rig.commit()
    if end == "expired":
        rig.advance(60_000)
    elif end == "purged":
        rig.ask(Purge(queue=queue))
    elif end == "quarantined":
        (path,) = rig.paths(f"queues/{queue}")
        content = rig.disk.read(path)
        rig.disk.unlink(path)
        rig.disk.create(path, [b"??" + content[2:]], sync=True)
        assert rig.receive(queue=queue) == {}
        assert rig.engine.moves.quarantined == 2
    else:
        assert len(rig.receive(queue=queue)) == 2
        rig.advance(LEASE)
        settle(rig)
        rig.ask(StartRedrive(queue="dead"))
    settle(rig)
    for _ in range(2):
        again = keyed(rig, "a", "b", queue=queue)
        assert (again.results, again.duplicates) == (first.results, {0, 1})
        rig.start()


def test_every_repetition_of_many_is_refused_after_a_restart_and_after_all_is_unlinked(
    rig: Rig,
) -> None:
    ids = [f"id {number}" for number in range(2_000)]
    first = [keyed(rig, *ids[at : at + 500]).results for at in range(0, 2_000, 500)]
    rig.commit()
    assert rig.ask(Purge(queue="q")) == 2_000
    settle(rig)
    assert rig.paths("remove", "queues/q", "new") == []
    for _ in range(2):
        rig.start()
        assert [keyed(rig, *ids[at : at + 500]).results for at in range(0, 2_000, 500)] == first


# A queue that is being deleted.


def test_a_redrive_to_a_queue_that_is_being_deleted_is_refused(rig: Rig) -> None:
    rig.add("target")
    deletion = DeleteQueue(name="target")
    _, refused = rig.commit(deletion, StartRedrive(queue="q", destination="target"))
    assert isinstance(refused, QueueBeingDeleted)


def test_a_stage_for_a_queue_that_is_being_deleted_is_not_published(rig: Rig) -> None:
    rig.ask(Stage(stage="s", chunk_number=0, queue="q", bodies=[b"x"]))
    _, refused = rig.commit(
        DeleteQueue(name="q"), Publish(writer="w", epoch=1, stages=("s",), digest="")
    )
    assert isinstance(refused, QueueNotFound | QueueBeingDeleted)
    settle(rig)
    rig.add("q")
    assert rig.receive() == {}


def test_a_set_of_a_queue_that_is_deleted_leaves_nothing_to_the_next_queue(rig: Rig) -> None:
    rig.send(b"a", b"b")
    rig.commit()
    assert rig.ask(Reserve(queue="q", stream="s", sequence_number=0))
    rig.ask(DeleteQueue(name="q"))
    settle(rig)
    rig.add("q")
    rig.advance(10 * 60_000)
    settle(rig)
    assert rig.receive() == {}


# Settings that are lost.


@pytest.mark.parametrize("state", ["ready", "leased", "delayed", "batch", "leased batch", "damaged"])
def test_a_queue_whose_settings_are_lost_is_served_with_the_defaults(
    rig: Rig, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = [b"a", b"b", b"c"] if "batch" in state else [b"a"]
    delays = {0: Millis(LEASE)} if state == "delayed" else {}
    rig.ask(Send(queue="q", bodies=bodies, delays=delays))
    rig.commit()
    if "leased" in state:
        assert len(rig.receive()) == len(bodies)
    lose_settings(rig)
    if state == "damaged":
        rig.disk.create("config/q.1.json", [b"{"], sync=True)
    rig.start()
    record = rig.engine.catalog.records["q"]
    assert (record.settings, rig.engine.catalog.reset) == (QueueSettings(), {"q"})
    assert record.salt, "or the deduplication ids of all such queues have the same keys"
    assert "the settings of the queue q are lost" in caplog.text
    assert "spoolrack queues set q" in caplog.text
    caplog.clear()
    rig.start()
    assert "lost" not in caplog.text, "it has settings again"
    rig.advance(LEASE)
    assert [body for _, body in rig.receive().values()] == bodies


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_process_that_reads_all_settings_again_writes_lost_ones_as_it_knew_them(
    is_damaged: bool,
) -> None:
    rig = Rig(max_message_size=5)
    ids = rig.send(b"a")
    rig.commit()
    before = rig.engine.catalog.records["q"]
    rig.disk.unlink("config/q.1.json")
    if is_damaged:
        rig.disk.create("config/q.1.json", [b"garbage"], sync=True)
    rig.engine.catalog.recover()  # As after others changed more than `CHANGES` holds.
    settle(rig)
    after = rig.engine.catalog.records["q"]
    assert (after.settings, after.salt, after.created_at) == (
        before.settings,
        before.salt,
        before.created_at,
    )
    rig.start()
    assert rig.engine.catalog.records["q"].settings.max_message_size == 5
    assert list(rig.receive()) == ids


def test_a_send_alone_makes_no_queue(rig: Rig) -> None:
    begun(rig.engine, Send(queue="q", bodies=[b"a"]))
    lose_settings(rig)
    rig.start()
    settle(rig)
    assert rig.engine.catalog.records == {}
    assert len(rig.paths("quarantine")) == 1


def test_an_empty_queue_whose_settings_are_lost_is_gone(rig: Rig) -> None:
    lose_settings(rig)
    rig.start()
    assert rig.engine.catalog.records == {}
    assert rig.paths("queues") == rig.paths("quarantine") == []
    rig.add("q")


def test_a_file_that_is_no_message_makes_no_queue(rig: Rig) -> None:
    rig.disk.create("queues/q/strange", [b"x"], sync=True)
    lose_settings(rig)
    rig.start()
    settle(rig)
    assert rig.engine.catalog.records == {}

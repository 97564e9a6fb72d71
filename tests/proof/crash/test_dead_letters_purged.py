"""Purges and deletions of either queue in the commit in which messages die."""

from __future__ import annotations

from collections.abc import Iterator

from spoolrack_store.model.operations import DeleteQueue, Purge

from tests.support.cuts import Bytes, Cut, Keep
from tests.support.linked_disk import RefusingDisk
from tests.support.power_disk import Model
from tests.support.set_rig import SetRig


def dying(*bodies: bytes) -> tuple[SetRig, list[str]]:
    """Return a rig in which messages die as the next commit begins, and their ids."""
    rig = SetRig(Model.ANY_SUBSET)
    ids = rig.send(*bodies, queue="poor")
    rig.receive("poor")
    rig.clock.now += 12 * 60 * 60 * 1_000
    return rig, ids


def after_cuts(rig: SetRig) -> Iterator[SetRig]:
    """Yield what a restart finds after each of many power cuts."""
    for bits in range(64):
        found = rig.disk.cut(Cut(Keep.SOME, (bits,), (Bytes.WHOLE,)))
        assert isinstance(found, RefusingDisk)
        after = SetRig(Model.ANY_SUBSET, disk=found)
        after.clock.now = rig.clock.now
        after.restart()
        yield after


def test_a_purged_dead_letter_stays_purged_whatever_a_power_cut_leaves() -> None:
    rig, _ = dying(b"x")
    rig.ask(Purge(queue="dead"))
    assert rig.engine.apply([]) is not None
    for after in after_cuts(rig):
        assert (after.receive("poor"), after.receive("dead")) == ([], [])


def test_a_purge_of_the_queue_that_a_message_dies_in_leaves_its_dead_letter() -> None:
    rig, ids = dying(b"x")
    assert rig.engine.apply([Purge(queue="poor")]) is not None  # It isn't durable.
    for after in after_cuts(rig):
        after.settle()
        assert [each for each, _ in after.receive("dead")] == ids


def test_a_message_that_dies_in_the_commit_that_deletes_its_dead_letter_queue_is_deleted_with_it() -> (
    None
):
    rig, ids = dying(b"1", b"2")
    assert rig.engine.apply([DeleteQueue(name="dead")]) is not None  # It isn't durable.
    for after in after_cuts(rig):
        after.settle()
        queues = {"poor", "dead"} & after.engine.catalog.records.keys()
        left = [id for queue in queues for id, _ in after.receive(queue)]
        assert left in ([], ids)

"""Purges and deletions of either queue in the commit in which messages die."""

from __future__ import annotations

from spoolrack_store.model.operations import DeleteQueue, Purge

from tests.support.cuts import Bytes, Cut, Keep
from tests.support.linked_disk import LinkedDisk
from tests.support.power_disk import Model
from tests.support.set_rig import SetRig


def test_a_purged_dead_letter_stays_purged_whatever_a_power_cut_leaves() -> None:
    rig = SetRig(Model.ANY_SUBSET)
    rig.send(b"x", queue="poor")
    rig.receive("poor")
    rig.clock.now += 12 * 60 * 60 * 1_000
    rig.ask(Purge(queue="dead"))  # It dies as the commit begins.
    work = rig.engine.apply([])
    assert work is not None

    for bits in range(64):
        found = rig.disk.cut(Cut(Keep.SOME, (bits,), (Bytes.WHOLE,)))
        assert isinstance(found, LinkedDisk)
        after = SetRig(Model.ANY_SUBSET, disk=found)
        after.clock.now = rig.clock.now
        after.restart()
        assert (after.receive("poor"), after.receive("dead")) == ([], [])


def test_a_purge_of_the_queue_that_a_message_dies_in_leaves_its_dead_letter() -> None:
    rig = SetRig(Model.ANY_SUBSET)
    (id,) = rig.send(b"x", queue="poor")
    rig.receive("poor")
    rig.clock.now += 12 * 60 * 60 * 1_000
    # It dies as the commit begins that purges, and that isn't durable.
    assert rig.engine.apply([Purge(queue="poor")]) is not None

    for bits in range(64):
        found = rig.disk.cut(Cut(Keep.SOME, (bits,), (Bytes.WHOLE,)))
        assert isinstance(found, LinkedDisk)
        after = SetRig(Model.ANY_SUBSET, disk=found)
        after.clock.now = rig.clock.now
        after.restart()
        after.settle()
        assert [each for each, _ in after.receive("dead")] == [id]


def test_a_message_that_dies_in_the_commit_that_deletes_its_dead_letter_queue_is_deleted_with_it() -> (
    None
):
    rig = SetRig(Model.ANY_SUBSET)
    ids = rig.send(b"1", b"2", queue="poor")
    rig.receive("poor")
    rig.clock.now += 12 * 60 * 60 * 1_000
    # They die as the commit begins; neither is durable.
    assert rig.engine.apply([DeleteQueue(name="dead")]) is not None

    for bits in range(64):
        found = rig.disk.cut(Cut(Keep.SOME, (bits,), (Bytes.WHOLE,)))
        assert isinstance(found, LinkedDisk)
        after = SetRig(Model.ANY_SUBSET, disk=found)
        after.clock.now = rig.clock.now
        after.restart()
        after.settle()
        queues = {"poor", "dead"} & after.engine.catalog.records.keys()
        left = [id for queue in queues for id, _ in after.receive(queue)]
        assert left in ([], ids)

"""A dead letter that is deleted before its message is deleted where it was doesn't come back."""

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
    rig.commit()  # Its copy is written.
    rig.ask(Purge(queue="dead"))  # The copy is published, and purged.
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
    rig.commit()  # Its copy is written.
    # The copy is published by the commit that purges, and neither is durable.
    assert rig.engine.apply([Purge(queue="poor")]) is not None

    for bits in range(64):
        found = rig.disk.cut(Cut(Keep.SOME, (bits,), (Bytes.WHOLE,)))
        assert isinstance(found, LinkedDisk)
        after = SetRig(Model.ANY_SUBSET, disk=found)
        after.clock.now = rig.clock.now
        after.restart()
        after.settle()
        assert [each for each, _ in after.receive("dead")] == [id]


def test_a_message_that_dies_while_its_dead_letter_queue_is_deleted_comes_back() -> None:
    rig = SetRig()
    ids = rig.send(b"1", b"2", queue="poor")
    rig.receive("poor")
    rig.clock.now += 12 * 60 * 60 * 1_000
    rig.ask(DeleteQueue(name="dead"))  # The copies are written by this commit.
    rig.settle()

    assert rig.receive("poor") == [(id, 2) for id in ids]


def test_a_message_whose_dead_letter_is_damaged_stays_where_it_was() -> None:
    rig = SetRig()
    rig.send(b"x", queue="poor")
    rig.receive("poor")
    rig.clock.now += 12 * 60 * 60 * 1_000
    rig.commit()  # Its copy is written.
    rig.commit()  # The copy is published, and the message not deleted yet.
    (copy,) = rig.disk.scan("queues/dead")
    rig.disk.rename(f"queues/dead/{copy.name}", f"quarantine/dead:{copy.name}")

    rig.restart()
    rig.settle()

    (found,) = rig.disk.scan("queues/dead")
    assert ",d1" in found.name

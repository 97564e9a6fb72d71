"""A dead letter that is deleted before its message is deleted where it was doesn't come back."""

from __future__ import annotations

from cuts import Bytes, Cut, Keep
from linked_disk import LinkedDisk
from power_disk import Model
from set_rig import SetRig
from spoolrack_store2.operations import Purge


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

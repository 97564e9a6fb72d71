"""Two engines on one root, of which one may be unable to list what the other has made."""

from __future__ import annotations

from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from memory_disk import LockingDisk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    ByReceipt,
    Delete,
    Message,
    Outgoing,
    Send,
)
from spoolrack_store.model.reservations import CommitReservations, Reserve
from spoolrack_store.testing import ManualClock

HOLD = Millis(60_000)
LONG = Millis(1_000_000)
SEND_TWO = Send(queue="q", messages=[Outgoing(body=b"a"), Outgoing(body=b"b")])
RESERVE = Reserve(queue="q", stream="s", seq=0, hold=HOLD, max_messages=9)
COMMIT = CommitReservations(stream="s", up_to=0)


class Two:
    """Two engines on one root; the second sees the disk through one that can fail."""

    def __init__(self, *, hears_all: bool) -> None:
        self.memory, clock = LockingDisk(), ManualClock(wall=Millis(1_700_000_000_000))
        self.disk = FaultyDisk(self.memory)
        self.one = EngineRig(self.memory, watch=self.memory.watch, clock=clock)
        watch = self.memory.watch()
        watch.hears_all = hears_all
        if not hears_all:
            watch.changes = lambda: None  # type: ignore[method-assign]
        self.other = EngineRig(self.disk, seed=2, watch=lambda: watch, clock=clock)
        self.tick()
        self.one.create("q")
        self.tick()

    def tick(self) -> None:
        for rig in (self.one, self.other):
            rig.tick()
            rig.clock.advance(Millis(1))

    def check(self) -> None:
        for rig in (self.one, self.other):
            rig.commit()
            rig.check()


def deletes(*messages: Message) -> Delete:
    return Delete(queue="q", targets=[ByReceipt(str(message.receipt)) for message in messages])

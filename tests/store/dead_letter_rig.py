"""An engine with a queue `q` whose poison goes to `dead` at its first failure, and redrives of that."""

from __future__ import annotations

import json
from typing import cast

from engine_rig import EngineRig
from memory_disk import MemoryDisk
from spoolrack_store.engine.order import Work
from spoolrack_store.files.disk import Disk
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.redriving import CancelRedrive, Redrive, StartRedrive

LEASE = Millis(1_000)


class RedriveRig(EngineRig):
    def __init__(self, disk: Disk | None = None, **others: object) -> None:
        super().__init__(MemoryDisk() if disk is None else disk, **others)  # type: ignore[arg-type]

    def make_queues(self, *sources: str) -> None:
        self.create("dead")
        for queue in sources or ("q",):
            self.create(queue, max_receives=1, dead_letter_queue="dead", visibility_timeout=LEASE)

    def bury(self, *bodies: bytes, queue: str = "q") -> list[str]:
        """Send messages, one by one, and let each fail once; the ids of the dead letters."""
        ids = [self.send(body, queue=queue)[0] for body in bodies]
        self.fail_all(queue)
        return ids

    def fail_all(self, queue: str = "q") -> None:
        """Receive all that is in `queue`, and let the leases end."""
        while self.receive(100, queue=queue):
            pass
        self.clock.advance(LEASE)
        self.tick()
        assert not self.ids(queue)

    def start(self, queue: str = "dead", **asked: object) -> Redrive:
        """Begin a redrive; it has moved nothing yet if it has a rate."""
        return self.ask(StartRedrive(queue=queue, **asked))  # type: ignore[arg-type]

    def cancel(self, id: str) -> Redrive:
        return self.ask(CancelRedrive(id=id))

    def shown(self, id: str) -> Redrive:
        return self.engine.redriving.find(id)

    def all_shown(self) -> list[Redrive]:
        return self.engine.redriving.listed("", "", 1_000)

    def ids(self, queue: str) -> list[str]:
        return [sight.entry.id for sight in self.sights(queue)]

    def after(self, millis: int) -> None:
        """What the mover does when so much time has passed."""
        self.clock.advance(Millis(millis))
        self.tick()

    def begin(self, *requests: object) -> Work:
        """Half a commit: applied and synced, and not finished."""
        work = self.engine.apply(cast("list[StartRedrive]", list(requests)))
        self.engine.sync(work)
        return work

    def history(self, queue: str, id: str) -> list[dict[str, object]]:
        told = json.loads(self.disk.read(f"history/{queue}:{id}"))
        return cast("list[dict[str, object]]", told)

    def histories(self) -> set[str]:
        return self.names("history")

    def names(self, folder: str) -> set[str]:
        return {found.name for found in self.disk.scan(folder)}

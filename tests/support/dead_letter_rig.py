"""An engine with a manual clock, whose commits are synced at once, and others on the same root."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spoolrack_store.engine.catalog import QueueRecord
from spoolrack_store.engine.reader import CACHE_BYTES, read_records
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.dead_letter_records import DeadLetterRecord
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.members import indexes
from spoolrack_store.model.operations import UNFINISHED, Delivery, Receive, Request, Send, SendResults
from spoolrack_store.model.redrive_requests import Redrive, RedriveState, StartRedrive
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State

from tests.support.engine_story import Clock
from tests.support.engines import commit, start
from tests.support.linked_disk import LinkedDisk, Memory, made
from tests.support.power_disk import Model

LEASE = Millis(1_000)
MOST_COMMITS = 50
DYING = QueueSettings(max_receives=1, dead_letter_queue="dead")
QUEUES = {"q": DYING, "other": DYING, "third": QueueSettings(), "dead": QueueSettings()}


class Rig:
    """One process; `join` makes another one on the same root."""

    def __init__(
        self,
        queues: dict[str, QueueSettings] | None = None,
        *,
        disk: LinkedDisk | None = None,
        clock: Clock | None = None,
        owner: str = "p1",
        living: set[str] | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.queues = QUEUES if queues is None else queues
        self.disk = disk or made(tuple(self.queues), can_sync_all=True, model=Model.ANY_SUBSET)
        self.clock = clock or Clock()
        self.living = set() if living is None else living
        self.living.add(owner)
        self.engine = start(
            self.disk,
            Memory(self.disk),
            clock=self.clock,
            owner=owner,
            is_living=self.living.__contains__,
            queues=self.queues,
            cache_bytes=cache_bytes,
        )

    def join(self, owner: str) -> Rig:
        return Rig(self.queues, disk=self.disk, clock=self.clock, owner=owner, living=self.living)

    def restart(self, owner: str = "p9") -> Rig:
        """Return all processes die, and one starts."""
        self.living.clear()
        return self.join(owner)

    def set(self, queue: str, settings: QueueSettings) -> None:
        """Give a queue other settings, in this process."""
        records = self.engine.catalog.records
        if queue in records:
            records[queue] = replace(records[queue], settings=settings)
        else:
            records[queue] = QueueRecord(queue, settings)

    def after(self, millis: int) -> None:
        self.clock.now += millis

    def ask(self, request: Request[Any] | None = None, *, tick: bool = False) -> Any:
        """Make one commit, and sync it."""
        outcomes = commit(self.engine, *([] if request is None else [request]), tick=tick)
        if outcomes and isinstance(outcomes[0], StoreError):
            raise outcomes[0]
        return outcomes[0] if outcomes else None

    def settle(self) -> None:
        """Commit as long as there is work that waits for no time."""
        for _ in range(MOST_COMMITS):
            parts = (self.engine.redrives, self.engine._sender)
            due = [part.next_due() for part in parts]
            now = self.clock.monotonic()
            is_due = any(each is not None and each <= now for each in due)
            if not is_due and not self.engine.sharing.orphans:
                return
            self.ask()
        raise AssertionError("the engine doesn't come to rest")

    def send(self, *bodies: bytes, queue: str = "q") -> list[str]:
        send = Send(queue=queue, bodies=bodies)
        while (stored := self.ask(send)) is UNFINISHED:
            pass
        assert isinstance(stored, SendResults)
        self.settle()
        return [str(each) for each in stored.results]

    def receive(self, queue: str = "q", most: int = 10) -> list[Delivery]:
        found = self.ask(Receive(queue=queue, max_messages=most, visibility_timeout=LEASE))
        self.settle()
        return list(found)

    def fail_all(self, queue: str = "q") -> None:
        """Receive all, and let the leases end."""
        self.receive(queue)
        self.after(LEASE)
        self.ask()
        self.settle()

    def bury(self, *bodies: bytes, queue: str = "q") -> list[str]:
        ids = self.send(*bodies, queue=queue)
        self.fail_all(queue)
        return ids

    def start(self, queue: str = "dead", **options: Any) -> Redrive:
        redrive = self.ask(StartRedrive(queue=queue, **options))
        assert isinstance(redrive, Redrive)
        return redrive

    def redrive(self, queue: str = "dead", **options: Any) -> Redrive:
        """Begin one, and wait for what needs no time."""
        redrive = self.start(queue, **options)
        self.settle()
        return self.engine.redrives.find(redrive.id)

    def shown(self, redrive: Redrive) -> Redrive:
        return self.engine.redrives.find(redrive.id)

    def ids(self, queue: str) -> list[str]:
        return sorted(
            entry.batch.stem.message_id(index)
            for entry in self.engine.index.queue(queue).entries
            if entry.name.state is State.READY
            for index in indexes(entry.members)
        )

    def deaths(self, id: str) -> list[DeadLetterRecord]:
        found = self.engine.index.holder(id)
        assert found is not None
        return list(read_records(self.disk, found[0].name))


def is_done(redrive: Redrive) -> bool:
    return redrive.state is RedriveState.DONE

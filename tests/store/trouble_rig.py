"""An engine under a clock that tests move, on a disk whose calls they let fail."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from spoolrack_store.credits import Credits
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import CreateQueue, Delete, Delivery, Receive, Send
from spoolrack_store.model.settings import QueueSettings

from tests.support.engine_rig import EngineRig
from tests.support.engines import commit
from tests.support.linked_disk import made
from tests.support.power_disk import Model
from tests.support.recount import names_in
from tests.support.root_rig import Bytes


class PickyDisk:
    """Passes calls on to another disk, but for those that are to fail."""

    def __init__(self, disk: Any) -> None:
        self.disk = disk
        self.can_sync_all = disk.can_sync_all
        self.kind, self.several_hosts = "picky", disk.several_hosts
        self._faults: list[list[Any]] = []
        self.called: list[tuple[str, tuple[Any, ...]]] = []

    def fail(self, code: int, *names: str, path: str = "", times: int = 1_000_000) -> None:
        """Let calls of these `names`, one of whose paths contains `path`, fail with errno `code`."""
        self._faults.append([code, names, path, times])

    def heal(self) -> None:
        self._faults.clear()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self.disk, name)

        def passed(*arguments: Any, **named: Any) -> Any:
            self.called.append((name, arguments))
            for fault in self._faults:
                code, names, path, times = fault
                paths = [each for each in arguments if isinstance(each, str)] or [""]
                if name in names and times and any(path in each for each in paths):
                    fault[3] -= 1
                    raise OSError(code, os.strerror(code), paths[0])
            return call(*arguments, **named)

        return passed


class Rig(EngineRig):
    """One root, with the queue `q`, and one engine after the other on it."""

    reaps = True
    """Whether what was deleted is unlinked after each commit."""

    def __init__(self, disk: Any = None, *, cache_bytes: int = 0, **settings: Any) -> None:
        queues = {"q": QueueSettings(**settings)}
        disk = PickyDisk(disk or made(["q"], can_sync_all=True, model=Model.ANY_SUBSET))
        super().__init__(queues, disk=disk, changes=Bytes(), cache_bytes=cache_bytes)

    def start(self) -> Engine:
        self.living.clear()
        self.engine = self.join()
        return self.engine

    def add(self, queue: str, **settings: Any) -> None:
        self.queues[queue] = QueueSettings(**settings)
        self.ask(CreateQueue(name=queue, settings=self.queues[queue]))

    def commit(self, *requests: Any, **how: Any) -> list[Any]:
        return super().commit(*requests, **how, reaps=self.reaps)

    def send(self, *bodies: bytes, queue: str = "q") -> list[Any]:
        return list(self.ask(Send(queue=queue, bodies=bodies)).results)

    def receive(
        self, most: int = 10, *, queue: str = "q", credits: Credits | None = None
    ) -> dict[str, tuple[str, bytes]]:
        """Publish what was sent, and return by id the receipts and bodies of what is ready."""
        self.commit()
        deliveries: list[Delivery] = self.ask(
            Receive(queue=queue, max_messages=most, visibility_timeout=Millis(30_000), credits=credits)
        )
        return {
            id: (receipt, body)
            for each in deliveries
            for id, receipt, body in zip(each.ids, each.receipts, each.bodies, strict=True)
        }

    def delete(self, *receipts: str) -> list[Any]:
        return list(self.ask(Delete(queue="q", receipts=receipts)))

    def advance(self, millis: int) -> None:
        self.clock.now += millis

    def paths(self, *folders: str) -> list[str]:
        return sorted(f"{folder}/{each.name}" for folder in folders for each in self.disk.scan(folder))

    def check(self) -> None:
        """Check that the engine's index equals a start's."""
        there = self.paths("new", "delay", "remove", *(f"queues/{queue}" for queue in self.queues))
        known = [name.path for name, _ in names_in(self.engine.index)]
        assert sorted(path for path in known if not path.startswith("quarantine/")) == there
        counted = {queue: self.engine.index.queue(queue).counts for queue in self.queues}
        self.start()
        self.commit()
        assert counted == {queue: self.engine.index.queue(queue).counts for queue in self.queues}


class TwoProcesses(EngineRig):
    """One root with the queue `q` that two processes have open."""

    def __init__(self, **settings: Any) -> None:
        disk: Any = PickyDisk(made(["q"], can_sync_all=True, model=Model.ANY_SUBSET))
        super().__init__({"q": QueueSettings(**settings)}, disk=disk)
        self.first, self.second = self.engine, self.join()

    def send(self, body: bytes) -> None:
        """Send by the first process, and answer; a later commit would publish it."""
        commit(self.first, Send(queue="q", bodies=[body]))

    def received(self) -> list[bytes]:
        """Return what the second process gets."""
        (found,) = commit(self.second, Receive(queue="q", max_messages=9))
        return [body for each in found for body in each.bodies]

"""A random story of one root: operations, time, crashes and restarts, from a seed.

Virtual time, a disk in memory, no threads: the same seed tells the same story. Whatever was
acknowledged is noted in `Promises`, and after each crash the disk that is left is held against it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from random import Random

from asking import QUEUES, Asking
from engine_rig import EngineRig
from faulty_disk import FaultyDisk
from power_disk import Model, PowerDisk
from promises import Broken, Lease, Promises
from spoolrack_store.engine.views import Sight
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StaleReceipt, StoreError
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    GiveBack,
    Message,
    Purge,
    Receive,
    Request,
    Send,
    Sent,
    VisibilityChange,
)
from spoolrack_store.model.settings import QueueSettings

GRAVES = {"a": "b"}
"""The dead-letter queue of each queue that has one."""
MAX_RECEIVES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """What kind of story it is."""

    seed: int
    model: Model = Model.ANY_SUBSET
    can_sync_all: bool = True
    relaxed: bool = False


class Story:
    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        self.random = Random(plot.seed)
        self.power = PowerDisk(can_sync_all=plot.can_sync_all, model=plot.model)
        self.disk = FaultyDisk(self.power)
        self.rig = EngineRig(self.disk, seed=plot.seed)
        self.fates = Promises()
        self.history: list[str] = []
        self.asking = Asking(self.random, self.fates, self._note)
        self._died_at = 0
        for queue in reversed(QUEUES):
            self.rig.ask(CreateQueue(name=queue, settings=self._settings(queue)))

    def _settings(self, queue: str) -> QueueSettings:
        changes: dict[str, object] = {"relaxed_leases": self.plot.relaxed}
        if queue in GRAVES:
            changes |= {"max_receives": MAX_RECEIVES, "dead_letter_queue": GRAVES[queue]}
        return QueueSettings().changed(changes)

    # What happens.

    def act(self) -> None:
        """One random thing: mostly a commit of one to three requests."""
        match self.random.randrange(10):
            case 0:
                self._let_time_pass()
            case 1:
                self._reap()
            case 2:
                self._tick()
            case _:
                self._commit(self.random.choice((1, 1, 2, 3)))

    def _let_time_pass(self) -> None:
        millis = self.random.choice((1, 1_000, 29_999, 30_000, 45_000))
        self._note(f"{millis} ms pass")
        self.rig.clock.advance(Millis(millis))
        if self.random.random() < 0.1:
            step = self.random.choice((-3_600_000, 3_600_000))
            self._note(f"the wall clock is set by {step} ms")
            self.rig.clock.step_wall(step)

    def _reap(self) -> None:
        self._note("the reaper unlinks")
        self.rig.engine.reaper.reap(100)

    def _tick(self) -> None:
        self._note("the mover ticks")
        self.rig.engine.tick()

    def _commit(self, count: int) -> None:
        for queue in QUEUES:
            if queue not in self.rig.engine.catalog.queues and self.random.random() < 0.7:
                self._create(queue)
        requests = self.asking.some_requests(count)
        rig = self.rig
        work = rig.engine.apply(requests)
        rig.engine.sync(work)
        outcomes = rig.engine.finish(work)
        # Now the answers are out, whatever happens next. They are heard in the order in which the
        # engine does things: what one consumer has released, another may hold.
        for request, outcome in sorted(zip(requests, outcomes, strict=True), key=_heard):
            self._hear(request, outcome)
        self.fates.settle()
        rig.settle()

    def _create(self, queue: str) -> None:
        self._note(f"create the queue {queue}")
        request: Request[object] = CreateQueue(name=queue, settings=self._settings(queue))
        (outcome,) = self.rig.commit(request)
        if not isinstance(outcome, StoreError) and self.rig.sights(queue):
            raise Broken(f"the queue {queue} was made again, and isn't empty")

    # What is answered.

    def _hear(self, request: Request[object], outcome: object) -> None:
        match request:
            case Send(messages=messages):
                if isinstance(outcome, list):
                    for message, result in zip(messages, outcome, strict=True):
                        if isinstance(result, Sent):
                            self.fates.sent(result.id, message.body)
            case Receive():
                if isinstance(outcome, list):
                    for message in outcome:
                        self._hear_message(message)
            case Delete(targets=targets):
                if isinstance(outcome, list):
                    for target, result in zip(targets, outcome, strict=True):
                        self._hear_delete(target, result)
            case ChangeVisibility(queue=queue, changes=changes):
                if isinstance(outcome, list):
                    for change, result in zip(changes, outcome, strict=True):
                        self._hear_change(queue, change, result)
            case GiveBack(queue=queue, receipts=receipts):
                for receipt in receipts:
                    self._released(queue, receipt)
            case Purge(queue=queue) | DeleteQueue(name=queue):
                if not isinstance(outcome, StoreError):
                    self._hear_emptied()
            case _:
                pass

    def _hear_message(self, message: Message) -> None:
        assert message.receipt is not None
        assert message.due is not None
        now = self.rig.clock.monotonic()
        ends = now + message.due - self.rig.clock.wall()
        lease = Lease(message.receipt, message.due, ends)
        self.fates.leased(message.id, message.body, lease, now)

    def _hear_delete(self, target: ByReceipt | ById, result: StoreError | None) -> None:
        if result is not None:
            return
        if isinstance(target, ById):
            self.fates.deleted(target.id)
        else:
            self.fates.deleted(target.receipt.partition("~")[0][-36:])

    def _hear_change(
        self, queue: str, change: VisibilityChange, result: Millis | StoreError | None
    ) -> None:
        if isinstance(result, StoreError):
            return
        if result is None:
            self._released(queue, change.receipt)
            return
        id = change.receipt.partition("~")[0][-36:]
        if id in self.fates.leases:
            lease = self.fates.leases[id]
            lease.due = result
            lease.ends = self.rig.clock.monotonic() + result - self.rig.clock.wall()

    def _released(self, queue: str, receipt: str) -> None:
        id = receipt.partition("~")[0][-36:]
        lease = self.fates.leases.get(id)
        if lease is not None and lease.receipt == receipt:
            self.fates.released(queue, id)

    def _hear_emptied(self) -> None:
        found = self._found()
        for id in self.fates.alive.keys() - found.keys():
            self.fates.deleted(id)

    # Crashes.

    def crash_after(self, changes: int | None) -> None:
        """Let the process die after so many changes of the disk; None: let it live."""
        self.disk.die_after(changes)

    def recover(self, *, power_lost: bool) -> None:
        """Start again on what is left, and hold it against what was promised."""
        self._note("the power fails" if power_lost else "the process is killed")
        self.rig.die()
        self._start(self.power.cut_power(self.random) if power_lost else self.power)
        self._judge()

    def try_power_cut(self, random: Random) -> None:
        """Judge one of the disks that a power cut might leave now, and go on as if it hadn't come."""
        story = Story.__new__(Story)
        story.plot, story.random, story.history = self.plot, random, []
        story.fates = copy.deepcopy(self.fates)
        story.rig = self.rig
        story._start(self.power.cut_power(random))
        story._judge()

    def _start(self, power: PowerDisk) -> None:
        wall, self._died_at = self.rig.clock.wall(), self.rig.clock.monotonic()
        self.power = power
        self.disk = FaultyDisk(power)
        self.rig = EngineRig(self.disk, seed=self.random.randrange(1 << 30), wall=wall)

    def _judge(self) -> None:
        rig, fates = self.rig, self.fates
        rig.check()
        found = self._found()
        fates.judge(found)
        if not self.plot.relaxed:
            fates.judge_leases(found, rig.clock.wall(), self._died_at)
        fates.accept(found, rig.clock.wall(), rig.clock.monotonic())
        if not self.plot.relaxed:
            # A relaxed release isn't promised: a power cut may bring the older lease back.
            self._try_old_receipts()
        rig.check()

    def _try_old_receipts(self) -> None:
        """A receipt of a lease that is over deletes nothing."""
        for queue, receipt in self.fates.over[-5:]:
            if queue not in self.rig.engine.catalog.queues:
                continue
            id = receipt.partition("~")[0][-36:]
            (result,) = self.rig.ask(Delete(queue=queue, targets=[ByReceipt(receipt)]))
            if id in self.fates.alive and not isinstance(result, StaleReceipt):
                raise Broken(f"the receipt of an old lease deleted {id}: {result}")

    def finale(self) -> None:
        """Every message that is owed is delivered, and then deleted."""
        self._note("the finale")
        owed = dict(self.fates.alive)
        for _ in range(50):
            if not owed:
                break
            self.rig.clock.advance(Millis(3_700_000))
            for queue in list(self.rig.engine.catalog.queues):
                messages = self.rig.receive(100, queue=queue)
                for message in messages:
                    self.fates.seen(message.id, message.body)
                    owed.pop(message.id, None)
                targets = [ByReceipt(str(message.receipt)) for message in messages]
                results = self.rig.ask(Delete(queue=queue, targets=targets)) if targets else []
                if any(results):
                    raise Broken(f"a delete at the end failed: {results}")
        if owed:
            raise Broken(f"never delivered: {sorted(owed)}")
        self.rig.check()

    def _found(self) -> dict[str, tuple[bytes, Sight]]:
        found: dict[str, tuple[bytes, Sight]] = {}
        for name in self.rig.engine.catalog.queues:
            for sight in self.rig.sights(name):
                if sight.entry.id in found:
                    raise Broken(f"{sight.entry.id} is in two queues")
                raw = self.power.read(sight.path)
                found[sight.entry.id] = (raw[: sight.entry.size or 0], sight)
        return found

    def _note(self, what: str) -> None:
        self.history.append(what)


_ORDER = (Purge, DeleteQueue, Send, Delete, ChangeVisibility, GiveBack, Receive)


def _heard(told: tuple[Request[object], object]) -> int:
    return next((at for at, kind in enumerate(_ORDER) if isinstance(told[0], kind)), -1)

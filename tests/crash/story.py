"""A story of one root: acts, answers and findings, in virtual time, on a disk in memory.

No threads and no chance: the same acts tell the same story. Whatever is answered is noted in
`Promises`; what lies on the disk is held against it after every commit, and after every start. Crashes
are not made here: see `telling`.
"""

from __future__ import annotations

from copy import copy

from acts import Act, Place, Plot, parse_act
from asking import GRAVES, QUEUES, Asking
from engine_rig import EngineRig
from faulty_disk import Killed
from hearing import Hearing
from holding import id_in, queue_of, token_in
from holds import shown_by
from message_fate import Fate, Now
from power_disk import PowerDisk
from promises import Broken, Kind, Promises
from repeating import check_known_ids, repeat_taken_ids
from seen import Found, check_index, files_of, read
from spoolrack_store.engine.recent import RECENT_BYTES
from spoolrack_store.files.disk import Kind as FoundKind
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StaleReceipt
from spoolrack_store.model.ids import UUID, is_id
from spoolrack_store.model.operations import ByReceipt, Delete
from spoolrack_store.model.settings import QueueSettings
from stage_fates import ids_on
from step_disk import Failing, Fault, OnStep, StepDisk

OLD_RECEIPTS = 4
"""So many old receipts are tried after each start."""
MOST_ROUNDS = 12
"""After so many rounds of receives the finale must have seen everything."""


def recent_bytes(seed: int) -> int:
    """Every other store keeps nothing of what it was sent, and reads it back from the disk."""
    return RECENT_BYTES if seed % 2 else 0


class Story:
    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        self.power = PowerDisk(can_sync_all=plot.can_sync_all, model=plot.model)
        self.disk = StepDisk(self.power)
        self.rig = EngineRig(self.disk, seed=plot.seed, recent_bytes=recent_bytes(plot.seed))
        self.fates = Promises(GRAVES)
        self.asking = Asking(plot, self.fates)
        self.hearing = self._new_hearing()
        self.starts = 0
        self.phase = 0
        """Rises whenever what is promised changes."""
        self.by_hand = 0
        self._unreadable = False
        """Whether the disk ever failed to read a file: the store puts that aside."""
        self._has_failed = False
        """Whether it ever failed: then a history may be lost, and never a message."""
        self.is_blind = False
        """Whether the process has started without seeing all that is there."""
        for queue in reversed(QUEUES):
            self.play((Act("create", (queue,)),))

    def _new_hearing(self) -> Hearing:
        hearing = Hearing(self.fates, self.plot, self._lying)
        hearing.stages.find_ids = lambda: ids_on(self.power)
        return hearing

    @property
    def now(self) -> Now:
        clock = self.rig.clock
        return Now(clock.wall(), clock.monotonic())

    # What happens.

    def play(self, line: tuple[Act, ...]) -> bool:
        """Let it happen; False if there was nothing to do. Raises `Broken`, and what ends the process:
        `Killed` and `SyncFailed`."""
        act = line[0]
        match act.word, act.args:
            case "pass", (int(millis),):
                self.rig.clock.advance(millis)
                return True
            case "wall", (int(millis),):
                before = self.now.wall
                self.rig.clock.step_wall(millis)
                known = [*self.fates.alive, *self.fates.dead]
                self.fates.ids.clock_is_set(known, before, self.now.wall)
                return True
            case "later", (int(millis),):
                self._tick()
                self.rig.clock.advance(millis)
                self._tick()
            case "tick", ():
                self._tick()
            case "reap", ():
                if not self.rig.engine.reaper.reap(100):
                    return False
            case "put", (str(queue), int(size)):
                self._put(queue, size)
            case "heal", ():
                self.heal()
            case _:
                if not self._commit(line):
                    return False
        self.look()
        return True

    def _tick(self) -> None:
        self.rig.engine.tick()
        self.rig.commit()

    def _commit(self, acts: tuple[Act, ...]) -> bool:
        before = self.fates.open.copy()
        asked = [request for act in acts if (request := self.asking.request(act)) is not None]
        if not asked:
            return False
        self.phase += 1
        rig, failed = self.rig, len(self.disk.failed)
        work = rig.engine.apply([request for request, _ in asked])
        rig.engine.sync(work)
        outcomes = rig.engine.finish(work)
        # Now the answers are out, whatever happens next.
        told = [(request, who, out) for (request, who), out in zip(asked, outcomes, strict=True)]
        self.hearing.hear(
            told,
            before=before,
            now=self.now,
            failed=self.is_blind or len(self.disk.failed) > failed,
            failing=self.disk.failing,
        )
        self.phase += 1
        rig.settle()
        return True

    def _put(self, queue: str, size: int) -> None:
        """Somebody puts a file into `new/`, and syncs nothing."""
        self.by_hand += 1
        body = self.asking.body(size)
        self.fates.by_hand.add(body)
        path = f"new/{queue}:{self.by_hand:08x}-0000-4000-8000-000000000000"
        self.power.create(path, [body], sync=False)

    def heal(self) -> None:
        """The disk works again, and the store has had the time to do what it couldn't."""
        self.disk.heal()
        for _ in range(2):
            self.rig.clock.advance(Millis(1_000))
            self._tick()

    # What is found.

    def look(self) -> None:
        """Hold what is there against what was promised, unless the disk is failing, or has."""
        self._note_unreadable()
        if self.disk.failing is not None or self.is_blind:
            return
        found, queues, now = self._found(), self._queues(), self.now
        self.fates.judge(found, queues, now)
        self.fates.judge_states(found, now, crashed=False)
        self._judge_stages(found, now)
        self.fates.accept(found, queues, now, crashed=False)
        self._judge_holds(found, now, crashed=False)
        self.fates.redrives.look(self.power, found, crashed=False, has_failed=self._has_failed)
        self.phase += 1

    def _judge_stages(self, found: dict[str, Found], now: Now) -> None:
        """The same for what is staged; it was looked at after what is published, and before that is
        taken as it is."""
        bodies = {each.body for each in found.values()}
        aside = bool(self.fates.aside)
        self.fates.stages.judge(
            self.power,
            now.wall,
            now.monotonic,
            bodies,
            lambda body: aside or body in self.fates.uncertain,
        )
        self.fates.stages.accept(self.power)

    def _note_unreadable(self) -> None:
        self._has_failed |= bool(self.disk.failed)
        self._unreadable |= any(call.startswith("read ") for call in self.disk.failed)

    def _found(self) -> dict[str, Found]:
        """All messages as they lie in the folders, once the index has the same."""
        if self._unreadable:
            self.fates.aside = ids_aside(self.power)
        try:
            # The next start removes it.
            stays = any(call.startswith("remove_folder ") for call in self.disk.failed)
            files = files_of(self.power, may_be_empty=stays)
            check_index(self.rig, files)
        except AssertionError as error:
            raise Broken(Kind.OTHER, str(error)) from error
        found: dict[str, Found] = {}
        for path, file in files.items():
            each = read(path, file)
            if each.name.id in found:
                raise Broken(Kind.DOUBLED, f"{each.name.id} is in two places")
            found[each.name.id] = each
        return found

    def _lying(self, stream: str, seq: int) -> dict[str, Fate | None]:
        return leases_in(self.rig, self.power, stream, seq)

    def _judge_holds(self, found: dict[str, Found], then: Now, *, crashed: bool) -> None:
        """The same for reservations; `then` is the time in the process that made the promises."""
        holds, (shown, committed) = self.fates.reserved, shown_by(self.rig)
        holds.judge(
            shown,
            committed,
            found,
            wall=then.wall,
            monotonic=then.monotonic,
            crashed=crashed,
            broken=lambda what: Broken(Kind.OTHER, what),
        )
        now = self.now
        holds.accept(shown, committed, wall=now.wall, monotonic=now.monotonic, crashed=crashed)

    def _queues(self) -> dict[str, QueueSettings]:
        return {name: live.settings for name, live in self.rig.engine.catalog.queues.items()}

    # The end of a process, and the next one's start.

    def sync_failed(self) -> None:
        """The process ends, and what its last commit did isn't known."""
        for call in self.fates.open.calls:
            self.fates.uncertain.update(call)
        for _, _, kept in self.fates.stages.writing:
            self.fates.uncertain.update(kept.bodies)
        self.fates.reserved.sync_failed()
        self.fates.stages.sync_failed()
        self.fates.uncertain |= self.power.given_up & self.fates.by_hand

    def fork(self) -> Story:
        """The same story, to be started on one of the disks that may be found."""
        fork = copy(self)
        fork.fates = self.fates.copy()
        fork.asking = copy(self.asking)
        fork.asking.fates = fork.fates
        fork.asking.consumers = [consumer.copy() for consumer in self.asking.consumers]
        fork.hearing = fork._new_hearing()
        return fork

    def start(
        self, power: PowerDisk, *, die_at: Place | None = None, on_step: OnStep | None = None
    ) -> None:
        """Start on `power`, and hold what is there against what was promised.

        With `die_at` the start itself may be `Killed`, or fail; nothing was judged then.
        """
        died, self.is_blind = self.now, False
        self._note_unreadable()
        power.free_locks()
        self._note_torn_by_hand(power)
        self.power, self.disk = power, StepDisk(power)
        self.disk.on_step = on_step
        self.starts += 1
        seed = self.plot.seed + self.starts
        if die_at is not None and isinstance(die_at.what, Fault):
            self.disk.failing = Failing(die_at.what, die_at.changes)
        elif die_at is not None:
            self.disk.die_after(die_at.changes, die_at.torn)
        self.rig = EngineRig(self.disk, seed=seed, wall=died.wall, recent_bytes=recent_bytes(seed))
        self.disk.die_after(None)
        self.disk.on_step = None
        if self.disk.failed:
            raise Killed("the process that has started in spite of a failing disk")
        self.disk.heal()
        found, queues = self._found(), self._queues()
        self.fates.judge(found, queues, died)
        self._judge_stages(found, died)
        self.fates.stages.rebase(self.now.wall, self.now.monotonic)
        if not self.plot.relaxed:
            self.fates.judge_states(found, died, crashed=True)
        self.fates.accept(found, queues, self.now, crashed=True)
        self._judge_holds(found, died, crashed=True)
        self.fates.redrives.look(self.power, found, crashed=True, has_failed=self._has_failed)
        check_known_ids(self.rig, self.fates)
        repeat_taken_ids(self.rig, self.fates)
        self._try_old_receipts()

    def _note_torn_by_hand(self, power: PowerDisk) -> None:
        """Nobody has promised that what was put there by hand is whole."""
        if not self.by_hand:
            return
        for found in power.scan("new"):
            if found.kind is FoundKind.FILE and is_id(found.name.partition(":")[2]):
                body = power.read(f"new/{found.name}")
                if body not in self.fates.bodies:
                    self.fates.bodies.add(body)
                    self.fates.by_hand.add(body)
                    self.fates.torn_by_hand.add(body)

    def _try_old_receipts(self) -> None:
        """A receipt of a lease that is over deletes nothing."""
        tried: list[str] = []
        for consumer in self.asking.consumers:
            for receipt in (*consumer.held, *consumer.old):
                id = id_in(receipt)
                if (
                    id in self.fates.alive
                    and queue_of(receipt) in self.fates.queues
                    and not self.fates.holds(id, token_in(receipt), self.now)
                ):
                    tried.append(receipt)
        requests = [
            Delete(queue=queue_of(receipt), targets=[ByReceipt(receipt)])
            for receipt in tried[:OLD_RECEIPTS]
        ]
        if not requests:
            return
        for request, outcome in zip(requests, self.rig.commit(*requests), strict=True):
            if not isinstance(outcome, list) or not isinstance(outcome[0], StaleReceipt):
                what = f"the receipt of an old lease: {request.targets[0]}, {outcome}"
                raise Broken(Kind.OTHER, what)
        self._found()

    def finale(self) -> None:
        """Every message that is owed is delivered, and deleted."""
        self.play((parse_act("send r 1 5 0"),))
        for _ in range(MOST_ROUNDS):
            if not self.fates.alive:
                self.rig.check()
                return
            self.play((parse_act("later 3700000"),))
            for queue in list(self.fates.queues):
                if self.play((parse_act(f"receive 0 {queue} 1000 0"),)):
                    self.play((parse_act("delete 0 held 0 1000"),))
        raise Broken(Kind.LOST, f"never delivered: {sorted(self.fates.alive)}")


def leases_in(rig: EngineRig, power: PowerDisk, stream: str, seq: int) -> dict[str, Fate | None]:
    """The messages of a set as they lie on the disk, in its order.

    There are none if the engine doesn't know it any more: the same commit may have committed it. A
    message is None that is gone.
    """
    reservations = rig.engine.reservations
    held = reservations._holdings.sets.get((stream, seq))
    lying: dict[str, Fate | None] = {}
    if held is None:
        return lying
    for sight in reservations._leases.sights(held.manifest, held.manifest.ids):
        assert sight.due is not None
        clock = rig.clock
        try:
            content = power.read(sight.path)
        except FileNotFoundError:
            # Another has deleted it, and the engine hasn't heard of that.
            lying[sight.entry.id] = None
            continue
        lying[sight.entry.id] = Fate(
            body=content[: sight.entry.size],
            queue=sight.queue,
            receives=sight.entry.receives,
            token=held.manifest.token,
            due=sight.due,
            ends=clock.monotonic() + sight.due - clock.wall(),
        )
    return lying


def ids_aside(power: PowerDisk) -> frozenset[str]:
    """The ids in quarantine."""
    ids: set[str] = set()
    waiting = ["quarantine"]
    while waiting:
        path = waiting.pop()
        for found in power.scan(path):
            ids.update(UUID.findall(found.name))
            if found.kind is FoundKind.FOLDER:
                waiting.append(f"{path}/{found.name}")
    return frozenset(ids)

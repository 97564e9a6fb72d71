"""A story of two or three engines on one disk, in virtual time: acts, answers and findings.

Each engine does its commits in whole or in parts, between those of the others, and can die or stop for
good while the others go on. What lies on the disk is held against `SharedPromises` after every part.
Their wall clocks differ by almost a second. Which of them dies, and where, is not decided here: see
`shared_telling`.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

from acts import Act, Place, Plot
from asking import GRAVES, QUEUES, Asking
from engine_rig import EngineRig
from hearing import Lying
from holds import shown_by
from message_fate import Now
from power_disk import PowerDisk
from promises import Broken, Kind
from repeating import check_known_ids, repeat_taken_ids
from seen import Found, check_index, files_of, name_at, read, sent_files_of, settings_on
from shared_disk import SharedDisk
from shared_hearing import SharedHearing, UnderWay
from shared_promises import SharedPromises
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import NotAName
from spoolrack_store.testing import ManualClock
from step_disk import Failing, OnStep
from story import ids_aside, leases_in, recent_bytes

SKEWS = {"a": 0, "b": 900, "c": 450}
"""Milliseconds by which the wall clock of each is fast."""
SOME_DAY = 1_700_000_000_000


@dataclass(slots=True)
class One:
    """An engine, as long as it lives."""

    disk: SharedDisk
    rig: EngineRig
    commit: UnderWay | None = None
    has_failed: bool = False
    """It takes nothing any more, and its lock says that it lives."""


class SharedStory:
    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        self.power = PowerDisk(can_sync_all=plot.can_sync_all, model=plot.model)
        self.fates = SharedPromises(GRAVES)
        self.fates.redrives.several = True
        self.asking = Asking(plot, self.fates)
        self.hearing = SharedHearing(plot, self.fates, self.asking, self._lying_of)
        self.fates.disk = lambda: self.power
        self.clocks = {name: ManualClock(wall=Millis(SOME_DAY + SKEWS[name])) for name in plot.names}
        self.ones: dict[str, One] = {}
        self.on_step: OnStep | None = None
        """Called at each place where somebody may die."""
        self.at_work: SharedDisk
        """As seen by who did something last."""
        self.starts = 0
        self.phase = 0
        """Rises whenever what is promised changes."""
        self.by_hand = 0
        self.deaths = 0
        self._unreadable = False
        self._has_failed = False
        """Whether anybody ever failed to read a file: the store puts that aside."""
        for name in plot.names:
            self.open(name)
        for queue in reversed(QUEUES):
            self.turn(plot.names[0], "", (Act("create", (queue,)),))
        for name in plot.names:
            self.turn(name, "", (Act("tick"),))

    # Time.

    def now_of(self, name: str) -> Now:
        clock = self.clocks[name]
        return Now(clock.wall(), clock.monotonic())

    @property
    def latest(self) -> Now:
        """By the clock that is ahead of the others."""
        return max((self.now_of(name) for name in self.clocks), key=lambda now: now.wall)

    def wait(self, millis: int) -> None:
        for clock in self.clocks.values():
            clock.advance(millis)

    # Who lives.

    def can_work(self, name: str) -> bool:
        one = self.ones.get(name)
        return one is not None and not one.has_failed

    def open(self, name: str, die_at: Place | None = None) -> None:
        """Start it, beside the others. With `die_at` it may be `Killed` while it starts."""
        if name in self.ones:
            self.kill(name)
        is_alone = not self.ones
        disk = SharedDisk(self.power, self.clocks[name])
        disk.on_step = self.on_step
        if die_at is not None:
            disk.die_after(die_at.changes, die_at.torn)
        self.phase += 1
        if is_alone:
            self.fates.expect_dues(name, self.now_of(name))
        self._start(name, disk)
        disk.die_after(None)
        if is_alone:
            self._judge_alone(name, after_cut=False)
        else:
            self.look()

    def _start(self, name: str, disk: SharedDisk) -> None:
        self.starts += 1
        self.at_work = disk
        seed = self.plot.seed * 1_000 + self.starts
        try:
            rig = EngineRig(
                disk,
                seed=seed,
                watch=disk.watch,
                clock=self.clocks[name],
                recent_bytes=recent_bytes(seed),
            )
        except BaseException:
            disk.die()
            raise
        self.ones[name] = One(disk, rig)

    def kill(self, name: str) -> None:
        """Nobody else is hurt: what it has done is to be seen, though it may not be durable."""
        self._note_unreadable()
        one = self.ones.pop(name, None)
        if one is not None:
            one.disk.die()
        self._look_at_interrupted(name)
        # Whoever starts under this name is another one.
        self.deaths += 1
        self.fates.died(name, f"{name} {self.deaths}")

    def fail(self, name: str) -> None:
        """A sync of its has failed: it promises nothing more, and what it did isn't known."""
        one = self.ones[name]
        one.has_failed, one.commit = True, None
        one.disk.heal()
        self.note_uncertain()
        self._look_at_interrupted(name)

    def _look_at_interrupted(self, name: str) -> None:
        self.phase += 1
        self.look()
        if name in self.fates.under_way:
            self.fates.applied(name, in_trouble=False)

    def note_uncertain(self) -> None:
        """What couldn't be made durable may be seen, and lost again."""
        fates = self.fates
        # Nor what others were writing: a sync of everything is everybody's.
        for opened in fates.under_way.values():
            for call in opened.calls:
                fates.uncertain.update(call)
        fates.uncertain |= self.power.given_up & fates.by_hand
        fates.sync_failed()

    # A power cut.

    def fork(self) -> SharedStory:
        """The same story, to be started on one of the disks that may be found."""
        self._note_unreadable()
        fork = copy(self)
        fork.on_step = None
        fork.fates = self.fates.fork()
        fork.fates.disk = lambda: fork.power
        fork.ones = {}
        return fork

    def restart(self, power: PowerDisk) -> None:
        """The power was cut, and `power` is found: one starts, and another beside it."""
        power.free_locks()
        self.power, self.ones = power, {}
        self.phase += 1
        self._note_torn_by_hand()
        first, second = tuple(self.plot.names[:2])
        self._start(first, SharedDisk(power, self.clocks[first]))
        self._judge_alone(first, after_cut=True)
        self._start(second, SharedDisk(power, self.clocks[second]))
        for one in self.ones.values():
            one.rig.commit()
            check_known_ids(one.rig, self.fates)
            ahead = self.latest.wall - one.rig.clock.wall()
            repeat_taken_ids(one.rig, self.fates, ahead=ahead)
        self.check_indexes()

    def _judge_alone(self, name: str, *, after_cut: bool) -> None:
        """It has read all that there is, and mended it."""
        self.check_indexes()
        found, fates = self._found(), self.fates
        back = found.keys() & fates.leaving.keys()
        if back and not after_cut:
            raise Broken(Kind.RESURRECTED, f"deleted, and back after a kill: {sorted(back)}")
        states = not after_cut or not self.plot.relaxed
        fates.judge_after_cut(found, settings_on(self.power), self.now_of(name), states=states)
        now = self.now_of(name)
        ahead = self.latest.wall - now.wall
        fates.judge_sets(*shown_by(self.ones[name].rig), found, now, ahead)
        fates.reopen()
        fates.redrives.look(self.power, found, crashed=after_cut, has_failed=self._has_failed)

    def _note_torn_by_hand(self) -> None:
        """Nobody has promised that what was put there by hand is whole."""
        if not self.by_hand:
            return
        for path, file in sent_files_of(self.power).items():
            if path.count("/") == 1 and file.content not in self.fates.bodies and is_bare(path):
                for known in (self.fates.bodies, self.fates.by_hand, self.fates.torn_by_hand):
                    known.add(file.content)

    # What happens.

    def turn(self, name: str, part: str, acts: tuple[Act, ...]) -> bool:
        """Let it do something; False if there was nothing to do. Raises `Broken`, and what ends it:
        `Killed` and `SyncFailed`."""
        if not self.can_work(name):
            return False
        one = self.ones[name]
        self.at_work = one.disk
        one.disk.on_step = self.on_step
        if part in ("", "apply"):
            if one.commit is not None:
                self._complete(name)
            return self._apply(name, acts) if part else self._whole(name, acts)
        if one.commit is None or (part == "sync" and one.commit.is_synced):
            return False
        if part == "sync":
            self._sync(name)
        else:
            self._complete(name)
        return True

    def put(self, queue: str, size: int) -> None:
        """Somebody puts a file into `new/`, and syncs nothing."""
        self.by_hand += 1
        body = self.asking.body(size)
        self.fates.by_hand.add(body)
        path = f"new/{queue}:{self.by_hand:08x}-0000-4000-8000-000000000000"
        self.power.create(path, [body], sync=False)

    def trouble(self, name: str, failing: Failing) -> None:
        if self.can_work(name):
            self.ones[name].disk.failing = failing

    def _whole(self, name: str, acts: tuple[Act, ...]) -> bool:
        one = self.ones[name]
        match acts[0].word, acts[0].args:
            case "later", (int(millis),):
                self._whole(name, (Act("tick"),))
                self.wait(millis)
                return self._whole(name, (Act("tick"),))
            case "reap", ():
                did = bool(one.rig.engine.reaper.reap(100))
                self.look()
                return did
            case "heed", ():
                one.rig.engine.heed()
                self.look()
            case "lose", ():
                one.disk.ear.lose()
            case "deafen", ():
                one.disk.ear.deafen()
            case "heal", ():
                one.disk.heal()
                for _ in range(2):
                    self.wait(1_000)
                    self._whole(name, (Act("tick"),))
            case _:
                if not self._apply(name, acts):
                    return False
                self._complete(name)
        return True

    def _apply(self, name: str, acts: tuple[Act, ...]) -> bool:
        one, engine = self.ones[name], self.ones[name].rig.engine
        requests = [act for act in acts if act.word != "tick"]
        asked = self.hearing.ask(name, requests)
        if requests and not asked:
            return False
        self.phase += 1
        failed = len(one.disk.failed)
        if len(requests) < len(acts):
            engine.tick()
        work = engine.apply([request for request, _ in asked])
        self.hearing.answers_deaf(not one.disk.ear.hears_all)
        one.commit = self.hearing.applied(
            name,
            asked,
            work,
            self.now_of(name),
            failed=len(one.disk.failed) > failed,
            failing=one.disk.failing,
        )
        self.look()
        self.fates.applied(name, in_trouble=one.disk.failing is not None)
        self.phase += 1
        return True

    def _sync(self, name: str) -> None:
        one = self.ones[name]
        assert one.commit is not None
        one.rig.engine.sync(one.commit.work)
        one.commit.is_synced = True

    def _complete(self, name: str) -> None:
        """Do what is left of the commit, and answer it."""
        one = self.ones[name]
        commit = one.commit
        assert commit is not None
        if not commit.is_synced:
            self._sync(name)
        failed = len(one.disk.failed)
        one.rig.engine.finish(commit.work)
        one.commit = None
        has_failed = len(one.disk.failed) > failed
        self.hearing.answered(name, commit, failed=has_failed, failing=one.disk.failing)
        self.phase += 1
        one.rig.settle()
        self.look()
        self.fates.applied(name, in_trouble=one.disk.failing is not None)

    def _lying_of(self, name: str) -> Lying:
        return lambda stream, seq: leases_in(self.ones[name].rig, self.power, stream, seq)

    # What is found.

    def look(self) -> None:
        """Hold what is there against what was done."""
        found = self._found()
        self.fates.look(found, settings_on(self.power), self.latest)
        self.fates.redrives.look(self.power, found, crashed=False, has_failed=self._has_failed)

    def _note_unreadable(self) -> None:
        failed = [call for one in self.ones.values() for call in one.disk.failed]
        self._has_failed |= bool(failed)
        self._unreadable |= any(call.startswith("read ") for call in failed)

    def _found(self) -> dict[str, Found]:
        """All messages of living queues as they lie in the folders; what is in `new/`, if promised."""
        self._note_unreadable()
        if self._unreadable:
            self.fates.aside = ids_aside(self.power)
        queues = settings_on(self.power)
        files = files_of(self.power, may_be_empty=True)
        for path, file in sent_files_of(self.power).items():
            if not is_bare(path) and name_at(path).id in self.fates.alive:
                files[path] = file
        found: dict[str, Found] = {}
        for path, file in files.items():
            each = read(path, file)
            if each.name.queue not in queues:
                continue
            if each.is_torn and self.fates.uncertain and each.name.id not in self.fates.alive:
                continue  # An heir published it, who can't know that a sync of it had failed.
            if each.name.id in found:
                raise Broken(Kind.DOUBLED, f"{each.name.id} is in two places")
            found[each.name.id] = each
        return found

    def check_indexes(self) -> None:
        """All who live know what is there, once they have heard of it."""
        files = files_of(self.power)
        for one in self.ones.values():
            if not one.has_failed:
                try:
                    check_index(one.rig, files)
                except AssertionError as error:
                    raise Broken(Kind.OTHER, str(error)) from error


def is_bare(path: str) -> bool:
    """Whether what lies in `new/` was put there by hand."""
    try:
        return name_at(path).crc is None
    except NotAName:
        return True

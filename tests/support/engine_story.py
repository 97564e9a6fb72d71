"""Random histories of engines on a disk that loses power, and the promises that they are held to.

A commit's requests are done, synced and answered, or the story is cut: the power fails before the sync,
or the process dies between two changes of names. The next engine must find each message as one of the
states that were promised.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from random import Random
from typing import Any, ClassVar, Final
from zlib import crc32

from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.entries import resolve
from spoolrack_store.engine.index import UNPACKED
from spoolrack_store.engine.reader import read_records
from spoolrack_store.files.disk import FileKind
from spoolrack_store.files.layout import spare_owner
from spoolrack_store.files.spares import read_seal, spares_in_new
from spoolrack_store.model.batch_file import Line, body, decode
from spoolrack_store.model.clock import DAY, HOUR, Millis
from spoolrack_store.model.dead_letter_records import NotAHistory
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.members import indexes
from spoolrack_store.model.message_ids import index_of, sent_at
from spoolrack_store.model.names import Name, body_path
from spoolrack_store.model.operations import (
    ChangeVisibility,
    Delete,
    Delivery,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Request,
    Send,
    SendResults,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import COUNTED, State

from tests.support.cuts import Bytes, Cut, Keep
from tests.support.engines import commit, declare
from tests.support.linked_disk import Died, LinkedDisk, Memory, made, reap
from tests.support.power_disk import Model
from tests.support.recount import drifts, parse, paths_in

SETTINGS: Final = {
    "q": QueueSettings(),
    "r": QueueSettings(max_receives=2, dead_letter_queue="s", archive_retention=Millis(DAY)),
    "s": QueueSettings(archive_retention=Millis(HOUR)),
}
QUEUES: Final = tuple(SETTINGS)
DEAD: Final = "s"
HOLD: Final = Millis(10_000)
DELAY: Final = Millis(5_000)
ABSENT: Final = ("absent",)
GONE: Final = ("gone",)
DYING: Final = ("dying", "rejected")
"""On its way to the dead-letter queue: at some commit, and with the commit under way."""
Seen = tuple[object, ...]


def seeds_of_run(count: int) -> range:
    """Return the seeds of `count` stories, or those that SPOOLRACK_STORIES and _FIRST_STORY say."""
    first = int(os.environ.get("SPOOLRACK_FIRST_STORY", "0"))
    return range(first, first + int(os.environ.get("SPOOLRACK_STORIES", str(count))))


def seeds_from(first: int, count: int) -> Sequence[int]:
    """Return the seeds below `count`, beginning with `first`: the story that is known to end badly."""
    return (*range(first, count), *range(first))


def id_of(named: str) -> str:
    """Return the id of the message that a receipt, or its id, names."""
    return named.partition(":")[2][:36] or named


def forget_before(history: list[tuple[int, Any]], at: int) -> None:
    """Leave what a power cut may undo once the commit `at` is durable: its state, and all since."""
    del history[: max((place for place, (when, _) in enumerate(history) if when <= at), default=0)]


class Clock:
    """Time that a story moves, and that goes on by a millisecond at each reading: two readings for one
    event differ, as they may on a real clock."""

    ticks = True
    """Cleared by tests of exact times."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def wall(self) -> Millis:
        self.now += self.ticks
        return Millis(self.now)

    def monotonic(self) -> Millis:
        self.now += self.ticks
        return Millis(self.now - 1_600_000_000_000)

    def wait(self, condition: object, until: object) -> None:
        raise AssertionError("an engine never waits")


class StillClock(Clock):
    """Time that only a test moves."""

    ticks = False


class Broken(AssertionError):
    """A promise is broken."""


def unpacked_by(owner: str) -> int:
    """Return how many messages a process doesn't pack: for some 0, for some all."""
    return (0, 2, UNPACKED)[crc32(owner.encode()) % 3]


class History:
    """Processes that share a root: they start, commit, die and lose power as a seed says."""

    disk_kind: type[LinkedDisk] = LinkedDisk
    start_deaths = 0.1
    """How probable it is that a process dies as it starts."""
    plot: tuple[float, ...] = (0.06, 0.06, 0.04, 0.1)
    """How probable it is that a step is a death in a commit, a power cut, a death beside others between
    two commits, or a start beside others."""
    haste = 0.2
    """How probable it is that time goes by before a step."""
    spans: tuple[int, ...] = (1, 700, DELAY, HOLD)
    most_unsynced = 1
    """Commits of a process after which it syncs the first."""

    def __init__(
        self,
        seed: int,
        model: Model,
        *,
        queues: Sequence[str] = (),
        can_sync_all: bool = True,
        processes: int = 1,
        cache_bytes: int = 0,
        spares: bool = False,
    ) -> None:
        """`spares`: the disk overwrites in place, and processes make spare files."""
        self.random = Random(seed)
        self.starts = Random(seed + 2)
        """When a process dies as it starts."""
        self.clock = StillClock()  # The model says when leases and delays end.
        self.disk = made(queues, can_sync_all=can_sync_all, model=model, kind=self.disk_kind)
        self.disk.overwrites = spares
        self.making = Random(seed + 9)
        """When spares are made."""
        self.in_spares = 0
        """Commits that have synced the data of spares alone."""
        self.promised: dict[int, set[str]] = {}
        """Of commits that sync the data of spares alone the messages that their answers are about."""
        self.place_of: dict[str, str] = {}
        """Of names whose file is a spare still, the path of that."""
        self.processes = processes
        self.cache_bytes = cache_bytes
        self.told: list[str] = []
        self.at = 0
        """The number of the commit that was begun last, of any process."""
        self.crashes = 0
        self.engines: dict[str, Engine] = {}
        self.guest = ""
        """The process that opens the root, or looks, and may let others commit meanwhile."""
        self.flying: dict[str, list[Any]] = {}
        """Of each process the commits that it has begun and not synced."""

    def run(self, steps: int) -> None:
        try:
            self._begin()
            for _ in range(steps):
                self._step()
            self._end()
        except (AttributeError, NameError, TypeError):
            raise  # A planted bug that uses what is gone breaks the story by that alone.
        except Exception as error:
            raise Broken("\n".join([*self.told[-400:], repr(error)])) from error

    def _begin(self) -> None:
        """Do what comes before the first step."""

    def _step(self) -> None:
        chance = self.random.random()
        if self.random.random() < self.haste:
            self.clock.now += self.random.choice(self.spans)
        owner = self.random.choice(list(self.engines))
        self._look_around()
        if owner not in self.engines:
            return
        dies, cuts, killed, starts = accumulate(self.plot)
        if chance < dies:
            self._die(owner)
        elif chance < cuts:
            self._power_cut(self._cut())
        elif chance < killed and len(self.engines) > 1:
            self.told.append(f"{owner} is killed")
            self._kill(owner)
        elif len(self.engines) < self.processes and chance < starts:
            self._start()
        elif self.flying[owner] and (chance > 0.6 or len(self.flying[owner]) > self.most_unsynced):
            self._sync(owner)
        else:
            self._commit(owner)

    def _look_around(self) -> None:
        """Do what comes before a step."""

    def _die(self, owner: str) -> None:
        """Let a process die in a commit."""
        raise NotImplementedError

    def _kill(self, owner: str) -> None:
        """End a process between two commits."""
        raise NotImplementedError

    def _sync(self, owner: str) -> None:
        """Sync the first commit of a process that isn't, and answer."""
        raise NotImplementedError

    def _commit(self, owner: str) -> None:
        """Begin a commit."""
        raise NotImplementedError

    def _power_cut(self, cut: Cut) -> None:
        self._restart(cut)

    def _end(self) -> None:
        """Check what holds after the last step."""

    def _start(self) -> None:
        """Start a process, and another one where it dies as it starts."""
        owner = f"p{self.random.getrandbits(30)}"
        engine = Engine(
            self.disk,
            Memory(self.disk),
            clock=self.clock,
            random=Random(self.random.getrandbits(30)),
            owner=owner,
            is_living=lambda owner: owner in self.engines or owner == self.guest,
            cache_bytes=self.cache_bytes,
        )
        self._prepare(engine)
        self.at += 1
        self.told.append(f"{owner} starts, commit {self.at}")
        if self.starts.random() < self.start_deaths:
            self.disk.steps_left = self._steps_to_death(self.starts.randint(0, 8))
        self.guest = owner
        try:
            assert engine.open(), "no process holds the lock"
            has_died = False
        except Died:
            has_died = True
        self.disk.steps_left = None
        self.guest = ""
        if has_died:
            self.told.append(f"{owner} dies as it starts")
            self.crashes += 1
            self.disk.free_locks()
            self._start()
            return
        if engine.catalog.reset:
            raise Broken(f"the settings of {engine.catalog.reset} are lost")
        self.engines[owner], self.flying[owner] = engine, []
        self._has_started(engine)

    def _prepare(self, engine: Engine) -> None:
        """Change an engine before it is opened."""

    def _steps_to_death(self, steps: int) -> int:
        """Return after how many changes a start dies."""
        return steps

    def _has_started(self, engine: Engine) -> None:
        """Look at an engine that has just been opened."""

    def _remove(self, owner: str) -> None:
        """End a process and its locks; start another one if it was the last."""
        self.crashes += 1
        del self.engines[owner], self.flying[owner]
        self.disk.free_locks()
        if not self.engines:
            self._start()

    def _restart(self, cut: Cut) -> Engine:
        """Cut the power, and start a process on what is left."""
        self.told.append(f"cut {cut}")
        self.crashes += 1
        found = self.disk.cut(cut)
        assert isinstance(found, LinkedDisk)
        found.changes = self.disk.changes
        found.forget_changes(self.random)
        self.disk = found
        self.engines.clear()
        self.flying.clear()
        self._start()
        (engine,) = self.engines.values()
        return engine

    def _cut(self) -> Cut:
        contents = tuple(self.random.choice(list(Bytes)) for _ in range(3))
        return Cut(Keep.SOME, (self.random.getrandbits(30),), contents)


class Sums(Counter[str]):
    """What happened in some stories, by the names of their counts."""

    def least(self, *names: str) -> int:
        return min(self[name] for name in names)


def tell(
    kind: Callable[..., History], seeds: Iterable[int], model: Model, *, steps: int = 120, **rest: Any
) -> Sums:
    """Run stories; return the sums of all that they count."""
    sums = Sums()
    for seed in seeds:
        sums["stories"] += 1
        story = kind(seed, model, **rest)
        story.run(steps)
        sums.update({name: count for name, count in vars(story).items() if isinstance(count, int)})
    return sums


def sparing(kind: Callable[..., History]) -> Callable[..., History]:
    """Let processes make spare files, and give every second story a body cache."""
    return lambda seed, model, **rest: kind(
        seed, model, cache_bytes=10_000 * (seed % 2), spares=True, **rest
    )


def caching(kind: Callable[..., History]) -> Callable[..., History]:
    """Give every second story a body cache."""
    return lambda seed, model, **rest: kind(seed, model, cache_bytes=10_000 * (seed % 2), **rest)


class Story(History):
    """One history, made from a seed."""

    settings: ClassVar = SETTINGS
    may_lack = False
    """Whether a receive may get less than there is: the disk has refused something."""

    def __init__(
        self,
        seed: int,
        model: Model,
        *,
        plot: tuple[float, float] = (0.06, 0.06),
        **rest: Any,
    ) -> None:
        """`plot` is how probable deaths in a commit, and power cuts, are."""
        super().__init__(seed, model, queues=QUEUES, **rest)
        self.reaping = Random(seed)
        self.looks = Random(seed + 1)
        """When a question is asked between two commits."""
        self.purges = Random(seed + 4)
        """Which messages purges take."""
        self.plot = *plot, *self.plot[2:]
        self.may: dict[str, list[tuple[int, Seen]]] = {}
        """Of each message what it became, and by which commit, from the last that is durable on."""
        self.sender: dict[str, str] = {}
        """Of each message the process that syncs it first."""
        self.queue_of: dict[str, str] = {}
        self.bodies: dict[str, bytes] = {}
        self.receipts: dict[str, str] = {}
        self.unanswered: dict[str, int] = {}
        """Which commit leased what, if it isn't synced."""
        self.later: dict[str, tuple[int, str]] = {}
        """Receipts that are not told yet, and the commits that tell them."""
        self.answered: set[str] = set()
        """Messages whose senders have heard that they are sent."""
        self.replayed = self.buried = 0
        self._start()

    def _end(self) -> None:
        self._power_cut(Cut(Keep.ALL))

    def now(self, id: str) -> Seen:
        return self.may[id][-1][1]

    # The steps of a story.

    def _look_around(self) -> None:
        if self.looks.random() < 0.1:
            self._look(self.looks.choice(list(self.engines)))
        if self.disk.overwrites and self.making.random() < 0.3:
            self._make_spares(self.making.choice(list(self.engines)))

    def _make_spares(self, owner: str) -> None:
        """Let the thread of a process make spares, and cut off the ends of those that are used."""
        self.told.append(f"{owner} makes spares")
        if self.making.random() < 0.1:
            self.disk.steps_left = self.making.randint(0, 6)
        try:
            self.engines[owner].moves.spares.make()
            has_died = False
        except Died:
            has_died = True
        self.disk.steps_left = None
        if has_died:
            self.told.append(f"{owner} dies as it makes spares")
            self._bury(owner, {})

    def _kill(self, owner: str) -> None:
        self._bury(owner, {})

    def _look(self, owner: str) -> None:
        """Ask a question: durable sends are published before it is answered."""
        self.told.append(f"{owner} looks")
        if self.looks.random() < 0.1:
            self.disk.steps_left = self.looks.randint(0, 6)
        try:
            for _ in range(1_000):  # No process holds the lock, and a large set goes in slices.
                if self.engines[owner].with_exact_index(lambda: True):
                    break
            else:
                raise Broken("a question has no answer")
            self._check(self.engines[owner])
            has_died = False
        except Died:
            has_died = True
        self.disk.steps_left = None
        if has_died:
            self.told.append(f"{owner} dies as it looks")
            self._bury(owner, {})

    def _sync(self, owner: str) -> None:
        at, work = self.flying[owner].pop(0)
        self.told.append(f"{owner} has synced commit {at}")
        if work.barrier is not None:
            work.barrier.sync()
        if self.random.random() < 0.1 and not self.guest:
            self.disk.steps_left = self.random.randint(0, 4)
        try:
            assert self.engines[owner].finish(work) is not None, "no process holds the lock"
            has_died = False
        except Died:
            has_died = True
            self.told.append(f"{owner} dies before it answers")
        self.disk.steps_left = None
        for outcome in work.outcomes if not has_died else ():
            if isinstance(outcome, SendResults):
                self.answered.update(id for id in outcome.results if isinstance(id, str))
        reap(self.engines[owner], self.reaping.randrange(4))
        durable: Iterable[tuple[str, list[tuple[int, Any]]]] = ()
        if work.in_spares:
            self.in_spares += 1
            promised = self.promised.pop(at)
            durable = [(id, history) for id, history in self.may.items() if id in promised]
        elif work.barrier is not None:
            durable = self.may.items()
        for id, history in durable:
            if history[0][1] == ABSENT and self.sender[id] != owner:
                continue  # No other process knows of it.
            forget_before(history, at)
        for history in self._histories() if work.barrier is not None and not work.in_spares else ():
            forget_before(history, at)
        if not work.in_spares:
            self.unanswered = {id: when for id, when in self.unanswered.items() if when > at}
        for id, (when, receipt) in list(self.later.items()):
            if when == at:
                del self.later[id]
                if self.now(id)[0] == "leased" and not has_died:
                    self.receipts[id] = receipt
        if has_died:
            self._bury(owner, {})

    def _histories(self) -> Iterable[list[tuple[int, Any]]]:
        """Return what else becomes durable with a commit: stories that have any."""
        return ()

    def _commit(self, owner: str) -> None:
        requests = self._requests(owner)
        tick = self.random.random() < 0.3
        self.at += 1
        self.told.append(
            f"{self.clock.now} {owner}, commit {self.at}{' with a tick' * tick}: {requests}"
        )
        self._bring_back()
        engine = self.engines[owner]
        work = engine.apply(requests, tick=tick)
        assert work is not None, "no process holds the lock"
        if work.barrier is None and any(
            outcome and not isinstance(outcome, StoreError) for outcome in work.outcomes
        ):
            raise Broken(f"answers that wait for no sync: {work.outcomes}")
        self._check(engine)
        before = {id: len(history) for id, history in self.may.items()}
        self._take(engine, requests, work.outcomes)
        if work.in_spares:
            grown = (id for id, history in self.may.items() if len(history) != before.get(id))
            self.promised[self.at] = set(grown)
        self._look_for_dead_letters(engine)
        self.replayed += engine.sharing.replayed
        self.flying[owner].append((self.at, work))

    def _look_for_dead_letters(self, engine: Engine) -> None:
        """Note dying messages that some commit of some process made dead letters."""
        for id in self.may:
            if self.now(id)[0] not in DYING:
                continue
            found = engine.index.holder(id)
            if found is not None and found[0].name.queue == DEAD:
                self._is_dead_letter(id)

    def _purge_what_has_just_come(self, engine: Engine) -> None:
        """Purge a dead letter that the purging commit itself has published, too."""
        for id in self.may:
            if self.now(id)[0] in DYING:
                found = engine.index.holder(id)
                if found is None or found[0].name.state is State.REMOVED or found[0].name.queue == DEAD:
                    self._is_dead_letter(id)

    def _is_dead_letter(self, id: str) -> None:
        self.buried += 1
        self.queue_of[id] = DEAD
        self._become(id, ("ready", 0))

    def _die(self, owner: str) -> None:
        """Let a process die in a commit, or just before it ends."""
        requests = self._requests(owner)
        self.at += 1
        self.disk.steps_left = self.random.randint(0, 12)
        self.told.append(f"{self.clock.now} {owner} dies in commit {self.at}: {requests}")
        self._bring_back()
        try:
            work = self.engines[owner].apply(requests, tick=self.random.random() < 0.3)
        except Died:
            work = None
        self.disk.steps_left = None
        maybe: dict[str, list[Seen]] = {}
        if work is None:
            maybe = self._forgive(requests)
        else:
            self._take(self.engines[owner], requests, work.outcomes)
        self._bury(owner, maybe)

    def _bury(self, owner: str, maybe: dict[str, list[Seen]]) -> None:
        """End a process and its locks; it may have had the effects in `maybe`."""
        self.dead = owner
        self._remove(owner)
        survivor = self.engines[self.random.choice(list(self.engines))]
        self.at += 1
        self._bring_back()
        work = survivor.apply([], tick=True)
        assert work is not None
        self._check(survivor)
        self.flying[survivor.moves.owner].append((self.at, work))
        self._adopt(maybe)
        for id, sender in self.sender.items():
            if sender == owner and id in self.may:
                # The survivor takes over what was in `new/`.
                self.sender[id] = survivor.moves.owner
                if self.may[id][0][1] == ABSENT:
                    self.may[id] = [(self.at, state) for _, state in self.may[id]]

    def _power_cut(self, cut: Cut) -> None:
        engine = self._restart(cut)
        self.at += 1
        self._bring_back()
        commit(engine)
        self._adopt(None)
        self.unanswered.clear()
        self.later.clear()
        self._check_counts(engine)

    def _prepare(self, engine: Engine) -> None:
        engine.index.unpacked = unpacked_by(engine.moves.owner)
        engine.moves.spares._wanted[4096] = crc32(engine.moves.owner.encode()) % 4
        for queue, settings in self.settings.items():
            declare(engine, queue, settings, salt=queue)

    def _steps_to_death(self, steps: int) -> int:
        # It joins, and takes the lock again once it has listed: a death between is one as it joins.
        return steps + 2 * (steps > (2 if self.engines else 4))

    # Present state.

    def _check(self, engine: Engine) -> None:
        """Check that a process that has just committed knows exactly what is there."""
        mine = engine.moves.owner
        if drifted := drifts(engine.index, self.clock.monotonic()):
            raise Broken(f"{mine}: {drifted}")
        require_known(engine, self._paths())

    def _paths(self) -> list[str]:
        folders = ("new", "delay", "remove", "quarantine", *(f"queues/{queue}" for queue in QUEUES))
        self.place_of = {}
        for path, _ in spares_in_new(self.disk):
            name = read_seal(self.disk, path)
            if name is not None:
                self.place_of[name.path] = path
        return [
            *self.place_of,
            *(
                f"{folder}/{each.name}"
                for folder in folders
                for each in self.disk.scan(folder)
                # A folder in quarantine has what is no message.
                if each.kind is FileKind.FILE and not spare_owner(each.name)
            ),
        ]

    def _found(self) -> dict[str, tuple[Seen, str]]:
        """Return what a start would take each message to be, and in which queue; nothing of what isn't
        whole."""
        found: dict[str, tuple[Seen, str]] = {}
        batches = resolve(map(parse, self._paths())).values()
        for batch in batches:
            if not batch.was_sent:
                continue
            for entry in batch.entries:
                name = entry.name
                if entry.members and name.state in COUNTED:
                    try:
                        read_records(self.disk, name)
                    except NotAHistory as why:
                        raise Broken(f"how {name.path} died is lost: {why}") from why
                for index in indexes(entry.members):
                    seen: Seen = ("ready", name.receives)
                    if name.state is State.REMOVED:
                        seen = GONE
                    elif name.due is not None:
                        seen = ("leased" if name.token else "delayed", name.receives, name.due)
                    elif name.state is State.QUARANTINED:
                        seen = ("quarantined",)
                    found[batch.stem.message_id(index)] = seen, name.queue
        return found

    def _adopt(self, maybe: dict[str, list[Seen]] | None) -> None:
        """Hold what is found after a crash against what was promised, and go on from there.

        After a death (`maybe`) all is as it was, but for what the dead may have done; after a power cut
        (None) each message may be whatever it was since it was last durable.
        """
        found = self._found()
        files: dict[str, set[bool]] = {}
        for id in [*self.may, *(found.keys() - self.may.keys())]:
            if id not in self.may:
                # Of a commit that died in its midst: it may be there, with all of its file.
                now = found[id][0]
                # A power cut may undo a lease of what that commit had sent, and not the send.
                sent: Seen = ("ready", 0) if now[0] == "leased" else now
                self.may[id] = [(self.at, ABSENT), (self.at, sent), (self.at, now)]
                self.queue_of[id], self.sender[id] = found[id][1], self.dead
                self._read(id)
                files.setdefault(id[:-3], set()).add(True)
                continue
            history = [state for _, state in self.may[id]]
            promised = history if maybe is None else [history[-1], *maybe.get(id, ())]
            promised = [*promised, *(self._by_now(id, state) for state in promised)]
            now = found[id][0] if id in found else GONE if GONE in promised else ABSENT
            if id in found and found[id][1] == DEAD and self.queue_of[id] != DEAD and now != GONE:
                if not any(state[0] in DYING for state in promised):
                    raise Broken(f"{id} is a dead letter, promised {promised}")
                self.queue_of[id] = DEAD
                self.receipts.pop(id, None)  # Also if the dead has leased it there.
                self.may[id].append((self.at, now))
                history.append(now)
            elif (
                now[0] in ("leased", "ready") and ("dying", now[1]) in promised and found[id][1] != DEAD
            ):
                now = "dying", now[1]
                self.queue_of[id] = found[id][1]
            elif now not in promised:
                raise Broken(f"{id} is found {now}, promised {promised}")
            elif maybe is None and now not in (GONE, ABSENT) and found[id][1] != self.queue_of[id]:
                if not any(state[0] in DYING for state in history):
                    raise Broken(f"{id} has left {self.queue_of[id]} for {found[id][1]}")
                self.queue_of[id] = found[id][1]  # The cut may have undone its death.
            if history[0] == ABSENT:
                files.setdefault(id[:-3], set()).add(now != ABSENT)
            if now == ABSENT:
                for kept in (self.may, self.queue_of, self.bodies, self.receipts, self.later):
                    kept.pop(id, None)  # type: ignore[attr-defined]
                continue
            if maybe is None:
                self.may[id] = [(self.at, now)]
            elif now != history[-1]:
                self.may[id].append((self.at, now))
                self.receipts.pop(id, None)
            if now[0] != "leased" or (maybe is None and id in self.unanswered):
                self.receipts.pop(id, None)
        torn = [id for id, there in files.items() if len(there) > 1]
        if torn:
            raise Broken(f"of a send that was never answered a part is there: {torn}")

    def _read(self, id: str) -> None:
        for path in self._paths():
            name = parse(path)
            if name.stem.message_id(index_of(id) if name.stem.count else 0) == id:
                index = index_of(id) if name.stem.count else 0
                content = self.disk.read(self.place_of.get(path, path))
                line = decode(name.stem, content, len(content))
                if line.is_external:
                    content = self.disk.read(body_path(id))
                self.bodies[id] = body(line, content, index)
                self._read_more(id, name, line, index)
                return

    def _read_more(self, id: str, name: Name, line: Line, index: int) -> None:
        """Take in what else the file of a message says: stories that have any."""

    def _check_counts(self, engine: Engine) -> None:
        for queue in QUEUES:
            counts = engine.index.queue(queue).counts
            words = [self.now(id)[0] for id in self.may if self.queue_of[id] == queue]
            # A dying message is leased or ready until it is a dead letter.
            here = sum(words.count(word) for word in ("ready", "leased", "dying", "held"))
            found = counts[State.READY] + counts[State.LEASED], counts[State.DELAYED]
            if found != (here, words.count("delayed")):
                raise Broken(f"{queue} counts {counts}, and has {sorted(map(str, words))}")

    # Requests.

    def _requests(self, owner: str) -> list[Request[Any]]:
        """Return the requests of a process's next commit."""
        return [self._request() for _ in range(self.random.randint(0, 3))]

    def _request(self) -> Request[Any]:
        chance = self.random
        queue = chance.choice(QUEUES)
        mine = [id for id in self.receipts if self.queue_of[id] == queue]
        chosen = [self.receipts[id] for id in chance.sample(mine, min(len(mine), chance.randint(1, 4)))]
        match chance.choice("ssrrrrdddcciP" if chance.random() < 0.2 else "ssrrrrdddcci"):
            case "s":
                count = chance.choice((1, 1, 2, 3, 7))
                bodies = [chance.randbytes(chance.randint(0, 20)) for _ in range(count)]
                attributes = {0: {"a": "b", "c": b"\xff"}} if chance.random() < 0.3 else {}
                share = chance.choice((0.0, 0.0, 0.0, 0.5, 1.0))
                delays = {place: DELAY for place in range(len(bodies)) if chance.random() < share}
                send = Send(queue=queue, bodies=bodies, attributes=attributes, delays=delays)
                if attributes:
                    moments = {place: Millis(self.clock.now + delay) for place, delay in delays.items()}
                    send.deliver_at, send.delays = moments, {}
                return send
            case "r":
                return Receive(
                    queue=queue,
                    max_messages=chance.choice((1, 2, 5)),
                    max_bytes=chance.choice((10, 1_000_000)),
                    visibility_timeout=chance.choice((None, HOLD)),
                )
            case "d":
                return Delete(queue=queue, receipts=chosen)
            case "c":
                return ChangeVisibility(
                    queue=queue, receipts=chosen, visibility_timeout=chance.choice((Millis(0), HOLD))
                )
            case "i":
                there = [id for id in self.may if self.queue_of[id] == queue and self.now(id) != GONE]
                return Delete(queue=queue, ids=chance.sample(there, min(len(there), 2)))
            case _:
                return purge_of(self.purges, queue, self.clock.now)

    # Promises.

    def _bring_back(self) -> None:
        """Make due messages ready, as the beginning of a commit does."""
        sent = self._sent_only()
        for id in self.may:
            now = self._by_now(id, self.now(id))
            if now != self.now(id) and id not in sent:
                self._become(id, now)
                self.receipts.pop(id, None)

    def _by_now(self, id: str, state: Seen) -> Seen:
        """Return what has become of a message in this state, as time went on."""
        is_due = state[0] in ("leased", "delayed") and int(str(state[2])) <= self.clock.now
        return self._back(id, state) if is_due else state

    def _back(self, id: str, state: Seen) -> Seen:
        """Return what becomes of a message whose lease or delay ends."""
        limit = SETTINGS[self.queue_of[id]].max_receives
        return ("dying", state[1]) if limit and int(str(state[1])) >= limit else ("ready", state[1])

    def _become(self, id: str, now: Seen) -> None:
        self.may[id].append((self.at, now))

    def _take(self, engine: Engine, requests: list[Request[Any]], outcomes: Sequence[object]) -> None:
        """Take in the answers of a commit in the order in which the engine does its work.

        A story takes in those to other requests by itself.
        """
        order = (Send, Delete, ChangeVisibility, ReleaseMessages, RejectMessages, Purge, Receive)
        pairs = [pair for pair in zip(requests, outcomes, strict=True) if isinstance(pair[0], order)]
        for request, outcome in sorted(pairs, key=lambda pair: order.index(type(pair[0]))):
            match request:
                case Send():
                    assert isinstance(outcome, SendResults)
                    self._check_keys(request, outcome)
                    for place, id in enumerate(outcome.results):
                        assert isinstance(id, str), id
                        if place in outcome.duplicates:
                            continue
                        self._sent(engine.moves.owner, id, request, place)
                case Delete():
                    assert isinstance(outcome, list)
                    for named, result in zip((*request.receipts, *request.ids), outcome, strict=True):
                        id = id_of(named)
                        if result is None:
                            self._become(id, GONE)
                            self.receipts.pop(id, None)
                        elif self.now(id)[0] == "leased" and self.receipts.get(id) == named:
                            raise Broken(f"a delete of {id} was refused: {result!r}")
                case ChangeVisibility():
                    assert isinstance(outcome, list)
                    for named, result in zip(request.receipts, outcome, strict=True):
                        self._changed(named, request.visibility_timeout, result)
                case ReleaseMessages() | RejectMessages():
                    self._given_up(request, outcome)
                case Purge():
                    sent = self._sent_only()
                    self._look_for_dead_letters(engine)
                    if request.queue == DEAD:
                        self._purge_what_has_just_come(engine)
                    for id, queue in self.queue_of.items():
                        if (
                            queue == request.queue
                            and id not in sent
                            and self._takes(request, id, engine)
                        ):
                            self._become(id, GONE)
                            self.receipts.pop(id, None)
                case Receive():
                    assert isinstance(outcome, list)
                    self._received(engine, request, outcome)

    def _takes(self, request: Purge, id: str, engine: Engine) -> bool:
        """Return whether a purge that was answered has deleted a message that was in its queue.

        While a message is on its way from one state to another, either counts: the index tells. One
        that is due may be on its way for long where the disk has refused something.
        """
        states: list[Seen] = [self.now(id), self._by_now(id, self.now(id))]
        if self.may_lack and GONE not in states:
            states += [("leased",), ("delayed",)]
        taken = _takes_in(request, id, states)
        if len(taken) < 2:
            return True in taken
        found = engine.index.holder(id)
        return found is None or found[0].name.state is State.REMOVED

    def _given_up(self, request: ReleaseMessages | RejectMessages, outcome: object) -> None:
        """Take in a release or a rejection: stories that have any."""

    def _check_keys(self, request: Send, stored: SendResults) -> None:
        """Hold the answer to the deduplication ids: stories that have any."""

    def _sent(self, sender: str, id: str, request: Send, place: int) -> None:
        delay, body = request.delays.get(place), request.bodies[place]
        now: Seen = ("ready", 0) if delay is None else ("delayed", 0, self.clock.now + delay)
        if place in request.deliver_at:
            now = ("delayed", 0, request.deliver_at[place])
        self.may[id] = [(self.at, ABSENT)]
        self.queue_of[id], self.bodies[id] = request.queue, body
        self.sender[id] = sender
        self._become(id, now)

    def _changed(self, receipt: str, visibility: Millis, result: object) -> None:
        id = id_of(receipt)
        now = self.now(id)
        if not isinstance(result, int):
            if now[0] == "leased":
                raise Broken(f"a change of {id} was refused: {result!r}")
        elif visibility:
            self._become(id, ("leased", now[1], result))
        else:
            self._become(id, self._back(id, now))
            self.receipts.pop(id, None)

    def _received(self, engine: Engine, request: Receive, deliveries: list[Delivery]) -> None:
        got: list[str] = []
        sent = self._sent_only()
        for delivery in deliveries:
            rows = zip(delivery.ids, delivery.receipts, delivery.bodies, strict=True)
            for id, receipt, got_body in rows:
                now = self._by_now(id, self.now(id)) if id in self.may else None
                if now is not None and now[0] in DYING and request.queue == DEAD:
                    self._is_dead_letter(id)
                    now = self.now(id)
                if now is None or now[0] != "ready":
                    raise Broken(f"{id} was received, and is {now}")
                if self.bodies[id] != got_body:
                    raise Broken(f"{id} has another body")
                got.append(id)
                self._become(id, ("leased", delivery.receive_count, delivery.lease_expires_at))
                if delivery.receive_count != int(str(now[1])) + 1:
                    raise Broken(
                        f"{id} is received for the {delivery.receive_count}th time after {now[1]}"
                    )
                if id in sent:
                    # Leased as it was sent: no consumer has the receipt before the commit is finished.
                    self.receipts.pop(id, None)
                    self.later[id] = self.at, receipt
                else:
                    self.receipts[id] = receipt
                self.unanswered[id] = self.at
        left = [
            id
            for id, queue in self.queue_of.items()
            if queue == request.queue and self.now(id)[0] == "ready" and id not in sent
        ]
        if len(got) > request.max_messages:
            raise Broken(f"{len(got)} of {request.max_messages} received")
        self._check_order(request, got, left, sent)

    def _check_order(self, request: Receive, got: list[str], left: list[str], sent: set[str]) -> None:
        """Hold what was received, in this order, against what is still ready.

        `sent` are the messages that were in `new/` as they were received.
        """
        if got != sorted(got) or (got and left and max(got) > min(left) and not self.may_lack):
            raise Broken(f"out of order: {got}, left {sorted(left)[:3]}")
        if not got and left and not self.may_lack:
            raise Broken(f"nothing received, {len(left)} left")

    def _sent_only(self) -> set[str]:
        """Return what is in `new/` still, for whichever process to publish."""
        found: set[str] = set()
        names = list(map(parse, self._paths()))
        coming = {name.stem.text for name in names if name.state is State.SENT}
        for batch in resolve(name for name in names if name.stem.text in coming).values():
            for entry in batch.entries:
                if entry.name.state is State.SENT:
                    found.update(map(batch.stem.message_id, indexes(entry.members)))
        return found

    def _forgive(self, requests: list[Request[Any]]) -> dict[str, list[Seen]]:
        """Return what a commit may have done that died in its midst."""
        maybe: dict[str, list[Seen]] = {id: [] for id in self.may}
        for request in requests:
            match request:
                case Delete():
                    for named in (*request.receipts, *request.ids):
                        maybe[id_of(named)].append(GONE)
                case ChangeVisibility():
                    for named in request.receipts:
                        id = id_of(named)
                        now = self.now(id)
                        receives = now[1] if now[0] == "leased" else 0
                        end = self.clock.now + request.visibility_timeout
                        if request.visibility_timeout:
                            maybe[id].append(("leased", receives, end))
                        else:
                            maybe[id] += [("ready", receives), self._back(id, ("leased", receives))]
                case Purge():
                    for id, queue in self.queue_of.items():
                        states = [self.now(id), self._by_now(id, self.now(id)), *maybe[id]]
                        if queue == request.queue and True in _takes_in(request, id, states):
                            maybe[id].append(GONE)
                case _:
                    pass
        for request in requests:
            if isinstance(request, Receive):
                end = self.clock.now + (
                    request.visibility_timeout or QueueSettings().visibility_timeout
                )
                for id, queue in self.queue_of.items():
                    for state in [self._by_now(id, self.now(id)), *maybe[id]]:
                        if queue == request.queue and state[0] == "ready":
                            maybe[id].append(("leased", int(str(state[1])) + 1, end))
        return maybe


def require_known(engine: Engine, paths: Iterable[str]) -> None:
    """Require that the index of a process that has just committed has the names in these folders."""
    mine = engine.moves.owner

    def counts(path: str) -> bool:
        return not path.startswith("new/") or f",o{mine}" in path

    known, there = set(filter(counts, paths_in(engine.index))), set(filter(counts, paths))
    if known == there:
        return
    # Each process drops by itself the names that may be unlinked at any time.
    for batch in resolve(map(parse, known | there)).values():
        if batch.is_over:
            over = {entry.name.path for entry in batch.entries if entry.name.state is State.REMOVED}
            known -= over
            there -= over
    if known != there:
        raise Broken(
            f"{mine} doesn't know of {sorted(there - known)}, and believes {sorted(known - there)}"
        )


def purge_of(chance: Random, queue: str, now: int) -> Purge:
    """Return a purge of all messages, or of those of an age or of some states."""
    return Purge(
        queue=queue,
        sent_before=chance.choice((None, None, Millis(now), Millis(now - DELAY))),
        states=frozenset(chance.sample(COUNTED, chance.choice((0, 0, 1, 2)))),
    )


def _takes_in(request: Purge, id: str, states: Sequence[Seen]) -> set[bool]:
    """Return whether a purge takes a message that is in one of these states, for each of them."""
    words = {str(state[0]) for state in states} - {GONE[0], ABSENT[0]}
    hidden = (*DYING, "held")
    names = [name for word in words for name in (("leased", "ready") if word in hidden else (word,))]
    return {request.matches(State(name), sent_at(id)) for name in names}

"""Random histories that mix the requests of all features, on a disk that refuses calls and loses power.

The oracle is coarse and sure. It knows each message by its body. A message that was answered is found
in some state, unless its end was asked for. A message that is durably gone never comes back. The index
of a process that commits is what the folders are. In the end one process, driven as the committer
drives it, brings all work to its end.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, ClassVar, Final

from spoolrack_store.committer import LOOK_EVERY
from spoolrack_store.engine.effort import FILES
from spoolrack_store.engine.engine import Engine, Work
from spoolrack_store.engine.entries import resolve
from spoolrack_store.engine.part import RETRY
from spoolrack_store.files.disk import FileKind
from spoolrack_store.model.batch_file import Damaged, body, decode
from spoolrack_store.model.clock import DAY, HOUR, Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.members import indexes
from spoolrack_store.model.names import NotAName
from spoolrack_store.model.operations import (
    UNFINISHED,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Delivery,
    GiveBack,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Send,
    SendResults,
    Unfinished,
    UpdateQueue,
)
from spoolrack_store.model.redrive_requests import CancelRedrive, StartRedrive
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    ExtendReservation,
    MarkRead,
    Release,
    Reservation,
    Reserve,
    UndoReservation,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Abort, Publish, Published, Stage, Staged
from spoolrack_store.model.transitions import State

from tests.proof.crash.set_story import ids_of
from tests.proof.crash.test_engine_trouble import CODES, TroubledDisk
from tests.support.cuts import Cut, Keep
from tests.support.engine_story import (
    DELAY,
    HOLD,
    Broken,
    History,
    id_of,
    parse,
    purge_of,
    require_known,
    unpacked_by,
)
from tests.support.linked_disk import Died
from tests.support.power_disk import Model
from tests.support.recount import drifts

SETTINGS: Final = {
    "s": QueueSettings(archive_retention=Millis(HOUR)),
    "q": QueueSettings(deduplication_window=Millis(20_000)),
    "r": QueueSettings(max_receives=2, dead_letter_queue="s", backoff_at="lease_end"),
}
QUEUES: Final = tuple(SETTINGS)
STAGES: Final = ("a", "b", "c")
STREAMS: Final = ("x", "y")
FLOWS: Final = ("sending", "receiving")
"""Settings by which a queue is paused."""
KINDS: Final = "S" * 5 + "R" * 5 + "D" * 3 + "CCGiLLJ" + "tttpppa" + "ff" + "vvvvwwwuWWW" + "P"
BODY: Final = re.compile(rb"<\d+>")
STRICT: Final = "q"
WAITING: Final = tuple(state.value for state in (State.SENT, State.READY, State.LEASED, State.DELAYED))
GONE: Final = "gone"
STAGED: Final = "staged"
MOST_IN_VAIN: Final = 50
"""Commits of the engine's own work that change nothing, in a row."""
MOST_COMMITS: Final = 5_000


@dataclass
class Flight:
    """A commit that is applied and not synced."""

    work: Work
    requests: list[Any]
    dead: set[bytes]
    """Bodies that were found to be gone."""
    published: set[bytes] = field(default_factory=set)


class EverythingStory(History):
    """One history, made from a seed."""

    disk: TroubledDisk
    disk_kind = TroubledDisk
    plot = (0.05, 0.05, 0.03, 0.12)
    settings: ClassVar[Mapping[str, QueueSettings]] = SETTINGS
    kinds = KINDS
    """The kinds of requests, each as often as it is asked for."""

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        super().__init__(seed, model, **rest)
        self.flows = Random(seed + 3) if seed % 2 == 0 else None
        """When a queue is paused or resumed; in every other story none is."""
        self.purges = Random(seed + 4)
        """Which messages purges take."""
        self.ranks = Random(seed + 5) if seed % 4 > 1 else None
        """Which groups and priorities messages have; in every other pair of stories none has any."""
        self.groups: dict[bytes, tuple[str, int]] = {}
        """Of each message that was sent to the strict queue its group, and the step of the send."""
        self.heard: dict[bytes, int] = {}
        """The steps in which sends to it were answered."""
        self.steps = self.grouped = 0
        self.sent = 0
        self.answered: set[bytes] = set()
        self.staged: dict[bytes, tuple[str, int]] = {}
        """Of each chunk that was answered its bodies, with the stage and the end of its time."""
        self.excused: set[bytes] = set()
        """Bodies that may be gone, as requests asked for it."""
        self.gone: set[bytes] = set()
        """Bodies that are durably gone."""
        self.contents: dict[str, list[bytes]] = {}
        self.names: dict[str, bytes] = {}
        """The bodies by message ids."""
        self.receipts: dict[str, list[str]] = {queue: [] for queue in QUEUES}
        self.redrives: list[str] = []
        self.effort = FILES if seed % 3 else 2
        self.unfinished: dict[str, list[Any]] = {}
        """Of each process the requests that go on in its next commit."""
        self.slices = self.next_set = 0
        self.next_epoch = 0
        self.refused = self.ended = self.paused = 0
        self._start()

    def _begin(self) -> None:
        self._ask(next(iter(self.engines)), self._creations())

    # The steps of a story.

    def _die(self, owner: str) -> None:
        self._ask(owner, self._requests(), dies=True)

    def _commit(self, owner: str) -> None:
        self._ask(owner, self._requests(), is_troubled=self.random.random() < 0.2)

    def _ask(
        self, owner: str, requests: list[Any], *, dies: bool = False, is_troubled: bool = False
    ) -> None:
        engine, begun = self.engines[owner], self.unfinished.pop(owner, [])
        requests = [*begun, *requests]
        self.steps += 1
        for request in requests:
            if isinstance(request, Send) and request.queue == STRICT:
                for place, group in request.groups.items():
                    self.groups[request.bodies[place]] = group, self.steps
        tick = self.random.random() < 0.3
        self.told.append(
            f"{self.clock.now} {owner}{' dies in' * dies}{' with a tick' * tick}: {requests}"
        )
        aims = self._aims(requests)
        self._excuse(engine, requests, aims)
        if dies:
            self.disk.steps_left = self.random.randint(0, 15)
        if is_troubled:
            times = self.random.choice((1, 1, 2, 1_000))
            self.disk.trouble(self.random.choice(CODES), self.random.randint(0, 12), times)
        work = None
        try:
            work = engine.apply(requests, tick=tick)
            assert work is not None, "no process holds the lock"
        except Died:
            pass
        except StoreError as error:
            if not is_troubled:
                raise Broken(f"a commit was refused: {error!r}") from error
            self.told.append(f"refused: {error!r}")
        self.disk.steps_left = None
        self._heal()
        found = self._excuse(engine, (), aims)
        if dies:
            self._kill(owner)
            return
        if work is None:
            self.unfinished[owner] = begun
        else:
            self.unfinished[owner] = [
                request
                for request, outcome in zip(requests, work.outcomes, strict=True)
                if outcome is UNFINISHED
            ]
            self.slices += len(self.unfinished[owner])
            self._check(engine)
            self._check_pauses(engine, work, requests[len(begun) :])
            flight = Flight(work, requests, {each for each in self.names.values() if each not in found})
            flight.dead |= {each for each, state in found.items() if state == GONE}
            self._take(flight, found)
            self.flying[owner].append(flight)
        self._look(found)
        if is_troubled:
            self.clock.now += self.random.choice((1, RETRY + 1))

    def _sync(self, owner: str) -> None:
        flight = self.flying[owner].pop(0)
        work = flight.work
        self.told.append(f"{owner} syncs")
        if work.barrier is not None:
            work.barrier.sync()
            self.gone |= flight.dead
        if self.random.random() < 0.1:
            self.disk.trouble(self.random.choice(CODES), self.random.randint(0, 2), 2)
        outcomes = self.engines[owner].finish(work)
        self._heal()
        assert outcomes is not None, "no process holds the lock"
        for request, outcome in zip(flight.requests, outcomes, strict=True):
            if isinstance(outcome, StoreError | Unfinished):
                continue
            match request:
                case Send():
                    for place, id in enumerate(outcome.results):
                        if isinstance(id, str) and place not in outcome.duplicates:
                            self.answered.add(request.bodies[place])
                            self.heard[request.bodies[place]] = self.steps
                case Receive():
                    self._received(request, outcome)
                case Stage():
                    assert isinstance(outcome, Staged)
                    if not outcome.duplicate:
                        for each in request.bodies:
                            self.staged[each] = request.stage, outcome.expires_at
                case StartRedrive():
                    self.redrives.append(outcome.id)
                case _:
                    pass
        self.answered |= flight.published
        for each in flight.published:
            self.staged.pop(each, None)

    def _received(self, request: Receive, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self.receipts[request.queue] += delivery.receipts

    def _kill(self, owner: str) -> None:
        self.unfinished.pop(owner, None)
        self._remove(owner)
        survivor = self.random.choice(list(self.engines))
        work = self.engines[survivor].apply([], tick=True)
        assert work is not None
        self.flying[survivor].append(Flight(work, [], set()))
        self._look(self._excuse(self.engines[survivor], (), set()))

    def _power_cut(self, cut: Cut) -> None:
        self.unfinished.clear()
        self.contents.clear()  # Later writes may be torn.
        self._restart(cut)

    def _prepare(self, engine: Engine) -> None:
        engine.index.unpacked = unpacked_by(engine.moves.owner)
        engine.moves.effort.files = self.effort

    def _has_started(self, engine: Engine) -> None:
        self._look(self._excuse(engine, (), set()))

    def _heal(self) -> None:
        self.refused += self.disk.refused
        self.disk.refused = 0
        self.disk.heal()

    # Requests.

    def _creations(self) -> list[Any]:
        order = "fair" if self.ranks is None else "strict"
        return [
            CreateQueue(
                name=name, settings=replace(settings, group_order=order) if name == STRICT else settings
            )
            for name, settings in self.settings.items()
        ]

    def _requests(self) -> list[Any]:
        if self.random.random() < 0.05:
            return [self.random.choice(self._creations())]
        return [self._request() for _ in range(self.random.randint(0, 3))]

    def _bodies(self) -> list[bytes]:
        count = self.random.choice((1, 1, 2, 5))
        self.sent += count
        return [b"<%d>" % number for number in range(self.sent - count, self.sent)]

    def _request(self) -> Any:
        chance = self.random
        queue, stage, stream = chance.choice(QUEUES), chance.choice(STAGES), chance.choice(STREAMS)
        known = self.receipts[queue]
        receipts = chance.sample(known, min(len(known), 3))
        sequence_number = max(0, self.next_set - chance.randint(0, 3))
        if chance.random() < 0.02:
            return DeleteQueue(name=queue)
        if chance.random() < 0.01:
            retention = Millis(chance.choice((0, 30_000)))
            return UpdateQueue(name=queue, changes={"retention": retention})
        if self.flows is not None and self.flows.random() < 0.05:
            flow = {name: self.flows.choice(("open", "open", "paused")) for name in FLOWS}
            return UpdateQueue(name=queue, changes=flow)
        match chance.choice(self.kinds):
            case "S":
                bodies = self._bodies()
                keys = {0: chance.choice("klm")} if chance.random() < 0.3 else {}
                delays = {0: DELAY} if chance.random() < 0.2 else {}
                send = Send(queue=queue, bodies=bodies, deduplication_ids=keys, delays=delays)
                if self.ranks is not None:
                    send.groups = {place: self.ranks.choice("ghijk") for place in range(len(bodies))}
                    send.priorities = {0: self.ranks.choice((0, 5, 9))}
                return send
            case "R":
                return Receive(
                    queue=queue, max_messages=chance.choice((1, 2, 5)), visibility_timeout=HOLD
                )
            case "D":
                return Delete(queue=queue, receipts=receipts)
            case "i":
                return Delete(queue=queue, ids=chance.sample(list(self.names), min(len(self.names), 2)))
            case "C":
                hidden = chance.choice((Millis(0), HOLD))
                return ChangeVisibility(queue=queue, receipts=receipts, visibility_timeout=hidden)
            case "L":
                return ReleaseMessages(
                    queue=queue,
                    receipts=receipts,
                    delay=chance.choice((None, Millis(0), DELAY)),
                    reason=chance.choice(("", "x")),
                    uncounted=chance.random() < 0.3,
                )
            case "J":
                return RejectMessages(queue=queue, receipts=receipts, reason="x")
            case "G":
                return GiveBack(queue=queue, receipts=receipts)
            case "t":
                return Stage(
                    stage=stage,
                    chunk_number=chance.randrange(3),
                    queue=queue,
                    bodies=self._bodies(),
                    delay=chance.choice((None, DELAY)),
                    time_to_live=chance.choice((Millis(4_000), Millis(600_000))),
                )
            case "p":
                self.next_epoch += 1
                stages = chance.sample(STAGES, chance.choice((1, 1, 2)))
                return Publish(writer="w", epoch=self.next_epoch, stages=stages)
            case "a":
                return Abort(stage=stage)
            case "f":
                if self.redrives and chance.random() < 0.3:
                    return CancelRedrive(id=chance.choice(self.redrives))
                rate = chance.choice((0, 2))
                return StartRedrive(
                    queue="s", destination=chance.choice(("", "q")), max_messages_per_second=rate
                )
            case "v":
                self.next_set += 1
                most = chance.choice((1, 3, 100))
                return Reserve(
                    queue=queue,
                    stream=stream,
                    sequence_number=self.next_set,
                    max_messages=most,
                    visibility_timeout=HOLD,
                )
            case "w":
                return chance.choice((ExtendReservation, MarkRead))(
                    stream=stream, sequence_number=sequence_number
                )
            case "u":
                return chance.choice((Release, UndoReservation))(
                    stream=stream, sequence_number=sequence_number
                )
            case "W":
                return CommitReservations(stream=stream, last_sequence_number=sequence_number)
            case _:
                return purge_of(self.purges, queue, self.clock.now)

    # Messages that may be gone.

    def _aims(self, requests: Sequence[Any]) -> set[str]:
        """Return the queues of which messages may go."""
        aims = {each.queue for each in requests if isinstance(each, Purge)}
        aims |= {each.name for each in requests if isinstance(each, DeleteQueue)}
        changed = [each for each in requests if isinstance(each, UpdateQueue)]
        return aims | {each.name for each in changed if each.changes.get("retention")}

    def _excuse(self, engine: Engine, requests: Sequence[Any], aims: set[str]) -> dict[bytes, str]:
        """Note what may go; return what there is, and its state."""
        records = engine.catalog.records
        aims = aims | {
            queue for queue in QUEUES if queue not in records or records[queue].settings.retention
        }
        has_commit = any(isinstance(each, CommitReservations) for each in requests)
        found: dict[bytes, str] = {}
        for path in self._files("staged"):
            text = self.disk.read(path)
            for each in BODY.findall(text):
                found[each] = STAGED
                if any(f":{aim}:" in path for aim in aims):
                    self.excused.add(each)
        names = []
        for path in self._message_files():
            try:
                names.append(parse(path))
            except NotAName:
                found.update(dict.fromkeys(BODY.findall(self.disk.read(path)), "aside"))
        batches = resolve(names).values()
        for batch in batches:
            entries = batch.entries
            contents = self._contents(batch.stem, entries[0].name.path)
            for entry in entries:
                name = entry.name
                for index in indexes(entry.name.members):
                    if name.queue in aims or (has_commit and name.token >= "g"):
                        self.excused.add(contents[index])
                if not batch.was_sent:
                    continue
                for index in indexes(entry.members):
                    self.names[batch.stem.message_id(index)] = contents[index]
                    if not contents[index]:
                        continue
                    found[contents[index]] = GONE if name.state is State.REMOVED else name.state.value
        for request in requests:
            if isinstance(request, Delete):
                for named in (*request.receipts, *request.ids):
                    id = id_of(named)
                    self.excused.add(self.names.get(id, b""))
            elif isinstance(request, CommitReservations):
                # Of a set whose hold is over, what no one has leased since: it has no token.
                for (stream, sequence_number), held in engine.reservations.sets.items():
                    if stream == request.stream and sequence_number <= request.last_sequence_number:
                        self.excused |= {self.names.get(id, b"") for id in ids_of(held)}
            elif isinstance(request, Abort):
                self.excused |= {
                    each for each, (stage, _) in self.staged.items() if stage == request.stage
                }
                for flights in self.flying.values():
                    for flight in flights:
                        for other in flight.requests:
                            if isinstance(other, Stage) and other.stage == request.stage:
                                self.excused |= set(other.bodies)
        for request in requests:
            if isinstance(request, Stage) and any(
                isinstance(each, Abort) and each.stage == request.stage for each in requests
            ):
                self.excused |= set(request.bodies)
        return found

    def _contents(self, stem: Any, path: str) -> list[bytes]:
        known = self.contents.get(stem.text)
        if known is None:
            content = self.disk.read(path)
            try:
                line = decode(stem, content, len(content))
                known = [body(line, content, index) for index in indexes(stem.full)]
            except Damaged:
                return [b""] * max(1, stem.count)
            self.contents[stem.text] = known
        return known

    def _files(self, folder: str) -> list[str]:
        return [f"{folder}/{each.name}" for each in self.disk.scan(folder)]

    def _message_files(self) -> list[str]:
        folders = ["new", "delay", "remove", "quarantine", *self._files("queues")]
        return [
            f"{folder}/{each.name}"
            for folder in folders
            for each in self.disk.scan(folder)
            if each.kind is FileKind.FILE  # A folder in quarantine has what is no message.
        ]

    # Checks.

    def _look(self, found: dict[bytes, str]) -> None:
        lost = {each for each in self.answered - self.excused if found.get(each, GONE) == GONE}
        if lost:
            raise Broken(f"lost is {sorted(lost)}: {[found.get(each) for each in sorted(lost)]}")
        for each, (_, ends) in self.staged.items():
            if ends > self.clock.now and each not in self.excused and each not in found:
                raise Broken(f"{each!r} was staged, and is gone")
        back = {each for each in self.gone if found.get(each, GONE) not in (GONE, STAGED)}
        if back:
            raise Broken(f"back is {[(each, found[each]) for each in sorted(back)]}")

    def _take(self, flight: Flight, found: dict[bytes, str]) -> None:
        for request, outcome in zip(flight.requests, flight.work.outcomes, strict=True):
            self.told.append(f"  {outcome!r:.200}")
            if isinstance(request, Receive) and not isinstance(outcome, StoreError | Unfinished):
                got = {bytes(each) for delivery in outcome for each in delivery.bodies}
                if got & self.gone:
                    raise Broken(f"{got & self.gone} is deleted, and is delivered")
                self._check_groups(got, found)
            if isinstance(request, Publish) and isinstance(outcome, Published):
                if outcome.duplicate:
                    continue
                flight.published |= {
                    each
                    for each, (stage, ends) in self.staged.items()
                    if stage in request.stages and ends > self.clock.now and each not in self.excused
                }
            elif isinstance(request, Send) and isinstance(outcome, SendResults):
                for place, id in enumerate(outcome.results):
                    is_new = isinstance(id, str) and place not in outcome.duplicates
                    if is_new and request.bodies[place] not in found:
                        raise Broken(f"{request.bodies[place]!r} was stored, and isn't there")

    def _check(self, engine: Engine) -> None:
        """Check that the index of a process that has just committed equals the folders."""
        mine = engine.moves.owner
        there = set()
        for path in self._message_files():
            with suppress(NotAName):
                parse(path)
                there.add(path)
        self._check_pending(engine)
        require_known(engine, there)
        if drifted := drifts(engine.index, self.clock.monotonic()):
            raise Broken(f"{mine}: {drifted}")

    def _check_groups(self, got: set[bytes], found: dict[bytes, str]) -> None:
        """Hold each delivery of a strict group to the sends that were answered before its own."""
        for each in got & self.groups.keys():
            group, sent = self.groups[each]
            before = [
                other
                for other, (its, _) in self.groups.items()
                if its == group
                and self.heard.get(other, sent) < sent
                and other not in got | self.excused
                and found.get(other) in WAITING
            ]
            self.grouped += 1
            if before:
                raise Broken(f"{each!r} of {group} is delivered before {before}")

    def _check_pending(self, engine: Engine) -> None:
        """Check that a part with nothing pending, which gets no call, has nothing to say."""
        for part in engine._parts:
            if any(part.pending):
                continue
            if part.next_due() is not None or part.has_durable:
                raise Broken(f"{type(part).__name__} has something to do, and nothing pending")

    def _check_pauses(self, engine: Engine, work: Work, requests: Sequence[Any]) -> None:
        """Hold paused queues to it; the changes of a commit come before its sends and receives."""
        paused = {
            (flow, name)
            for name, record in engine.catalog.records.items()
            for flow in FLOWS
            if getattr(record.settings, flow) == "paused"
        }
        outcomes = work.outcomes[-len(requests) :] if requests else []
        for request, outcome in zip(requests, outcomes, strict=True):
            is_refused = isinstance(outcome, StoreError | Unfinished) or not outcome
            if isinstance(request, Send) and ("sending", request.queue) in paused:
                self.paused += 1
                if not is_refused:
                    raise Broken(f"{request.queue} is paused, and takes {request.bodies}")
            if isinstance(request, Receive | Reserve) and ("receiving", request.queue) in paused:
                self.paused += 1
                is_old = isinstance(outcome, Reservation) and not outcome.is_new
                if not is_refused and not is_old:
                    raise Broken(f"{request.queue} is paused, and hands out {outcome}")

    # The end.

    def _end(self) -> None:
        """Keep one process, without requests."""
        if self.random.random() < 0.5:
            self._power_cut(Cut(Keep.ALL))
        while len(self.engines) > 1:
            self._kill(next(iter(self.engines)))
        (owner,) = self.engines
        while self.unfinished.get(owner):
            self._ask(owner, [])
        while self.flying[owner]:
            self._sync(owner)
        self.told.append("no more requests")
        engine = self.engines[owner]
        ends = self.clock.now + 20 * HOLD
        next_tick, in_vain = self.clock.now, 0
        for _ in range(MOST_COMMITS):
            now = self.clock.monotonic()
            if not engine.wants_commit:
                _, due = engine.next_work(now)
                times = [next_tick, *([] if due is None else [self.clock.now + due - now])]
                if self.clock.now >= ends:
                    break
                self.clock.now = max(self.clock.now, min(times))
            tick = self.clock.now >= next_tick
            if tick:
                next_tick = self.clock.now + LOOK_EVERY
            aims: set[str] = set()
            self._excuse(engine, (), aims)
            work = engine.apply([], tick=tick)
            assert work is not None
            in_vain = 0 if work.changed or tick else in_vain + 1
            if in_vain > MOST_IN_VAIN:
                raise Broken(
                    f"{self._unfinished(engine)} never rests: {engine.wants_commit}, due "
                    f"{[(type(part).__name__, part.next_due()) for part in engine._parts]}, "
                    f"{engine.index.dues.next()}, now {now}"
                )
            if work.barrier is not None:
                work.barrier.sync()
            engine.finish(work)
            self._check(engine)
            self._look(self._excuse(engine, (), aims))
        else:
            raise Broken(f"{self._unfinished(engine)} takes {MOST_COMMITS} commits")
        self._is_at_rest(engine)
        self.ended += 1
        self._power_cut(Cut(Keep.ALL))

    def _unfinished(self, engine: Engine) -> list[str]:
        return (
            [type(part).__name__ for part in engine._parts if part.next_due() is not None]
            + ["loose"] * bool(engine.index.loose_files)
            + ["orphans"] * bool(engine.sharing.orphans)
        )

    def _is_at_rest(self, engine: Engine) -> None:
        left = self._files("new")
        if left:
            raise Broken(f"left are {left}")
        left = [
            each
            for each in self._files("queues")
            if each.rpartition("/")[2] not in engine.catalog.records
        ]
        if left:
            raise Broken(f"deleted queues have folders: {left}")
        for path in self._message_files():
            if path.startswith("remove/") and engine.index.loose_files:
                raise Broken(f"left is {path}")
            if path.startswith(("queues/", "delay/")):
                name = parse(path)
                if name.due is not None and name.due <= self.clock.now:
                    raise Broken(f"{path} is due")
        for queue, record in engine.catalog.records.items():
            counts = engine.index.queue(queue).counts
            hidden = counts[State.LEASED] + counts[State.DELAYED]
            if hidden:
                raise Broken(f"{queue} has {hidden} hidden messages, {record.settings}")
        for redrive in engine.redrives.listed("", "", 1_000):
            if redrive.ended_at is None:
                raise Broken(f"{redrive} goes on")
        for held in engine.reservations.sets.values():
            if not held.name.is_lost:
                raise Broken(f"{held.path} is held")


_BACKOFF: Final = QueueSettings(backoff_initial=Millis(700), backoff_maximum=DELAY, backoff_jitter=50)


class CrowdedStory(EverythingStory):
    """All queues have strict groups, priorities that age, or back-offs, and one a limit."""

    settings = {  # noqa: RUF012
        "s": QueueSettings(
            archive_retention=Millis(HOUR), group_order="strict", priority_aging=Millis(5_000)
        ),
        "q": replace(_BACKOFF, deduplication_window=Millis(20_000), priority_aging=Millis(700)),
        "r": replace(
            _BACKOFF,
            max_receives=2,
            dead_letter_queue="s",
            backoff_at="lease_end",
            group_order="strict",
            archive_retention=Millis(DAY),
            max_messages=12,
            messages_per_file=3,
        ),
    }
    kinds = KINDS + "LLJJPP"

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        super().__init__(seed, model, **rest)
        self.ranks = self.ranks or Random(seed + 5)

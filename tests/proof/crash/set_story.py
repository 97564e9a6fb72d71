"""Random histories with reserved sets, and the promises that they are held to.

A set that was answered is whole until it is lost or committed. A commit deletes all messages of each of
its sets, once its marker is durable. Of a lost one that was read, and not released, it deletes those
that no one has leased since; if these are all, the set counts as done. The messages of a lost set come
back, once the loss is durable. Nothing that was committed comes back.

With small slices a set is leased in many commits. Its messages are its own from the first slice on, as
long as its process lives. If that dies before the last slice is answered, the set is whole or undone:
its messages are ready again, and the receive doesn't count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from spoolrack_store.engine.effort import FILES, Effort
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.entries import resolve
from spoolrack_store.engine.reservation_index import ReservedSet, SetState
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import (
    NameTaken,
    ReservationCommitted,
    ReservationLost,
    ReservationNotFound,
)
from spoolrack_store.model.members import indexes
from spoolrack_store.model.operations import UNFINISHED, Delete, Request, Send
from spoolrack_store.model.receipts import mark_in, mark_of
from spoolrack_store.model.reservation_requests import (
    CommitReservations,
    Committed,
    ExtendReservation,
    MarkRead,
    Release,
    Reservation,
    Reserve,
    UndoReservation,
)

from tests.support.cuts import Cut
from tests.support.engine_story import (
    ABSENT,
    DEAD,
    GONE,
    HOLD,
    QUEUES,
    SETTINGS,
    Broken,
    Seen,
    Story,
    id_of,
    parse,
)

STREAMS: Final = ("a", "b")
LOST: Final = ("lost",)
DONE: Final = ("done",)
SHORT: Final = Millis(3_000)
OF_SETS: Final = (UndoReservation, MarkRead, Release, ExtendReservation, CommitReservations, Reserve)
"""In the order in which the engine does them; `Reserve` comes after all others."""

Key = tuple[str, int]


@dataclass
class Fate:
    """The states of a set, each with its commit, from the last durable one on."""

    key: Key
    ids: list[str]
    may: list[tuple[int, Seen]]
    receives: dict[str, int] = field(default_factory=dict)
    """Of each message, with the set's own lease."""
    queue: str = ""
    reads: list[tuple[int, bool]] = field(default_factory=lambda: [(0, False)])
    """Whether it may be marked as read, as `may`."""

    @property
    def may_be_read(self) -> bool:
        return self.reads[-1][1]

    @property
    def now(self) -> Seen:
        return self.may[-1][1]

    @property
    def durable(self) -> Seen:
        return self.may[0][1]

    @property
    def is_held(self) -> bool:
        return self.now[0] == "held"


class _Slices(Effort):
    """A bound for the slices of sets alone: of all else the story says that it is done at once."""

    def __init__(self, files: int) -> None:
        super().__init__()
        self.files = self.left = files

    def share(self) -> int:
        return self.files

    def spend(self, files: int = 1) -> None:
        """Spend nothing: each commit has as much."""


class SetStory(Story):
    """A story with sets of any queue."""

    def __init__(self, *arguments: Any, effort: int = FILES, **named: Any) -> None:
        self.effort = effort
        self.unfinished: dict[str, list[Request[Any]]] = {}
        """Of each process the requests that go on in its next commits."""
        self.partial: dict[tuple[str, Key], str] = {}
        """The tokens of sets that a process has leased in part, and not named."""
        self.deleted: set[str] = set()
        """Messages that the commit under way has deleted: deletes come before all that is of sets."""
        self.most: dict[Key, int] = {}
        """Of a set that is leased in slices, how many messages were asked for."""
        self.slices = self.cut_short = 0
        self.sets: dict[str, Fate] = {}
        """By their tokens."""
        self.marked: dict[str, list[tuple[int, int]]] = {stream: [(0, -1)] for stream in STREAMS}
        """Of each stream up to where it is committed, and by which commit."""
        self.maybe_sets: dict[str, list[Seen]] = {}
        self.maybe_marked: dict[str, list[int]] = {}
        """Effects that a dead process may have had."""
        self.read: set[Key] = set()
        """The sets that the engine takes for read."""
        self.maybe_taken: list[tuple[str, Fate]] = []
        self.last: Engine | None = None
        self.is_lenient = self.is_restarted = self.is_cut = False
        self.made = self.lost = self.done = self.taken_back = 0
        super().__init__(*arguments, **named)

    def _end(self) -> None:
        super()._end()
        self._finish_all()

    def _finish_all(self) -> None:
        """Check that begun work is finished, if no crash comes between."""
        self.told.append("no more requests")
        (owner,) = self.engines
        engine = self.engines[owner]
        for _ in range(10 if self.effort == FILES else 60):
            self.at += 1
            self._bring_back()
            work = engine.apply([])
            assert work is not None
            self._check(engine)
            self._take(engine, [], [])
            self._look_for_dead_letters(engine)
            self.flying[owner].append((self.at, work))
            while self.flying[owner]:
                self._sync(owner)
        found = self._found()
        for token, fate in self.sets.items():
            for id in fate.ids:
                seen = found[id][0] if id in found else GONE
                if fate.now == DONE and seen != GONE:
                    raise Broken(f"{fate.key} is committed, and {id} is {seen}")
                if fate.now in (LOST, ABSENT) and seen[0] == "held" and seen[2] == token:
                    raise Broken(f"{fate.key} is {fate.now}, and {id} is {seen}")
        if engine.reservations.index.stale_files:
            raise Broken(f"old files stay: {engine.reservations.index.stale_files}")

    # Time, and what processes do by themselves.

    def _bring_back(self) -> None:
        for fate in self.sets.values():
            if self._is_over(fate.now):
                fate.may.append((self.at, LOST))
                self.lost += 1
        super()._bring_back()

    def _is_over(self, state: Seen) -> bool:
        return state[0] == "held" and int(str(state[1])) <= self.clock.now

    def _by_now(self, id: str, state: Seen) -> Seen:
        if state[0] == "held" and self.is_lenient and self.sets[str(state[2])].durable == LOST:
            return self._back(id, state)
        return super()._by_now(id, state)

    def _prepare(self, engine: Engine) -> None:
        super()._prepare(engine)
        engine.reservations.effort = _Slices(self.effort)

    def _histories(self) -> Iterable[list[tuple[int, Any]]]:
        fates = ((fate.may, fate.reads) for fate in self.sets.values())
        return chain(self.marked.values(), *fates)

    def _has_started(self, engine: Engine) -> None:
        # It has made durable what it found.
        for history in self._histories() if not self.is_cut else ():
            del history[:-1]

    def _power_cut(self, cut: Cut) -> None:
        self.is_cut = True
        self.cut_short += self._is_between_slices()
        super()._power_cut(cut)
        self.is_cut = False

    def _bury(self, owner: str, maybe: dict[str, list[Seen]]) -> None:
        self.is_restarted = len(self.engines) == 1
        self.cut_short += self._is_between_slices()
        super()._bury(owner, maybe)

    def _is_between_slices(self) -> bool:
        """Return whether a set is leased, brought back, undone or deleted in part."""
        if self.partial:
            return True
        held = {now[2:] for now in map(self.now, self.may) if now[0] == "held"}
        return any(
            not fate.is_held
            and (token,) in held
            and any(id not in self.may or self.now(id)[2:] != (token,) for id in fate.ids)
            for token, fate in self.sets.items()
        )

    def _is_partial(self, token: object) -> bool:
        """Return whether a process that lives is about to name the set of these leases."""
        return any(its == token and owner in self.engines for (owner, _), its in self.partial.items())

    def _left(self, engine: Engine, *, gone: bool) -> None:
        """See which messages have left their sets; with `gone` those that were deleted."""
        for id in self.may:
            now = self.now(id)
            if now[0] != "held":
                continue
            fate, holder = self.sets[str(now[2])], engine.index.holder(id)
            name = None if holder is None else holder[0].name
            if name is not None and name.queue == DEAD != self.queue_of[id]:
                allowed, state = LOST, self._back(id, now)
            elif name is None or name.path.startswith(("remove/", "quarantine/")):
                if not gone:
                    continue
                allowed, state = DONE, GONE
            elif name.token != now[2] and fate.now == ABSENT and not self._is_partial(now[2]):
                self._become(id, ("ready", int(str(now[1])) - 1))
                continue
            elif name.token != now[2]:
                allowed, state = LOST, self._back(id, now)
            else:
                continue
            if fate.durable != allowed:
                raise Broken(f"{id} of {fate.key} is {name}, and the set durably {fate.durable}")
            self._become(id, state)

    # Present state.

    def _check(self, engine: Engine) -> None:
        super()._check(engine)
        self.last, mine = engine, engine.reservations.index
        known = {held.path for held in mine.sets.values()} | mine.stale_files.keys()
        known |= {f"reserved/{stream}.{mine.committed(stream)}" for stream in mine.markers}
        there = {f"reserved/{each.name}" for each in self.disk.scan("reserved")}
        if known != there:
            raise Broken(f"there is {sorted(there)}, known is {sorted(known)}")

    def _found(self) -> dict[str, tuple[Seen, str]]:
        found = super()._found()
        for batch in resolve(map(parse, self._paths())).values():
            for entry in batch.entries:
                if not entry.name.token or entry.name.token < "g":
                    continue
                for id in map(batch.stem.message_id, indexes(entry.members)):
                    # A dying message is leased until its own file counts.
                    dying = "dying", entry.name.receives
                    may_die = SETTINGS[entry.name.queue].max_receives > 0
                    is_dying = may_die and any(state == dying for _, state in self.may.get(id, ()))
                    if found[id][0][0] == "leased" and not is_dying:
                        seen: Seen = ("held", entry.name.receives, entry.name.token)
                        found[id] = seen, found[id][1]
        return found

    def _found_set(self, engine: Engine, token: str, fate: Fate, found: dict[str, Any]) -> Seen:
        mine = engine.reservations.index
        held = mine.sets.get(fate.key)
        if held is not None and held.record.token == token:
            if held.state is SetState.COMMITTED:
                return DONE
            if fate.now == DONE and all(found.get(id, (GONE,))[0] == GONE for id in fate.ids):
                return DONE  # The cut has undone the last step, the unlink of its record.
            return LOST if held.name.is_lost else ("held", held.due, held.name.is_read)
        if fate.now == ABSENT or fate.key[1] > mine.committed(fate.key[0]) or held is not None:
            return ABSENT
        if fate.now == LOST or any(id in found and found[id][0] != GONE for id in fate.ids):
            return LOST if any(state == LOST for _, state in fate.may) else ABSENT
        return DONE

    def _adopt(self, maybe: dict[str, list[Seen]] | None) -> None:
        is_cut = maybe is None
        is_durable = is_cut or self.is_restarted
        (engine, *others) = self.engines.values()
        if others or not is_cut:
            assert self.last is not None
            engine = self.last
        if maybe is not None:
            maybe = {id: list(maybe.get(id, ())) for id in self.may}
        self._adopt_markers(engine, is_cut)
        found, leases = super()._found(), self._found()
        dead = {token for token in self.partial.values() if not self._is_partial(token)}
        for held in engine.reservations.sets.values():
            if held.record.token in dead or held.record.token not in self.sets:
                self._adopt_new(held, maybe)
        if maybe is not None:
            self._adopt_slices(dead, maybe)
        states = {
            token: self._adopt_set(engine, token, fate, is_cut, found)
            for token, fate in self.sets.items()
        }
        for id in self.may:
            for _, state in list(self.may[id]):
                if state[0] != "held":
                    continue
                became: list[Seen] = []
                token = str(state[2])
                if states[token] == ABSENT and not self._is_partial(token):
                    became = [("ready", int(str(state[1])) - 1)]
                elif states[token] == LOST and (is_durable or self.sets[token].durable == LOST):
                    became = [self._back(id, state)]
                elif states[token] == DONE and (is_durable or self.sets[token].durable == DONE):
                    became = [GONE]
                if is_cut:
                    self.may[id][-1:-1] = [(self.at, each) for each in became]
                elif state == self.now(id):
                    assert maybe is not None
                    maybe[id] += became
            seen = leases[id][0] if is_cut and id in leases else ABSENT
            if seen[0] == "held" and states.get(str(seen[2])) == ABSENT and self._was_undone(id, seen):
                # That a lease of no set was undone need not be durable.
                self.may[id].insert(0, (self.at, seen))
        self.is_lenient = True
        super()._adopt(maybe)
        self.is_lenient = False
        self.maybe_sets, self.maybe_marked = {}, {}
        unnamed = [
            token
            for each in self.engines.values()
            for token in each.reservations._tokens_without_record
        ]
        marks = [mark_of(owner) for owner in self.engines]
        for token, state in states.items():
            fate = self.sets[token]
            if state[0] in ("held", "done"):
                for id in fate.ids:
                    if id in self.may and self.now(id) != GONE and self.now(id)[2:] != (token,):
                        raise Broken(f"{fate.key} is {state}, and {id} is {self.now(id)}")
            elif state == ABSENT and token not in unnamed and mark_in(token) not in marks:
                for id in fate.ids:
                    if id in self.may and self.now(id)[2:] == (token,):
                        raise Broken(f"{fate.key} is {state}, and holds {id}")
        for owner, key in list(self.partial):
            if owner not in self.engines:
                del self.partial[owner, key]
        self.unfinished = {owner: self.unfinished.get(owner, []) for owner in self.engines}

    def _was_undone(self, id: str, seen: Seen) -> bool:
        return any(state == ("ready", int(str(seen[1])) - 1) for _, state in self.may[id])

    def _adopt_markers(self, engine: Engine, is_cut: bool) -> None:
        for stream, history in self.marked.items():
            now = engine.reservations.index.committed(stream)
            promised = [last_sequence_number for _, last_sequence_number in history]
            if not is_cut:
                promised = [promised[-1], *self.maybe_marked.get(stream, ())]
            if now not in promised:
                raise Broken(f"{stream} is committed up to {now}, promised {promised}")
            if is_cut:
                history[:] = [(self.at, now)]
            elif now != history[-1][1]:
                history.append((self.at, now))

    def _adopt_new(self, held: ReservedSet, maybe: dict[str, list[Seen]] | None) -> None:
        """Adopt a set of a process that died before it could answer."""
        if maybe is None:
            raise Broken(f"{held.key} was never reserved")
        token, ids = held.record.token, ids_of(held)
        self.sets[token] = Fate(
            held.key, ids, [(self.at, ABSENT)], _receives_of(held), held.record.queue
        )
        self.maybe_sets[token] = [("held", held.due, False)]
        for id in ids:
            self._may_be_leased(id, token, maybe)

    def _adopt_slices(self, dead: set[str], maybe: dict[str, list[Seen]]) -> None:
        """Adopt the leases of a slice in which a process has died."""
        known = self.sets.keys() - dead
        for id, (seen, _) in self._found().items():
            token = str(seen[-1])
            if seen[0] != "held" or token in known or id not in self.may:
                continue
            fate = self.sets.setdefault(token, Fate(("", -1), [], [(self.at, ABSENT)]))
            if id not in fate.ids:
                fate.ids.append(id)
                self._may_be_leased(id, token, maybe)

    def _may_be_leased(self, id: str, token: str, maybe: dict[str, list[Seen]]) -> None:
        for state in [self.now(id), *maybe[id]]:
            if state[0] in ("ready", "leased", "delayed", "held") and state[2:] != (token,):
                maybe[id].append(("held", int(str(state[1])) + 1, token))

    def _adopt_set(
        self, engine: Engine, token: str, fate: Fate, is_cut: bool, found: dict[str, Any]
    ) -> Seen:
        now = self._found_set(engine, token, fate, found)
        promised = [state for _, state in fate.may]
        if not is_cut:
            promised = [promised[-1], *self.maybe_sets.get(token, ())]
        promised += [LOST for state in promised if self._is_over(state)]
        if now not in promised:
            raise Broken(f"{fate.key} is found {now}, promised {promised}")
        if is_cut:
            fate.may = [(self.at, now)]
            fate.reads = [(self.at, any(may_be_read for _, may_be_read in fate.reads))]
        elif now == DONE and self.is_restarted:
            fate.may = [(self.at, now)]  # The start has made the marker durable.
        elif now != fate.now:
            # A power cut may yet undo the last of what the dead did to it, and not the first.
            fate.may += [(self.at, each) for each in (*self.maybe_sets.get(token, ()), now)]
        return now

    # Requests.

    def _requests(self, owner: str) -> list[Request[Any]]:
        requests = super()._requests(owner)
        if self.unfinished.get(owner) and self.random.random() < 0.8:
            requests += self.unfinished.pop(owner)
        return requests

    def _request(self) -> Request[Any]:
        chance = self.random
        is_sliced = self.effort < FILES
        if is_sliced and chance.random() < 0.3:
            return Send(queue=chance.choice(QUEUES), bodies=[chance.randbytes(5)])
        if chance.random() < 0.55:
            return super()._request()
        stream = chance.choice(STREAMS)
        unread = [
            fate.key[1]
            for fate in self.sets.values()
            if fate.key[0] == stream and fate.is_held and fate.key not in self.read
        ]
        if unread and chance.random() < 0.2:
            return MarkRead(stream=stream, sequence_number=chance.choice(unread))
        known = sorted({fate.key for fate in self.sets.values() if fate.key[0] == stream})
        fresh = (
            max([self.marked[stream][-1][1], *(sequence_number for _, sequence_number in known)]) + 1
        )
        there = [fate.key[1] for fate in self.sets.values() if fate.key[0] == stream and fate.is_held]
        sequence_number = (
            chance.choice(there) if there and chance.random() < 0.9 else chance.randint(0, fresh)
        )
        match chance.choice("RRRRccmmmmurCCC"):
            case "R":
                return Reserve(
                    queue=chance.choice(QUEUES),
                    stream=stream,
                    sequence_number=fresh if chance.random() < 0.8 else sequence_number,
                    max_messages=chance.choice((6, 1_000) if is_sliced else (1, 3, 1_000)),
                    max_bytes=1_000_000 if is_sliced else chance.choice((10, 1_000_000)),
                    visibility_timeout=chance.choice((SHORT, HOLD)),
                )
            case "c":
                return ExtendReservation(
                    stream=stream,
                    sequence_number=sequence_number,
                    visibility_timeout=chance.choice((None, SHORT, HOLD)),
                )
            case "m":
                return MarkRead(stream=stream, sequence_number=sequence_number)
            case "u":
                return UndoReservation(stream=stream, sequence_number=sequence_number)
            case "r":
                return Release(stream=stream, sequence_number=sequence_number)
            case _:
                done = self.marked[stream][-1][1]
                over = [
                    fate.key[1]
                    for fate in self.sets.values()
                    if fate.key[0] == stream and fate.now == LOST and fate.key[1] > done
                ]
                if over and chance.random() < 0.7:
                    sequence_number = chance.choice(over)
                return CommitReservations(stream=stream, last_sequence_number=sequence_number)

    def _take(self, engine: Engine, requests: list[Request[Any]], outcomes: Sequence[object]) -> None:
        for request in requests:
            if isinstance(request, UndoReservation):
                self._unreserved(engine, (request.stream, request.sequence_number))
        begun: dict[Key, str] = {}
        self.deleted.clear()
        for request, outcome in zip(requests, outcomes, strict=True):
            if isinstance(request, Delete):
                assert isinstance(outcome, list)
                named = zip((*request.receipts, *request.ids), outcome, strict=True)
                self.deleted.update(id_of(each) for each, why in named if not why)
            is_over = outcome is not UNFINISHED and not isinstance(outcome, NameTaken)
            if isinstance(request, Reserve) and is_over:
                key = request.stream, request.sequence_number
                if (token := self.partial.pop((engine.moves.owner, key), None)) is not None:
                    begun[key] = token
        self._left(engine, gone=False)
        self.read = {held.key for held in engine.reservations.sets.values() if held.name.is_read}
        pairs = list(zip(requests, outcomes, strict=True))
        of_sets = [pair for pair in pairs if isinstance(pair[0], OF_SETS)]
        for request, outcome in sorted(of_sets, key=lambda pair: OF_SETS.index(type(pair[0]))):
            if not isinstance(request, Reserve | UndoReservation):
                self._take_of_set(request, outcome)
        super()._take(engine, requests, outcomes)
        for request, outcome in of_sets:
            if isinstance(request, Reserve):
                self._reserved(engine, request, outcome, begun)
        self._left(engine, gone=True)

    def _fate(self, key: Key) -> tuple[str, Fate] | None:
        """Return the set that there is under this key now, if it isn't committed."""
        for token, fate in self.sets.items():
            if fate.key == key and fate.now not in (ABSENT, DONE):
                return token, fate
        return None

    def _unreserved(self, engine: Engine, key: Key) -> None:
        """See whether a set was undone."""
        known, held = self._fate(key), engine.reservations.sets.get(key)
        if known is None or (held is not None and held.record.token == known[0]):
            return
        self._become_set(known[1], ABSENT)

    def _take_of_set(self, request: Any, outcome: object) -> None:
        if isinstance(request, CommitReservations):
            if isinstance(outcome, ReservationCommitted):
                self._require_unknown(request)
            elif not isinstance(outcome, ReservationNotFound):
                self._committed(request, outcome)
            elif self._fate((request.stream, request.last_sequence_number)) is not None:
                raise Broken(f"{request} is refused, and its set is there")
            return
        key = request.stream, request.sequence_number
        known = self._fate(key)
        if key[1] <= self.marked[key[0]][-1][1]:
            self._expect(key, outcome, ReservationCommitted)
        elif known is None:
            self._expect(key, outcome, ReservationNotFound)
        elif isinstance(request, Release):
            self._expect(key, outcome, type(None))
            known[1].reads.append((self.at, False))
            if known[1].is_held:
                self.lost += 1
                self._become_set(known[1], LOST)
        elif not known[1].is_held:
            self._expect(key, outcome, ReservationLost)
        elif isinstance(request, MarkRead):
            self._expect(key, outcome, type(None))
            known[1].reads.append((self.at, True))
            self._become_set(known[1], ("held", known[1].now[1], True))
        else:
            self._expect(key, outcome, Reservation)
            assert isinstance(outcome, Reservation)
            self._become_set(known[1], ("held", outcome.expires_at, known[1].now[2]))

    def _require_unknown(self, request: CommitReservations) -> None:
        """Require that a commit which is refused as one of before is no repetition."""
        stream, number = request.stream, request.last_sequence_number
        is_done = any(fate.now == DONE for fate in self.sets.values() if fate.key == (stream, number))
        if is_done or number >= self.marked[stream][-1][1]:
            raise Broken(f"{request} is refused, and was committed before")

    def _expect(self, key: Key, outcome: object, wanted: type[Any]) -> None:
        if not isinstance(outcome, wanted):
            raise Broken(f"a request of {key} is answered {outcome!r} and not with {wanted.__name__}")

    def _become_set(self, fate: Fate, now: Seen) -> None:
        fate.may.append((self.at, now))

    def _committed(self, request: CommitReservations, outcome: object) -> None:
        assert isinstance(outcome, Committed), outcome
        stream, last_sequence_number = request.stream, request.last_sequence_number
        before = self.marked[stream][-1][1]
        mine = [
            fate
            for fate in self.sets.values()
            if fate.key[0] == stream and before < fate.key[1] <= last_sequence_number
        ]
        if last_sequence_number <= before:
            return
        for token, fate in self.sets.items():
            if fate in mine and fate.now == LOST and fate.key in self.read:
                if not fate.may_be_read:
                    raise Broken(f"{fate.key} was never read, or was released, and counts as read")
                self._take_back(token, fate)
        lost = sorted(fate.key[1] for fate in mine if fate.now == LOST)
        if list(outcome.lost_sequence_numbers) != lost:
            raise Broken(
                f"a commit of {stream} names {outcome.lost_sequence_numbers} as lost, not {lost}"
            )
        for fate in mine:
            if fate.is_held:
                self.done += 1
                self._become_set(fate, DONE)
        self.marked[stream].append((self.at, last_sequence_number))

    def _take_back(self, token: str, fate: Fate) -> None:
        """Delete what is untouched of a lost set that is committed."""
        untouched = [id for id in fate.ids if self._is_untouched(token, fate, id)]
        if len(untouched) == len(fate.ids):
            self.taken_back += 1
            self._become_set(fate, DONE)
            for id in untouched:
                if self.now(id)[0] != "held":
                    self._become(id, ("held", fate.receives[id], token))
            return
        for id in untouched:
            self._become(id, GONE)

    def _is_untouched(self, token: str, fate: Fate, id: str) -> bool:
        if id not in self.may or id in self.deleted:
            return False
        now = self.now(id)
        if now == ("held", fate.receives[id], token):
            return self._back(id, now)[0] == "ready"
        return now == ("ready", fate.receives[id]) and self.queue_of[id] == fate.queue

    def _reserved(
        self, engine: Engine, request: Reserve, outcome: object, begun: dict[Key, str]
    ) -> None:
        """Take in an answer; of sets that were leased in slices before, `begun` has the tokens."""
        key, owner = (request.stream, request.sequence_number), engine.moves.owner
        if outcome is UNFINISHED:
            self.unfinished.setdefault(owner, []).append(request)
            self.most[key] = max(request.max_messages, self.most.get(key, 0))
            partial = engine.reservations._partial_sets.get(key)
            if partial is not None:
                ids = _ids_in((text, members) for text, members, _ in partial.runs)
                fate = Fate(key, [], [(self.at, ABSENT)], queue=partial.queue)
                self._take_slice(engine, partial.token, fate, ids)
                self.partial[owner, key] = partial.token
            return
        known = self._fate(key)
        if key[1] <= self.marked[key[0]][-1][1]:
            self._expect(key, outcome, ReservationCommitted)
        elif isinstance(outcome, NameTaken) or (known is not None and known[1].queue != request.queue):
            self._expect(key, outcome, NameTaken)
            there = known[1] if known else self.sets[self.partial[owner, key]]
            if there.queue == request.queue:
                raise Broken(f"{key} is of the queue {there.queue}, and refused to it")
        elif known is not None and known[1].now == LOST:
            self._expect(key, outcome, ReservationLost)
        elif known is not None:
            self._expect(key, outcome, Reservation)
            assert isinstance(outcome, Reservation)
            if (outcome.expires_at, outcome.message_count) != (known[1].now[1], len(known[1].ids)):
                raise Broken(f"{key} is another set now: {outcome}, was {known[1]}")
        else:
            self._is_new(engine, request, outcome, begun.pop(key, None))

    def _is_new(self, engine: Engine, request: Reserve, outcome: object, begun: str | None) -> None:
        """Take in a set that is there now, of which the slices before were leased under `begun`."""
        if outcome is None:
            ready = self._ready(request.queue if begun is None else self.sets[begun].queue)
            if ready:
                raise Broken(f"nothing is reserved, {sorted(ready)[:3]} are ready")
            return
        assert isinstance(outcome, Reservation), outcome
        held = engine.reservations.sets[request.stream, request.sequence_number]
        token, ids = held.record.token, ids_of(held)
        if begun not in (None, token):
            raise Broken(f"{held.key} has other messages than its first slices")
        if len(ids) > max(request.max_messages, self.most.pop(held.key, 0)):
            raise Broken(f"{len(ids)} of {request.max_messages} are reserved")
        fate = Fate(held.key, [], [(self.at, ABSENT)], queue=held.record.queue)
        fate = self._take_slice(engine, token, fate, ids)
        fate.receives = _receives_of(held)
        self.made += 1
        self._become_set(fate, ("held", outcome.expires_at, False))

    def _take_slice(self, engine: Engine, token: str, new: Fate, ids: list[str]) -> Fate:
        """Take in that a set has these messages now: those it had that are there, and a slice."""
        fate = self.sets.setdefault(token, new)
        kept = [id for id in fate.ids if id in self.may and self.now(id)[2:] == (token,)]
        added = [id for id in ids if id not in fate.ids]
        if [*kept, *added] != ids:
            raise Broken(f"{fate.key} had {kept}, and has {ids}")
        left = {id for id in self._ready(fate.queue) if not _is_in_a_set(engine, id)}
        if added != sorted(added) or (left and added and min(left) < max(added)):
            raise Broken(f"reserved are {added}, left {sorted(left)[:3]}")
        fate.ids = ids
        self.slices += bool(kept)
        for id in added:
            now = self._by_now(id, self.now(id))
            if now[0] == "dying" and fate.queue == DEAD:
                self._is_dead_letter(id)
                now = self.now(id)
            if now[0] != "ready":
                raise Broken(f"{id} is reserved, and was {now}")
            self._become(id, ("held", int(str(now[1])) + 1, token))
        return fate

    def _ready(self, queue: str) -> list[str]:
        sent = self._sent_only()
        return [
            id
            for id, its in self.queue_of.items()
            if its == queue and self.now(id)[0] == "ready" and id not in sent
        ]

    def _forgive(self, requests: list[Request[Any]]) -> dict[str, list[Seen]]:
        for request in sorted(
            (each for each in requests if isinstance(each, OF_SETS)),
            key=lambda each: OF_SETS.index(type(each)),
        ):
            stream = request.stream
            last_sequence_number = (
                request.last_sequence_number if isinstance(request, CommitReservations) else None
            )
            for token, fate in self.sets.items():
                if fate.key[0] != stream or not (fate.is_held or fate.now == LOST):
                    continue
                if fate.now == LOST:
                    if (
                        last_sequence_number is not None
                        and self.marked[stream][-1][1] < fate.key[1] <= last_sequence_number
                    ):
                        self.maybe_sets.setdefault(token, []).append(DONE)
                        self.maybe_taken.append((token, fate))
                    continue
                maybe = self.maybe_sets.setdefault(token, [])
                held = [state for state in [fate.now, *maybe] if state[0] == "held"]
                if last_sequence_number is not None:
                    maybe += [DONE] if fate.key[1] <= last_sequence_number else []
                    continue
                if fate.key[1] != request.sequence_number:
                    continue
                match request:
                    case UndoReservation():
                        maybe.append(ABSENT)
                    case MarkRead():
                        fate.reads.append((self.at, True))
                        maybe += [("held", state[1], True) for state in held]
                    case Release():
                        maybe.append(LOST)
                    case ExtendReservation():
                        token_hold = self._hold_of(token)
                        end = self.clock.now + (request.visibility_timeout or token_hold)
                        maybe += [("held", end, state[2]) for state in held]
            if last_sequence_number is not None and last_sequence_number > self.marked[stream][-1][1]:
                self.maybe_marked.setdefault(stream, []).append(last_sequence_number)
        self.is_lenient = True
        maybe_messages = super()._forgive(requests)
        self.is_lenient = False
        for token, fate in self.maybe_taken:
            for id in fate.ids:
                if id in self.may and self._is_untouched(token, fate, id):
                    maybe_messages[id] += [("held", fate.receives[id], token), GONE]
        self.maybe_taken.clear()
        return maybe_messages

    def _hold_of(self, token: str) -> Millis:
        for engine in self.engines.values():
            for held in engine.reservations.sets.values():
                if held.record.token == token:
                    return held.record.visibility_timeout
        return Millis(0)


def _is_in_a_set(engine: Engine, id: str) -> bool:
    """Return whether a message is leased for a set; the commit under way may have done so."""
    found = engine.index.holder(id)
    return found is not None and found[0].name.token >= "g"


def ids_of(held: ReservedSet) -> list[str]:
    """Return the ids of a set's messages, in its order."""
    return _ids_in(held.record.files)


def _ids_in(files: Iterable[tuple[str, int]]) -> list[str]:
    ids = []
    for text, members in files:
        id = text[:36]
        is_batch = text[36:38] == ",n"
        ids += [f"{id[:-3]}{index:03x}" if is_batch else id for index in indexes(members)]
    return ids


def _receives_of(held: ReservedSet) -> dict[str, int]:
    counts = [
        received
        for (_, members), received in zip(held.record.files, held.record.receives, strict=True)
        for _ in indexes(members)
    ]
    return dict(zip(ids_of(held), counts, strict=True))

"""Explores what may become of one batch: every order of moves, every subset of unsynced moves that a
power cut keeps.

The rules are those of `spoolrack_store.engine.entries`. A state is what is durable, what was done
since, and for each message the states as which a start may find it. From every state each move is
tried, and each power cut is judged; from what a cut leaves the walk goes on.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from spoolrack_store.engine import entries as rules
from spoolrack_store.engine.entries import BatchFile, Entry
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.members import indexes
from spoolrack_store.model.names import Name, Stem
from spoolrack_store.model.transitions import State

ID = "01234567-89ab-7cde-8f01-23456789a000"
GONE = ("gone",)
ABSENT = ("absent",)
MOST_RECEIVES = 2


class Dot(NamedTuple):
    """A name, small enough for a million states."""

    version: int
    state: State
    members: int
    receives: int
    token: int
    late: bool
    """Whether a lease was extended."""


class Op(NamedTuple):
    source: Dot | None
    target: Dot | None


class Now(NamedTuple):
    durable: frozenset[Dot]
    pending: tuple[Op, ...]
    may: tuple[tuple[tuple[object, ...], frozenset[tuple[object, ...]]], ...]
    """Of each message what it is, and what a start may find it to be."""
    is_written: bool
    """Whether the file's content is durable."""


class Broken(Exception):
    """A start finds something else than was promised."""


@lru_cache(1 << 18)
def named(dot: Dot, count: int) -> Name:
    return Name(
        stem=Stem(id=ID, count=count, size=1, crc=0),
        state=dot.state,
        queue="q",
        version=dot.version + 1,
        members=dot.members,
        receives=dot.receives,
        owner="o" if dot.state is State.SENT else "",
        due=Millis(int(dot.late)) if dot.token else None,
        token=f"{dot.token:013d}" if dot.token else "",
    )


def replayed(durable: frozenset[Dot], ops: tuple[Op, ...]) -> frozenset[Dot]:
    names = set(durable)
    for op in ops:
        if op.source is not None:
            names.discard(op.source)
        if op.target is not None:
            names.add(op.target)
    return frozenset(names)


@dataclass
class Explorer:
    """`messages` is the size of the batch; `menu` the moves; `links` tries a link where a rename may
    be."""

    messages: int
    menu: frozenset[str]
    most_pending: int = 4
    links: bool = True
    same_version: bool = False
    """A planted bug: a new name has the version of the old one."""
    crashes: int = 0
    states: int = 0
    story: list[str] = field(default_factory=list)

    def run(self, depth: int, limit: int) -> None:
        """Explore breadth first; raise `Broken` with the story that leads there."""
        sent = Dot(0, State.SENT, (1 << self.messages) - 1, 0, 0, False)
        may = tuple((("sent",), frozenset({ABSENT, ("sent",)})) for _ in range(self.messages))
        first = Now(frozenset(), (Op(None, sent),), may, False)
        parents: dict[Now, tuple[Now, str] | None] = {first: None}
        level = deque([(first, 0)])
        while level:
            now, at = level.popleft()
            try:
                following = list(self._following(now)) if at < depth else []
                found = list(self._cuts(now))
            except Broken as broken:
                raise Broken("\n".join([*_told(parents, now), str(broken)])) from None
            for label, then in following + found:
                then = _canonical(then)
                if then not in parents and len(parents) < limit:
                    parents[then] = (now, label)
                    level.append((then, at + 1))
        self.states = len(parents)

    # Moves.

    def _batch(self, now: Now) -> BatchFile:
        """Return what a process knows that has synced all that is durable: commit 0 is synced, 1 is
        under way."""
        batch = BatchFile(named(Dot(0, State.SENT, 1, 0, 0, False), self.messages).stem)
        dots: dict[str, Dot] = {}
        for dot in sorted(now.durable, key=lambda dot: dot.version):
            name = named(dot, self.messages)
            batch.add(name, 0)
            dots[name.path] = dot
        for op in now.pending:
            if op.target is not None:
                name = named(op.target, self.messages)
                batch.add(name, 1)
                dots[name.path] = op.target
            if op.source is not None:
                entry = batch.entry_at(named(op.source, self.messages))
                assert entry is not None
                batch.drop(entry, 1)
        self._dots = dots
        return batch

    def _following(self, now: Now) -> Iterator[tuple[str, Now]]:
        if now.pending or not now.is_written:
            yield "sync", self._synced(now)
        if len(now.pending) >= self.most_pending:
            return
        batch = self._batch(now)
        stale = list(batch.stale(0))
        if "reap" in self.menu:
            for entry in stale:
                yield f"unlink {self._dot(entry)}", self._step(now, Op(self._dot(entry), None), 0, None)
            for entry in batch.reapable(0):
                yield f"reap {self._dot(entry)}", self._step(now, Op(self._dot(entry), None), 0, None)
        for entry in batch.entries:
            for verb, state, receives, token, late in self._kinds(entry, batch, now):
                for members in _subsets(entry.members):
                    if verb in ("enqueue", "deliver") and members != entry.members:
                        continue
                    version = entry.name.version - 1 if self.same_version else batch.top
                    target = Dot(version, state, members, receives, token, late)
                    label = f"{verb} {members:b} of {self._dot(entry)}"
                    is_rename = rules.may_rename(entry, members, 0)
                    if is_rename:
                        yield label, self._step(now, Op(self._dot(entry), target), members, target)
                    if not is_rename or (self.links and verb not in ("enqueue", "deliver")):
                        yield label + " by a link", self._step(now, Op(None, target), members, target)
                    if verb == "delete" and (other := batch.extendable(entry.name)) is not None:
                        grown = Dot(batch.top, State.REMOVED, other.name.members | members, 0, 0, False)
                        yield (
                            label + " by a longer list",
                            self._step(now, Op(self._dot(other), grown), members, grown),
                        )

    def _kinds(
        self, entry: Entry, batch: BatchFile, now: Now
    ) -> Iterator[tuple[str, State, int, int, bool]]:
        if not entry.members:
            return
        dot = self._dot(entry)
        match dot.state:
            case State.SENT:
                if now.is_written and dot.token:
                    yield "deliver", State.LEASED, dot.receives, dot.token, False
                elif now.is_written:
                    yield "enqueue", State.READY, 0, 0, False
                elif "assign" in self.menu and not dot.token:
                    yield "assign", State.SENT, 1, self._free_token(), False
                return
            case State.READY:
                if "lease" in self.menu and dot.receives < MOST_RECEIVES:
                    yield "lease", State.LEASED, dot.receives + 1, self._free_token(), False
            case State.LEASED:
                if "extend" in self.menu:
                    yield "extend", State.LEASED, dot.receives, dot.token, not dot.late
                if "release" in self.menu:
                    yield "release", State.READY, dot.receives, 0, False
            case _:
                return
        if "quarantine" in self.menu:
            yield "quarantine", State.QUARANTINED, dot.receives, 0, False
        if "delete" in self.menu:
            yield "delete", State.REMOVED, dot.receives, 0, False

    def _free_token(self) -> int:
        return 1 + max(each.token for each in self._dots.values())

    def _dot(self, entry: Entry) -> Dot:
        return self._dots[entry.name.path]

    def _step(self, now: Now, op: Op, members: int, target: Dot | None) -> Now:
        may = list(now.may)
        if target is not None:
            for index in indexes(members):
                became = _seen(target)
                may[index] = (became, may[index][1] | {became})
        return now._replace(pending=(*now.pending, op), may=tuple(may))

    def _synced(self, now: Now) -> Now:
        may = tuple((each, frozenset({each})) for each, _ in now.may)
        return Now(replayed(now.durable, now.pending), (), may, True)

    # Power cuts.

    def _cuts(self, now: Now) -> Iterator[tuple[str, Now]]:
        count = len(now.pending)
        for size in range(count + 1):
            for kept in itertools.combinations(range(count), size):
                names = replayed(now.durable, tuple(now.pending[at] for at in kept))
                for is_torn in (False,) if now.is_written else (False, True):
                    self.crashes += 1
                    found = self._found(names, is_torn)
                    may = []
                    for index, (_, promised) in enumerate(now.may):
                        state = found[index]
                        if state == GONE and GONE not in promised and ABSENT in promised and not names:
                            state = ABSENT
                        if state not in promised:
                            raise Broken(
                                f"{list(kept)} of {count} moves survive: message {index} is {state}, "
                                f"promised {sorted(map(str, promised))}; {sorted(map(str, names))}"
                            )
                        may.append((state, frozenset({state})))
                    if all(state == ABSENT for state, _ in may):
                        continue
                    if any(state == ABSENT for state, _ in may) and any(
                        s not in (ABSENT, GONE) for s, _ in may
                    ):
                        raise Broken("a send that was never answered is there in part")
                    yield f"power cut, {list(kept)} of {count} kept", Now(names, (), tuple(may), True)

    def _found(self, names: frozenset[Dot], is_torn: bool) -> list[tuple[object, ...]]:
        """Return what a start takes each message to be."""
        batch = rules.resolve(named(dot, self.messages) for dot in names)
        if not batch:
            return [GONE] * self.messages
        (only,) = batch.values()
        if is_torn or not only.was_sent:
            if any(dot.state is not State.SENT for dot in names):
                raise Broken(f"a torn file outside of new/: {sorted(map(str, names))}")
            return [ABSENT] * self.messages
        dots = {named(dot, self.messages).path: dot for dot in names}
        found = []
        for index in range(self.messages):
            entry = only.holder(index)
            found.append(GONE if entry is None else _seen(dots[entry.name.path]))
        if only.unlisted and not only.is_over:
            raise Broken(f"no name lists {only.unlisted:b}: {sorted(map(str, names))}")
        return found


def _seen(dot: Dot) -> tuple[object, ...]:
    match dot.state:
        case State.LEASED | State.SENT if dot.token:
            return ("leased", dot.receives, dot.token, dot.late)
        case State.READY:
            return ("ready", dot.receives)
        case State.REMOVED:
            return GONE
        case _:
            return (dot.state.value,)


@lru_cache(None)
def _subsets(mask: int) -> tuple[int, ...]:
    found, rest = [], mask
    while rest:
        found.append(rest)
        rest = (rest - 1) & mask
    return tuple(found)


def _canonical(now: Now) -> Now:
    """Return the same state with versions and tokens by rank: absolute numbers mean nothing."""
    dots = set(now.durable)
    for op in now.pending:
        dots.update(dot for dot in op if dot is not None)
    versions = {version: rank for rank, version in enumerate(sorted({dot.version for dot in dots}))}
    tokens = {0: 0}
    for dot in sorted(dots, key=lambda dot: (dot.version, dot.members)):
        tokens.setdefault(dot.token, len(tokens))
    for _, promised in now.may:
        for state in sorted(promised, key=str):
            if state[0] == "leased":
                tokens.setdefault(state[2], len(tokens))  # type: ignore[arg-type]

    def renamed(dot: Dot | None) -> Dot | None:
        return dot and dot._replace(version=versions[dot.version], token=tokens[dot.token])

    def reworded(state: tuple[object, ...]) -> tuple[object, ...]:
        return (*state[:2], tokens[state[2]], state[3]) if state[0] == "leased" else state  # type: ignore[index]

    return Now(
        frozenset(renamed(dot) for dot in now.durable),  # type: ignore[misc]
        tuple(Op(renamed(op.source), renamed(op.target)) for op in now.pending),
        tuple((reworded(each), frozenset(map(reworded, promised))) for each, promised in now.may),
        now.is_written,
    )


def _told(parents: dict[Now, tuple[Now, str] | None], now: Now) -> list[str]:
    told = [f"unsynced: {[(op.source, op.target) for op in now.pending]}"]
    at = now
    while (step := parents[at]) is not None:
        at, label = step
        told.append(label)
    return told[::-1]

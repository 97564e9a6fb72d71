"""What is known of reservations: which sets are promised until when, and how far streams are committed.

Like `Promises`, of which it is a part, it knows no disk: it is told each answer, and holds what an
engine shows against it after every commit and every start. What becomes of the messages themselves is
judged with all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from engine_rig import EngineRig
from spoolrack_store.model.errors import ReservationLost

Key = tuple[str, int]


class Is(Enum):
    HELD = "held"
    LOST = "lost"
    COMMITTED = "committed"
    NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class Hold:
    """A set as it was promised, or is shown."""

    queue: str
    ids: tuple[str, ...]
    due: int
    """Unix time."""
    ends: int
    """The same on the monotonic clock of the process that knows it."""
    is_lost: bool = False
    is_read: bool = False


@dataclass(slots=True)
class OpenHolds:
    """What commits under way, or that failed, may have done or not."""

    reserving: set[Key] = field(default_factory=set)
    confirming: set[Key] = field(default_factory=set)
    releasing: set[Key] = field(default_factory=set)
    marking: set[Key] = field(default_factory=set)
    committing: dict[str, int] = field(default_factory=dict)

    def copy(self) -> OpenHolds:
        return OpenHolds(
            set(self.reserving),
            set(self.confirming),
            set(self.releasing),
            set(self.marking),
            dict(self.committing),
        )


def all_of(several: Iterable[OpenHolds]) -> OpenHolds:
    """What any of them may have done."""
    sum = OpenHolds()
    for each in several:
        sum.reserving |= each.reserving
        sum.confirming |= each.confirming
        sum.releasing |= each.releasing
        sum.marking |= each.marking
        for stream, up_to in each.committing.items():
            sum.committing[stream] = max(up_to, sum.committing.get(stream, -1))
    return sum


@dataclass(slots=True)
class Shown:
    """What an engine says of a set."""

    state: Is
    ids: tuple[str, ...] = ()
    """Those that it would read."""
    made_of: tuple[str, ...] = ()
    queue: str = ""
    due: int = 0
    least: int = 0
    """When the first of its leases ends; 0 if none is left."""
    is_read: bool = False
    is_noted: bool = False
    """Whether a start would know it as lost, whatever the clock says then."""


Break = Callable[[str], Exception]


@dataclass(slots=True)
class Holds:
    sets: dict[Key, Hold] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    open: OpenHolds = field(default_factory=OpenHolds)
    uncertain: OpenHolds = field(default_factory=OpenHolds)
    """Of commits whose sync failed: a power cut may take what they wrote, whatever was seen before."""
    taken: set[str] = field(default_factory=set)
    """Ids of what was just found to be gone, as only the commit of its set can have done it."""

    def copy(self) -> Holds:
        return Holds(dict(self.sets), dict(self.committed), self.open.copy(), self.uncertain)

    def sync_failed(self) -> None:
        self.uncertain = all_of((self.uncertain, self.open))

    # What is asked and answered.

    def ids_of(self, key: Key) -> tuple[str, ...]:
        hold = self.sets.get(key)
        return () if hold is None or hold.is_lost else hold.ids

    def uncertain_ids(self) -> set[str]:
        """Of sets that a power cut may take."""
        return {id for key in self.uncertain.reserving if key in self.sets for id in self.sets[key].ids}

    def up_to(self, stream: str, up_to: int) -> list[Key]:
        """Those that a commit would delete."""
        before = self.committed.get(stream, -1)
        return sorted(key for key in self.sets if key[0] == stream and before < key[1] <= up_to)

    def is_held(self, key: Key, monotonic: int) -> bool:
        hold = self.sets.get(key)
        return (
            hold is not None
            and not hold.is_lost
            and hold.ends > monotonic
            and key[1] > self.committed.get(key[0], -1)
        )

    # What is found.

    def judge(
        self,
        engine: Mapping[Key, Shown],
        committed: Mapping[str, int],
        there: Iterable[str],
        *,
        wall: int,
        monotonic: int,
        crashed: bool,
        broken: Break,
        ahead: int = 0,
    ) -> None:
        """Hold what the engine shows against what was promised.

        `there` are the ids of all messages that there are; `monotonic` is the time in the process
        that made the promises, when it died or now; somebody's clock may be `ahead` of it.
        """
        ids = set(there)
        for stream in self.committed.keys() | committed.keys():
            least = self.committed.get(stream, -1)
            most = max(least, self.open.committing.get(stream, -1))
            if stream in self.uncertain.committing:
                least = -1
            if not least <= committed.get(stream, -1) <= most:
                what = f"{stream} is committed up to {committed.get(stream, -1)}"
                raise broken(f"{what}, not {least} to {most}")
        self.judge_taken(committed, broken)
        for key, hold in self.sets.items():
            shown = engine.get(key, Shown(Is.NOWHERE))
            is_over = hold.ends <= monotonic or (crashed and hold.due <= wall)
            if key[1] <= committed.get(key[0], -1):
                left = ids.intersection(hold.ids)
                # A release under way leaves them to others, whoever committed since.
                is_kept = not (is_over or hold.is_lost or key in self.open.releasing)
                if left and is_kept:
                    raise broken(f"the set {key} is committed, and has left {sorted(left)}")
                continue
            if shown.state is Is.NOWHERE:
                if key in self.uncertain.reserving:
                    continue
                raise broken(f"the set {key} is nowhere")
            if shown.state is Is.LOST:
                may_be = self.open.releasing | self.open.confirming
                # Whoever noted it may have died since, with a clock that was ahead.
                was_over = crashed and hold.due <= wall + ahead
                if not (hold.is_lost or is_over or was_over or key in may_be):
                    raise broken(f"the set {key} is lost, and was promised until {hold.due}")
                continue
            must_be_lost = hold.is_lost or (hold.due <= wall if crashed else is_over)
            if must_be_lost and key not in self.open.confirming:
                raise broken(f"the set {key} was lost, and is held again")
            if shown.least and shown.least < shown.due:
                raise broken(f"{key} is held until {shown.due}, a message of it until {shown.least}")
            may_be_either = self.open.marking | self.uncertain.marking
            if shown.is_read != hold.is_read and key not in may_be_either:
                raise broken(f"the set {key} was {'' if hold.is_read else 'not '}marked as read")
            left = tuple(id for id in hold.ids if id in ids)
            if shown.ids != left:
                raise broken(f"the set {key} shows {shown.ids}, not {left}")
            if shown.due != hold.due and key not in self.open.confirming:
                raise broken(f"the set {key} is held until {shown.due}, not {hold.due}")
        for key, shown in engine.items():
            if key in self.sets:
                continue
            if shown.state is Is.LOST and crashed and shown.due > wall + ahead:
                raise broken(f"the set {key} is lost, and nobody was told that it was held")
            if shown.state is not Is.HELD:
                continue
            if key not in self.open.reserving:
                raise broken(f"the set {key} is held, and nobody was told of it")
            if shown.ids != tuple(id for id in shown.made_of if id in ids):
                raise broken(f"the set {key} is only there in part")

    def judge_taken(self, committed: Mapping[str, int], broken: Break) -> None:
        """What only the commit of a set can have deleted is in a set that is committed."""
        taken = set(self.taken)
        for (stream, seq), hold in self.sets.items():
            if seq <= committed.get(stream, -1) or stream in self.uncertain.committing:
                taken.difference_update(hold.ids)
        if taken:
            raise broken(f"{sorted(taken)} are gone with a set that isn't committed")

    def accept(
        self,
        engine: Mapping[Key, Shown],
        committed: Mapping[str, int],
        *,
        wall: int,
        monotonic: int,
        crashed: bool,
    ) -> None:
        """How it was found is how it is from now on."""
        before, self.sets = self.sets, {}
        for key, shown in engine.items():
            was = before.get(key)
            hold = Hold(shown.queue, shown.made_of, shown.due, monotonic + shown.due - wall)
            if was is not None and not crashed and was.due == shown.due:
                hold = was
            self.sets[key] = replace(hold, is_lost=shown.is_noted, is_read=shown.is_read)
        self.committed = dict(committed)
        self.open = OpenHolds()


def shown_by(rig: EngineRig) -> tuple[dict[Key, Shown], dict[str, int]]:
    """What the engine says of all sets that it knows, and how far each stream is committed."""
    reservations = rig.engine.reservations
    holdings = reservations._holdings
    shown = {}
    for key, held in holdings.sets.items():
        manifest = held.manifest
        each = Shown(Is.HELD, (), manifest.ids, manifest.queue, held.due)
        each.is_read = held.name.is_read
        each.is_noted = held.name.is_lost
        if key[1] <= holdings.committed(key[0]):
            each.state = Is.COMMITTED
        else:
            try:
                sights = reservations.sights(*key, 0, len(manifest.ids))
                each.ids = tuple(sight.entry.id for sight in sights)
                each.least = min((sight.due or 0 for sight in sights), default=0)
            except ReservationLost:
                each.state = Is.LOST
        shown[key] = each
    return shown, {stream: holdings.committed(stream) for stream in holdings.markers}

"""What is known of each message: what was promised about it, and what is open while a commit runs.

A `Promises` knows no disk. A story tells it every answer; in return it says which answers and which
findings break a promise, and of what kind that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from broken import Broken, Kind
from holds import Holds
from message_fate import Fate, Now, fate_of
from pending import Open
from redrive_fates import RedriveFates
from seen import Found, Name
from spoolrack_store.model.ids import sent_at
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from stage_fates import StageFates
from taken_ids import TakenIds

__all__ = ["Broken", "Kind", "Promises"]


@dataclass(slots=True)
class Promises:
    graves: Mapping[str, str]
    """The dead-letter queue of each queue that has one."""
    alive: dict[str, Fate] = field(default_factory=dict)
    """Acknowledged, and not acknowledged as deleted."""
    dead: set[str] = field(default_factory=set)
    """Acknowledged as deleted, or found to be so."""
    queues: dict[str, QueueSettings] = field(default_factory=dict)
    bodies: set[bytes] = field(default_factory=set)
    """Everything that anybody ever tried to send."""
    refused: set[bytes] = field(default_factory=set)
    """Of these, what was answered with an error, which promises that it had no effect."""
    by_hand: set[bytes] = field(default_factory=set)
    """What was put into `new/` by hand, and what a power cut has left of it."""
    torn_by_hand: set[bytes] = field(default_factory=set)
    uncertain: set[bytes] = field(default_factory=set)
    """Sent by a commit whose sync failed: a power cut may damage it, whatever was seen before."""
    aside: frozenset[str] = frozenset()
    """Ids that may be in quarantine: the disk failed to read them."""
    ids: TakenIds = field(default_factory=TakenIds)
    open: Open = field(default_factory=Open)
    reserved: Holds = field(default_factory=Holds)
    stages: StageFates = field(default_factory=StageFates)
    redrives: RedriveFates = field(init=False)

    def __post_init__(self) -> None:
        self.redrives = RedriveFates(self.graves)

    def copy(self) -> Promises:
        copy = replace(
            self,
            alive=dict(self.alive),
            dead=set(self.dead),
            queues=dict(self.queues),
            bodies=set(self.bodies),
            by_hand=set(self.by_hand),
            torn_by_hand=set(self.torn_by_hand),
            ids=self.ids.copy(),
            open=self.open.copy(),
            reserved=self.reserved.copy(),
            stages=self.stages.copy(),
        )
        copy.redrives = self.redrives.copy()
        return copy

    # What is answered.

    def took(self, queue: str, deduplication_id: str, id: str) -> None:
        """A new message was stored for this deduplication id."""
        label = queue, deduplication_id
        other = self.ids.clash(label, id)
        if other is not None and other not in self.aside:
            raise Broken(Kind.DOUBLED, f"{label} was stored as {other}, and again as {id}")
        self.ids.take(label, id)

    def repeated(self, queue: str, deduplication_id: str, id: str, now: Now) -> None:
        """A message was refused, because `id` is there, or was."""
        label = queue, deduplication_id
        first = self.ids.first_of(label, now.wall)
        if first not in (None, id) and first not in self.aside:
            raise Broken(Kind.OTHER, f"{label} was stored as {first}, and is told to be {id}")
        fate = self.alive.get(id)
        if fate is not None and self.ids.labels.get(fate.body) != label:
            raise Broken(Kind.OTHER, f"{label} is told to be {id}, which is another message")
        if fate is None and not self.was_there(id):
            raise Broken(Kind.LOST, f"{label} is told to be {id}, which was never stored")
        if fate is not None:
            # Whatever became of the sync that it was sent with: now it is promised.
            self.uncertain.discard(fate.body)

    def was_there(self, id: str) -> bool:
        return self.was_deleted(id)

    def was_deleted(self, id: str) -> bool:
        """Whether it was there, and nobody need find it any more."""
        return id in self.dead or id in self.aside

    def sent(self, id: str, fate: Fate) -> None:
        if id in self.alive or id in self.dead:
            raise Broken(Kind.OTHER, f"the id {id} was given twice")
        self.alive[id] = fate

    def deleted(self, id: str) -> None:
        self.alive.pop(id, None)
        self.dead.add(id)

    def leased(self, id: str, lease: Fate, now: Now) -> None:
        """A receive has handed out the message, under `lease`."""
        if lease.body not in self.bodies:
            raise Broken(self._kind_of(lease.body), f"{id} was delivered as {lease.body[:40]!r}")
        self.seen(id, lease.body)
        if self._is_old(id, lease.queue, now):
            raise Broken(Kind.OTHER, f"{id} is too old, and was delivered")
        fate = self.alive.get(id)
        if fate is not None and id not in self.open.changing:
            if fate.token is not None and fate.ends > now.monotonic:
                what = f"{id} is leased until {fate.ends}, and again at {now.monotonic}"
                raise Broken(Kind.DOUBLED, what)
            if fate.ends > now.monotonic:
                what = f"{id} is hidden until {fate.ends}, and was delivered at {now.monotonic}"
                raise Broken(Kind.OTHER, what)
            before = fate.receives if fate.queue == lease.queue else 0
            if lease.receives != before + 1 and lease.queue not in self.open.receiving:
                what = f"{id} was received {before} times, and now {lease.receives} times"
                raise Broken(Kind.OTHER, what)
        self.alive[id] = lease
        self.open.changing.discard(id)

    def holds(self, id: str, token: str, now: Now) -> bool | None:
        """Whether `token` is of the lease that the message is under; None if that isn't known."""
        if id in self.open.changing or self._may_be_deleted(id) or id in self.dead:
            return None
        fate = self.alive.get(id)
        return fate is not None and fate.token == token and fate.ends > now.monotonic

    def released(self, id: str, *, undo: bool) -> None:
        fate = self.alive.get(id)
        if fate is not None:
            receives = fate.receives - undo
            self.alive[id] = replace(fate, receives=receives, token=None, due=0, ends=0, was=None)

    def extended(self, id: str, due: int, now: Now) -> None:
        fate = self.alive.get(id)
        if fate is not None:
            self.alive[id] = replace(fate, due=due, ends=now.monotonic + due - now.wall, was=None)

    def must_be_in(self, queue: str, id: str, now: Now) -> bool:
        fate = self.alive.get(id)
        if fate is None or self._is_blurred(id, fate) or self._may_be_gone(id, fate, now):
            return False
        return self._places_of(fate) == {queue}

    def emptied(self, queue: str, *, is_sure: bool) -> None:
        """The queue was purged, or deleted. Of what may just be leaving it, the next look tells; if it
        isn't `is_sure` that redrives took nothing out of it since the last one, of that, too."""
        for id, fate in list(self.alive.items()):
            places = {queue} if is_sure else self._places_of(fate)
            is_there = fate.queue == queue and self.has_arrived(id)
            if is_there and not self._may_be_dead_letter(fate) and places == {queue}:
                self.deleted(id)
            elif queue in self._places_of(fate):
                self.open.dying.add(id)

    def has_arrived(self, id: str) -> bool:
        """Whether what is promised is in its queue, so that it goes with all that is."""
        return True

    def seen(self, id: str, body: bytes) -> None:
        """A message was delivered, or found."""
        if id in self.dead:
            raise Broken(Kind.RESURRECTED, f"{id} is deleted, and was found: {body[:40]!r}")
        fate = self.alive.get(id)
        if fate is not None and fate.body in self.uncertain:
            return
        if fate is not None and fate.body != body:
            raise Broken(Kind.TORN, f"{id} has another body than was sent: {body[:40]!r}")
        if body not in self.bodies:
            raise Broken(self._kind_of(body), f"{id} has a body that nobody sent: {body[:40]!r}")
        if body in self.refused:
            raise Broken(Kind.INVENTED, f"{id} was refused with an error, and is there: {body[:40]!r}")

    def _kind_of(self, body: bytes) -> Kind:
        torn = not any(body) or any(each.startswith(body) for each in self.bodies)
        return Kind.TORN if torn else Kind.INVENTED

    # What is found.

    def judge(self, found: Mapping[str, Found], queues: Mapping[str, QueueSettings], now: Now) -> None:
        """Hold what is there against what was promised.

        `now` is the time in the process that made the promises: when it died, or the present.
        """
        self._judge_queues(queues)
        expected = self.by_hand | self.uncertain | {b for call in self.open.calls for b in call}
        places: dict[bytes, str] = {}
        for id, finding in found.items():
            self.seen(id, finding.body)
            if id not in self.alive and finding.body not in expected:
                what = f"{id} is there, and nobody was told of it: {finding.body[:40]!r}"
                raise Broken(Kind.INVENTED, what)
            other = places.setdefault(finding.body, id)
            if other != id and finding.body not in self.torn_by_hand and not finding.is_torn:
                raise Broken(Kind.DOUBLED, f"one body under two ids: {other}, {id}")
        bodies = {id: fate.body for id, fate in self.alive.items()}
        twice = self.ids.twice(found, bodies)
        if twice is not None and self.uncertain.isdisjoint(found[id].body for id in twice):
            raise Broken(Kind.DOUBLED, f"one deduplication id of two messages: {twice}")
        for id, fate in self.alive.items():
            if id not in found and not self._may_be_gone(id, fate, now):
                raise Broken(Kind.LOST, f"{id} of {fate.queue}, {fate.body[:40]!r}")
        for call in self.open.calls:
            arrived = sum(body in places for body in call)
            if arrived and arrived != len(call):
                what = f"{arrived} of the {len(call)} messages of one send are there"
                raise Broken(Kind.INVENTED, what)

    def judge_states(self, found: Mapping[str, Found], now: Now, *, crashed: bool) -> None:
        """The same for where each message is, under which lease, and how often it was received."""
        # Their leases may be durable, and the manifest that named them not: then they are undone.
        unnamed = self.reserved.uncertain_ids() if crashed else set()
        for id, fate in self.alive.items():
            if id not in found or id in unnamed or self._is_blurred(id, fate):
                continue
            name = found[id].name
            possible: Fate | None = fate
            while possible is not None and not self._is_as(possible, name, now, crashed):
                possible = possible.was if crashed or possible.is_untold(now) else None
            if possible is None:
                raise Broken(
                    Kind.OTHER,
                    f"{id} is {name.state.value} in {name.queue} until {name.due}, received "
                    f"{name.receives} times; at {now} it must be {fate}",
                )

    def accept(
        self,
        found: Mapping[str, Found],
        queues: Mapping[str, QueueSettings],
        now: Now,
        *,
        crashed: bool,
    ) -> None:
        """How it was found is how it is from now on; `now` is of the process that has found it.

        One that has just started has only the wall clock to tell how long a lease lasts.
        """
        before = self.alive
        gone = self.alive.keys() - found.keys()
        self.reserved.taken = {id for id in gone if self._is_gone_with_its_set(id, now)}
        # A power cut may bring back what was only put aside.
        self.uncertain |= {self.alive[id].body for id in gone & self.aside}
        self.dead |= gone - self.aside
        self.alive = {
            id: fate_of(each, now, before.get(id), crashed=crashed) for id, each in found.items()
        }
        self.queues = dict(queues)
        self.ids.are(queues)
        self.open = Open()

    def _judge_queues(self, queues: Mapping[str, QueueSettings]) -> None:
        for name in self.queues.keys() | queues.keys() | self.open.settings.keys():
            allowed = [self.queues.get(name), *self.open.settings.get(name, ())]
            if queues.get(name) not in allowed:
                raise Broken(Kind.OTHER, f"the queue {name} is {queues.get(name)}, not {allowed}")

    def _may_be_gone(self, id: str, fate: Fate, now: Now) -> bool:
        return id in self.open.doomed or self._may_be_gone_otherwise(id, fate, now)

    def _may_be_gone_otherwise(self, id: str, fate: Fate, now: Now) -> bool:
        places = self._places_of(fate)
        return (
            id in self.open.dying
            or id in self.aside
            or fate.body in self.uncertain
            or not places.isdisjoint(self.open.emptied)
            or any(self._is_old(id, queue, now) for queue in places)
        )

    def _may_be_deleted(self, id: str) -> bool:
        return id in self.open.dying or id in self.open.doomed

    def _is_gone_with_its_set(self, id: str, now: Now) -> bool:
        """Whether nothing else can have deleted it."""
        return id in self.open.doomed and not self._may_be_gone_otherwise(id, self.alive[id], now)

    def _is_old(self, id: str, queue: str, now: Now) -> bool:
        settings = self.queues.get(queue)
        retention = settings.retention if settings is not None else 0
        return bool(retention) and sent_at(id) + retention <= now.wall

    def _places_of(self, fate: Fate) -> set[str]:
        """The message's queue, where it would be as a dead letter, and where it may be moved then."""
        places = {fate.queue}
        if fate.queue in self.graves and self._may_be_dead_letter(fate):
            places.add(self.graves[fate.queue])
        return self._reached_from(places)

    def _reached_from(self, places: set[str]) -> set[str]:
        """These queues, and those to which redrives may have moved what was in them."""
        leads = [*self.redrives.leads(), *self.open.redriving]
        sources = {grave: queue for queue, grave in self.graves.items()}
        for _ in places | set(self.graves):
            reached = [each for each in leads if each.queue in places]
            places = places | {each.destination or sources.get(each.queue, "") for each in reached}
        return places

    def _may_be_dead_letter(self, fate: Fate) -> bool:
        if fate.queue not in self.graves:
            return False
        settings = self.queues.get(fate.queue)
        # What was leased when the process died may have come back since, once more received.
        receives = fate.receives + (fate.queue in self.open.receiving)
        return settings is None or receives >= settings.max_receives

    def _is_blurred(self, id: str, fate: Fate) -> bool:
        return (
            id in self.open.changing
            or self._may_be_deleted(id)
            or fate.body in self.uncertain
            or not self._places_of(fate).isdisjoint(self.open.emptied)
        )

    def _is_as(self, fate: Fate, name: Name, now: Now, crashed: bool) -> bool:
        """Whether the message may be where it was seen."""
        as_before = name.queue == fate.queue and name.receives == fate.receives
        is_over = fate.ends <= now.monotonic or (crashed and fate.due <= now.wall)
        if name.state is not State.READY:
            if as_before and fate.due == name.due and name.token == fate.token:
                return True
            before = fate.receives if name.queue == fate.queue else 0
            return is_over and self._may_be_received(name, before)
        if name.queue == fate.queue and not (self._may_be_back(fate) and not name.receives):
            # What was leased, and given to nobody because the disk failed, may be back by now.
            return is_over and (as_before or self._may_be_received(name, fate.receives))
        buried = name.queue in self._places_of(fate) and not name.receives
        return is_over and buried

    def _may_be_back(self, fate: Fate) -> bool:
        """Whether it may have become a dead letter, and have been moved back."""
        is_dead = fate.queue in self.graves and self._may_be_dead_letter(fate)
        return is_dead and fate.queue in self._reached_from({self.graves[fate.queue]})

    def _may_be_received(self, name: Name, before: int) -> bool:
        return name.queue in self.open.receiving and name.receives == before + 1

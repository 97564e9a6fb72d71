"""What is known of each message where several engines share a disk.

What one does the others see at once, long before it is promised: it is durable when that engine has
answered, and until then a power cut may undo it, or not. So a message has its present state and those
that a cut may bring back; an answer seals the state that it is about. After a kill nothing is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

from holds import Holds, Key, OpenHolds, Shown, all_of
from message_fate import Fate, Now, fate_of
from pending import Open
from power_disk import PowerDisk
from promises import Broken, Kind, Promises
from seen import Found
from spoolrack_store.model.names import is_set_token
from spoolrack_store.model.settings import QueueSettings
from taken_ids import TakenIds
from whole_disk import body_of, removed

Touched = dict[str, Fate | None]
"""How a commit has left the messages that it was asked about; None: deleted."""


@dataclass(slots=True)
class SharedPromises(Promises):
    """`open` is what all commits together may have done that are under way."""

    earlier: dict[str, list[Fate]] = field(default_factory=dict)
    """By id: what a power cut may bring back, the oldest first."""
    leaving: dict[str, Fate] = field(default_factory=dict)
    """Deleted, and nobody was told so: what they were."""
    settings_before: dict[str, list[QueueSettings | None]] = field(default_factory=dict)
    """What a power cut may bring back of the queues' settings."""
    hazy: set[str] = field(default_factory=set)
    """Ids of which it isn't known what else a power cut may bring back."""
    under_way: dict[str, Open] = field(default_factory=dict)
    """By engine, also of one that died with it."""
    touched: Touched = field(default_factory=dict)
    """By the commit that is heard."""
    sealed: Holds = field(default_factory=Holds)
    """Of reservations, what is answered: `reserved` is what there is."""
    sealed_after: int = -1
    """So many commits had been applied before the one that has sealed them."""
    sets_under_way: dict[str, OpenHolds] = field(default_factory=dict)
    """By engine, also of one that died with it."""
    vouched: dict[str, str] = field(default_factory=dict)
    """By id: who sends what another has told to be there; empty if he died since."""
    assigned: set[str] = field(default_factory=set)
    """Ids that are leased already, by a commit that hasn't been answered: until then nobody knows of
    them."""
    swept: set[str] = field(default_factory=set)
    """Ids of unanswered sends that went with their queue before anybody saw them there: who takes over
    what one who died has sent can empty its queue in the same step."""
    disk: Callable[[], PowerDisk] = PowerDisk
    """The one that they share, as it is."""

    def fork(self) -> SharedPromises:
        """The same, to be judged after a power cut; what is known of each engine is over then."""
        copied = {each.name: _copied(getattr(self, each.name)) for each in fields(self) if each.init}
        fork = replace(self, **copied)
        fork.settings_before = {name: list(those) for name, those in self.settings_before.items()}
        fork.touched = {}
        fork.redrives = self.redrives.copy()
        return fork

    # Reservations.

    def begin_sets(self, who: str) -> OpenHolds:
        """What the next commit of `who` may do; what one before has not answered stays open."""
        return self.sets_under_way.setdefault(who, OpenHolds())

    def _being_released(self, who: str) -> set[str]:
        """Ids that `who` gives back once it is durable that it does."""
        keys = self.sets_under_way.get(who, OpenHolds()).releasing
        return {id for key in keys for id in self.reserved.ids_of(key)}

    def _being_reserved(self, who: str) -> set[str]:
        """Ids that others give back, if `who` has died before it wrote down for which set they are."""
        if not self.sets_under_way.get(who, OpenHolds()).reserving:
            return set()
        known = {id for key in self.reserved.sets for id in self.reserved.ids_of(key)}
        return {
            id
            for id, fate in self.alive.items()
            if fate.token is not None and is_set_token(fate.token) and id not in known
        }

    def _being_committed(self, who: str) -> set[str]:
        """Ids that others delete if `who` has died before it did."""
        up_to = self.sets_under_way.get(who, OpenHolds()).committing
        sets = self.reserved.sets
        keys = [key for key in sets if key[1] <= up_to.get(key[0], -1)]
        return {id for key in keys for id in self.reserved.ids_of(key)}

    def seal_sets(self, who: str, sets: Holds, order: int) -> None:
        """All that `who` has done with reservations is answered, and so is what it has relied on: the
        `sets` as they were when it did so, after so many commits."""
        self.sets_under_way.pop(who, None)
        if order > self.sealed_after:
            sets.uncertain = self.reserved.uncertain
            self.sealed, self.sealed_after = sets, order
        # A release is heard when it is answered, whoever has done what was applied after it.
        for key, hold in self.reserved.sets.items():
            if hold.is_lost and key in self.sealed.sets:
                self.sealed.sets[key] = hold

    def sync_failed(self) -> None:
        """What anybody was doing with reservations may be taken by a power cut, whatever is seen."""
        under_way = all_of(self.sets_under_way.values())
        for holds in (self.reserved, self.sealed):
            holds.uncertain = all_of((holds.uncertain, under_way))

    def judge_sets(
        self,
        shown: Mapping[Key, Shown],
        committed: Mapping[str, int],
        there: Iterable[str],
        now: Now,
        ahead: int,
    ) -> None:
        """Hold what a start after a death shows against what was answered.

        `now` is the time of who has started; the clock of another may be `ahead` of it.
        """
        self.sealed.open = all_of(self.sets_under_way.values())
        # Of what there was, answered or not.
        self.reserved.judge_taken(committed, lambda what: Broken(Kind.OTHER, what))
        # Whoever does something goes on from what there is, answered or not.
        self.sealed.open.reserving |= self.reserved.sets.keys()
        self.sealed.judge(
            shown,
            committed,
            there,
            wall=now.wall,
            monotonic=now.monotonic,
            crashed=True,
            broken=lambda what: Broken(Kind.OTHER, what),
            ahead=ahead,
        )
        for holds in (self.reserved, self.sealed):
            holds.accept(shown, committed, wall=now.wall, monotonic=now.monotonic, crashed=True)
        self.sets_under_way = {}

    # Commits.

    def without(self, who: str) -> Open:
        """What the commits of the others may have done."""
        sum = Open()
        for engine, opened in self.under_way.items():
            if engine != who:
                sum.add(opened)
        return sum

    def reopen(self) -> None:
        self.open = self.without("")

    def died(self, who: str, once: str) -> None:
        """What `who` has left unanswered stays open under the name `once`."""
        self.vouched |= {id: "" for id, sender in self.vouched.items() if sender == who}
        if who in self.under_way:
            self.under_way[once] = replace(self.under_way.pop(who), is_of_dead=True)
        if who in self.sets_under_way:
            self.sets_under_way[once] = self.sets_under_way.pop(who)
        self.reopen()

    def expect_dues(self, who: str, now: Now) -> None:
        """Who starts alone has only its own wall clock to tell which leases are over."""
        due = {id for id, fate in self.alive.items() if fate.due and fate.due <= now.wall}
        self.under_way[who] = Open(changing=due)
        self.reopen()

    def applied(self, who: str, *, in_trouble: bool) -> None:
        """The commit of `who` has been done, or was interrupted; what it did has been looked at.

        What it has sent or set is open until it is answered; if that was interrupted, for good.
        """
        if not in_trouble:
            own = self.under_way[who]
            self.under_way[who] = Open(
                calls=own.calls,
                doomed=self._being_committed(who),
                changing=self._being_released(who)
                | self._being_reserved(who)
                | (own.changing & self.assigned),
                emptied=own.emptied,
                redriving=own.redriving,
                settings=own.settings,
            )
        self.reopen()

    def seal(self, touched: Touched) -> None:
        """A commit has been answered that has left these so."""
        for id, fate in touched.items():
            earlier = self.earlier.get(id, [])
            if fate is None:
                self.leaving.pop(id, None)
                self.hazy.discard(id)
                self.dead.add(id)
            elif self.alive.get(id) is fate or self.leaving.get(id) is fate:
                earlier.clear()
            elif (
                at := next((at for at, each in enumerate(earlier) if each is fate), None)
            ) is not None:
                del earlier[:at]
            else:
                continue
            self.hazy.discard(id)

    def seal_queue(self, name: str) -> None:
        """An answer was about how the queue is set, or that it is deleted."""
        self.settings_before.pop(name, None)

    def note_queues(self, queues: Mapping[str, QueueSettings]) -> None:
        """So they are set now."""
        for name in self.queues.keys() | queues.keys():
            if self.queues.get(name) != queues.get(name):
                self.settings_before.setdefault(name, []).append(self.queues.get(name))
        self.queues = dict(queues)
        self.ids.are(queues)

    # What is answered.

    def sent(self, id: str, fate: Fate) -> None:
        if id in self.vouched:
            # Another has answered for it, before its sender did.
            del self.vouched[id]
            return
        Promises.sent(self, id, fate)

    def was_deleted(self, id: str) -> bool:
        return Promises.was_deleted(self, id) or id in self.swept

    def was_there(self, id: str) -> bool:
        """Who refuses a repetition answers for the first one, which its sender may just be writing."""
        if Promises.was_there(self, id) or id in self.leaving:
            return True
        body = body_of(self.disk(), id)
        if body is None:
            return False
        if id in self.vouched:
            return True
        self.uncertain.discard(body)
        living = {who: each for who, each in self.under_way.items() if not each.is_of_dead}
        self.vouched[id] = next((who for who, each in living.items() if each.sends(body)), "")
        self.alive[id] = Fate(body=body, queue=self.ids.labels[body][0])
        self.hazy.add(id)
        return True

    def deleted(self, id: str) -> None:
        fate = self.alive.pop(id, None)
        if fate is not None:
            self.leaving[id] = fate
            self.hazy.add(id)
        self.touched[id] = None

    def emptied(self, queue: str, *, is_sure: bool) -> None:
        self._note_swept({queue})
        Promises.emptied(self, queue, is_sure=is_sure)

    def has_arrived(self, id: str) -> bool:
        """What another has answered for comes with the answer of its sender, if he lives."""
        return not self.vouched.get(id)

    def leased(self, id: str, lease: Fate, now: Now) -> None:
        if lease.queue not in self.queues:
            return  # By one who hasn't heard yet that the queue is deleted.
        before = self.alive.get(id)
        if before is not None and before.token == lease.token:
            self.touched[id] = before  # It was seen before it was answered.
            return
        Promises.leased(self, id, lease, now)
        self._changed(id, before)

    def holds(self, id: str, token: str, now: Now) -> bool | None:
        """Nobody has to bring a lease back the moment it is over: until somebody does, it may do."""
        fate = self.alive.get(id)
        if fate is not None and fate.token == token and fate.ends <= now.monotonic:
            return None
        return Promises.holds(self, id, token, now)

    def released(self, id: str, *, undo: bool) -> None:
        before = self.alive.get(id)
        Promises.released(self, id, undo=undo)
        self._changed(id, before)

    def extended(self, id: str, due: int, now: Now) -> None:
        before = self.alive.get(id)
        Promises.extended(self, id, due, now)
        self._changed(id, before)

    def seen(self, id: str, body: bytes) -> None:
        fate = self.leaving.get(id)
        if fate is not None and fate.queue in self.graves and fate.queue not in self.queues:
            # It was becoming a dead letter when its queue was deleted.
            self.alive[id] = self.leaving.pop(id)
        elif fate is not None:
            raise Broken(Kind.RESURRECTED, f"{id} was deleted, and is there again: {body[:40]!r}")
        Promises.seen(self, id, body)

    def _is_blurred(self, id: str, fate: Fate) -> bool:
        # Of what its sender hasn't answered for, another doesn't tell whether it is leased already.
        return id in self.vouched or Promises._is_blurred(self, id, fate)

    def _changed(self, id: str, before: Fate | None) -> None:
        if id not in self.alive:
            return
        if before is not None:
            self._push(id, before)
        self.touched[id] = self.alive[id]
        # With its neighbours in a batch folder it may be in more places than that.
        self.hazy.add(id)

    def _note_swept(self, emptied: set[str]) -> None:
        if not emptied:
            return
        calls = [call for opened in self.under_way.values() for call in opened.calls]
        sent = {body for call in calls for body in call} - self.refused
        for id, body in removed(self.disk()):
            queue, _ = self.ids.labels.get(body, ("", ""))
            if body in sent and queue in emptied:
                self.swept.add(id)

    def _push(self, id: str, before: Fate) -> None:
        self.earlier[id] = [*self.earlier.get(id, ()), before]

    # What is found.

    def look(self, found: Mapping[str, Found], queues: Mapping[str, QueueSettings], now: Now) -> None:
        """Hold what is there against what was done, and take it as it is."""
        self._note_swept(self.open.emptied)
        self.judge(found, queues, now)
        self.judge_states(found, now, crashed=False)
        self._forget_arrived(found)
        before, self.alive = self.alive, {}
        for id, fate in before.items():
            if id not in found:
                self.leaving[id] = fate
            if self._is_blurred(id, fate) or fate.queue in self.open.receiving:
                self.hazy.add(id)
        for id, each in found.items():
            was = before.get(id)
            now_is = fate_of(each, now, was, crashed=False)
            if was is None:
                self.hazy.add(id)
            if was is not None and was.lies_as(now_is):
                self.alive[id] = was
                continue
            self.alive[id] = now_is
            if was is not None:
                self._push(id, was)
        self.note_queues(queues)

    def judge_after_cut(
        self, found: Mapping[str, Found], queues: Mapping[str, QueueSettings], now: Now, *, states: bool
    ) -> None:
        """The same after a power cut, and the start that followed: now all is durable."""
        back = self.leaving.keys() & found.keys()
        gone, self.leaving = self.leaving, {}
        self.alive |= {id: gone[id] for id in back}
        self.open = Open(settings={name: list(those) for name, those in self.settings_before.items()})
        for opened in self.under_way.values():
            # A queue whose deletion didn't survive has lost nothing by it.
            spared = {
                name for name in opened.emptied & queues.keys() if None in opened.settings.get(name, ())
            }
            self.open.add(replace(opened, emptied=opened.emptied - spared))
        self._note_swept(self.open.emptied)
        self.judge(found, queues, now)
        if states:
            self._judge_states_after_cut(found, now)
        self.dead |= gone.keys() - found.keys()
        self.accept(found, queues, now, crashed=True)
        self.earlier, self.hazy, self.under_way, self.settings_before = {}, set(), {}, {}

    def _judge_states_after_cut(self, found: Mapping[str, Found], now: Now) -> None:
        for id, fate in self.alive.items():
            if id not in found or id in self.hazy or self._is_blurred(id, fate):
                continue
            name, possible = found[id].name, (fate, *self.earlier.get(id, ()))
            if not any(self._is_as(each, name, now, crashed=True) for each in possible):
                raise Broken(
                    Kind.OTHER,
                    f"{id} is {name.state.value} in {name.queue} until {name.due}, received "
                    f"{name.receives} times; at {now} it must be one of {possible}",
                )

    def _forget_arrived(self, found: Mapping[str, Found]) -> None:
        """What has been published needs no more than what is known of each message."""
        there = {each.body for each in found.values()}
        for opened in self.under_way.values():
            opened.calls = [call for call in opened.calls if there.isdisjoint(call)]


def _copied(value: object) -> object:
    return value.copy() if isinstance(value, dict | set | TakenIds | Open | Holds) else value

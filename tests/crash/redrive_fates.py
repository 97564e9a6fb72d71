"""What was promised about redrives, and what may come of them.

A redrive that was begun goes on until it has looked at everything, or somebody ends it; then it moves
nothing more. A message never loses what its history tells of its deaths.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from broken import Broken, Kind
from power_disk import PowerDisk
from seen import Found
from spoolrack_store.files import layout
from spoolrack_store.model.redrive_names import parse_redrive
from spoolrack_store.model.redrive_order import decode
from spoolrack_store.model.redriving import RedriveState
from spoolrack_store.model.sealed import NotWhole


@dataclass(frozen=True, slots=True)
class Lead:
    """From a dead-letter queue to another one; to where each message came from, if it is empty."""

    queue: str
    destination: str


@dataclass(slots=True)
class RedriveFates:
    graves: Mapping[str, str]
    """The dead-letter queue of each queue that has one."""
    going_on: dict[str, Lead] = field(default_factory=dict)
    """By id, those that were begun, or seen to go on."""
    done: dict[str, Lead] = field(default_factory=dict)
    """Those that have ended since the last but one look, or with `several` since the last power cut: it
    may not have been durable."""
    several: bool = False
    """Whether several engines are at work, each of which makes durable what it has promised."""
    answered: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    """Answered to be so."""
    deaths: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By message, the queue in which it was, and of how many deaths its history told."""
    is_mixed: bool = False
    """Whether a dead-letter queue was ever a destination: what came there so has no history."""
    born: dict[str, str] = field(default_factory=dict)
    """By message, the queue in which it was seen first."""

    def copy(self) -> RedriveFates:
        return replace(
            self,
            going_on=dict(self.going_on),
            done=dict(self.done),
            answered=set(self.answered),
            cancelled=set(self.cancelled),
            deaths=dict(self.deaths),
            born=dict(self.born),
        )

    def leads(self) -> list[Lead]:
        """Where messages may be moved."""
        return [*self.going_on.values(), *self.done.values()]

    # What is answered.

    def began(self, id: str, lead: Lead) -> None:
        self.going_on[id] = lead
        self.answered.add(id)

    def ended(self, id: str, state: RedriveState) -> None:
        self.going_on.pop(id, None)
        if state is RedriveState.CANCELLED:
            self.done.pop(id, None)
            self.cancelled.add(id)

    # What is found.

    def look(
        self, power: PowerDisk, found: Mapping[str, Found], *, crashed: bool, has_failed: bool
    ) -> None:
        """Hold what is there against what was promised, and take it as it is.

        `crashed` after a power cut, or a start of one that was alone. Where a disk ever `has_failed`, a
        history may be lost, and never a message.
        """
        ways = [lead for _, lead in redrives_on(power).values()]
        self.is_mixed |= any(lead.destination in self.graves.values() for lead in ways)
        try:
            self.judge(power)
            if not has_failed:
                self.judge_histories(power, found, crashed=crashed)
        except AssertionError as error:
            raise Broken(Kind.OTHER, str(error)) from error
        if crashed:
            self.done = {}
        self.accept(power)

    def judge(self, power: PowerDisk) -> None:
        """Raise `AssertionError` if the folder isn't as it was promised to be."""
        states = {id: state for id, (state, _) in redrives_on(power).items()}
        for id in self.answered:
            assert id in states, f"the redrive {id} was begun, and is forgotten"
        for id in self.cancelled:
            assert states[id] is RedriveState.CANCELLED, f"{id} was cancelled, and is {states[id]}"

    def accept(self, power: PowerDisk) -> None:
        found = redrives_on(power)
        now = {id: lead for id, (state, lead) in found.items() if state is RedriveState.RUNNING}
        ended = {id: lead for id, lead in self.going_on.items() if id not in now}
        self.done = {**self.done, **ended} if self.several else ended
        self.done = {id: lead for id, lead in self.done.items() if id not in self.cancelled}
        self.going_on = now

    def judge_histories(self, power: PowerDisk, found: Mapping[str, Found], *, crashed: bool) -> None:
        """Raise `AssertionError` if a message has lost a part of its history."""
        graves, dead = self.graves, set(self.graves.values())
        if crashed and self.several:
            # A power cut may undo more than one step of what was not promised.
            self.deaths = {}
        for id, each in found.items():
            if self.born.setdefault(id, each.name.queue) in graves and each.name.queue in dead:
                told = deaths_told(power, each.name.queue, id)
                assert told or self.is_mixed, f"{id} is a dead letter without a history"
        now: dict[str, tuple[str, int]] = {}
        for id, each in found.items():
            queue, before = each.name.queue, self.deaths.get(id)
            told = deaths_told(power, queue, id)
            # Of a death that a power cut has undone it may be told, too, until it dies again.
            is_doubtful = crashed and self.several and queue not in dead
            now[id] = queue, max(0, told - is_doubtful)
            if before is not None:
                was_in, least = before
                if was_in == queue and queue not in dead:
                    now[id] = queue, min(told, least)
                if queue in dead and was_in in graves and not crashed and not self.is_mixed:
                    least += 1
                if crashed and was_in in dead and queue not in dead:
                    least -= 1  # It had just died, and that wasn't durable.
                assert told >= least, (
                    f"{id} in {queue} tells of {told} deaths, and told of {before[1]} in {was_in}"
                )
        self.deaths = now


def deaths_told(power: PowerDisk, queue: str, id: str) -> int:
    try:
        return len(json.loads(power.read(layout.history(queue, id))))
    except FileNotFoundError:
        return 0


def redrives_on(power: PowerDisk) -> dict[str, tuple[RedriveState, Lead]]:
    found: dict[str, tuple[RedriveState, Lead]] = {}
    for each in power.scan(layout.REDRIVES):
        name = parse_redrive(each.name)
        try:
            order = decode(power.read(f"{layout.REDRIVES}/{each.name}"))
        except NotWhole:
            continue  # Whoever wrote it has died over it.
        assert name.id not in found, f"the redrive {name.id} has two names"
        found[name.id] = name.state, Lead(order.queue, order.destination)
    return found

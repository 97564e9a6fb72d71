"""Senders and consumers of all manners at one queue, any of which is killed or stopped on the way.

One that was killed is replaced by another in the same role. A sender's successor has a name of its own:
the outcome of the killed one's call in flight is unknown, and the same copy must not be sent again.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

import spoolrack

from tests.support.delivery_checker import Verdict, judge
from tests.support.ledger import read_ledgers
from tests.support.run_processes import SILENCE, Crew, Member, Served

VISIBILITY: Final = 2.0
QUEUE: Final = "load"
MISCHIEF: Final = 0.02
LOOK: Final = 0.2
"""Seconds between two looks at a queue that is being emptied."""


@dataclass(slots=True)
class Role:
    """The work of one process after the other."""

    name: str
    program: str
    arguments: Sequence[object]
    generation: int = 0
    member: Member = field(init=False)


class Load:
    """All that is done to one queue, and what came of it."""

    def __init__(
        self,
        crew: Crew,
        served: Served,
        random: Random,
        *,
        visibility: float = VISIBILITY,
        in_sets: bool = False,
    ) -> None:
        """With `in_sets` also sends that are deduplicated, publications and reservations."""
        self._crew = crew
        self._random = random
        self._where = (served.address, QUEUE, crew.ledgers)
        self.client = spoolrack.connect(served.address, timeout=SILENCE)
        self.client.create_queue(QUEUE, visibility_timeout=visibility)
        self.senders = [
            Role(name, "tests.e2e.sender", ("--threads", threads))
            for name, threads in (("many", 1), ("single", 6))
        ]
        self.consumers = [
            Role(manner, "tests.e2e.consumer", ("--manner", manner, "--mischief", MISCHIEF))
            for manner in ("batches", "contexts", "calls")
        ]
        if in_sets:
            self.senders += [
                Role("once", "tests.e2e.sender", ("--once",)),
                Role("staged", "tests.e2e.stager", ()),
            ]
            self.consumers.append(Role("reserved", "tests.e2e.reserver", ()))
        for role in (*self.senders, *self.consumers):
            self._start(role)

    def add_sender(self, name: str, *arguments: object) -> None:
        role = Role(name, "tests.e2e.sender", arguments)
        self.senders.append(role)
        self._start(role)

    def _start(self, role: Role) -> None:
        role.generation += 1
        name = f"{role.name}-{role.generation}"
        seed = self._random.randrange(1 << 32)
        role.member = self._crew.start(
            name, role.program, *self._where, name, "--seed", seed, *role.arguments
        )

    def replace(self, role: Role) -> None:
        """SIGKILL, and another one in its place; returns at once."""
        assert self._crew.bury(role.member) == -signal.SIGKILL, role.member.last_words
        self._start(role)

    def stop_consuming(self) -> None:
        """SIGKILL for all consumers."""
        for role in self.consumers:
            self._crew.bury(role.member)

    def begin_consuming(self) -> None:
        """Other consumers in the place of those that were killed."""
        for role in self.consumers:
            self._start(role)

    def advance(self, least: float, most: float) -> None:
        """Let all go on until something was sent and deleted, and then up to a random moment."""
        missing = {"sent", "deleted"}
        for told in self._crew.told():
            missing -= {(told.line or "").split(" ")[0]}
            if not missing:
                break
        for _ in self._crew.told(time.monotonic() + self._random.uniform(least, most)):
            pass

    def stop_sending(self) -> None:
        """Let the senders finish what they have begun; return once they have ended."""
        members = [role.member for role in self.senders]
        for member in members:
            assert member.has_spoken.wait(SILENCE), f"{member} has never begun"
            member.process.terminate()
        for member in members:
            assert member.process.wait(SILENCE) == 0, member.last_words

    def finish(self) -> Verdict:
        """Send no more, receive what is there, and judge."""
        self.stop_sending()
        heard = time.monotonic()
        while True:
            for _ in self._crew.told(time.monotonic() + LOOK):
                heard = time.monotonic()
            if self._is_empty():
                break
            assert time.monotonic() < heard + SILENCE, (
                f"{self.client.queue(QUEUE).info().counts} are left"
            )
        return self.judge()

    def judge(self) -> Verdict:
        """End all processes, and say what became of every message."""
        left = [message.id for message in self.client.queue(QUEUE).peek()]
        self.client.close()
        self._crew.end()
        return judge(read_ledgers(self._crew.ledgers), left=left)

    def _is_empty(self) -> bool:
        counts = self.client.queue(QUEUE).info().counts
        return counts.ready_count + counts.leased_count + counts.delayed_count == 0


def check(verdict: Verdict) -> None:
    print(verdict)
    assert not verdict.faults, str(verdict)
    assert verdict.delivered

"""Senders and consumers of all manners at one queue or several. Any of them is killed or stopped.

One that was killed is replaced by another in the same role. A sender's successor has a name of its own:
the outcome of the killed one's call in flight is unknown, and the same copy must not be sent again.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from random import Random
from typing import Final, Protocol

import spoolrack
from spoolrack import QueueCounts

from tests.support.delivery_checker import Verdict, judge
from tests.support.ledger import read_ledgers
from tests.support.run_processes import SILENCE, Crew, Member

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
    queue: str = QUEUE
    generation: int = 0
    member: Member = field(init=False)


class Addressed(Protocol):
    """What a client connects to."""

    @property
    def address(self) -> str: ...


class Load:
    """All that is done to one queue or several, and what came of it."""

    def __init__(
        self,
        crew: Crew,
        served: Addressed,
        random: Random,
        *,
        visibility: float = VISIBILITY,
        in_sets: bool = False,
        queues: Sequence[str] = (QUEUE,),
    ) -> None:
        """With `in_sets` also sends that are deduplicated, publications and reservations. Of several
        queues, no more than three, each has a sender and a consumer at least, by chance."""
        self._crew = crew
        self._random = random
        self._address = served.address
        self._queues = queues
        self.client = spoolrack.connect(served.address, timeout=SILENCE)
        for queue in queues:
            self.client.create_queue(queue, visibility_timeout=visibility)
        self.senders = [
            Role(name, "tests.proof.e2e.sender", ("--threads", threads))
            for name, threads in (("many", 1), ("single", 6))
        ]
        self.consumers = [
            Role(manner, "tests.proof.e2e.consumer", ("--manner", manner, "--mischief", MISCHIEF))
            for manner in ("batches", "contexts", "calls")
        ]
        if in_sets:
            self.senders += [
                Role("once", "tests.proof.e2e.sender", ("--once",)),
                Role("staged", "tests.proof.e2e.stager", ()),
            ]
            self.consumers.append(Role("reserved", "tests.proof.e2e.reserver", ()))
        for roles in (self.senders, self.consumers):
            for role, queue in zip(random.sample(roles, len(roles)), cycle(queues), strict=False):
                role.queue = queue
        for role in (*self.senders, *self.consumers):
            self._start(role)

    def add_sender(self, name: str, *arguments: object) -> None:
        role = Role(name, "tests.proof.e2e.sender", arguments)
        self.senders.append(role)
        self._start(role)

    def _start(self, role: Role) -> None:
        role.generation += 1
        name = f"{role.name}-{role.generation}"
        seed = self._random.randrange(1 << 32)
        where = (self._address, role.queue, self._crew.ledgers)
        role.member = self._crew.start(
            name, role.program, *where, name, "--seed", seed, *role.arguments
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
        self.go_on(())
        for _ in self._crew.told(time.monotonic() + self._random.uniform(least, most)):
            pass

    def go_on(self, queues: Iterable[str]) -> None:
        """Return once something was sent to each of these queues and deleted from it; without any, to
        one and from one."""
        missing = {(word, queue) for word in ("sent", "deleted") for queue in [*queues] or [""]}
        every = (*self.senders, *self.consumers)
        for told in self._crew.told(time.monotonic() + SILENCE):
            word = (told.line or "").split(" ")[0]
            of = {role.queue for role in every if role.member is told.member}
            missing -= {(word, queue) for queue in (*of, "")}
            if not missing:
                return
        raise AssertionError(f"for {SILENCE:.0f} s there was none of {sorted(missing)}")

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
            assert time.monotonic() < heard + SILENCE, f"{self._counts()} are left"
        return self.judge()

    def judge(self) -> Verdict:
        """End all processes, and say what became of every message."""
        left = [message.id for queue in self._queues for message in self.client.queue(queue).peek()]
        self.client.close()
        self._crew.end()
        return judge(read_ledgers(self._crew.ledgers), left=left)

    def _is_empty(self) -> bool:
        return not any(
            counts.ready_count + counts.leased_count + counts.delayed_count for counts in self._counts()
        )

    def _counts(self) -> list[QueueCounts]:
        return [self.client.queue(queue).info().counts for queue in self._queues]


def check(verdict: Verdict) -> None:
    print(verdict)
    assert not verdict.faults, str(verdict)
    assert verdict.delivered

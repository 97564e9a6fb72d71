"""Dead letters of two queues, of which each is known: where it came from, and what is in it.

`check` counts every one of them: it must be there once, in the one place where it belongs, unless its
deletion was answered; then it must not be there at all.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

import spoolrack
from spoolrack import ById, Client, Redrive, RedriveState
from spoolrack.errors import MessageNotFound

SOURCES: Final = ("jobs", "mail")
DEAD: Final = "dead"
LOOKS: Final = 60_000
_PAUSE: Final = threading.Event()
_MANY: Final = 1_000


@dataclass(kw_only=True)
class Letter:
    source: str
    body: bytes


@dataclass(kw_only=True)
class DeadLetters:
    """The messages put into "dead", and those deleted since."""

    client: Client
    random: Random
    letters: dict[str, Letter] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)

    def die(self, count: int) -> None:
        """Send so many messages, and release each until it is a dead letter."""
        self.client.create_queue(DEAD)
        for at, source in enumerate(SOURCES):
            self.client.create_queue(source, max_receives=1, dead_letter_queue=DEAD)
            queue = self.client.queue(source)
            share = count // 2 + (count % 2 if at == 0 else 0)
            bodies = [self.random.randbytes(self.random.choice((0, 10, 1_000))) for _ in range(share)]
            for result, body in zip(queue.send_many(bodies), bodies, strict=True):
                assert result.id is not None, result.error
                self.letters[result.id] = Letter(source=source, body=body)
            for _ in range(share):
                held = queue.receive(_MANY)
                if not held:
                    break
                assert all(result.ok for result in queue.release_many(held))
            self.until_dead(sum(letter.source in SOURCES[: at + 1] for letter in self.letters.values()))

    def until_dead(self, count: int) -> None:
        for _ in range(LOOKS):
            if self.client.queue(DEAD).info().counts.ready_count == count:
                return
            _PAUSE.wait(0.002)
        raise AssertionError(f"only {self.client.queue(DEAD).info().counts} have died, not {count}")

    def delete_some(self, count: int) -> None:
        """Delete dead letters wherever they are. One that moves meanwhile may be found in no place."""
        left = sorted(self.letters.keys() - self.deleted)
        for id in self.random.sample(left, min(count, len(left))):
            for queue in (DEAD, self.letters[id].source):
                (result,) = self.client.queue(queue).delete_many([ById(id)])
                if result.ok:
                    self.deleted.add(id)
                    break
                assert isinstance(result.error, MessageNotFound), result.error

    def until_moved(self, redrive: Redrive, least: int) -> Redrive:
        """Return the redrive once it tells of so many, or has ended."""
        for _ in range(LOOKS):
            found = self.client.redrives.get(redrive.id)
            if found.moved_count >= least or found.state is not RedriveState.RUNNING:
                return found
            _PAUSE.wait(0.002)
        raise AssertionError(f"it doesn't go on: {found}")

    def until_ended(self, redrive: Redrive) -> Redrive:
        for _ in range(LOOKS):
            found = self.client.redrives.get(redrive.id)
            if found.state is not RedriveState.RUNNING:
                return found
            _PAUSE.wait(0.002)
        raise AssertionError(f"it doesn't end: {found}")

    def check(self, *, all_back: bool) -> None:
        """Count all; with `all_back`, none may be a dead letter any more."""
        seen: Counter[str] = Counter()
        faults: list[str] = []
        for queue in (DEAD, *SOURCES):
            there = list(self.client.queue(queue).peek())
            told = self.client.queue(queue).info().counts
            if (told.ready_count, told.leased_count, told.delayed_count) != (len(there), 0, 0):
                faults.append(f"{queue} has {len(there)} messages, and tells of {told}")
            for message in there:
                seen[message.id] += 1
                letter = self.letters.get(message.id)
                if letter is None:
                    faults.append(f"{message.id} in {queue} was never sent")
                    continue
                if queue == DEAD and all_back:
                    faults.append(f"{message.id} has stayed a dead letter")
                if queue not in (DEAD, letter.source):
                    faults.append(f"{message.id} of {letter.source} is in {queue}")
                if message.body != letter.body:
                    faults.append(f"{message.id} has another body")
                if [death.source_queue for death in message.dead_letter_records] != [letter.source]:
                    faults.append(f"{message.id} in {queue} tells of {message.dead_letter_records}")
        for id in self.letters:
            wanted = 0 if id in self.deleted else 1
            if seen[id] != wanted:
                faults.append(f"{id} is there {seen[id]} times, not {wanted}")
        assert not faults, "\n".join(faults[:50])

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


def letters_at(address: str, random: Random) -> DeadLetters:
    """For a server that is killed now and then: its client goes on as long as it takes."""
    return DeadLetters(client=spoolrack.connect(address, timeout=120), random=random)

"""The short way of a lone request gives the answers, names and counts of the general way."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest
from spoolrack_store.credits import Credits
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Delivery,
    LastReceive,
    Purge,
    Receive,
    RejectMessages,
    ReleaseMessages,
    Send,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.redrive_requests import StartRedrive
from spoolrack_store.model.reservation_requests import CommitReservations, Release, Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.stage_requests import Publish, Stage

from tests.support.engine_rig import EngineRig
from tests.support.engine_story import StillClock

STEPS = 120
QUEUES: Final = {
    "plain": QueueSettings(visibility_timeout=Millis(2_000)),
    "relaxed": QueueSettings(lease_durability="relaxed", visibility_timeout=Millis(2_000)),
    "dies": QueueSettings(max_receives=2, dead_letter_queue="dead", visibility_timeout=Millis(2_000)),
    "late": QueueSettings(
        max_receives=1,
        dead_letter_queue="dead",
        dead_letter_at="receive",
        backoff_initial=Millis(0),
        visibility_timeout=Millis(1_000),
    ),
    "dead": QueueSettings(),
    "short": QueueSettings(retention=Millis(2_500), visibility_timeout=Millis(1_000)),
    "full": QueueSettings(max_messages=4),
    "strict": QueueSettings(group_order="strict", visibility_timeout=Millis(2_000)),
    "later": QueueSettings(delivery_delay=Millis(1_500)),
    "shut": QueueSettings(sending="paused"),
    "kept": QueueSettings(receiving="paused"),
    "bytes": QueueSettings(max_bytes=30),
    "small": QueueSettings(max_message_size=8, messages_per_file=2),
}
EXPIRING: Final = {"idle": QueueSettings(expires=Millis(4_000), visibility_timeout=Millis(1_000))}


class Rig(EngineRig):
    """A root whose processes take the short way, or never do."""

    def __init__(self, queues: dict[str, QueueSettings], *, is_short: bool) -> None:
        self.is_short = is_short
        self.taken = Counter[str]()
        """Requests that took it, by their kinds."""
        self.credits = {
            "few": Credits(3, lambda: None, 40),
            "ahead": Credits(4, lambda: None, concurrency=2),
        }
        super().__init__(queues, clock=StillClock())

    def join(self) -> Engine:
        engine = super().join()
        if not self.is_short:
            engine.short_way = None
            return engine
        assert engine.short_way is not None
        apply = engine.short_way.apply

        def counted(asked: Any) -> Any:
            outcome = apply(asked)
            if outcome is not None:
                self.taken[type(asked).__name__] += 1
            return outcome

        engine.short_way.apply = counted  # type: ignore[method-assign]
        return engine

    def take_over(self) -> None:
        """End the process without a word, and start another one."""
        self.living.clear()
        self.disk.free_locks()
        self.engine = self.join()

    def state(self) -> Any:
        """Return all names without their versions, and the counts."""
        folders = [
            "new",
            "delay",
            "remove",
            "quarantine",
            *(f"queues/{name}" for name in self._there()),
        ]
        names = {
            folder: sorted(re.sub(r",v\d+", "", name) for name in self.names(folder))
            for folder in folders
        }
        index, statistics = self.engine.index, self.engine.moves.statistics
        return names, dict(sorted(index.metrics.items())), statistics.messages, self.spent()

    def _there(self) -> list[str]:
        return [each.name for each in self.disk.scan("queues")]

    def spent(self) -> Any:
        return [
            (each.in_flight, each.bytes_in_flight, each.delivered) for each in self.credits.values()
        ]


class Pair:
    """Two roots to which the same happens: one takes the short way where it can, one never does."""

    def __init__(self, queues: dict[str, QueueSettings] = QUEUES) -> None:
        self.short, self.general = Rig(queues, is_short=True), Rig(queues, is_short=False)
        self.rigs = self.short, self.general

    def ask(self, request: Any, credits: str = "") -> Any:
        """Return the answer that both give."""
        answers = []
        for rig in self.rigs:
            asked = replace(request, credits=rig.credits[credits]) if credits else replace(request)
            answers.append(rig.commit(asked))
        (mine,), (other,) = answers
        assert repr(mine) == repr(other)
        assert self.short.spent() == self.general.spent()
        return mine

    def settle(self) -> None:
        for rig in self.rigs:
            rig.settle()
        assert self.short.state() == self.general.state()

    def take_over(self) -> None:
        for rig in self.rigs:
            rig.take_over()

    def advance(self, millis: int) -> None:
        for rig in self.rigs:
            rig.clock.now += millis


class Story:
    """What a seed draws, and how both roots answer."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.often = [*QUEUES, *EXPIRING][seed % (len(QUEUES) + len(EXPIRING))]
        self.queues = QUEUES | (EXPIRING if self.often in EXPIRING else {})
        self.is_mixed = seed % 8 >= 4
        self.pair = Pair(self.queues)
        # No deduplication ids: when the first file with one is unlinked, theirs takes an id.
        self.held: dict[str, list[Any]] = {name: [] for name in self.queues}
        """Messages that were delivered."""
        self.sets = 0

    def run(self) -> None:
        for _ in range(STEPS):
            queue = self.often if self.random.random() < 0.8 else self.random.choice([*self.queues])
            if self.is_mixed and self.random.random() < 0.1:
                self._other(queue)
                if self.random.random() < 0.7:
                    self._receive(Receive(queue=queue, max_messages=self.random.choice((1, 1, 3))))
            else:
                self._plain(queue)
            chance = self.random.random()
            if chance < 0.1:
                self.pair.advance(self.random.choice((1, 400, 3_000)))
            elif chance < 0.17:
                self.pair.settle()
            elif chance < 0.18:
                self.pair.settle()  # Two ways leave different parts of a commit to the next process.
                self.pair.take_over()
        self.pair.settle()

    def _plain(self, queue: str) -> None:
        """Ask for something that may be plain."""
        asked, held = self.random.random(), self.held[queue]
        if asked < 0.4:
            self._send(queue)
        elif asked < 0.7 or not held:
            most = self.random.choice((0, 1, 1, 1, 1, 3, 10))
            size = self.random.choice((2, 1 << 20, 1 << 20))
            credits = self.random.choice(("", "", "", "few", "ahead"))
            visibility = self.random.choice((None, None, None, Millis(600), Millis(0)))
            self._receive(
                Receive(queue=queue, max_messages=most, max_bytes=size, visibility_timeout=visibility),
                credits,
            )
        elif asked < 0.9:
            self._delete(queue)
        elif asked < 0.94:
            receipts = [each.receipt for each in held[:1]]
            self.pair.ask(ReleaseMessages(queue=queue, receipts=receipts))
        elif asked < 0.98:
            receipts = [each.receipt for each in held[:1]]
            self.pair.ask(
                ChangeVisibility(queue=queue, receipts=receipts, visibility_timeout=Millis(900))
            )
        else:
            self.pair.ask(Purge(queue=queue))

    def _send(self, queue: str) -> None:
        count = self.random.choice((1, 1, 1, 3, 10))
        bodies = [b"x" * self.random.choice((0, 3, 3, 12)) for _ in range(count)]
        first = self.random.choice(("attributes", "groups", "priorities", "delays", "none", "none"))
        value = {
            "attributes": {"a": "b"},
            "groups": "g",
            "priorities": 3,
            "delays": Millis(700),
        }
        more: Any = {first: {0: value[first]}} if self.is_mixed and first != "none" else {}
        self.pair.ask(Send(queue=queue, bodies=bodies, **more))

    def _receive(self, request: Receive, credits: str = "") -> None:
        got = self.pair.ask(request, credits)
        if isinstance(got, list) and got and isinstance(got[0], Delivery):
            self.held[request.queue] += messages_of(got)

    def _delete(self, queue: str) -> None:
        held = self.held[queue]
        count = self.random.choice((1, 1, len(held)))
        some = [held.pop(self.random.randrange(len(held))) for _ in range(count)]
        again = [self.random.choice(some)] if self.random.random() < 0.1 else []
        ids = [self.random.choice(some).id] if self.random.random() < 0.1 else []
        last = {0: LastReceive(some[0].receive_count, some[0].first_received_at or Millis(0))}
        self.pair.ask(
            Delete(
                queue=queue,
                receipts=[each.receipt for each in (*some, *again)],
                ids=ids,
                last_receives=last if self.random.random() < 0.1 else {},
            )
        )

    def _other(self, queue: str) -> None:
        """Ask for what the general way alone does, and what other requests find then."""
        ask, kind = self.pair.ask, self.random.randrange(8)
        self.sets += 1
        if kind == 0:
            ask(
                Stage(
                    stage=f"s{self.sets}",
                    chunk_number=0,
                    queue=queue,
                    bodies=[b"s"] * self.random.choice((1, 3)),
                )
            )
            ask(Publish(writer="", epoch=0, stages=[f"s{self.sets}"]))
        elif kind in (1, 2):
            ask(Reserve(queue=queue, stream="a", sequence_number=self.sets, max_messages=2))
            if kind == 1:
                ask(CommitReservations(stream="a", last_sequence_number=self.sets))
            else:
                ask(Release(stream="a", sequence_number=self.sets))
        elif kind == 3:
            ask(StartRedrive(queue="dead"))
        elif kind == 4:
            held = self.held[queue]
            ask(RejectMessages(queue=queue, receipts=[each.receipt for each in held[:1]]))
        elif kind == 5:
            ask(DeleteQueue(name=queue))
        elif kind == 6:
            ask(CreateQueue(name=queue, settings=self.queues[queue]))
        else:
            ask(UpdateQueue(name=queue, changes={"sending": self.random.choice(("paused", "open"))}))


@pytest.mark.parametrize("seed", range(4 * (len(QUEUES) + len(EXPIRING))))
def test_both_ways_give_the_same_answers_names_and_counts(seed: int) -> None:
    Story(seed).run()


def test_the_stories_take_the_short_way() -> None:
    taken = Counter[str]()
    for seed in range(8):
        story = Story(seed)
        story.run()
        taken.update(story.pair.short.taken)
    assert min(taken[kind.__name__] for kind in (Send, Receive, Delete)) > 2, taken

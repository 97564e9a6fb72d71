"""The short way of a lone request gives the answers, names and counts of the general way."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    ChangeVisibility,
    Delete,
    Delivery,
    Purge,
    Receive,
    ReleaseMessages,
    Send,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support.engine_rig import EngineRig
from tests.support.engine_story import StillClock

STEPS = 120
QUEUES = {
    "plain": QueueSettings(visibility_timeout=Millis(2_000)),
    "relaxed": QueueSettings(lease_durability="relaxed", visibility_timeout=Millis(2_000)),
    "dies": QueueSettings(max_receives=2, dead_letter_queue="dead", visibility_timeout=Millis(2_000)),
    "dead": QueueSettings(),
    "short": QueueSettings(retention=Millis(5_000), visibility_timeout=Millis(1_000)),
    "full": QueueSettings(max_messages=4),
    "strict": QueueSettings(group_order="strict", visibility_timeout=Millis(2_000)),
    "later": QueueSettings(delivery_delay=Millis(1_500)),
    "shut": QueueSettings(sending="paused"),
    "kept": QueueSettings(receiving="paused"),
    "bytes": QueueSettings(max_bytes=30),
    "small": QueueSettings(max_message_size=8, messages_per_file=3),
}


class Pair:
    """Two roots to which the same happens: one takes the short way where it can, one never does."""

    def __init__(self) -> None:
        self.rigs = [EngineRig(QUEUES, clock=StillClock()) for _ in range(2)]
        self.short, self.general = self.rigs
        self.general.engine.short_way = None
        self.taken = 0

    def ask(self, request: Any) -> Any:
        """Return the answer that both give."""
        before = self.short.engine.moves.commit
        way = self.short.engine.short_way
        assert way is not None
        taken: list[bool] = []
        apply = way.apply

        def noted(asked: Any) -> Any:
            outcome = apply(asked)
            taken.append(outcome is not None)
            return outcome

        way.apply = noted  # type: ignore[method-assign]
        mine, other = (rig.commit(request) for rig in self.rigs)
        del way.apply  # type: ignore[method-assign]
        assert before <= self.short.engine.moves.commit
        self.taken += any(taken)
        assert repr(mine) == repr(other)
        return mine[0]

    def settle(self) -> None:
        for rig in self.rigs:
            rig.settle()
        mine, other = map(_state, self.rigs)
        assert mine == other


def _state(rig: EngineRig) -> Any:
    """Return all names without their versions, and the counts."""
    folders = ["new", "delay", "remove", "quarantine", *(f"queues/{name}" for name in QUEUES)]
    names = {
        folder: sorted(re.sub(r",v\d+", "", name) for name in rig.names(folder)) for folder in folders
    }
    index = rig.engine.index
    return names, dict(sorted(index.published.items())), rig.engine.moves.statistics.messages


def _drawn(random: Random, queue: str, known: list[str], is_mixed: bool) -> Any:
    """Return a request for a queue; it takes the receipts of a delete out of those `known`."""
    asked = random.random()
    if asked < 0.4:
        bodies = [b"x" * random.choice((0, 3, 12)) for _ in range(random.choice((1, 1, 1, 3, 10)))]
        first = random.choice(("attributes", "groups", "priorities", "delays", "none", "none"))
        value = {"attributes": {"a": "b"}, "groups": "g", "priorities": 3, "delays": Millis(700)}
        more: Any = {first: {0: value[first]}} if is_mixed and first != "none" else {}
        return Send(queue=queue, bodies=bodies, **more)
    if asked < 0.7 or not known:
        most = random.choice((0, 1, 1, 1, 1, 3, 10))
        size = random.choice((2, 1 << 20, 1 << 20))
        return Receive(queue=queue, max_messages=most, max_bytes=size)
    if asked < 0.9:
        count = random.choice((1, 1, len(known)))
        some = [known.pop(random.randrange(len(known))) for _ in range(count)]
        again = [random.choice(some)] if random.random() < 0.1 else []
        return Delete(queue=queue, receipts=[*some, *again])
    if asked < 0.94:
        return ReleaseMessages(queue=queue, receipts=known[:1])
    if asked < 0.98:
        return ChangeVisibility(queue=queue, receipts=known[:1], visibility=Millis(900))
    return Purge(queue=queue)


@pytest.mark.parametrize("seed", range(4 * len(QUEUES)))
def test_both_ways_give_the_same_answers_names_and_counts(seed: int) -> None:
    pair, random = Pair(), Random(seed)
    often = [*QUEUES][seed % len(QUEUES)]
    receipts: dict[str, list[str]] = {name: [] for name in QUEUES}
    for _ in range(STEPS):
        queue = often if random.random() < 0.8 else random.choice([*QUEUES])
        got = pair.ask(_drawn(random, queue, receipts[queue], is_mixed=seed % 8 >= 4))
        if isinstance(got, list) and got and isinstance(got[0], Delivery):
            receipts[queue] += [each.receipt or "" for each in messages_of(got)]
        chance = random.random()
        if chance < 0.1:
            passed = random.choice((1, 400, 3_000))
            for rig in pair.rigs:
                rig.clock.now += passed
        elif chance < 0.2:
            pair.settle()
    pair.settle()
    assert pair.taken

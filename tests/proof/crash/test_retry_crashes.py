"""Releases, rejections and back-offs keep their promises through power cuts and deaths, and planted
bugs are found."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import pytest
from spoolrack_store.engine.dead_letters import DeadLetters
from spoolrack_store.engine.engine import Engine
from spoolrack_store.engine.leaser import Leaser
from spoolrack_store.engine.moves import Moves
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import NoDeadLetterQueue
from spoolrack_store.model.operations import Delivery, Receive, RejectMessages, ReleaseMessages, Request
from spoolrack_store.model.settings import QueueSettings

from tests.proof.crash.stories import Bug, Run, expect_broken, runs
from tests.support.engine_story import DEAD, DELAY, Broken, Seen, Story, id_of
from tests.support.power_disk import Model

WITHOUT_JITTER = QueueSettings(
    max_receives=3,
    dead_letter_queue=DEAD,
    backoff_at="lease_end",
    backoff_initial=Millis(900),
    backoff_factor=3,
    backoff_maximum=Millis(6_000),
    backoff_jitter=0,
)
ONE_BY_ONE = QueueSettings(
    messages_per_file=1,
    backoff_at="lease_end",
    backoff_initial=Millis(2_000),
    backoff_maximum=Millis(9_000),
)
"""With a jitter of its own for each message, as each has a name of its own."""


class RetryStory(Story):
    settings: ClassVar = {"q": ONE_BY_ONE, "r": WITHOUT_JITTER, DEAD: QueueSettings(backoff_jitter=0)}

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        self.reasons: dict[str, set[str]] = {}
        """Of each message what was given as the reason of a rejection or a release."""
        self.asked = 0
        self.hidden = self.rejected = self.told_why = 0
        """Releases with delays, rejections, and dead letters that were received with a reason."""
        super().__init__(seed, model, **rest)

    def _request(self) -> Request[Any]:
        request = super()._request()
        if self.random.random() < 0.7:
            return request
        queue = self.random.choice(("q", "r", "r", "r", DEAD))
        held = [receipt for id, receipt in self.receipts.items() if self.queue_of[id] == queue]
        if not held:
            return Receive(queue=queue, max_messages=5)
        receipts = self.random.sample(held, min(len(held), self.random.randint(1, 3)))
        self.asked += 1
        reason = self.random.choice(("", f"reason {self.asked}"))
        for receipt in receipts:
            self.reasons.setdefault(id_of(receipt), set()).add(reason)
        if self.random.random() < 0.3:
            return RejectMessages(queue=queue, receipts=receipts, reason=reason)
        return ReleaseMessages(
            queue=queue,
            receipts=receipts,
            delay=self.random.choice((None, None, Millis(0), DELAY)),
            reason=reason,
            uncounted=self.random.random() < 0.2,
        )

    # Promises.

    def _given_up(self, request: ReleaseMessages | RejectMessages, outcome: object) -> None:
        if isinstance(outcome, NoDeadLetterQueue) and not self.settings[request.queue].max_receives:
            return
        assert isinstance(outcome, list), outcome
        for receipt, result in zip(request.receipts, outcome, strict=True):
            id = id_of(receipt)
            now = self.now(id)
            if result is not None and not isinstance(result, int):
                if now[0] == "leased":
                    raise Broken(f"{id} was not given up: {result!r}")
                continue
            if isinstance(request, RejectMessages):
                self.rejected += 1
                self._become(id, ("rejected", now[1]))
            else:
                after = self._released(id, now, request)
                self.hidden += after[0] == "delayed"
                if after[0] == "delayed" and result != after[2]:
                    raise Broken(f"{id} is {after}, answered {result}")
                self._become(id, after)
            self.receipts.pop(id, None)

    def _look_for_dead_letters(self, engine: Engine) -> None:
        super()._look_for_dead_letters(engine)
        late = [id for id in self.may if self.now(id)[0] == "rejected"]
        if late:
            raise Broken(f"{late} were rejected, and are no dead letters with that commit")

    def _released(self, id: str, now: Seen, request: ReleaseMessages) -> Seen:
        """Return what a release makes of a leased message."""
        receives = int(str(now[1]))
        if not request.uncounted and self._back(id, now)[0] == "dying":
            return "rejected" if request.reason else "dying", receives
        delay = request.delay
        if delay is None:
            delay = self.settings[request.queue].backoff(id, receives)
        left = receives - request.uncounted
        return ("delayed", left, self.clock.now + delay) if delay else ("ready", left)

    def _back(self, id: str, state: Seen) -> Seen:
        limit = self.settings[self.queue_of[id]].max_receives
        return ("dying", state[1]) if limit and int(str(state[1])) >= limit else ("ready", state[1])

    def _by_now(self, id: str, state: Seen) -> Seen:
        now = super()._by_now(id, state)
        settings = self.settings[self.queue_of[id]]
        if state[0] != "leased" or now[0] != "ready" or settings.backoff_at != "lease_end":
            return now
        receives = int(str(state[1]))
        until = int(str(state[2])) + settings.backoff(id, receives)
        return ("delayed", receives, until) if until > self.clock.now else now

    def _forgive(self, requests: list[Request[Any]]) -> dict[str, list[Seen]]:
        maybe = super()._forgive(requests)
        for request in requests:
            if not isinstance(request, ReleaseMessages | RejectMessages):
                continue
            for receipt in request.receipts:
                id = id_of(receipt)
                if self.now(id)[0] != "leased":
                    continue
                if isinstance(request, ReleaseMessages):
                    maybe[id].append(self._released(id, self.now(id), request))
                elif self.settings[request.queue].max_receives:
                    maybe[id].append(("rejected", self.now(id)[1]))
        return maybe

    def _received(self, engine: Engine, request: Receive, deliveries: list[Delivery]) -> None:
        super()._received(engine, request, deliveries)
        for delivery in deliveries:
            for id in delivery.ids if delivery.dead_letter_records else ():
                death = delivery.dead_letter_records[-1]
                if death.explanation and death.explanation not in self.reasons.get(id, ()):
                    raise Broken(f"{id} died for {death.explanation!r}, told {self.reasons.get(id)}")
                if death.reason == "rejected" and death.explanation not in self.reasons.get(id, ()):
                    raise Broken(f"{id} was rejected without a request")
                self.told_why += bool(death.explanation)


@runs((1, True), (1, False), (3, True))
def test_released_and_rejected_messages_stay_as_answered_through_crashes(run: Run) -> None:
    told = run.tell(RetryStory, 10)
    assert told.least("hidden", "rejected", "crashes") > told["stories"]
    assert told["told_why"]


_bury = DeadLetters.bury
_postpone = Leaser._postpone

PLANTED: Final[dict[str, Bug]] = {
    "a back-off counts from when the first process sees that the lease is over": Bug(
        Leaser,
        "_postpone",
        lambda self, entry, members, until, receives: _postpone(
            self, entry, members, (until[0] + 1, until[1] + 1), receives
        ),
    ),
    "a name refers to a dead-letter file before its content is durable": Bug(
        Moves, "sync_now", lambda self, _, folders: list(map(self.disk.sync_folder, folders))
    ),
    "a rejection is answered, and its message left to the end of its lease": Bug(
        DeadLetters,
        "bury",
        lambda self, wanted, **how: [None for _ in wanted] if how else _bury(self, wanted, **how),
    ),
    "a receive that was released as uncounted is counted": Bug(
        Leaser,
        "_postpone",
        lambda self, entry, members, until, receives: _postpone(
            self, entry, members, until, entry.name.receives
        ),
    ),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(monkeypatch, PLANTED[planted], RetryStory)

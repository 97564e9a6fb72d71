"""Plain requests, one a commit, keep their promises by the short way, too."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from spoolrack_store.engine.short_way import ShortWay
from spoolrack_store.model.operations import Delete, Receive, Request, Send

from tests.proof.crash.stories import Run, runs
from tests.support.engine_story import QUEUES, Story


class LoneStory(Story):
    """A request a commit: nearly all are plain ones, about one file."""

    def _requests(self, owner: str) -> list[Request[Any]]:
        if self.random.random() < 0.2:
            return super()._requests(owner)
        queue = self.random.choice(QUEUES)
        match self.random.choice("ssrrrdd"):
            case "s":
                count = self.random.choice((1, 1, 1, 3))
                return [Send(queue=queue, bodies=[self.random.randbytes(9) for _ in range(count)])]
            case "r":
                return [Receive(queue=queue, max_messages=self.random.choice((1, 1, 3)))]
            case _:
                mine = [id for id in self.receipts if self.queue_of[id] == queue]
                if not mine:
                    return []
                one = self.random.choice(mine)
                chosen = [self.receipts[id] for id in mine if id[:-3] == one[:-3]]
                return [Delete(queue=queue, receipts=chosen)]


@runs((1, True), (1, False))
@pytest.mark.parametrize("spares", [False, True], ids=["plain", "spares"])
def test_plain_requests_keep_their_promises_by_the_short_way(
    run: Run, spares: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: Counter[type[Any]] = Counter()
    apply = ShortWay.apply

    def counted(self: ShortWay, request: Any) -> Any:
        outcome = apply(self, request)
        taken[type(request)] += outcome is not None
        return outcome

    monkeypatch.setattr(ShortWay, "apply", counted)
    if spares and not run.can_sync_all:
        return  # Without syncfs(2) none are made.
    told = run.tell(LoneStory, 8, steps=200, cache_bytes=1_000_000, spares=spares)
    assert told["crashes"] > 0
    assert taken[Send] > 5 * told["stories"], taken
    assert taken[Delete] > told["stories"], taken
    assert taken[Receive] > 0, taken

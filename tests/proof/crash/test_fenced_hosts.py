"""A host that is frozen at any call of a commit, is evicted and wakes later, answers nothing that isn't
so at the host that took over, whatever power cut follows."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest
from spoolrack_store.engine.context import MARGIN
from spoolrack_store.engine.engine import Engine, Work
from spoolrack_store.engine.sharing import Sharing
from spoolrack_store.files.disk import SyncFailed
from spoolrack_store.files.syncer import Barrier, Syncer
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import Delete, Receive, Send, messages_of
from spoolrack_store.model.settings import QueueSettings

from tests.proof.crash.test_hosts_crashes import SharedDisk
from tests.support.cuts import Cut, Keep
from tests.support.engine_story import Clock
from tests.support.engines import commit, start
from tests.support.linked_disk import Memory, made
from tests.support.power_disk import Model


class Host:
    """What a host sees of a disk, or of its memory, until it is evicted. Then each call fails, but for
    syncs: with nothing left to write they succeed, as on CephFS."""

    def __init__(self, seen: Any, clients: dict[str, Any]) -> None:
        self._seen = seen
        self._client = clients

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._seen, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            client = self._client
            if client["calls left"] == 0 and not client["is out"]:
                client["is out"] = True
                client["evicted"]()
            if client["is out"]:
                if name.startswith("sync_"):
                    return None
                error = OSError(errno.ESHUTDOWN, os.strerror(errno.ESHUTDOWN), name)
                if isinstance(self._seen, Memory) and name == "read":
                    raise SyncFailed(str(error))
                raise error
            client["calls left"] -= 1
            return found(*arguments, **named)

        return called


class Takeover:
    """Two hosts share a root. The first is evicted at one of the calls of a commit that sends,
    receives and deletes."""

    def __init__(self, calls: int, *, joins_late: bool) -> None:
        """`joins_late`: the other host opens the root as the first one is evicted."""
        self.clock, self.living = Clock(), {"p1", "p2"}
        self.disk = made(["q"], can_sync_all=False, model=Model.ANY_SUBSET, kind=SharedDisk)
        assert isinstance(self.disk, SharedDisk)
        self.client = {"calls left": 1_000_000, "is out": False, "evicted": self._take_over}
        seen, memory = (Host(each, self.client) for each in (self.disk, Memory(self.disk)))
        self.one = self._start("p1", seen, memory)
        self.other = None if joins_late else self._start("p2", self.disk, Memory(self.disk))
        self.delivered: list[bytes] = []
        self.sent: list[str] = []
        self.deleted: list[bytes] = []
        commit(self.one, Send(queue="q", bodies=[b"deleted", b"waiting"]))
        commit(self.one)
        (got,) = commit(self.one, Receive(queue="q", max_messages=1, max_bytes=100))
        (doomed,) = messages_of(got)
        self.client["calls left"] = calls
        requests = [
            Send(queue="q", bodies=[b"sent"]),
            Delete(queue="q", receipts=[str(doomed.receipt)]),
            Receive(queue="q", max_messages=1, max_bytes=100),
        ]
        try:
            work = self.one.apply(requests)
            assert work is not None
            sent, deleted, _ = self._finished(work)
        except (SyncFailed, StoreError):
            pass  # The server stops, or answers with the error.
        else:
            self.sent = [each for each in sent.results if isinstance(each, str)]
            self.deleted = [doomed.body] * (deleted == [None])
        if not self.client["is out"]:
            self._take_over()
        self._cut_power()
        self._receive_rest()

    def _start(self, owner: str, disk: Any, memory: Any) -> Engine:
        return start(
            disk,
            memory,
            clock=self.clock,
            owner=owner,
            random=Random(owner),
            is_living=self.living.__contains__,
            queues={"q": QueueSettings()},
        )

    def _finished(self, work: Work) -> list[Any]:
        if work.barrier is not None:
            work.barrier.sync()
        outcomes = self.one.finish(work)
        assert outcomes is not None
        return outcomes

    def _take_over(self) -> None:
        self.living.discard("p1")
        self.disk.free_locks()
        self.disk.drop_unwritten()
        self.other = self.other or self._start("p2", self.disk, Memory(self.disk))
        commit(self.other, tick=True)
        commit(self.other, tick=True)

    def _cut_power(self) -> None:
        """Leave only what was synced, and start on it."""
        found = self.disk.cut(Cut(Keep.NONE))
        assert isinstance(found, SharedDisk)
        self.living.clear()
        self.other = self._start("p3", found, Memory(found))

    def _receive_rest(self) -> None:
        """Receive all that the first host had leased, once that is over, and all others."""
        self.clock.now += QueueSettings().visibility_timeout + MARGIN + 1
        assert self.other is not None
        for _ in range(4):
            (got,) = commit(self.other, Receive(queue="q", max_messages=10, max_bytes=1_000), tick=True)
            self.delivered += [message.body for message in messages_of(got)]


def every_takeover(check: Callable[[Takeover], None], *, joins_late: bool) -> int:
    """Check a takeover at each call of the commit; return how many there were."""
    calls = 0
    while True:
        story = Takeover(calls, joins_late=joins_late)
        check(story)
        if story.client["calls left"]:
            return calls
        calls += 1


def _keeps_its_answers(story: Takeover) -> None:
    assert not set(story.deleted) & set(story.delivered), "a deleted message is delivered"
    assert not story.sent or b"sent" in story.delivered, "a message that was acknowledged is lost"
    assert b"waiting" in story.delivered
    assert len(story.delivered) == len(set(story.delivered))


@pytest.mark.parametrize("joins_late", [False, True])
def test_a_host_that_wakes_after_its_eviction_has_answered_nothing_that_is_not_so(
    joins_late: bool,
) -> None:
    assert every_takeover(_keeps_its_answers, joins_late=joins_late) > 10


PLANTED: Final = {
    "a sync is believed though the lock may be lost": (Sharing, "_require_held", lambda self: None),
    "no answer waits for a sync": (Syncer, "begin", lambda self: Barrier(self, [], [], False, [])),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_the_story_finds_an_answer_that_is_not_so(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(*PLANTED[planted])
    with pytest.raises(AssertionError):
        every_takeover(_keeps_its_answers, joins_late=True)

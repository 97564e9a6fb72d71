"""Within its window a deduplication id has one message, through power cuts and deaths, alone and beside
other processes; and each condition of that is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

import pytest
from spoolrack_store.engine import deduplication
from spoolrack_store.engine.deduplication import Deduplication
from spoolrack_store.model.batch_file import Line
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.keys import key_of, key_text
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.names import Name
from spoolrack_store.model.operations import Request, Send, SendResults

from tests.proof.crash.stories import ALONE, SHARED, Bug, Run, expect_broken
from tests.support.cuts import Cut
from tests.support.engine_story import ABSENT, GONE, SETTINGS, Broken, Seen, Story
from tests.support.power_disk import Model

IDS: Final = ("a", "b", "c", "d", "e")
WINDOWS: Final = {"q": Millis(20_000), "r": Millis(6_000), "s": Millis(60_000)}


class KeyedStory(Story):
    """A story in which most sends have deduplication ids, of which there are few."""

    settings: ClassVar = {
        queue: replace(each, deduplication_window=WINDOWS[queue]) for queue, each in SETTINGS.items()
    }

    def __init__(self, seed: int, model: Model, **rest: Any) -> None:
        self.keys: dict[str, str] = {}
        """Of each keyed message its key."""
        self.doubtful: set[str] = set()
        """Messages that were deleted before they were durable: a cut took one or both."""
        self.repeated: list[tuple[int, str]] = []
        """Commits that answer with the id of a message that was there."""
        self.repetitions = self.again = 0
        super().__init__(seed, model, **rest)

    def _request(self) -> Request[Any]:
        request = super()._request()
        if isinstance(request, Send) and self.random.random() < 0.8:
            request.deduplication_ids = {
                position: self.random.choice(IDS)
                for position in range(len(request.bodies))
                if self.random.random() < 0.7
            }
        return request

    def _check_keys(self, request: Send, stored: SendResults) -> None:
        since = self.clock.now - WINDOWS[request.queue] + 1
        for position, deduplication_id in request.deduplication_ids.items():
            key = key_text(key_of(deduplication_id, request.queue))
            id = stored.results[position]
            assert isinstance(id, str)
            before = {each for each in self.may if self.keys.get(each) == key}
            before |= {
                each
                for at, each in enumerate(stored.results[:position])
                if request.deduplication_ids.get(at) == deduplication_id and isinstance(each, str)
            }
            inside = {each for each in before if sent_at(each) >= since}
            # Of two requests of one commit the first is not in `may` yet if it is answered later.
            if position in stored.duplicates:
                if id not in inside:
                    raise Broken(f"{deduplication_id} is answered with {id}, taken are {inside}")
                self.repetitions += 1
                self.repeated.append((self.at, id))
            elif inside - self.doubtful:
                raise Broken(f"{deduplication_id} is stored as {id} beside {inside}")
            else:
                self.again += bool(before)
                self.keys[id] = key

    def _sync(self, owner: str) -> None:
        at = self.flying[owner][0][0]
        super()._sync(owner)
        answered = [id for when, id in self.repeated if when == at]
        self.repeated = [each for each in self.repeated if each[0] != at]
        if owner in self.engines:
            for id in answered:
                history = self.may.get(id, [])
                if history and history[0][1] == ABSENT:
                    self.may[id] = history[1:]

    def _adopt(self, maybe: dict[str, list[Seen]] | None) -> None:
        unsure = [id for id, history in self.may.items() if history[0][1] == ABSENT]
        super()._adopt(maybe)
        if maybe is None:
            self.doubtful.update(id for id in unsure if id in self.may and self.now(id) == GONE)

    def _power_cut(self, cut: Cut) -> None:
        self.repeated.clear()
        super()._power_cut(cut)

    def _read_more(self, id: str, name: Name, line: Line, index: int) -> None:
        if (key := line.keys.get(index)) is not None:
            self.keys[id] = key


@pytest.fixture(autouse=True)
def early_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deduplication, "MERGED", 2)


@ALONE
def test_an_id_has_one_message_in_its_window(run: Run) -> None:
    told = run.tell(KeyedStory, 5)
    assert told.least("repetitions", "again", "crashes") > told["stories"]


@SHARED
def test_processes_that_share_a_root_share_its_ids(run: Run) -> None:
    told = run.tell(KeyedStory, 5)
    assert told.least("repetitions", "again", "crashes") > told["stories"]


def _unlinked_at_once(self: Deduplication, entries: object) -> object:
    synced, self._moves.synced = self._moves.synced, self._moves.commit
    try:
        found = list(_may_unlink(self, list(entries)))  # type: ignore[call-overload]
        return [*found, *_may_unlink(self, [e for e in list(entries) if e not in found])]  # type: ignore[call-overload]
    finally:
        self._moves.synced = synced


_may_unlink = Deduplication.may_unlink


def _superseded_at_once(self: Deduplication) -> None:
    self._superseded = dict.fromkeys(self._superseded, 0)
    _unlink_superseded(self)


_unlink_superseded = Deduplication._unlink_superseded


def _merged_without_the_last(self: Deduplication, ids: dict[str, str]) -> None:
    _write_segment(self, dict(list(ids.items())[: max(1, len(ids) - 1)]))


_write_segment = Deduplication._write_segment

PLANTED: Final[dict[str, Bug]] = {
    "names unlinked without a segment": Bug(Deduplication, "may_unlink", lambda self, entries: entries),
    "names unlinked before their segment is durable": Bug(
        Deduplication, "may_unlink", _unlinked_at_once, first=66
    ),
    "segments unlinked before the merged one is durable": Bug(
        Deduplication, "_unlink_superseded", _superseded_at_once
    ),
    "segments merged without all of their keys": Bug(
        Deduplication, "_write_segment", _merged_without_the_last
    ),
    "segments not read": Bug(Deduplication, "_load_segment", lambda self, path: 0),
    "files of other processes in new/ not read": Bug(
        Deduplication, "_load_new", lambda self, path: 0, first=29
    ),
    "names not read": Bug(Deduplication, "_load_batch", lambda self, batch: None),
    "keys forgotten too early": Bug(Deduplication, "_oldest", lambda self: 1 << 128),
    "windows that never end": Bug(Deduplication, "_since", lambda self, record: 1),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_each_condition_of_a_key_is_needed(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expect_broken(
        monkeypatch,
        PLANTED[planted],
        KeyedStory,
        match=r"is stored as|is answered with",
        processes=2,
    )

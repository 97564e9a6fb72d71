"""Ready messages, singles and batch folders merged: what is next, and what may be taken whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from spoolrack_store.index.ready import BatchFolder, Place, Ready
from spoolrack_store.model.names import Batch, Entry, id_of

numbers = st.integers(0, 40)


def id_at(number: int) -> str:
    return f"0000000000{number:02}"[-8:] + "-0000-7000-8000-000000000000"


def name_at(number: int) -> str:
    return str(Entry(id=id_at(number), size=number, crc=0))


@dataclass
class Plain:
    """The same in two dictionaries: who is there, and in which folder."""

    places: dict[int, BatchFolder | None] = field(default_factory=dict)

    def inside(self, folder: BatchFolder) -> list[int]:
        return sorted(number for number, place in self.places.items() if place is folder)


class ReadyStory(RuleBasedStateMachine):
    """Folders may overlap in any way, as delays, peers and hands make them."""

    overlapping = True

    def __init__(self) -> None:
        super().__init__()
        self.ready = Ready()
        self.plain = Plain()
        self.batches = 100

    @rule(number=numbers)
    def add(self, number: int) -> None:
        if number not in self.plain.places:
            self.ready.add(name_at(number))
            self.plain.places[number] = None

    @rule(wanted=st.sets(numbers, min_size=1, max_size=6))
    def add_folder(self, wanted: set[int]) -> None:
        wanted -= self.plain.places.keys()
        if not self.overlapping:
            others = [self.plain.inside(f) for f in self.ready.folders()]
            wanted = {
                n for n in wanted if not any(o[0] < n < o[-1] or min(wanted) < o[0] < n for o in others)
            }
        if not wanted:
            return
        self.batches += 1
        batch = Batch(id=id_at(self.batches)[-36:], count=len(wanted))
        folder = BatchFolder(batch, [name_at(n) for n in wanted], sum(wanted))
        self.ready.add_folder(folder)
        self.plain.places.update(dict.fromkeys(wanted, folder))

    @rule(pick=numbers)
    def remove(self, pick: int) -> None:
        if self.plain.places:
            number = sorted(self.plain.places)[pick % len(self.plain.places)]
            self.ready.remove(name_at(number), self.plain.places.pop(number))

    @precondition(lambda self: any(self.plain.places.values()))
    @rule(pick=numbers)
    def remove_folder(self, pick: int) -> None:
        folders = list(self.ready.folders())
        folder = folders[pick % len(folders)]
        for number in self.plain.inside(folder):
            del self.plain.places[number]
        self.ready.remove_folder(folder)

    @rule(number=numbers)
    def look(self, number: int) -> None:
        there = number in self.plain.places
        expected = (name_at(number), self.plain.places[number]) if there else None
        assert self.ready.find(id_at(number)) == expected
        assert list(self.ready.since(id_at(number))) == self._places_above(number)

    def _places_above(self, number: int) -> list[Place]:
        return [
            (name_at(n), f)
            for n, f in sorted(self.plain.places.items(), key=lambda p: p[0])
            if n > number
        ]

    @rule(room=st.integers(1, 8), bytes=st.integers(0, 200))
    def take_whole(self, room: int, bytes: int) -> None:
        """If the first folder may be taken whole, then the first `room` messages are it and singles."""
        head = self.ready.head()
        if head is None or head[1] is None:
            return
        folder = head[1]
        inside = self.plain.inside(folder)
        upto = [n for n in sorted(self.plain.places) if n <= inside[-1]]
        others = [n for n in upto if self.plain.places[n] not in (None, folder)]
        fits = len(upto) <= room and sum(upto) <= bytes
        may = self.ready.is_apart(folder, room, bytes)
        if may:
            assert fits
            assert not others
        elif fits:
            assert others, "it could have been taken whole"

    @invariant()
    def it_is_what_the_dictionary_says(self) -> None:
        places = self._places_above(-1)
        assert self.ready.head() == (places[0] if places else None)
        assert list(self.ready.since("")) == places
        assert self.ready.count == len(places)
        assert self.ready.bytes == sum(self.plain.places)
        folders = [f for f in self.plain.places.values() if f is not None]
        assert {f.batch.id for f in self.ready.folders()} == {f.batch.id for f in folders}
        for folder in folders:
            assert self.ready.folder(folder.batch.id) is folder
            assert [id_of(n) for n in folder.names] == [id_at(n) for n in self.plain.inside(folder)]
            assert folder.bytes == sum(self.plain.inside(folder))


class ApartStory(ReadyStory):
    """Folders as one server makes them: side by side."""

    overlapping = False


TestReadyMessagesStandInOrder = ReadyStory.TestCase
TestReadyMessagesOfOneServerStandInOrder = ApartStory.TestCase


def test_what_overlaps_is_found_among_its_neighbours_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As several servers make it, that send at the same time."""
    ready = Ready()
    for n in range(0, 4_000, 4):
        for part in (0, 1):
            entries = [str(Entry(id=id_of_time(n + 2 * m + part), size=1, crc=0)) for m in range(2)]
            ready.add_folder(BatchFolder(Batch(id=id_of_time(10_000 + n + part), count=2), entries, 2))
    looked_at = 0

    def find(folder: BatchFolder, id: str) -> str | None:
        nonlocal looked_at
        looked_at += 1
        return found(folder, id)

    found = BatchFolder.find
    monkeypatch.setattr(BatchFolder, "find", find)
    for n in range(4_000):
        assert ready.find(id_of_time(n)) is not None
    assert looked_at < 4 * 4_000
    page = [name for name, _ in islice(ready.since(id_of_time(1_000)), 5)]
    assert [id_of(name) for name in page] == [id_of_time(n) for n in range(1_001, 1_006)]


def id_of_time(ms: int) -> str:
    return f"01a1fca2-{ms:04x}-7000-8000-000000000000"


def test_a_batch_that_nobody_has_looked_into_is_counted_and_has_its_place() -> None:
    ready = Ready()
    ready.add(name_at(5))
    early, late = Batch(id=id_at(3), count=7), Batch(id=id_at(8), count=2)
    ready.add_unlisted(late)
    assert ready.unlisted_among(1) is None, "what is known stands before it"
    ready.add_unlisted(early)

    assert ready.count == 1 + 7 + 2
    assert ready.unlisted() == [early, late]
    assert ready.unlisted_among(1) == early
    assert ready.find(id_at(3)) is None

    ready.add_folder(BatchFolder(early, [name_at(4)], 4))
    assert ready.find_unlisted(early.id) is None
    assert (ready.count, ready.bytes) == (1 + 1 + 2, 4 + 5)
    assert ready.unlisted_among(2) is None
    assert ready.unlisted_among(3) == late
    ready.forget_unlisted(late.id)
    ready.forget_unlisted(late.id)
    assert ready.count == 2

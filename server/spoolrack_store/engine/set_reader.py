"""Reads the messages of a reserved set in pages, by runs of messages of one file."""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from ..model.batch_file import Damaged, Line
from ..model.members import below, first_of, runs
from ..model.message_content import Attributes, size_of
from ..model.message_ids import sent_at
from ..model.names import body_path
from ..model.operations import MAX_BODY_IN_MEMORY, Message, MessageRun
from ..model.reservation_requests import Page, QuarantineReserved
from ..model.transitions import State
from .entries import Entry, Groups
from .index import Index
from .reader import Reader
from .reservation_index import ReservedSet

PAGE_MESSAGES: Final = 4_000
PAGE_BYTES: Final = 2 * 1024 * 1024
"""Of bodies and attributes, but always one message: half of what a gRPC client takes."""


class SetReader:
    """Not thread-safe."""

    def __init__(self, index: Index, reader: Reader) -> None:
        self._index = index
        self._reader = reader

    def page(self, a_set: ReservedSet, begin: int, end: int) -> Page:
        """Return the messages at the places from `begin` to before `end`, in order, as many as a page
        holds; without those deleted. Raise `DiskError`."""
        page, place = Page(next_index=begin), 0
        end = min(end, begin + PAGE_MESSAGES)
        for text, members in a_set.record.files:
            count = members.bit_count()
            if place + count > begin:
                wanted = first_of(members, end - place) & ~first_of(members, max(0, begin - place))
                for first, last, entry in self._leased_runs(a_set, text, wanted):
                    unread = self._add_run(page, a_set, entry, first, last)
                    if unread is not None:
                        page.next_index = place + below(members, unread).bit_count()
                        return page
                page.next_index = min(place + count, end)
            place += count
            if place >= end:
                break
        return page

    def _leased_runs(self, a_set: ReservedSet, text: str, wanted: int) -> list[tuple[int, int, Entry]]:
        """Return the messages of a file that are still in the set, by unbroken runs of indexes."""
        batch = self._index.file(text)
        found = [
            (first, last, entry)
            for entry in ([] if batch is None else batch.entries)
            if entry.name.token == a_set.record.token
            for first, last in runs(entry.members & wanted)
        ]
        return sorted(found, key=itemgetter(0))

    def _add_run(
        self, page: Page, a_set: ReservedSet, entry: Entry, first: int, last: int
    ) -> int | None:
        """Read messages from the index `first` to `last`; return the index of the first one that the
        page has no room for."""
        try:
            line = self._reader.line(entry)
            until, size = first, page.size
            while until <= last:
                more = _size_in_memory(entry, line, until)
                if size + more > PAGE_BYTES and (page.runs or until > first):
                    break
                size, until = size + more, until + 1
            if until > first:
                page.runs.append(self._run(a_set, entry, line, first, until - 1))
                page.size = size
            return until if until <= last else None
        except Damaged as why:
            if first < last:
                # One by one: the others can be read.
                for index in range(first, last + 1):
                    if self._add_run(page, a_set, entry, index, index) is not None:
                        return index
                return None
            (stream, number), id = a_set.key, entry.batch.stem.message_id(first)
            gone = QuarantineReserved(stream=stream, sequence_number=number, id=id, why=str(why))
            page.damaged.append(gone)
            return None

    def _run(self, a_set: ReservedSet, entry: Entry, line: Line, first: int, last: int) -> MessageRun:
        batch, name = entry.batch, entry.name
        bodies = self._reader.joined_bodies(entry, first, last)
        places = range(last + 1 - first)
        attributes: dict[int, Attributes] = {}
        groups: dict[int, str] = {}
        if said := line.attributes:
            attributes = {place: each for place in places if (each := said.get(first + place))}
        if line.groups:
            by_index = batch.groups or Groups(line.groups, batch.stem.full)
            groups = {place: group for place in places if (group := by_index.of(first + place))}
        id, is_external = batch.stem.message_id(first), batch.stem.is_external
        return MessageRun(
            first=Message(
                queue=name.queue,
                id=id,
                state=State.LEASED,
                body=b"",
                attributes={},
                priority=batch.stem.priority,
                body_size=batch.stem.size if is_external else 0,
                body_path=body_path(id) if is_external else "",
                sent_at=sent_at(id),
                receive_count=name.receives,
                first_received_at=name.first,
                due=a_set.due,
                receipt=None,
            ),
            bodies=bodies,
            body_sizes=[len(bodies)] if is_external else line.sizes[first : last + 1],
            attributes=attributes,
            groups=groups,
        )


def _size_in_memory(entry: Entry, line: Line, index: int) -> int:
    """Return the bytes that a message takes: of a body too large for memory none."""
    size = line.sizes[index]
    if line.is_external and size > MAX_BODY_IN_MEMORY:
        size = 0
    attributes = line.attributes.get(index)
    return size + size_of(attributes) if attributes else size

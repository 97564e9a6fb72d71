"""Dead letters: a message that was received too often moves to the dead-letter queue of its queue.

It goes in three commits. The first writes a copy of the message, with its history, into a file of its
own in `new/`, with the same id. When that is durable, the second publishes the copy: from then on the
copy counts. When that is durable, the third deletes the message where it was. A copy that a crash
leaves in `new/` is unlinked, as is one of a message that was deleted meanwhile.

A message that a consumer rejects goes in two commits, so that the answer of the first is a promise: the
content of the copy is synced at once, and the copy is published in the same commit.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ..model.batch_file import Damaged, Line, encode, line_of, stem_of
from ..model.clock import Clock, Millis
from ..model.dead_letter_records import (
    MAX_RECEIVES,
    MAX_RECORDS,
    DeadLetterRecord,
    NotAHistory,
    records_in,
)
from ..model.errors import MessageDamaged, StaleReceipt, StoreError
from ..model.members import indexes
from ..model.message_ids import sent_at
from ..model.names import MAX_DEATHS, Name
from ..model.transitions import State
from .catalog import Catalog
from .entries import Entry
from .index import COUNTED
from .moves import Moves, NameVanished
from .part import Part
from .reader import Reader

log = logging.getLogger(__name__)

AT_ONCE: Final = 200
"""Messages that are on their way to dead-letter queues at a time: each costs a commit three files."""


def history_of(name: Name, line: Line) -> Sequence[Mapping[str, object]]:
    """Return the deaths of the message `name`, which `line` tells, and that it was redriven since,
    which only the name tells: its file is written once."""
    if name.redriven is None or not line.deaths:
        return line.deaths
    redriven = {"redriven_to": name.queue, "redriven_at_ms": name.redriven}
    return [*line.deaths[:-1], {**line.deaths[-1], **redriven}]


def records_of(name: Name, line: Line) -> Sequence[DeadLetterRecord]:
    """Return how a message became a dead letter each time, the oldest first; nothing if that can't be
    told."""
    history = history_of(name, line)
    try:
        return records_in(json.dumps(history).encode()) if history else ()
    except NotAHistory as why:
        log.warning("the history of message %s can't be told: %s", name.stem.id, why)
        return ()


@dataclass(slots=True)
class _Transfer:
    """A copy that is written, and what it is a copy of."""

    commit: int
    copy: Entry
    source: Entry
    index: int
    held_as: Name
    """How the source held the message then."""


class DeadLetters(Part):
    """Moves of messages to dead-letter queues. Not thread-safe."""

    def __init__(self, moves: Moves, catalog: Catalog, reader: Reader, clock: Clock) -> None:
        self._moves = moves
        self._catalog = catalog
        self._reader = reader
        self._clock = clock
        self._transfers: dict[Entry, _Transfer] = {}
        """By the copy."""
        self._transferring: dict[Entry, int] = {}
        """The messages of which a copy is written."""
        self.pending = (self._transfers, moves.index.superseded)
        self._alarmed: set[str] = set()
        """Queues whose dead-letter queue is missing, which is logged once."""

    @property
    def room(self) -> int:
        """How many more messages may begin to die: the rest wait until these have moved."""
        begun = len(self._transfers) + len(self._moves.index.superseded)
        return max(0, min(AT_ONCE - begun, self._moves.effort.share()))

    def is_dead(self, entry: Entry) -> bool:
        """Return whether an entry's messages must move to a dead-letter queue, and it exists."""
        record = self._catalog.records.get(entry.name.queue)
        if record is None or not record.settings.max_receives:
            return False
        if entry.name.receives < record.settings.max_receives:
            return False
        if record.settings.dead_letter_queue in self._catalog.records:
            self._alarmed.discard(record.name)
            return True
        if record.name not in self._alarmed:
            self._alarmed.add(record.name)
            log.error(
                "messages of the queue %s were received %d times, and its dead-letter queue %s is "
                "missing: create it; until then such messages are delivered on",
                record.name,
                record.settings.max_receives,
                record.settings.dead_letter_queue,
            )
        return False

    def dies_with_lease(self, entry: Entry) -> bool:
        """Return whether an entry's messages move to a dead-letter queue when their lease ends."""
        record = self._catalog.records.get(entry.name.queue)
        if record is not None and record.settings.dead_letter_at == "receive":
            return False
        return self.is_dead(entry)

    def write_copies(self, entry: Entry, members: int) -> None:
        """Write a copy of each of `members`; raise `DiskFull` or `DiskError`.

        An unreadable message goes to quarantine.
        """
        for index in indexes(members & ~self._transferring.get(entry, 0)):
            if (entry.batch, index) in self._moves.index.superseded:
                continue
            try:
                copy = self._copy(entry, index)
            except Damaged as why:
                log.error("message %s goes to quarantine: %s", entry.batch.stem.message_id(index), why)
                self._moves.move(entry, 1 << index, State.QUARANTINED)
                continue
            self._moves.effort.spend()
            self._transferring[entry] = self._transferring.get(entry, 0) | 1 << index
            transfer = self._transfers.get(copy)
            if transfer is not None:
                self._is_over(transfer)
                transfer.source, transfer.held_as = entry, entry.name
            else:
                self._transfers[copy] = _Transfer(self._moves.commit, copy, entry, index, entry.name)

    def make_dead_letters(
        self, wanted: Sequence[tuple[Entry, int]], *, reason: str, explanation: str
    ) -> list[StoreError | None]:
        """Make each message, an entry and its index in it, a dead letter with this commit.

        Return for each None, or why it isn't one.
        An unreadable message goes to quarantine. Raise `SyncFailed`.
        """
        results: list[StoreError | None] = [None] * len(wanted)
        copies: dict[int, Entry] = {}
        there: set[Entry] = set()
        for position, (entry, index) in enumerate(wanted):
            if (entry.batch, index) in self._moves.index.superseded:
                continue
            try:
                if entry not in there:
                    self._moves.require_there(entry)
                    there.add(entry)
                copies[position] = self._copy(entry, index, reason, explanation)
            except Damaged as why:
                id = entry.batch.stem.message_id(index)
                log.error("message %s goes to quarantine: %s", id, why)
                results[position] = MessageDamaged(id=id, queue=entry.name.queue, why=str(why))
                try:
                    self._moves.move(entry, 1 << index, State.QUARANTINED)
                except StoreError as error:
                    log.error("%s can't be put into quarantine for now: %s", id, error)
            except NameVanished:
                results[position] = StaleReceipt(id=entry.batch.stem.message_id(index))
            except StoreError as error:
                results[position] = error
        self._moves.sync_contents([copy.name.path for copy in copies.values()])
        for position, copy in copies.items():
            queue = wanted[position][0].name.queue
            try:
                self._moves.move(copy, 1, State.READY)
                self._moves.statistics.count(queue, "dead_letter", 1)
            except StoreError as error:
                results[position] = error
                self._moves.unlink(copy)
        return results

    def advance(self) -> None:
        self._finish()
        self._delete_superseded()

    def _finish(self) -> None:
        """Publish the copies that are durable, and delete what they are copies of."""
        for copy, transfer in list(self._transfers.items()):
            if transfer.commit > self._moves.synced:
                continue
            source, bit = transfer.source, 1 << transfer.index
            try:
                is_here = source.held & bit and source.name == transfer.held_as
                if is_here:
                    self._moves.require_there(source)
                # Another process may have published a copy of its own, or deleted the queue it is for.
                if not copy.held:
                    if is_here and source.name.state is State.LEASED:
                        # Its lease is over, and it would be looked at no more.
                        self._moves.index.put_back_due(source, self._clock.monotonic())
                elif is_here and (source.batch, transfer.index) not in self._moves.index.superseded:
                    self._moves.move(copy, 1, State.READY)
                    self._moves.effort.spend()
                    self._moves.statistics.count(source.name.queue, "dead_letter", 1)
                elif copy in copy.batch.entries:
                    self._moves.unlink(copy)
            except NameVanished:
                # Without its copy the message dies again; without the message the copy is unlinked.
                if copy in copy.batch.entries:
                    continue
            except StoreError as error:
                log.warning("a dead letter has to wait: %s", error)
                continue
            del self._transfers[copy]
            self._is_over(transfer)

    def _is_over(self, transfer: _Transfer) -> None:
        left = self._transferring.pop(transfer.source) & ~(1 << transfer.index)
        if left:
            self._transferring[transfer.source] = left

    def _delete_superseded(self) -> None:
        """Delete messages where they were, once the dead letter's own file is durably published."""
        superseded = self._moves.index.superseded
        together: dict[Entry, int] = {}
        for (batch, index), commit in list(superseded.items()):
            if commit > self._moves.synced:
                continue
            entry = batch.holder(index)
            if entry is not None and entry.name.state in COUNTED:
                together[entry] = together.get(entry, 0) | 1 << index
            elif batch.changed <= self._moves.synced:
                del superseded[batch, index]  # Now the dead letter's own file may be unlinked, too.
        for entry, members in together.items():
            try:
                self._moves.delete(entry, members)
                self._moves.effort.spend()
            except NameVanished:
                continue  # Another name of its batch may have them.
            except StoreError as error:
                log.warning("the originals of dead letters have to wait: %s", error)

    def not_to_be_leased(self) -> dict[Entry, int]:
        """Return the messages that are on their way to a dead-letter queue."""
        found = dict(self._transferring)
        for batch, index in self._moves.index.superseded:
            entry = batch.holder(index)
            if entry is not None:
                found[entry] = found.get(entry, 0) | 1 << index
        return found

    def _copy(
        self, entry: Entry, index: int, reason: str = MAX_RECEIVES, explanation: str = ""
    ) -> Entry:
        name, stem = entry.name, entry.batch.stem
        record = self._catalog.require(name.queue)
        source = self._reader.line(entry)
        id = stem.message_id(index)
        death: dict[str, object] = {
            "source_queue": name.queue,
            "reason": reason,
            "receives": name.receives,
            "first_receive_ms": name.first,
            "sent_at_ms": sent_at(id),
            "buried_at_ms": self._clock.wall(),
            # Two processes may copy one message at once: their files must differ.
            "buried_by": self._moves.owner,
        }
        if explanation:
            death["explanation"] = explanation
        if source.is_external:
            # Its body stays where it is, and is that of both.
            parts, line = [], replace(source, keys={})
        else:
            body, attributes = self._reader.message(entry, index)
            group = source.group_of(index)
            parts = [body]
            line = line_of(
                [body],
                {0: attributes} if attributes else {},
                {},
                {0: group} if group else {},
            )
        line = replace(line, deaths=[*history_of(name, source), death][-MAX_RECORDS:])
        encoded = encode(line)
        parts.append(encoded)
        deaths = min(stem.deaths + 1, MAX_DEATHS)
        copy = stem_of(id, line, encoded, deaths=deaths, priority=stem.priority)
        there = self._moves.index.batches.get(copy.text)
        if there is not None and there.entries:
            return there.entries[0]  # It died in the same millisecond, and then the lease was extended.
        made = self._moves.make(
            copy, record.settings.dead_letter_queue, parts, delay=Millis(0), alone=False
        )
        self._reader.keep(made.batch, line, b"".join(parts))
        return made

"""Dead letters: a message that was received too often goes to the dead-letter queue of its queue.

It goes in three commits. The first writes a copy of the message, with its history, into a file of its
own in `new/`, with the same id. When that is durable, the second publishes the copy: from then on the
copy counts. When that is durable, the third deletes the message where it was. A copy that a crash
leaves in `new/` is unlinked, as is one of a message that was deleted meanwhile.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.ids import sent_at
from spoolrack_store.model.transitions import State

from .batch import Entry
from .catalog import Catalog
from .content import Damaged, checksum, encode, line_of
from .index import COUNTED
from .members import indexes
from .moves import Moves
from .names import MAX_DEATHS, Name, Stem
from .part import Part
from .reader import Reader

log = logging.getLogger(__name__)

REASON = "max_receives"


@dataclass(slots=True)
class _Burial:
    """A copy that is written, and what it is a copy of."""

    commit: int
    copy: Entry
    source: Entry
    index: int
    held_as: Name
    """How the source held the message then."""


class Letters(Part):
    """Not thread-safe."""

    def __init__(self, moves: Moves, catalog: Catalog, reader: Reader, clock: Clock) -> None:
        self._moves = moves
        self._catalog = catalog
        self._reader = reader
        self._clock = clock
        self._burials: list[_Burial] = []
        self._burying: dict[Entry, int] = {}
        """The messages of which a copy is written."""

    def is_dead(self, entry: Entry) -> bool:
        """Return whether an entry's messages are to go to a dead-letter queue, and there is one."""
        record = self._catalog.records.get(entry.name.queue)
        if record is None or not record.settings.max_receives:
            return False
        is_worn = entry.name.receives >= record.settings.max_receives
        return is_worn and record.settings.dead_letter_queue in self._catalog.records

    def bury(self, entry: Entry, members: int) -> None:
        """Write a copy of each of `members`; raise `DiskFull` or `DiskError`.

        What can't be read goes to quarantine.
        """
        for index in indexes(members & ~self._burying.get(entry, 0)):
            if (entry.batch, index) in self._moves.index.superseded:
                continue
            try:
                copy = self._copy(entry, index)
            except Damaged as why:
                log.error("message %s goes to quarantine: %s", entry.batch.stem.message_id(index), why)
                self._moves.move(entry, 1 << index, State.QUARANTINED)
                continue
            self._burying[entry] = self._burying.get(entry, 0) | 1 << index
            self._burials.append(_Burial(self._moves.commit, copy, entry, index, entry.name))

    def go_on(self) -> None:
        self._finish()
        self._delete_superseded()

    def _finish(self) -> None:
        """Publish the copies that are durable, and delete what they are copies of."""
        waiting: list[_Burial] = []
        for burial in self._burials:
            if burial.commit > self._moves.synced:
                waiting.append(burial)
                continue
            source, bit = burial.source, 1 << burial.index
            try:
                is_here = source.held & bit and source.name == burial.held_as
                # Another process may have published a copy of its own, or deleted the queue it is for.
                if not burial.copy.held:
                    pass
                elif is_here and (source.batch, burial.index) not in self._moves.index.superseded:
                    self._moves.move(burial.copy, 1, State.READY)
                    self._moves.statistics.count(source.name.queue, "bury", 1)
                else:
                    self._moves.unlink(burial.copy)
            except StoreError as error:
                log.warning("a dead letter has to wait: %s", error)
                waiting.append(burial)
                continue
            left = self._burying.pop(source) & ~bit
            if left:
                self._burying[source] = left
        self._burials = waiting

    def _delete_superseded(self) -> None:
        """Delete messages where they were, once the dead letter's own file is durably published."""
        superseded = self._moves.index.superseded
        for (batch, index), commit in list(superseded.items()):
            if commit > self._moves.synced:
                continue
            entry = batch.holder(index)
            if entry is not None and entry.name.state in COUNTED:
                self._moves.delete(entry, 1 << index)
            elif batch.changed <= self._moves.synced:
                del superseded[batch, index]  # Now the dead letter's own file may be unlinked, too.

    def not_to_be_leased(self) -> dict[Entry, int]:
        """Return the messages that are on their way to a dead-letter queue."""
        found = dict(self._burying)
        for batch, index in self._moves.index.superseded:
            entry = batch.holder(index)
            if entry is not None:
                found[entry] = found.get(entry, 0) | 1 << index
        return found

    @property
    def has_work(self) -> bool:
        return bool(self._burials or self._moves.index.superseded)

    def _copy(self, entry: Entry, index: int) -> Entry:
        name, stem = entry.name, entry.batch.stem
        record = self._catalog.require(name.queue)
        body, attributes = self._reader.message(entry, index)
        id = stem.message_id(index)
        death = {
            "source_queue": name.queue,
            "reason": REASON,
            "receives": name.receives,
            "first_receive_ms": name.first,
            "sent_at_ms": sent_at(id),
            "buried_at_ms": self._clock.wall(),
            # Two processes may copy one message at once: their files must differ.
            "buried_by": self._moves.owner,
        }
        line = replace(
            line_of([body], {0: attributes} if attributes else {}, {}),
            deaths=[*self._reader.line(entry).deaths, death],
        )
        encoded = encode(line)
        copy = Stem(
            id=id,
            size=len(body),
            crc=checksum(line, encoded),
            line=len(encoded),
            deaths=min(stem.deaths + 1, MAX_DEATHS),
        )
        parts = [body, encoded]
        made = self._moves.make(
            copy, record.settings.dead_letter_queue, parts, delay=Millis(0), alone=False
        )
        self._reader.keep(made.batch, line, body + encoded)
        return made

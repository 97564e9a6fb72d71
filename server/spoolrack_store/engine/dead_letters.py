"""Dead letters: a message that was received too often, or that a consumer rejects, moves to the
dead-letter queue of its queue.

It moves as any message does: all of one name by one link or rename, whose name says how they died. The
words of a consumer and the deaths before the last have no room in a name: they are in a dead-letter
file, which is durable before the name is made.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from ..model.clock import Millis
from ..model.dead_letter_records import (
    MAX_RECEIVES,
    REJECTED,
    DeadLetterRecord,
    NotAHistory,
    encode_records,
    records_of,
)
from ..model.errors import DiskError, StoreError
from ..model.names import MAX_BYTES, Death, Stem, dead_letter_path
from ..model.receipts import make_token
from ..model.transitions import Move
from .catalog import Catalog
from .entries import Entry
from .moves import Moves
from .reader import read_records
from .turns import outcome_of

log = logging.getLogger(__name__)

_FILE_LENGTH: Final = 6
_OTHER_TAGS: Final = ":,v9999999,r9999999,f9999999999999,t9999999999999@9999999999999~0123456789abc"
"""The other parts of the longest name that a dead letter has, or a message that was one."""
_MEMBERS: Final = ",i998-999"
"""A longer list of members is divided over several names."""


class DeadLetters:
    """Moves of messages to dead-letter queues. Not thread-safe."""

    def __init__(self, moves: Moves, catalog: Catalog, random: Random) -> None:
        self._moves = moves
        self._catalog = catalog
        self._clock = moves.clock
        self._random = random
        self._alarmed: set[str] = set()
        """Queues whose dead-letter queue is missing, which is logged once."""

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

    def bury(
        self,
        wanted: Sequence[tuple[Entry, int]],
        *,
        reason: str = MAX_RECEIVES,
        explanation: str = "",
    ) -> list[StoreError | None]:
        """Move messages, entries and members of them, to the dead-letter queue; return for each None,
        or why they stay. Raise `SyncFailed`."""
        files: dict[str, bytes] = {}
        deaths = [outcome_of(self._death, entry, reason, explanation, files) for entry, _ in wanted]
        refused = self._moves.write_ahead(files) if files else None
        results: list[StoreError | None] = []
        for (entry, members), death in zip(wanted, deaths, strict=True):
            if isinstance(death, StoreError) or (death.file and refused is not None):
                results.append(death if isinstance(death, StoreError) else refused)
                continue
            source = entry.name.queue
            settings = self._catalog.require(source).settings
            queue, renewed = settings.dead_letter_queue, entry.name.renewed
            if settings.group_order == "strict":
                renewed = self._clock.wall()
            elif renewed is not None:
                renewed = min(renewed, self._clock.wall())  # A later one would tell of a redrive since.
            try:
                self._moves.move(
                    entry, members, Move.DEAD_LETTER, queue=queue, death=death, renewed=renewed
                )
            except StoreError as error:
                results.append(error)
            else:
                results.append(None)
                self._moves.statistics.count(source, "dead_letter", members.bit_count())
        return results

    def bury_one(self, entry: Entry, members: int, explanation: str = "") -> None:
        """Move messages that were received too often to the dead-letter queue; raise `StoreError`."""
        (error,) = self.bury([(entry, members)], explanation=explanation)
        if error is not None:
            raise error

    def redriven(
        self, wanted: Sequence[tuple[Entry, str]], at: Millis
    ) -> list[tuple[Death | None, Millis | None]]:
        """Return the deaths of messages that a redrive moves, each to a queue, and when their age
        begins anew; None: they never died, or their names have no room for it.

        Raise `SyncFailed`, or `StoreError`.
        """
        deaths: list[tuple[Death | None, Millis | None]] = []
        files: dict[str, bytes] = {}
        for entry, queue in wanted:
            name, death = entry.name, entry.name.death
            if death is None:
                deaths.append((None, at if _has_room(name.stem, 0, queue) else None))
                continue
            renewed = max(at, Millis(death.at + 1))
            if not death.file and not _fits(name.stem, death, queue):
                # The name will say the last redrive only.
                death = self._in_file(name.stem, records_of(replace(name, renewed=None)), files)
            deaths.append((death, renewed))
        if files and (refused := self._moves.write_ahead(files)) is not None:
            raise refused
        return deaths

    def _death(self, entry: Entry, reason: str, explanation: str, files: dict[str, bytes]) -> Death:
        """Return how messages die now; add a dead-letter file to `files` if the name has no room."""
        name = entry.name
        queue = self._catalog.require(name.queue).settings.dead_letter_queue
        death = Death(
            at=self._clock.wall(),
            is_rejected=reason == REJECTED,
            receives=name.receives,
            first=name.first,
            source=name.queue,
        )
        if name.death is None and not explanation and _fits(name.stem, death, queue):
            return death
        try:
            before = read_records(self._moves.disk, name)
        except (NotAHistory, DiskError) as why:
            log.warning("how messages of %s died before can't be told: %s", name.path, why)
            before = ()
        record = DeadLetterRecord(
            source_queue=name.queue,
            reason=reason,
            receive_count=name.receives,
            first_received_at=name.first,
            dead_lettered_at=death.at,
            explanation=explanation,
        )
        return self._in_file(name.stem, (*before, record), files)

    def _in_file(
        self, stem: Stem, records: Sequence[DeadLetterRecord], files: dict[str, bytes]
    ) -> Death:
        # No two files share a name, not even one after the other: a reaper may be about to unlink it.
        file = make_token(self._random)[-_FILE_LENGTH:]
        files[dead_letter_path(stem.id, file)] = encode_records(records)
        return Death(file=file)


def _fits(stem: Stem, death: Death, queue: str) -> bool:
    """Return whether a death has room in all names that its messages will have, in `queue` and in the
    queue that they came from."""
    return _has_room(stem, len(death.text), max(queue, death.source, key=len))


def _has_room(stem: Stem, death: int, queue: str) -> bool:
    """Return whether a death of so many bytes, and the time at which an age begins, have room in all
    later names in `queue`."""
    longest = len(stem.text) + death + len(queue) + len(_OTHER_TAGS)
    return longest + (len(_MEMBERS) if stem.count else 0) <= MAX_BYTES

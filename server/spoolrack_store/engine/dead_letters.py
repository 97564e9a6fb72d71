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
from ..model.transitions import State
from .catalog import Catalog
from .entries import Entry
from .moves import Moves
from .part import outcome_of
from .reader import read_records

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
            queue = self._catalog.require(source).settings.dead_letter_queue
            try:
                self._moves.move(entry, members, State.READY, queue=queue, receives=0, death=death)
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

    def redriven(self, wanted: Sequence[tuple[Entry, str]], at: Millis) -> list[Death | None]:
        """Return the deaths of messages that a redrive moves, each to a queue; None: they never died.

        Raise `SyncFailed`, or `StoreError`.
        """
        deaths: list[Death | None] = []
        files: dict[str, bytes] = {}
        for entry, queue in wanted:
            name, death = entry.name, entry.name.death
            if death is not None:
                death = replace(death, redriven=None)  # The name will say the last redrive only.
                if not death.file and not _fits(name.stem, death, queue):
                    death = self._in_file(name.stem, records_of(replace(name, death=death)), files)
                death = replace(death, redriven=at)
            deaths.append(death)
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
            receives=name.receives,
            first_receive=name.first,
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
    longest = len(stem.text) + len(death.text) + max(len(queue), len(death.source)) + len(_OTHER_TAGS)
    return longest + (len(_MEMBERS) if stem.count else 0) <= MAX_BYTES

"""Sends: the messages of a commit that have one queue, delay and priority are written as one file.

A file is written into `new/`, synced with its commit, and answered. Then a rename enqueues it: a power
cut before leaves it in `new/`, from where the next start enqueues it. So a send costs one create, one
write, one rename.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ..files.disk_room import DiskRoom
from ..model.batch_file import encode, line_of, stem_of
from ..model.clock import Millis, span_text
from ..model.errors import InvalidMessage, InvalidRequest, SendingPaused, StoreError
from ..model.keys import key_of, key_text
from ..model.members import MOST
from ..model.message_content import (
    MAX_DELAY,
    Attributes,
    check_content,
    check_delay,
    check_group,
    check_priority,
    size_of,
)
from ..model.message_ids import FileIds, sent_at
from ..model.operations import (
    LARGE_BODY,
    UNFINISHED,
    Send,
    SendResults,
    Unfinished,
    WrittenBody,
)
from ..model.settings import MIB, QueueSettings
from ..model.transitions import State
from .catalog import Catalog, QueueRecord, QueueRoom
from .deduplication import Deduplication
from .effort import FILES
from .entries import Entry
from .moves import Moves, enqueue
from .part import Part
from .reader import Reader
from .recovery import appear
from .turns import outcome_of

log = logging.getLogger(__name__)

FILE_BYTES: Final = MIB
"""A file takes in no further call beyond this."""
MOST_FILES: Final = FILES // 6
"""Files that a commit writes; later ones write the rest of a request that needs more."""


_Kind = tuple[Millis, int]
"""A delay and a priority: messages of one kind share a file."""
_Together = list[tuple[_Kind, list[int]]]
"""The positions of messages that are to share a file."""


@dataclass(slots=True)
class _File:
    """Messages that are written as one."""

    queue: str
    delay: Millis
    priority: int
    most: int
    """Messages."""
    bodies: list[bytes] = field(default_factory=list)
    attributes: dict[int, Attributes] = field(default_factory=dict)
    keys: dict[int, str] = field(default_factory=dict)
    groups: dict[int, str] = field(default_factory=dict)
    written: WrittenBody | None = None
    """The body of the only message, if it is in a file already."""
    bytes: int = 0
    places: list[tuple[SendResults, int, int]] = field(default_factory=list)
    """For each run of messages: whose they are, the position of the first in that answer, and how
    many."""

    def fits(self, count: int, size: int) -> bool:
        return not self.bodies or (
            len(self.bodies) + count <= self.most and self.bytes + size <= FILE_BYTES
        )


class Sender(Part):
    """The sends of all queues. Not thread-safe."""

    def __init__(
        self,
        moves: Moves,
        catalog: Catalog,
        reader: Reader,
        ids: FileIds,
        deduplication: Deduplication,
        queue_room: QueueRoom,
    ) -> None:
        self._moves = moves
        self._catalog = catalog
        self._reader = reader
        self._ids = ids
        self._deduplication = deduplication
        self._new_keys: dict[str, dict[str, tuple[SendResults, int]]] = {}
        """By queue the keys that this commit is about to take: whose message, and its position."""
        self._latest_files: dict[tuple[str, _Kind], _File] = {}
        """By queue and kind the file to which this commit has added last."""
        self._unfinished_sends: dict[str, tuple[Send, SendResults, _Together]] = {}
        """By queue the request that needs many files, the answer so far, and what isn't written yet."""
        self._waits_for_keys: dict[str, None] = {}
        """Queues with a send that waits until all keys are read, and so do those behind it."""
        self._repetitions: list[tuple[SendResults, int, SendResults, int]] = []
        """Messages with such a key: the answer, the position, and those of the first one."""
        self.in_new: dict[Entry, int] = {}
        """Files in `new/`, and the commits that wrote them."""
        self.pending = (self.in_new,)
        self._room = DiskRoom(moves.disk, moves.watermark)
        self._queue_room = queue_room
        queue_room.sources.append(self.written)
        self._wall = Millis(0)

    def send(self, requests: Sequence[Send]) -> list[SendResults | StoreError | Unfinished]:
        """Write the messages of all requests, or as many as the commit may; the answers are valid once
        the commit is synced. In each queue the messages are in the order of the requests."""
        files: list[_File] = []
        # Once: messages of one delivery time have one delay, and share a file.
        self._wall = self._moves.clock.wall()
        outcomes: list[SendResults | StoreError | Unfinished] = []
        for request in requests:
            outcomes.append(outcome_of(self._admit, request, files))
        if self._waits_for_keys:
            self._waits_for_keys.clear()
        self._room.refresh()
        is_lone = len(files) == 1 and len(files[0].bodies) == 1
        self._latest_files.clear()
        for file in files:
            self._write(file, is_lone)
        if self._new_keys:
            self._answer_repeated()
        return outcomes

    @property
    def is_idle(self) -> bool:
        """Whether no send waits to go on."""
        return not (self._unfinished_sends or self._waits_for_keys)

    def advance(self) -> None:
        """Publish durable files; the next commit tries again what the disk refuses."""
        synced = self._moves.synced
        self.enqueue([entry for entry, commit in self.in_new.items() if commit <= synced])

    def enqueue(self, entries: Iterable[Entry]) -> dict[Entry, StoreError]:
        """Move durable files from `new/` to their queues, or to `delay/`; return those that the disk
        refuses to move, and why."""
        refused: dict[Entry, StoreError] = {}
        for entry in entries:
            try:
                if entry.members:
                    enqueue(self._moves, entry)
                elif self._moves.index.in_spares:
                    self._moves.leave_spare(entry.name.path)  # Another process has moved it.
                self.in_new.pop(entry, None)
            except StoreError as error:
                refused[entry] = error
        return refused

    def enqueue_later(self, entries: Iterable[Entry]) -> None:
        """Publish durable files in `new/`: those that the disk refused to move, and those whose data
        alone were synced."""
        self.in_new.update(dict.fromkeys(entries, 0))

    def written_in_spares(self) -> list[Entry]:
        """Return the files that this commit has written, if the data of spares are all of that."""
        commit, in_spares = self._moves.commit, self._moves.index.in_spares
        written = [entry for entry, at in self.in_new.items() if at == commit]
        if any(entry.name.path not in in_spares for entry in written):
            return []
        return written

    def just_written(self) -> dict[str, list[Entry]]:
        """Return the undelayed messages that this commit has written, by queue, the oldest first."""
        found: dict[str, list[Entry]] = {}
        for entry, commit in self.in_new.items():
            if commit == self._moves.commit and entry.name.due is None:
                found.setdefault(entry.name.queue, []).append(entry)
        return found

    def in_new_of(self, queue: str) -> list[Entry]:
        """Return the durable files in `new/` that the disk has refused to move so far."""
        return [
            entry
            for entry, commit in self.in_new.items()
            if commit <= self._moves.synced and entry.members and entry.name.queue == queue
        ]

    def written(self, queue: str) -> tuple[int, int]:
        """Return the number and bytes of messages in `new/` that are not yet enqueued."""
        count = size = 0
        for entry in self.in_new:
            if entry.name.queue == queue:
                count += entry.members.bit_count()
                size += entry.batch.counted_bytes_of(entry.members)
        if queue in self._unfinished_sends:
            request, _, together = self._unfinished_sends[queue]
            for _, positions in together:
                count += len(positions)
                size += sum(_counted(request, position) for position in positions)
        return count, size

    @property
    def has_durable(self) -> bool:
        """Whether a file in `new/` waits only for a commit."""
        return any(commit <= self._moves.synced for commit in self.in_new.values())

    def _admit(self, request: Send, files: list[_File]) -> SendResults | Unfinished:
        """Find a file for each valid message of a request, or for as many as the commit may write."""
        unfinished_send = self._unfinished_sends.get(request.queue)
        if unfinished_send is not None and unfinished_send[0] is not request:
            return UNFINISHED  # Behind an earlier one of its queue.
        if request.queue in self._waits_for_keys or (
            request.deduplication_ids and not self._deduplication.knows_all
        ):
            self._waits_for_keys[request.queue] = None
            return UNFINISHED
        keys: dict[int, str] = {}
        if unfinished_send is not None:
            _, answer, together = unfinished_send
            if request.queue in self._catalog.records:
                self._queue_room.load(self._catalog.records[request.queue])
            del self._unfinished_sends[request.queue]
        record = self._catalog.require_open(request.queue)
        if unfinished_send is None:
            answer, together = self._check(request, record, keys)
        sizes = list(map(len, request.bodies)) if request.written is None else [request.written.size]
        most = record.settings.messages_per_file or MOST
        for place, (kind, positions) in enumerate(together):
            # Keys are taken, and messages of groups enqueued, by the commit that writes the first.
            if len(files) >= MOST_FILES and place and not (keys or request.groups):
                self._unfinished_sends[request.queue] = request, answer, together[place:]
                return UNFINISHED
            size = sum(map(sizes.__getitem__, positions))
            if request.written is not None or (len(positions) == 1 and size > LARGE_BODY):
                size = FILE_BYTES + 1
            self._place(request, kind, most, positions, size, answer, files, keys)
        return answer

    def _check(
        self,
        request: Send,
        record: QueueRecord,
        keys: dict[int, str],
    ) -> tuple[SendResults, _Together]:
        """Return the answer so far, of the invalid messages, and the valid ones; add their `keys`."""
        settings = record.settings
        if settings.sending == "paused":
            raise SendingPaused(queue=record.name)
        bodies = request.bodies
        if len(bodies) > MOST:
            raise InvalidRequest(
                what="the number of messages", value=len(bodies), rule=f"must be {MOST} at most"
            )
        if request.written is not None and len(bodies) != 1:
            raise InvalidRequest(
                what="the number of messages", value=len(bodies), rule="must be 1 with a written body"
            )
        answer = SendResults(results=[""] * len(bodies), sent_at=Millis(0))
        is_limited = settings.max_messages or settings.max_bytes
        together: _Together = []
        last: dict[_Kind, list[int]] = {}
        """Of each kind what the next message may share a file with: a large body divides."""
        most = settings.messages_per_file or MOST
        sizes = list(map(len, bodies)) if request.written is None else [request.written.size]
        for position, body_size in enumerate(sizes):
            try:
                if body_size > settings.max_message_size or position in request.attributes:
                    attributes = request.attributes.get(position, {})
                    check_content(record.name, body_size, attributes, settings.max_message_size)
                if position in request.groups:
                    check_group(request.groups[position])
                priority = 0
                if position in request.priorities:
                    priority = request.priorities[position]
                    check_priority(priority)
                delay = settings.delivery_delay
                if position in request.delays or position in request.deliver_at:
                    delay = self._delay_of(request, position, settings)
                kind = delay, priority
                key = None
                if position in request.deduplication_ids:
                    salted = key_of(request.deduplication_ids[position], record.salt)
                    key = key_text(salted)
                    if self._is_repeated(record, key, answer, position):
                        continue
                if is_limited:
                    self._queue_room.take(record, 1, _counted(request, position))
                if key is not None:
                    self._new_keys.setdefault(record.name, {})[key] = answer, position
                    keys[position] = key
            except StoreError as error:
                answer.results[position] = error
                continue
            if body_size > LARGE_BODY or request.written is not None:
                together.append((kind, [position]))
                last.pop(kind, None)
            elif kind in last and len(last[kind]) < most:
                last[kind].append(position)
            else:
                last[kind] = [position]
                together.append((kind, last[kind]))
        return answer, together

    def _delay_of(self, request: Send, position: int, settings: QueueSettings) -> Millis:
        """Return for how long a message with a delay or a delivery time is hidden; raise
        `InvalidMessage`."""
        if position not in request.deliver_at:
            delay = request.delays[position]
            check_delay(delay)
            return delay
        if position in request.delays:
            raise InvalidMessage(why="it has a delay and a delivery time: give one of them")
        ahead = Millis(max(0, request.deliver_at[position] - self._wall))
        if ahead > MAX_DELAY:
            raise InvalidMessage(why=f"its delivery time is more than {span_text(MAX_DELAY)} ahead")
        if settings.retention and ahead >= settings.retention:
            # The retention counts from the send: the message would be removed undelivered.
            raise InvalidMessage(
                why=f"its delivery time is not within the queue's retention of "
                f"{span_text(settings.retention)}"
            )
        return ahead

    def _is_repeated(self, record: QueueRecord, key: str, answer: SendResults, position: int) -> bool:
        """Return whether the key is taken, also by this commit; then the first one's id answers."""
        coming = self._new_keys.get(record.name, {})
        first = coming.get(key)
        if first is not None:
            self._repetitions.append((answer, position, *first))
            return True
        id = self._deduplication.find(record, key, len(coming))
        if id is None:
            return False
        if record.settings.group_order == "strict":
            self._order_first(id)
        answer.results[position] = id
        answer.duplicates.add(position)
        return True

    def _order_first(self, id: str) -> None:
        """Have the message that was sent first in its queue, too, before this commit is answered: the
        process that sent it may have died. Raise `DiskError`."""
        found = self._moves.index.holder(id)
        entries = [] if found is None else [found[0]]
        if found is None:
            names = [name for name in self._moves.names_sent_by_others() if name.stem.holds(id)]
            entries = [appear(self._moves, name) for name in names]
        self._moves.to_enqueue += [
            entry for entry in entries if entry.name.state is State.SENT and entry.batch.stem.is_grouped
        ]

    def _answer_repeated(self) -> None:
        """Answer repetitions within the commit as the first ones, which are written now, or aren't."""
        for answer, position, first, at in self._repetitions:
            answer.results[position] = first.results[at]
            if isinstance(first.results[at], str):
                answer.duplicates.add(position)
        self._new_keys.clear()
        self._repetitions.clear()

    def _place(
        self,
        request: Send,
        kind: _Kind,
        most: int,
        positions: Sequence[int],
        size: int,
        answer: SendResults,
        files: list[_File],
        keys: Mapping[int, str],
    ) -> None:
        file = self._latest_files.get((request.queue, kind))
        # An earlier file may have room, and has earlier ids: a message put there would overtake.
        if file is None or not file.fits(len(positions), size):
            file = self._latest_files[request.queue, kind] = _File(request.queue, *kind, most)
            files.append(file)
        file.written = request.written
        has_columns = request.attributes or keys or request.groups
        is_one = positions[-1] - positions[0] == len(positions) - 1
        rows = [(positions[0], len(positions))] if is_one else _in_a_row(positions)
        for first, count in rows:
            file.places.append((answer, first, count))
            for position in range(first, first + count) if has_columns else ():
                index = len(file.bodies) + position - first
                if position in request.attributes:
                    # A copy: a delivery from memory must equal the file.
                    file.attributes[index] = dict(request.attributes[position])
                if position in keys:
                    file.keys[index] = keys[position]
                if position in request.groups:
                    file.groups[index] = request.groups[position]
            file.bodies += request.bodies[first : first + count]
        file.bytes += size

    def _write(self, file: _File, is_lone: bool) -> None:
        written = file.written
        line = line_of(file.bodies, file.attributes, file.keys, file.groups)
        if written is not None:
            line = replace(line, sizes=[written.size], crcs=[written.crc], is_external=True)
        encoded = encode(line)
        count = len(file.bodies)
        stem = stem_of(self._ids.make(), line, encoded, priority=file.priority)
        content = b"".join([*file.bodies, encoded])
        try:
            self._room.claim(len(content))
            entry = self._moves.make(
                stem,
                file.queue,
                [content],
                delay=file.delay,
                alone=is_lone,
                written=written,
                # Keys and strict groups are told to other processes by the file's own name.
                may_spare=written is None and not (file.keys or file.groups),
            )
        except StoreError as error:
            for answer, first, run in file.places:
                answer.results[first : first + run] = [error] * run
            return
        self._reader.keep(entry.batch, line, content)
        if file.keys:
            self._deduplication.register(entry, file.keys.items())
        self.in_new[entry] = self._moves.commit
        self._moves.index.outdated_queues[file.queue] = None
        if file.groups and self._catalog.require(file.queue).settings.group_order == "strict":
            self._moves.to_enqueue.append(entry)
        self._moves.statistics.count(file.queue, "send", count)
        at, moment = 0, sent_at(stem.id)
        for answer, first, run in file.places:
            answer.sent_at = moment
            answer.results[first : first + run] = stem.message_ids(range(at, at + run))
            at += run


def _counted(request: Send, position: int) -> int:
    """Return the bytes of body and attributes that a message counts as in its queue."""
    body = len(request.bodies[position]) if request.written is None else request.written.size
    return body + size_of(request.attributes.get(position, {}))


def _in_a_row(positions: Sequence[int]) -> list[tuple[int, int]]:
    """Return the runs of `positions`, which ascend: the first of each, and how many."""
    runs: list[tuple[int, int]] = []
    for position in positions:
        if runs and sum(runs[-1]) == position:
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((position, 1))
    return runs

"""The short way of a lone request.

Most requests are a plain send, a receive or a delete of one whole file, and come while nothing else is
to be done. They skip what can't be so then: the turns of all parts, the search of the orders, moves of
which others hear. The names, files and counts are those that the general way makes, which defines what
happens. What isn't plain, and whatever the disk refuses, is None, and left to that.

What was sent is moved to its queue by the next general commit, or leased where it is; what was deleted
is unlinked by that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from random import Random
from typing import Any, Final
from zlib import crc32

from ..files.disk_room import DiskRoom
from ..model.batch_file import encode, line_of, lone_line, stem_of
from ..model.clock import Millis
from ..model.errors import StoreError
from ..model.members import MOST
from ..model.message_content import check_content
from ..model.message_ids import FileIds, sent_at
from ..model.names import Name, Stem
from ..model.operations import Delete, Delivery, Outcome, Receive, Send, SendResults
from ..model.receipts import make_token
from ..model.settings import MAX_VISIBILITY
from ..model.transitions import State
from .catalog import Catalog
from .dead_letters import DeadLetters
from .entries import Entry
from .leaser import Leaser
from .moves import Moves, received
from .part import Part
from .queue_index import QueueIndex
from .reader import Reader
from .sender import Sender
from .sharing import Sharing

PLAIN: Final = (Send, Receive, Delete)
"""Kinds of requests that may be plain."""
MOST_MESSAGES: Final = 100
"""Of a plain request."""
MOST_BYTES: Final = 64 * 1024
"""Of the bodies of a plain send."""
UNPUBLISHED: Final = 16
"""Files in `new/` with which a send is left to the general way, which moves them to their queues."""
UNREAPED: Final = 32
"""The same of files whose messages are all deleted."""
TO_PACK: Final = 500
"""The same of messages that have waited long enough to be packed."""


class ShortWay:
    """The lone requests of one root. Not thread-safe."""

    def __init__(
        self,
        moves: Moves,
        catalog: Catalog,
        reader: Reader,
        ids: FileIds,
        random: Random,
        sender: Sender,
        leaser: Leaser,
        dead_letters: DeadLetters,
        sharing: Sharing,
        parts: Iterable[Part],
    ) -> None:
        """`parts` may have work that waits for a sync or a time."""
        self._moves = moves
        self._index = moves.index
        self._catalog = catalog
        self._reader = reader
        self._ids = ids
        self._random = random
        self._sender = sender
        self._leaser = leaser
        self._dead_letters = dead_letters
        self._sharing = sharing
        self._room = DiskRoom(moves.disk, moves.watermark)
        self._parts = [part for part in parts if part is not sender]
        own = moves.index.dues.times
        self._others = [each for part in self._parts for each in part.pending if each is not own]
        """What waits for a sync or a time, but for leases and delays."""
        self._ways: Mapping[type[Any], Callable[[Any], Outcome | None]] = {
            Send: self._send,
            Receive: self._receive,
            Delete: self._delete,
        }

    def apply(self, request: Any) -> Outcome | None:
        """Do a plain request up to its sync; None: it isn't one, or something else is to be done, too.
        Raise `SyncFailed`."""
        way = self._ways.get(type(request))
        return None if way is None or not self._is_quiet() else way(request)

    def _enter(self) -> bool:
        """Take the lock; return False, without it, if another process has the root open."""
        try:
            return self._sharing.enter_alone()
        except StoreError:
            return False

    def _is_quiet(self) -> bool:
        """Return whether nothing is to be done but what can wait."""
        index, now = self._index, self._moves.clock.monotonic()
        if len(index.deleted_files) > UNREAPED or (any(self._others) and self._is_due(now)):
            return False
        if len(index.to_be_packed) > index.unpacked + TO_PACK or len(self._sender.in_new) > UNPUBLISHED:
            return False
        due = index.dues.earliest
        return due is None or due > now

    def _is_due(self, now: Millis) -> bool:
        """Return whether a part has something to do now."""
        for part in self._parts:
            if any(part.pending):
                due = part.next_due()
                if due is not None and due <= now:
                    return True
        return False

    def _send(self, request: Send) -> SendResults | None:
        if request.delays or request.priorities or request.groups or request.deduplication_ids:
            return None
        if request.deliver_at or request.written is not None or not self._sender.is_idle:
            return None
        queue, bodies = request.queue, request.bodies
        record = self._catalog.records.get(queue)
        if record is None:
            return None
        settings = record.settings
        if settings.sending == "paused" or settings.max_messages or settings.max_bytes:
            return None
        if settings.delivery_delay:
            return None
        count, sizes = len(bodies), list(map(len, bodies))
        if not 0 < count <= min(MOST_MESSAGES, settings.messages_per_file or MOST):
            return None
        if sum(sizes) > MOST_BYTES or max(sizes) > settings.max_message_size:
            return None
        try:
            for position, each in request.attributes.items():
                check_content(queue, sizes[position], each, settings.max_message_size)
        except StoreError:
            return None
        if not self._enter():
            return None
        try:
            return self._write(request)
        finally:
            self._sharing.leave()

    def _write(self, request: Send) -> SendResults | None:
        """Write the messages of a send as one file into `new/`."""
        queue, bodies, count = request.queue, request.bodies, len(request.bodies)
        moves, id = self._moves, self._ids.make()
        if count == 1 and not request.attributes:
            content = bodies[0]
            stem = Stem(id=id, size=len(content), crc=crc32(content))
            line = lone_line(stem)
        else:
            attributes = {position: dict(each) for position, each in request.attributes.items()}
            line = line_of(bodies, attributes, {})
            encoded = encode(line)
            stem = stem_of(id, line, encoded)
            content = b"".join([*bodies, encoded])
        name = Name(stem=stem, state=State.SENT, queue=queue, members=stem.full, owner=moves.owner)
        self._room.refresh()
        try:
            self._room.claim(len(content))
        except StoreError:
            return None
        entry = moves.make_alone(name, content)
        if entry is None:
            return None
        self._reader.keep(entry.batch, line, content)
        self._sender.in_new[entry] = moves.commit
        self._index.outdated_queues[queue] = None
        moves.statistics.count(queue, "send", count)
        return SendResults(results=[*stem.message_ids(range(count))], sent_at=sent_at(id))

    def _receive(self, request: Receive) -> list[Delivery] | None:
        queue = request.queue
        record = self._catalog.records.get(queue)
        if record is None or record.settings.receiving == "paused":
            return None
        if request.max_messages < 1:
            return None
        identity = record.created_at, record.salt
        if (request.queue_identity or identity) != identity:
            return None
        visibility = request.visibility_timeout
        if visibility is None:
            visibility = record.settings.visibility_timeout
        elif not 1 <= visibility <= MAX_VISIBILITY:
            return None
        index = self._index.queue(queue)
        limits, most = None, inf
        if record.settings.max_leased or record.settings.rate:
            limits = self._leaser.limits_of(record)
        if limits is not None:
            most = limits.room(index.counts[State.LEASED], self._moves.commit)
        entry = self._head(index, request, most)
        if entry is None or self._dead_letters.is_dead(entry):
            return None
        if record.settings.retention and self._leaser.is_too_old(record, entry):
            return None
        if not self._enter():
            return None
        self._moves.clock.hold()
        try:
            request.queue_identity = identity
            leased = self._lease(request, entry, visibility)
            if limits is not None and leased is not None:
                self._leaser.begin(record, limits, entry.batch.stem.count or 1)
            return leased
        finally:
            self._moves.clock.release()
            self._sharing.leave()

    def _lease(self, request: Receive, entry: Entry, visibility: Millis) -> list[Delivery] | None:
        """Lease all that an entry holds."""
        moves, old = self._moves, entry.name
        wall = moves.clock.wall()
        name = Name(
            stem=old.stem,
            state=State.LEASED,
            queue=old.queue,
            version=entry.batch.top + 1,
            members=entry.members,
            receives=received(entry),
            first=wall if old.first is None else old.first,
            death=old.death,
            renewed=old.renewed,
            due=Millis(wall + visibility),
            token=make_token(self._random),
        )
        leased = moves.rename_alone(entry, name, moves.clock.monotonic() + visibility)
        if leased is None:
            return None
        if old.state is State.SENT:
            del self._sender.in_new[entry]
            self._index.queues[old.queue].entered += leased.members.bit_count()
        return self._leaser.hand_out(request, entry, leased, visibility, wall)

    def _head(self, index: QueueIndex, request: Receive, most: float) -> Entry | None:
        """Return the file that a receive of at most `most` messages takes as a whole, and nothing
        beside it, of those that are ready and, behind them, those that are on their way to the queue;
        None if it is none such."""
        if index.groups is not None or index.priorities is not None:
            return None
        sent: list[Entry] = []
        synced = self._moves.synced
        for each, commit in self._sender.in_new.items():
            if each.name.queue == request.queue and each.members:
                if commit > synced or each.name.due is not None:
                    return None
                if each.batch.stem.is_grouped or each.batch.stem.priority:
                    return None
                sent.append(each)
        first = index.ready.first()
        if first is None and not sent:
            return None
        entry = sent[0] if first is None else index.ready.at(first)
        room, max_bytes = request.max_messages, request.max_bytes
        if request.credits is not None:
            room = min(room, request.credits.free)
            max_bytes = min(max_bytes, request.credits.free_bytes)
        batch, stem = entry.batch, entry.batch.stem
        count, files = stem.count or 1, len(index.ready.names) + len(sent)
        if count > min(room, most) or (count < room and files > 1) or stem.counted > max_bytes:
            return None
        if stem.is_external:
            return None
        if self._reader.kept(batch) is None or not self._is_only(entry):
            return None
        return entry

    def _is_only(self, entry: Entry) -> bool:
        """Return whether an entry is the only name of its file, and holds all of it."""
        batch = entry.batch
        if len(batch.entries) != 1 or entry.members != batch.stem.full:
            return False
        return entry.taken <= self._moves.synced  # A power cut may undo what was taken since.

    def _delete(self, request: Delete) -> list[StoreError | None] | None:
        queue, receipts = request.queue, request.receipts
        if request.ids or not 0 < len(receipts) <= MOST_MESSAGES or queue not in self._catalog.records:
            return None
        entry: Entry | None = None
        members = 0
        try:
            for receipt in receipts:
                found = self._leaser.find(queue, receipt)
                if found is None or (entry is not None and found[0] is not entry):
                    return None
                entry, index = found
                members |= 1 << index
        except StoreError:
            return None
        assert entry is not None
        old = entry.name
        if members != entry.members or not self._is_only(entry):
            return None
        name = Name(
            stem=old.stem,
            state=State.REMOVED,
            queue=queue,
            version=entry.batch.top + 1,
            members=members,
            receives=old.receives,
            first=old.first,
            death=old.death,
            renewed=old.renewed,
        )
        if not self._enter():
            return None
        try:
            if self._moves.rename_alone(entry, name) is None:
                return None
        finally:
            self._sharing.leave()
        self._index.queues[queue].left += members.bit_count()
        return [None] * len(receipts)

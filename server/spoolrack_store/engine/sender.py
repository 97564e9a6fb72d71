"""Sends: messages are written into `new/`, made durable by the commit, and moved to their queue.

Messages that reach the store together share a batch folder, one sync and one rename, so that a call's
messages appear all together or not at all. Once the sync is done they are sent: the move into the
queue may be interrupted by a crash, and recovery completes it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from ..files import layout
from ..files.disk import Space
from ..files.syncer import SyncFailed
from ..model import content
from ..model.clock import Millis, span_text
from ..model.content import Content
from ..model.errors import DiskFull, InvalidMessage, QueueFull, QueueNotFound, StoreError
from ..model.ids import sent_at
from ..model.keys import key_of, key_text
from ..model.names import Batch, id_of, name_of_new, parse_entry
from ..model.operations import Outgoing, Send, Sent
from ..model.settings import MAX_DELAY
from .arrivals import Arrivals
from .catalog import Catalog
from .deduplicating.deduplication import Deduplication
from .groups import Group, Pending, merge
from .live import Live
from .publisher import Publisher, Written
from .root import Root, path_in

log = logging.getLogger(__name__)

RESERVED_BYTES: Final = 4 * 1024 * 1024
RESERVED_FILES: Final = 256
"""Sends leave so much room, so that deletes work when the disk is full."""
PLENTY_BYTES: Final = 1024 * 1024 * 1024
PLENTY_FILES: Final = 1_000_000
"""With so much room, to look once in a commit is enough."""

Results = list[Sent | StoreError | None]
"""Of one request's messages, in their order."""


class Sender:
    """Not thread-safe."""

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        deduplication: Deduplication,
        publisher: Publisher,
        arrivals: Arrivals,
    ) -> None:
        self._root = root
        self._catalog = catalog
        self.deduplication = deduplication
        self.publisher = publisher
        self._arrivals = arrivals
        self._lives: dict[str, Live] = {}
        """The queues of this commit, as they were when it began."""
        self._firsts: dict[tuple[str, int], Pending] = {}
        """The messages of this commit whose deduplication ids are new, by queue and key."""
        self._repeated: list[tuple[Pending, Results, int]] = []
        """What they are repeated by in the same commit: the results, and the place among them."""
        self._space: Space | None = None
        """What room there was when this commit looked."""
        self._entering: dict[str, tuple[int, int]] = {}
        """Messages and bytes, by queue, that are written and not yet published."""

    def send(self, requests: Sequence[Send]) -> list[list[Sent | StoreError] | StoreError]:
        """Write the messages of all `requests`; the results hold once the commit is synced."""
        self._space = None
        try:
            return self._send(requests)
        finally:
            self.deduplication.close()
            if self._firsts:
                self._firsts.clear()
                self._repeated.clear()

    def _send(self, requests: Sequence[Send]) -> list[list[Sent | StoreError] | StoreError]:
        outcomes: list[Results | StoreError] = []
        groups: list[Group] = []
        open_groups: dict[tuple[str, Millis], Group] = {}
        for request in requests:
            try:
                live = self._catalog.require_open(request.queue)
            except StoreError as error:
                outcomes.append(error)
                continue
            self._lives[live.name] = live
            results: Results = [None] * len(request.messages)
            outcomes.append(results)
            for group in self._grouped(live, request.messages, results):
                merge(group, groups, open_groups)
        # A lone message is synced by itself; more share one sync of the file system.
        sync = sum(len(group.messages) for group in groups) == 1
        for group in groups:
            self._write(group, sync)
        for first, results, at in self._repeated:
            sent = first.results[first.at]
            results[at] = replace(sent, is_duplicate=True) if isinstance(sent, Sent) else sent
        return [
            outcome if isinstance(outcome, StoreError) else [_settled(result) for result in outcome]
            for outcome in outcomes
        ]

    def entering(self, queue: str) -> tuple[int, int]:
        """How many messages, of how many bytes, are written and not yet in the queue."""
        return self._entering.get(queue, (0, 0))

    def _grouped(self, live: Live, messages: Sequence[Outgoing], results: Results) -> Iterable[Group]:
        """The valid messages by delay; the others get their errors."""
        by_delay: dict[Millis, Group] = {}
        for at, message in enumerate(messages):
            try:
                trailer = self._trailer(live, message)
                # A copy: it may be delivered from memory, and must be what was written then, too.
                attributes = dict(message.attributes)
                pending = Pending(message.body, attributes, trailer, results, at)
                if message.deduplication_id and self._is_repeated(live, message, pending):
                    continue
                delay = self._admit(live, message, pending.bytes)
            except StoreError as error:
                results[at] = error
                continue
            if pending.key is not None:
                self._firsts[live.name, pending.key] = pending
            group = by_delay.setdefault(delay, Group(live.name, delay))
            group.messages.append(pending)
            group.bytes += pending.bytes
        return by_delay.values()

    def _is_repeated(self, live: Live, message: Outgoing, pending: Pending) -> bool:
        """Whether the message was sent before: then it is answered. Else its key is its own."""
        key = key_of(message.deduplication_id, live.salt)
        first = self._firsts.get((live.name, key))
        if first is not None:
            self._repeated.append((first, pending.results, pending.at))
            return True
        id = self.deduplication.find(live, key)
        if id is not None:
            pending.results[pending.at] = Sent(id=id, sent_at=sent_at(id), is_duplicate=True)
            return True
        pending.key = key
        return False

    def _trailer(self, live: Live, message: Outgoing) -> bytes:
        """The message's trailer, once its content is valid."""
        limit = live.settings.max_message_size
        content.check(live.name, message.body, message.attributes, limit)
        return content.trailer_of(message.attributes)

    def _admit(self, live: Live, message: Outgoing, size: int) -> Millis:
        """The message's delay, once it has found room in the queue."""
        settings = live.settings
        delay = settings.delivery_delay if message.delay is None else message.delay
        if not 0 <= delay <= MAX_DELAY:
            raise InvalidMessage(
                why=f"its delay of {span_text(delay)} is not from 0 s to {span_text(MAX_DELAY)}"
            )
        index = self._root.index.queues[live.name]
        entering, entering_bytes = self.entering(live.name)
        held, held_bytes = len(index) + entering, index.bytes + entering_bytes
        if settings.max_messages and held + 1 > settings.max_messages:
            raise QueueFull(queue=live.name, held=held, limit=settings.max_messages, unit="messages")
        if settings.max_bytes and held_bytes + size > settings.max_bytes:
            raise QueueFull(queue=live.name, held=held_bytes, limit=settings.max_bytes, unit="bytes")
        self._entering[live.name] = (entering + 1, entering_bytes + size)
        return delay

    def _write(self, group: Group, sync: bool) -> None:
        try:
            self._require_room(group)
            written = self._write_files(group, sync)
            if self._root.is_shared:
                self._require_queue(group, written)
            self._take_keys(group, written)
        except StoreError as error:
            self._leave(group)
            group.fail(error)
            return
        self._root.after_sync.append(lambda: self._entered(group, written))
        self._arrivals.add(written)

    def _require_queue(self, group: Group, written: Written) -> None:
        """Somebody else may have deleted the queue: then nothing of it is sent."""
        before = self._lives[group.queue]
        try:
            if self._catalog.is_current(before):
                return
            self._catalog.refresh()
            now = self._catalog.require_open(group.queue)
            if now != before and not before.goes_on_as(now.version, now.created_at):
                raise QueueNotFound(queue=group.queue)
        except StoreError as error:
            self._take_back(written, error)
            raise

    def _take_keys(self, group: Group, written: Written) -> None:
        """From now on its deduplication ids are taken; a send that failed before takes none."""
        named = zip(group.messages, written.names, strict=True) if self._firsts else ()
        keyed = [(each.key, id_of(name)) for each, name in named if each.key is not None]
        if not keyed:
            return
        try:
            self.deduplication.take(group.queue, keyed)
        except StoreError as error:
            self._take_back(written, error)
            raise

    def _take_back(self, written: Written, why: StoreError) -> None:
        """Whoever is told `why` it isn't sent must never find it delivered."""
        try:
            self.publisher.remove(written)
        except StoreError as error:
            raise SyncFailed(f"{written.path} is refused ({why}), and stays: {error}") from error

    def _require_room(self, group: Group) -> None:
        space = self._space
        if space is None or space.bytes < PLENTY_BYTES or space.files < PLENTY_FILES:
            space = self._space = self._root.folders.space()
        files = len(group.messages) + 1
        if space.bytes - group.bytes < RESERVED_BYTES or (
            not space.unlimited and space.files - files < RESERVED_FILES
        ):
            raise DiskFull(detail=f"{space.bytes} bytes and {space.files} files are left")

    def _write_files(self, group: Group, sync: bool) -> Written:
        root, single = self._root, len(group.messages) == 1
        # Whoever waits for it renames it first: then the sync of the file is that of its name, too.
        is_lone = sync and self._arrivals.is_awaited(group.queue)
        due, due_monotonic = root.due_after(group.delay)
        named_due = due if group.delay else None
        batch = Batch(id=root.ids.make(), count=len(group.messages))
        folder = ""
        if not single:
            folder = layout.sent(group.queue, replace(batch, owner=root.owner), named_due)
            root.folders.make(folder)
        names: list[str] = []
        total = 0
        path = folder
        sents: list[Sent] = []
        try:
            for message in group.messages:
                id = root.ids.make()
                crc = content.checksum(message.body, message.trailer)
                key = "" if message.key is None else key_text(message.key)
                name = name_of_new(id, len(message.body), crc, len(message.trailer), key)
                if single:
                    path = layout.sent(group.queue, f"{name},o{root.owner}", named_due)
                    target = path
                else:
                    target = path_in(folder, name)
                content_of = [message.body, message.trailer]
                root.folders.write(target, content_of, sync=sync, is_lone=is_lone)
                names.append(name)
                total += message.bytes
                sents.append(Sent(id=id, sent_at=sent_at(id)))
        except StoreError:
            self._undo(folder, names)
            raise
        for message, sent in zip(group.messages, sents, strict=True):
            message.results[message.at] = sent
        return Written(
            queue=group.queue,
            item=parse_entry(names[0]) if single else batch,
            names=names,
            bytes=total,
            path=path,
            due=named_due,
            due_monotonic=due_monotonic,
            contents=[Content(message.body, message.attributes) for message in group.messages],
        )

    def _undo(self, folder: str, names: list[str]) -> None:
        """Take back a batch that couldn't be written whole. What stays, recovery removes: it isn't
        whole, so nobody was told that it was sent."""
        if not folder:
            return
        try:
            for name in names:
                self._root.folders.drop(path_in(folder, name))
            self._root.folders.drop_folder(folder)
        except StoreError as error:
            log.warning("an unfinished batch stays in %s until the next start: %s", folder, error)

    def _leave(self, group: Group) -> None:
        """The group's messages do not enter the queue, or have done so."""
        messages, bytes = self._entering.pop(group.queue)
        if messages > len(group.messages):
            self._entering[group.queue] = (messages - len(group.messages), bytes - group.bytes)

    def _entered(self, group: Group, written: Written) -> None:
        self._leave(group)
        self.publisher.publish(written)


def _settled(result: Sent | StoreError | None) -> Sent | StoreError:
    if result is None:
        raise AssertionError("a message was forgotten")
    return result

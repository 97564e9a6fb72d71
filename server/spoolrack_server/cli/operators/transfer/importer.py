"""Import of a source's messages, each once, through any number of interruptions.

A send is not repeated before its outcome is known. A journal records each call before it is made, and
every message carries its origin as an attribute, so that messages in doubt can be looked for in their
queue; those that are found aren't sent again. So nothing is lost, and nothing is sent twice, unless a
message in doubt, one of the last call's, is deleted before it was looked for.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import groupby
from typing import Final

from spoolrack import Client, Outgoing, SpoolrackError, errors
from spoolrack._core.outgoing import chunks_of, size_of
from spoolrack._values import MAX_BODY_IN_MEMORY
from spoolrack.errors import (
    QueueExists,
    QueueNotFound,
    RootUnusable,
    ScheduleExists,
    Unsupported,
)

from ...kit.command_clock import current_time
from ...kit.exit_codes import line_of
from ...kit.output import print_status
from .journal import Journal
from .sources import ArchivedSchedule, Item, Source, SourceQueue, mark_of

ORIGIN: Final = "imported-from"
"""The attribute that says where a message came from."""
MAX_DELAY: Final = 365 * 86400.0
"""Seconds: no queue hides a message for longer."""
_PAUSE: Final = 0.5
"""Seconds before what was refused for now is tried again, if the server doesn't say."""
_NO_EFFECT: Final = (
    *(errors.InvalidRequest, errors.QueueNotFound, errors.QueueFull, errors.DiskFull),
    *(errors.QueueBeingDeleted, errors.DiskError, errors.Draining, errors.StoreFailed),
    *(errors.Unsupported, errors.RootUnusable, errors.RootInUse),
)
"""After these a message is not in its queue, for sure. After any other error it may be."""

Pair = tuple[Item, Outgoing]


class Importer:
    def __init__(
        self,
        *,
        client: Client,
        sender: Client,
        source: Source,
        journal: Journal,
        keep: bool,
        retry_timeout: float,
        settle: float,
        advance: Callable[[int, int], None],
    ) -> None:
        """`sender` must never repeat a call. `settle` is how many seconds a server may take to finish a
        call whose caller is gone; `advance` is called with messages and bytes that are done."""
        self._client = client
        self._sender = sender
        self._source = source
        self._journal = journal
        self._keep = keep
        self._retry_timeout = retry_timeout
        self._settle = settle
        self._advance = advance
        self.sent: Counter[str] = Counter()
        """Messages by queue that this run has sent."""
        self.before = 0
        """Messages that earlier runs had sent."""
        self.refusals: list[tuple[str, str]] = []
        """The keys of what can never be sent, with the reason; it stays where it is."""
        self.taken_count = 0
        """Messages that others have taken from the source in the meantime."""

    def run(self) -> None:
        """Send everything. Raises the error that ends it early; a later run continues."""
        for name in _targets_first(self._source.queues):
            self._open_queue(name)
        self._resolve_doubt()
        # A call gives ids to messages of one delay after the other. Those that have one go by
        # themselves, so that each keeps its place.
        for (queue, _), pairs in groupby(self._pairs(), _call_of):
            for chunk in chunks_of(pairs, lambda pair: size_of(pair[1])):
                self._send(queue, chunk)
        self._source.check()
        for name, source_queue in self._source.queues.items():
            for schedule in source_queue.schedules:
                self._create_schedule(name, schedule)
        if not self._keep and self._source.remove_rest(self._journal.done_keys):
            self._journal.remove()

    def _open_queue(self, name: str) -> None:
        queue = self._source.queues[name]
        settings = queue.settings
        try:
            info = self._client.queue(name).info()
        except (QueueNotFound, RootUnusable):
            target = settings.get("dead_letter_queue")
            if target and target not in self._source.queues and not self._is_there(target):
                print_status(f"{name} is made without a dead-letter queue: there is no {target}")
                settings = {**settings, "dead_letter_queue": None, "max_receives": None}
            try:
                info = self._client.create_queue(name, labels=queue.labels, **settings).info()
            except QueueExists:  # Another caller was quicker.
                info = self._client.queue(name).info()
        else:
            others = [key for key, value in settings.items() if getattr(info.settings, key) != value]
            if others and not self._journal.knows(name):
                print_status(f"{name} is there already, and keeps its own {', '.join(others)}")
        self._journal.note_queue(name, round(info.created_at.timestamp() * 1_000))

    def _create_schedule(self, queue: str, schedule: ArchivedSchedule) -> None:
        """Create a schedule after the messages: its ticks count from now on."""
        schedules = self._client.schedules
        try:
            schedules.create(
                queue,
                schedule.name,
                schedule.cron,
                schedule.body,
                time_zone=schedule.time_zone,
                attributes=schedule.attributes,
                group=schedule.group,
            )
            if schedule.paused:
                schedules.pause(queue, schedule.name)
        except (ScheduleExists, Unsupported) as error:
            print_status(f"the schedule {schedule.name} of {queue} is not imported: {error}")

    def _is_there(self, queue: str) -> bool:
        try:
            self._client.queue(queue).info()
        except (QueueNotFound, RootUnusable):
            return False
        return True

    def _resolve_doubt(self) -> None:
        """Find out what became of the call during which the last run has ended."""
        keys = self._journal.doubtful
        if keys:
            found = self._search(self._journal.doubtful_queue, keys)
            self._journal.sent(found)

    def _pairs(self) -> Iterator[Pair]:
        """Yield the messages to send, read one after the other."""
        for item in self._source.items():
            if item.key in self._journal.done_keys:
                self.before += 1
                if not self._keep:
                    self._source.remove([item])
                self._advance(1, item.length)
                continue
            if item.path and item.length > MAX_BODY_IN_MEMORY:
                self.refusals.append(
                    (item.key, "it has more than 64 MiB: send it with spoolrack send --file")
                )
                continue
            try:
                body = item.read()
            except FileNotFoundError:
                self.taken_count += 1
                continue
            attributes = {**item.attributes, ORIGIN: mark_of(self._source, item.key)}
            yield (
                item,
                Outgoing(
                    body=body,
                    attributes=attributes,
                    delay=_delay(item),
                    group=item.group,
                    priority=item.priority,
                ),
            )

    def _send(self, queue: str, chunk: list[Pair]) -> None:
        """Return once each of these is in the queue, or is refused for good. All are of one call."""
        pending = chunk
        end = time.monotonic() + self._retry_timeout
        while pending:
            self._journal.sending(queue, [item.key for item, _ in pending])
            verdicts = self._verdicts(queue, pending)
            doubtful = [
                item.key for (item, _), error in zip(pending, verdicts, strict=True) if _doubts(error)
            ]
            # Without an answer nothing goes on: raises if the server stays away.
            found = self._search(queue, doubtful) if doubtful else set()
            done_items: list[Item] = []
            later: list[Pair] = []
            failure: SpoolrackError | None = None
            for pair, error in zip(pending, verdicts, strict=True):
                if error is None or pair[0].key in found:
                    done_items.append(pair[0])
                elif isinstance(error, errors.InvalidMessage):
                    self.refusals.append((pair[0].key, line_of(error)))
                else:
                    later.append(pair)
                    failure = error
            self._finish(queue, done_items)
            if failure is None:
                return
            delay = failure.retry_delay
            pause = _PAUSE if delay is None else delay.total_seconds()
            now = time.monotonic()
            if done_items:
                end = now + self._retry_timeout
            if now + pause > end or not (failure.retryable or _doubts(failure)):
                raise failure
            time.sleep(pause)
            pending = later

    def _verdicts(self, queue: str, pairs: list[Pair]) -> list[SpoolrackError | None]:
        """Return the error of each message of one call; None: it is on stable media."""
        try:
            results = self._sender.queue(queue).send_many([outgoing for _, outgoing in pairs])
        except errors.OutcomeUnknown:
            raise  # A look is inconclusive before the server was started again.
        except SpoolrackError as error:
            return [error] * len(pairs)
        verdicts = [result.error for result in results]
        for verdict in verdicts:
            if isinstance(verdict, errors.OutcomeUnknown):
                raise verdict
        return verdicts

    def _finish(self, queue: str, items: list[Item]) -> None:
        """Note that these messages of the call are sent, and no others; then remove them from the
        source."""
        self._journal.sent(item.key for item in items)
        self.sent[queue] += len(items)
        if not self._keep:
            self.taken_count += self._source.remove(items)
        self._advance(len(items), sum(item.length for item in items))

    def _search(self, queue: str, keys: Collection[str]) -> set[str]:
        """Return which of these messages are in the queue.

        If some are not, the call that carried them may still be in flight: then looks again.
        """
        found = self._find(queue, keys)
        if len(found) < len(set(keys)):
            time.sleep(self._settle)
            found |= self._find(queue, keys)
        return found

    def _find(self, queue: str, keys: Collection[str]) -> set[str]:
        keys_by_mark = {mark_of(self._source, key): key for key in keys}
        present_keys: set[str] = set()
        for message in self._client.queue(queue).peek(max_body_bytes=0):
            key = keys_by_mark.get(str(message.attributes.get(ORIGIN)))
            if key is not None:
                present_keys.add(key)
                if len(present_keys) == len(keys_by_mark):
                    break
        return present_keys


def _call_of(pair: Pair) -> tuple[str, bool]:
    """Return the properties that all messages of one call share."""
    item, outgoing = pair
    return item.queue, bool(outgoing.delay)


def _doubts(error: SpoolrackError | None) -> bool:
    return error is not None and not isinstance(error, _NO_EFFECT)


def _delay(item: Item) -> float:
    """Return the seconds that a message stays hidden. Zero is passed, too: the queue's own delay is for
    new ones."""
    if item.visible_at is None:
        return 0.0
    return min(MAX_DELAY, max(0.0, item.visible_at / 1_000 - current_time().timestamp()))


def _targets_first(queues: Mapping[str, SourceQueue]) -> list[str]:
    """Return the queues in the order of their creation: a dead-letter queue before those that need
    it."""
    ordered: list[str] = []
    for name in queues:
        chain: list[str] = []
        following = name
        while following in queues and following not in ordered and following not in chain:
            chain.append(following)
            following = queues[following].settings.get("dead_letter_queue") or ""
        ordered += reversed(chain)
    return ordered

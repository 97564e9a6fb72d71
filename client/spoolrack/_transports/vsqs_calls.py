"""The operations of the client's surface on one vsqs folder, one after the other: they block.

A receipt is the name of the lease, so it proves the lease in any process; only an extension gives the
file a new name, which this process knows and others don't.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from .._values import (
    ByReceipt,
    DeleteResult,
    Envelope,
    LeaseExtension,
    LeaseResult,
    MessageFilter,
    MessageRelease,
    MessageState,
    Outgoing,
    Page,
    QueueCounts,
    QueueInfo,
    SendResult,
    Target,
    millis_of,
    moment_of,
)
from ..errors import (
    ClientClosed,
    DiskError,
    DiskFull,
    MessageNotFound,
    OutcomeUnknown,
    QueueFull,
    QueueNotFound,
    SpoolrackError,
    StaleReceipt,
    Unsupported,
)
from ..vsqs._file_names import SECOND, FileName, in_micros
from ..vsqs._folder import Full, MessageFolder
from ..vsqs._folder_index import Content
from ..vsqs.queue import now
from .vsqs_values import (
    VsqsUrl,
    check_settings,
    envelope_of,
    lease_of,
    number_of,
    refusal_of,
    state_of,
)

PAGE: Final = 100
SOON: Final = timedelta(seconds=0.1)
MOST_REMEMBERED: Final = 10_000
RIVALS: Final = 100
FAILURE_DELAY: Final = 1.0
"""Seconds that a message is hidden by a release without a delay: its folder counts no receives."""


@dataclass(eq=False)
class Stop:
    """Signals the waiting thread that its caller is gone."""

    is_set: bool = False


class ExtendedLeases:
    """The present names of the leases that this process has extended, by their receipts."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._delayed_receipts: set[str] = set()

    def name(self, receipt: str) -> str:
        return self._names.get(receipt, receipt)

    def renamed(self, receipt: str, name: str) -> None:
        if len(self._names) >= MOST_REMEMBERED:
            self._names = {
                receipt: text for receipt, text in self._names.items() if not _is_over(lease_of(text))
            }
        self._names[receipt] = name

    def put_off(self, receipt: str) -> None:
        """Hide the message again, without a lease."""
        self._delayed_receipts = {
            each for each in self._delayed_receipts if not _is_over(lease_of(self.name(each)))
        }
        self._delayed_receipts.add(receipt)

    def is_put_off(self, receipt: str) -> bool:
        return receipt in self._delayed_receipts

    def ended(self, receipt: str) -> None:
        self._names.pop(receipt, None)
        self._delayed_receipts.discard(receipt)


class VsqsCalls:
    """The operations on one folder. Thread-safe. Raises a `SpoolrackError` for every failure."""

    def __init__(self, place: VsqsUrl) -> None:
        self._place = place
        self._folder = MessageFolder(place.path, now)
        self._closed = False
        self.leases = ExtendedLeases()

    @property
    def target(self) -> str:
        return f"vsqs://{self._place.path}"

    def wake(self) -> None:
        """Wake all waiters, which check whether they were stopped."""
        self._folder.wake()

    def close(self) -> None:
        self._closed = True
        self._folder.close()

    # The queue.

    @contextlib.contextmanager
    def _opened(self, queue: str) -> Iterator[MessageFolder]:
        """Open the folder of the queue, and translate the system's errors."""
        place = self._place
        if queue != place.queue:
            raise QueueNotFound(
                f"There is no queue {queue} at {self.target}, which is the folder of the queue "
                f"{place.queue}: connect to the folder of {queue}."
            )
        if not self._folder.exists():
            raise self._missing()
        try:
            yield self._folder
        except OSError as error:
            raise self._explained(error) from error

    def _missing(self) -> QueueNotFound:
        return QueueNotFound(f"There is no queue {self._place.queue}: there is no {self._place.path}.")

    def _explained(self, error: OSError) -> SpoolrackError:
        if error.errno == errno.ENOENT and not self._folder.exists():
            return self._missing()
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return DiskFull(f"The disk under {self._place.path} is full.", retry_delay=SOON)
        return DiskError(f"{self._place.path}: {error}")

    def _sync(self) -> None:
        try:
            self._folder.sync()
        except OSError as error:
            raise OutcomeUnknown(
                f"{self._place.path} can't be made durable: a loss of power may undo this. ({error})"
            ) from error

    def create(
        self, queue: str, settings: Mapping[str, object], labels: Mapping[str, str]
    ) -> QueueInfo:
        if queue != self._place.queue:
            raise Unsupported(
                f"{self.target} is the folder of the queue {self._place.queue}: to make {queue}, "
                "connect to a folder of that name."
            )
        check_settings(settings, labels, self._place.settings)
        try:
            self._folder.make()
        except OSError as error:
            raise self._explained(error) from error
        return self.info(queue)

    def update(
        self,
        queue: str,
        changes: Mapping[str, object],
        labels: Mapping[str, str | None],
        if_version: int,
    ) -> QueueInfo:
        info = self.info(queue)
        if if_version:
            raise Unsupported("A vsqs folder has no versions: leave if_version out.")
        check_settings(changes, labels, self._place.settings)
        return info

    def remove(self, queue: str) -> None:
        with self._opened(queue):
            raise Unsupported(
                f"{self.target} can't be deleted here, because other programs may have it open: purge "
                "it, or remove the folder when they have ended."
            )

    def info(self, queue: str) -> QueueInfo:
        with self._opened(queue) as folder:
            moment = now()
            messages = folder.messages()
            states = [state_of(name, moment) for name in messages]
            size = 0
            for name in messages:
                with contextlib.suppress(FileNotFoundError):
                    size += folder.facts(name.text).st_size
        age = max(0, moment - in_micros(messages[0].number)) / SECOND if messages else None
        return QueueInfo(
            name=queue,
            settings=self._place.settings,
            counts=QueueCounts(
                ready_count=states.count(MessageState.READY),
                leased_count=states.count(MessageState.LEASED),
                byte_count=size,
                oldest_age=age,
            ),
            created_at=moment_of(0),  # unknown
            version=1,
        )

    def queues(self, prefix: str) -> list[QueueInfo]:
        if not self._place.queue.startswith(prefix) or not self._folder.exists():
            return []
        return [self.info(self._place.queue)]

    def purge(self, queue: str, sent_before: datetime | None, states: Collection[MessageState]) -> int:
        with self._opened(queue) as folder:
            moment = now()
            before = None if sent_before is None else millis_of(sent_before)
            purged = sum(
                folder.delete(name.number)
                for name in folder.messages()
                if (before is None or in_micros(name.number) // 1_000 < before)
                and (not states or state_of(name, moment) in states)
            )
            self._sync()
            return purged

    # Messages.

    def send(self, queue: str, messages: Sequence[Outgoing]) -> list[SendResult]:
        with self._opened(queue) as folder:
            results = [self._send(folder, message) for message in messages]
            if any(result.ok for result in results):
                self._sync()
            return results

    def _send(self, folder: MessageFolder, message: Outgoing) -> SendResult:
        assert isinstance(message.body, bytes)
        if (refusal := refusal_of(message)) is not None:
            return SendResult(error=refusal)
        capacity = self._place.settings.max_messages or None
        try:
            number = folder.publish(message.body, capacity=capacity, timeout=0)
        except Full as full:
            why = f"The queue {self._place.queue} holds {full.size} messages."
            return SendResult(error=QueueFull(why, retry_delay=SOON))
        except OSError as error:
            return SendResult(error=self._explained(error))
        return SendResult(id=str(number), sent_ms=in_micros(number) // 1_000)

    def lease(
        self,
        queue: str,
        limit: Callable[[Content], int],
        *,
        timeout: float | None,
        visibility: float | None,
        stop: Stop,
    ) -> list[Envelope]:
        """Lease ready messages, or wait for them; none once it is stopped."""
        span = self._place.settings.visibility_timeout if visibility is None else visibility
        with self._opened(queue) as folder:
            messages = folder.lease(
                span, limit=limit, timeout=timeout, stopped=lambda: stop.is_set or self._closed
            )
        if not messages and self._closed:
            raise ClientClosed()
        return [
            envelope_of(
                leased.name, leased.body, size=len(leased.body), now=0, receipt=leased.name.text
            )
            for leased in messages
        ]

    def give_back(self, envelopes: Sequence[Envelope]) -> None:
        """Release messages whose caller is gone; those that can't be released expire by themselves."""
        for envelope in envelopes:
            with contextlib.suppress(OSError):
                self._folder.release(envelope.receipt)

    def delete(self, queue: str, targets: Sequence[Target]) -> list[DeleteResult]:
        with self._opened(queue) as folder:
            results = [self._delete(folder, target) for target in targets]
            if any(result.ok for result in results):
                self._sync()
            return results

    def _delete(self, folder: MessageFolder, target: Target) -> DeleteResult:
        queue = self._place.queue
        try:
            if isinstance(target, ByReceipt):
                _refuse_expired(target)
                self._drop(folder, target.receipt)
            elif not folder.delete(number_of(target.id, queue)):
                raise MessageNotFound(f"There is no message {target.id} in the queue {queue}.")
        except SpoolrackError as error:
            return DeleteResult(error=error)
        except OSError as error:
            return DeleteResult(error=self._explained(error))
        return DeleteResult()

    def _drop(self, folder: MessageFolder, receipt: str) -> None:
        name = lease_of(self.leases.name(receipt))
        # Gone is as good as deleted; under another name it may be another consumer's.
        if (_is_over(name) or not folder.drop(name.text)) and folder.named(name.number):
            raise _stale(name)
        self.leases.ended(receipt)

    def extend(self, queue: str, extensions: Sequence[LeaseExtension]) -> list[LeaseResult]:
        with self._opened(queue) as folder:
            return [self._extend(folder, extension) for extension in extensions]

    def _extend(self, folder: MessageFolder, extension: LeaseExtension) -> LeaseResult:
        try:
            _refuse_expired(extension)
        except SpoolrackError as error:
            return LeaseResult(error=error)
        return self._set_end(folder, extension.receipt, extension.seconds)

    def _set_end(self, folder: MessageFolder, receipt: str, seconds: float) -> LeaseResult:
        """Let a lease end in so many seconds, or now."""
        try:
            name = lease_of(self.leases.name(receipt))
            if _is_over(name):
                raise _stale(name)
            if seconds == 0:
                if not folder.release(name.text):
                    raise _stale(name)
                self.leases.ended(receipt)
                return LeaseResult()
            expiration = now() + round(seconds * SECOND)
            renamed = folder.extend(name.text, expiration)
            if renamed is None:
                raise _stale(name)
        except SpoolrackError as error:
            return LeaseResult(error=error)
        except OSError as error:
            return LeaseResult(error=self._explained(error))
        self.leases.renamed(receipt, renamed)
        return LeaseResult(lease_expires_at=moment_of(expiration // 1_000))

    def release(self, queue: str, releases: Sequence[MessageRelease]) -> list[LeaseResult]:
        with self._opened(queue) as folder:
            return [self._release(folder, release) for release in releases]

    def _release(self, folder: MessageFolder, release: MessageRelease) -> LeaseResult:
        delay = FAILURE_DELAY if release.delay is None else release.delay
        if delay:
            # Before the rename, which wakes the stream.
            self.leases.put_off(release.receipt)
        result = self._set_end(folder, release.receipt, delay)
        return LeaseResult(error=result.error)

    # Looks.

    def get(self, queue: str, id: str) -> Envelope:
        with self._opened(queue) as folder:
            for _ in range(RIVALS):
                found = folder.named(number_of(id, queue))
                if not found:
                    break
                with contextlib.suppress(FileNotFoundError):  # renamed in that moment
                    return self._envelope(folder, found[0], None)
        raise MessageNotFound(f"There is no message {id} in the queue {queue}.")

    def _envelope(self, folder: MessageFolder, name: FileName, limit: int | None) -> Envelope:
        size = folder.facts(name.text).st_size
        return envelope_of(name, folder.read(name.text, limit), size=size, now=now())

    def page(
        self,
        queue: str,
        *,
        wanted: MessageFilter,
        token: str,
        limit: int,
        max_body_bytes: int | None,
    ) -> Page[Envelope]:
        with self._opened(queue) as folder:
            after = number_of(token, queue) if token else -1
            moment = now()
            page: list[Envelope] = []
            for name in folder.messages():
                if name.number <= after or not _is_wanted(wanted, name, moment):
                    continue
                if len(page) == (limit or PAGE):
                    return Page(items=page, next_token=page[-1].id)
                with contextlib.suppress(FileNotFoundError):
                    page.append(self._envelope(folder, name, max_body_bytes))
            return Page(items=page)


def _is_wanted(wanted: MessageFilter, name: FileName, now: int) -> bool:
    """Return whether a message passes a filter: in vsqs none has a group or attributes."""
    sent_ms = in_micros(name.number) // 1_000
    return (
        (not wanted.states or state_of(name, now) in wanted.states)
        and (wanted.sent_since is None or sent_ms >= millis_of(wanted.sent_since))
        and (wanted.sent_before is None or sent_ms < millis_of(wanted.sent_before))
        and not (wanted.group or wanted.attributes)
    )


def _refuse_expired(message: ByReceipt | LeaseExtension) -> None:
    if message.last_receive is not None:
        raise Unsupported(
            "A vsqs folder doesn't know which receive was the last one: leave allow_expired out."
        )


def _is_over(lease: FileName) -> bool:
    return lease.expiration is None or lease.expiration <= now()


def _stale(lease: FileName) -> StaleReceipt:
    return StaleReceipt(f"The lease on message {lease.number} is over.")

"""A second implementation of the client's transport, over `memory`: the client is tested without a
server, and the contract suite against two implementations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from spoolrack._runtime import Runtime
from spoolrack._transports.missing_features import NO_SCHEDULES, missing
from spoolrack._transports.whole_files import WholeFiles
from spoolrack._values import (
    ById,
    DeleteResult,
    Envelope,
    LeaseResult,
    MessageFilter,
    MessageRejection,
    MessageRelease,
    MessageState,
    Outgoing,
    Page,
    QueueCounts,
    QueueInfo,
    QueueSettings,
    SendResult,
    Target,
    VisibilityChange,
    millis_of,
    moment_of,
    seconds_of,
)
from spoolrack.errors import (
    ClientClosed,
    MessageNotFound,
    NoDeadLetterQueue,
    QueueExists,
    QueueFull,
    SendingPaused,
    SpoolrackError,
    StaleReceipt,
    VersionMismatch,
)

from tests.client.memory import PAGE, Box, Held, Memory, MemoryDeliveries
from tests.client.memory_redriving import MemoryRedriving
from tests.client.memory_reserving import MemoryReserving
from tests.client.memory_staging import MemoryStaging, refusal_of


class MemoryTransport:
    """`spoolrack._transports.ClientTransport` to a `Memory`."""

    def __init__(self, memory: Memory, runtime: Runtime) -> None:
        self._memory = memory
        self._runtime = runtime
        self.staging = MemoryStaging(memory)
        self.redrives = MemoryRedriving(memory)
        self.schedules = missing(NO_SCHEDULES)
        self.files = WholeFiles(self.send, runtime)
        self.reservations = MemoryReserving(memory, runtime)

    @property
    def target(self) -> str:
        return "memory://"

    def _info(self, name: str) -> QueueInfo:
        box = self._memory.box(name)
        held = box.in_order()
        states = [message.state for message in held]
        sent = [message.sent_ms for message in held if message.state is not MessageState.DELAYED]
        return QueueInfo(
            name=name,
            settings=box.settings,
            counts=QueueCounts(
                ready_count=states.count(MessageState.READY),
                leased_count=states.count(MessageState.LEASED),
                delayed_count=states.count(MessageState.DELAYED),
                byte_count=sum(message.size for message in held),
                oldest_age=(self._memory.now_ms - min(sent)) / 1_000 if sent else None,
            ),
            created_at=moment_of(box.created_ms),
            version=box.version,
            labels=dict(box.labels),
        )

    async def create_queue(
        self, name: str, settings: Mapping[str, object], labels: Mapping[str, str], *, timeout: float
    ) -> QueueInfo:
        with self._memory.lock:
            self._memory.called("create_queue")
            wanted = replace(QueueSettings(), **settings)  # type: ignore[arg-type]
            box = self._memory.boxes.setdefault(name, Box(wanted, self._memory.now_ms))
            if box.settings != wanted:
                raise QueueExists(f"The queue {name} exists with other settings.")
            box.labels.update(labels)
            return self._info(name)

    async def get_queue(self, name: str, *, timeout: float) -> QueueInfo:
        with self._memory.lock:
            self._memory.called("get_queue")
            return self._info(name)

    async def list_queues(self, *, prefix: str, token: str, timeout: float) -> Page[QueueInfo]:
        with self._memory.lock:
            self._memory.called("list_queues")
            names = sorted(
                name for name in self._memory.boxes if name.startswith(prefix) and name > token
            )
            page = names[:PAGE]
            more = len(names) > len(page)
            return Page(items=[self._info(name) for name in page], next_token=page[-1] if more else "")

    async def update_queue(
        self,
        name: str,
        changes: Mapping[str, object],
        labels: Mapping[str, str | None],
        *,
        if_version: int,
        timeout: float,
    ) -> QueueInfo:
        with self._memory.lock:
            self._memory.called("update_queue")
            box = self._of_version(name, if_version)
            defaults = QueueSettings()
            named = {
                key: getattr(defaults, key) if value is None else value
                for key, value in changes.items()
            }
            box.settings = replace(box.settings, **named)
            changed = {**box.labels, **labels}
            box.labels = {label: text for label, text in changed.items() if text is not None}
            box.version += 1
            return self._info(name)

    async def delete_queue(self, name: str, *, if_version: int, timeout: float) -> None:
        with self._memory.lock:
            self._memory.called("delete_queue")
            self._of_version(name, if_version)
            del self._memory.boxes[name]

    def _of_version(self, name: str, version: int) -> Box:
        box = self._memory.box(name)
        if version and version != box.version:
            raise VersionMismatch(f"The queue {name} has version {box.version}, not {version}.")
        return box

    async def purge_queue(
        self,
        name: str,
        *,
        sent_before: datetime | None,
        states: Collection[MessageState],
        timeout: float,
    ) -> int:
        with self._memory.lock:
            self._memory.called("purge_queue")
            box = self._memory.box(name)
            going = [
                held
                for held in box.messages.values()
                if (sent_before is None or held.sent_ms < millis_of(sent_before))
                and (not states or held.state in states)
            ]
            purged = len(going)
            for held in going:
                self._memory.give_back(held)
                del box.messages[held.id]
        self._memory.wake()
        return purged

    async def send(
        self, queue: str, messages: Sequence[Outgoing], *, timeout: float
    ) -> list[SendResult]:
        with self._memory.lock:
            self._memory.called("send", len(messages))
            if self._memory.box(queue).settings.sending == "paused":
                raise SendingPaused
            results = [self._send(queue, message) for message in messages]
        self._memory.wake()
        return results

    def _send(self, queue: str, message: Outgoing) -> SendResult:
        memory, box = self._memory, self._memory.boxes[queue]
        assert isinstance(message.body, bytes)
        settings = box.settings
        held = Held(memory.new_id(), message.body, dict(message.attributes), memory.now_ms)
        refused = refusal_of(held, settings)
        if refused is not None:
            return SendResult(error=refused)
        key = message.deduplication_id
        first, first_ms = box.sent_before.get(key, ("", 0))
        if first and first_ms + settings.deduplication_window * 1_000 > memory.now_ms:
            return SendResult(id=first, sent_ms=first_ms, duplicate=True)
        if (settings.max_messages and len(box.messages) >= settings.max_messages) or (
            settings.max_bytes
            and held.size + sum(other.size for other in box.messages.values()) > settings.max_bytes
        ):
            return SendResult(error=QueueFull(retry_delay=moment_of(1_000) - moment_of(0)))
        delay = settings.delivery_delay if message.delay is None else seconds_of(message.delay)
        held.due_ms = memory.now_ms + round(delay * 1_000) if delay else None
        if message.deliver_at is not None:
            due_ms = millis_of(message.deliver_at)
            held.due_ms = due_ms if due_ms > memory.now_ms else None
        box.messages[held.id] = held
        if key:
            box.sent_before[key] = (held.id, held.sent_ms)
        return SendResult(id=held.id, sent_ms=held.sent_ms)

    async def receive(
        self,
        queue: str,
        *,
        max_messages: int,
        wait: float,
        visibility_timeout: float | None,
        timeout: float,
    ) -> Sequence[Envelope]:
        memory = self._memory
        until = memory.now_ms + wait * 1_000
        while True:
            signal = self._runtime.signal()
            with memory.lock:
                memory.called("receive")
                leased = memory.lease(queue, max_messages, visibility_timeout)
                if leased or memory.now_ms >= until:
                    return leased
                memory.waiting.add(signal)
            try:
                await signal.wait()
            finally:
                memory.waiting.discard(signal)

    def stream(
        self,
        queue: str,
        *,
        max_in_flight: int,
        max_bytes_in_flight: int,
        visibility_timeout: float | None,
        concurrency: int,
    ) -> MemoryDeliveries:
        return MemoryDeliveries(self._memory, self._runtime, queue, max_in_flight, visibility_timeout)

    async def delete(
        self, queue: str, targets: Sequence[Target], *, timeout: float
    ) -> list[DeleteResult]:
        with self._memory.lock:
            self._memory.called("delete", len(targets))
            self._memory.box(queue)
            results = [self._delete(queue, target) for target in targets]
        self._memory.wake()
        return results

    def _delete(self, queue: str, target: Target) -> DeleteResult:
        box = self._memory.boxes[queue]
        try:
            if isinstance(target, ById):
                held = box.messages.get(target.id)
                if held is None:
                    raise MessageNotFound(f"There is no message {target.id} in the queue {queue}.")
            else:
                held = self._memory.find(queue, target.receipt)
        except SpoolrackError as error:
            return DeleteResult(error=error)
        if held is not None:
            del box.messages[held.id]
            self._memory.give_back(held)
        return DeleteResult()

    async def change_visibility(
        self, queue: str, changes: Sequence[VisibilityChange], *, timeout: float
    ) -> list[LeaseResult]:
        with self._memory.lock:
            self._memory.called("change_visibility", len(changes))
            self._memory.box(queue)
            results = [self._change(queue, change) for change in changes]
        self._memory.wake()
        return results

    def _change(self, queue: str, change: VisibilityChange) -> LeaseResult:
        try:
            held = self._memory.find(queue, change.receipt)
            if held is None:
                raise StaleReceipt("The message is deleted.")
        except SpoolrackError as error:
            return LeaseResult(error=error)
        if change.seconds == 0:
            self._memory.end_lease(queue, held)
            return LeaseResult()
        held.due_ms = self._memory.now_ms + round(change.seconds * 1_000)
        return LeaseResult(lease_expires_at=moment_of(held.due_ms))

    async def release(
        self, queue: str, releases: Sequence[MessageRelease], *, timeout: float
    ) -> list[LeaseResult]:
        with self._memory.lock:
            self._memory.called("release", len(releases))
            self._memory.box(queue)
            results = [self._release(queue, release) for release in releases]
        self._memory.wake()
        return results

    def _release(self, queue: str, release: MessageRelease) -> LeaseResult:
        try:
            held = self._memory.find(queue, release.receipt)
            if held is None:
                raise StaleReceipt("The message is deleted.")
        except SpoolrackError as error:
            return LeaseResult(error=error)
        delay = release.delay
        if delay is None:
            delay = self._memory.back_off(queue, held)
        if not release.count:
            held.receives -= 1
        self._memory.end_lease(queue, held, explanation=release.reason, is_counted=release.count)
        if held.id in self._memory.boxes[queue].messages and delay:
            held.due_ms = self._memory.now_ms + round(delay * 1_000)
        return LeaseResult()

    async def reject(
        self, queue: str, rejections: Sequence[MessageRejection], *, timeout: float
    ) -> list[LeaseResult]:
        with self._memory.lock:
            self._memory.called("reject", len(rejections))
            if self._memory.box(queue).settings.dead_letter_queue not in self._memory.boxes:
                raise NoDeadLetterQueue(metadata={"queue": queue})
            results = [self._reject(queue, rejection) for rejection in rejections]
        self._memory.wake()
        return results

    def _reject(self, queue: str, rejection: MessageRejection) -> LeaseResult:
        try:
            held = self._memory.find(queue, rejection.receipt)
            if held is None:
                raise StaleReceipt("The message is deleted.")
        except SpoolrackError as error:
            return LeaseResult(error=error)
        self._memory.bury(queue, held, "rejected", rejection.reason)
        return LeaseResult()

    async def get_message(self, queue: str, id: str, *, timeout: float) -> Envelope:
        with self._memory.lock:
            self._memory.called("get_message")
            held = self._memory.box(queue).messages.get(id)
            if held is None:
                raise MessageNotFound(f"There is no message {id} in the queue {queue}.")
            return held.envelope()

    async def list_messages(
        self,
        queue: str,
        *,
        wanted: MessageFilter,
        token: str,
        limit: int,
        max_body_bytes: int | None,
        timeout: float,
    ) -> Page[Envelope]:
        with self._memory.lock:
            self._memory.called("list_messages")
            found = [
                held
                for held in self._memory.box(queue).in_order()
                if held.id > token
                and (not wanted.states or held.state in wanted.states)
                and (wanted.sent_since is None or held.sent_ms >= millis_of(wanted.sent_since))
                and (wanted.sent_before is None or held.sent_ms < millis_of(wanted.sent_before))
                and not wanted.group
                and all(held.attributes.get(name) == each for name, each in wanted.attributes.items())
            ]
            page = found[: limit or PAGE]
            return Page(
                items=[held.envelope(max_body=max_body_bytes) for held in page],
                next_token=page[-1].id if len(found) > len(page) else "",
            )

    async def close(self) -> None:
        self.reservations.close()
        self._memory.break_connections(ClientClosed())

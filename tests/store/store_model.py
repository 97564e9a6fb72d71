"""A model of the store's promises, in the simplest form that can be run: dictionaries, and no disk.

It is told the ids and receipts that the engine made, which are the engine's to choose, and predicts
everything else: which messages come in which order, with which counts, dues and errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from spoolrack_store.model.message_content import MAX_DELAY
from spoolrack_store.model.message_ids import sent_at
from spoolrack_store.model.operations import (
    ChangeVisibility,
    Delete,
    Delivery,
    Receive,
    ReleaseMessages,
    Send,
    SendResults,
)
from spoolrack_store.model.settings import MAX_VISIBILITY, QueueSettings

Told = object
"""An answer, or the name of an error's class."""


@dataclass(slots=True)
class ModelMessage:
    id: str
    body: bytes
    state: str = "ready"
    receives: int = 0
    first_receive: int | None = None
    due: int | None = None
    due_monotonic: int = 0
    receipt: str | None = None
    consumer: str | None = None


@dataclass(slots=True)
class ModelQueue:
    settings: QueueSettings
    messages: dict[str, ModelMessage] = field(default_factory=dict)

    def in_order(self, state: str) -> list[ModelMessage]:
        return sorted((m for m in self.messages.values() if m.state == state), key=lambda m: m.id)


class StoreModel:
    def __init__(self) -> None:
        self.wall = 0
        self.monotonic = 0
        self.queues: dict[str, ModelQueue] = {}
        self.doomed: set[str] = set()
        self.entering: list[tuple[str, ModelMessage]] = []
        """The messages that the commit sends, in order."""
        self.gone: set[str] = set()
        """Ids of messages that were deleted, expired or purged: never to be seen again."""
        self.limits: dict[str, int] = {}

    # One commit. The order of the calls is that of `Engine.apply`.

    def begin(self, wall: int, monotonic: int) -> None:
        self.wall, self.monotonic = wall, monotonic
        for name, queue in self.queues.items():
            for message in list(queue.messages.values()):
                if message.state != "ready" and message.due_monotonic <= monotonic:
                    self._bring_back(name, message)

    def finish(self) -> None:
        """Finish a durable commit, and those that go on with its work."""
        for name, message in self.entering:
            if name in self.queues:
                self.queues[name].messages[message.id] = message
        self.entering.clear()
        self.doomed.clear()

    def die(self, wall: int, monotonic: int) -> None:
        """Kill -9, before `finish` or after, and a new start."""
        self.finish()
        self.wall, self.monotonic = wall, monotonic
        for queue in self.queues.values():
            for message in queue.messages.values():
                message.consumer = None
                if message.due is not None:
                    message.due_monotonic = monotonic + max(0, message.due - wall)
        self.begin(wall, monotonic)
        self.finish()

    # Queues.

    def refusal(self, name: str) -> str | None:
        return None if name in self.queues else "QueueNotFound"

    def create(self, name: str, settings: QueueSettings) -> str | None:
        if name in self.queues:
            return None if self.queues[name].settings == settings else "QueueExists"
        if settings.dead_letter_queue and settings.dead_letter_queue not in self.queues:
            return "InvalidSetting"
        self.queues[name] = ModelQueue(settings)
        return None

    def update(self, name: str, settings: QueueSettings) -> str | None:
        refusal = self.refusal(name)
        if refusal is not None or settings == self.queues[name].settings:
            return refusal
        target = settings.dead_letter_queue
        is_new = target and target != self.queues[name].settings.dead_letter_queue
        if is_new and target not in self.queues:
            return "InvalidSetting"
        self.queues[name].settings = settings
        return None

    def delete_queue(self, name: str) -> str | None:
        refusal = self.refusal(name)
        if refusal is None:
            self.gone.update(self.queues[name].messages)
            del self.queues[name]
            self.doomed.add(name)
        return refusal

    def purge(self, name: str) -> Told:
        refusal = self.refusal(name)
        if refusal is not None:
            return refusal
        messages = self.queues[name].messages
        count = len(messages)
        self.gone.update(messages)
        messages.clear()
        return count

    # Messages.

    def send(self, request: Send, stored: object) -> Told:
        """Return the error of each, or the id that the engine gave it."""
        name = request.queue
        if name in self.doomed:
            return "QueueBeingDeleted"
        refusal = self.refusal(name)
        if refusal is not None:
            return refusal
        assert isinstance(stored, SendResults), stored
        queue, settings = self.queues[name], self.queues[name].settings
        told: list[object] = []
        sent: dict[int, list[ModelMessage]] = {}
        for position, body in enumerate(request.bodies):
            entering = [each for there, each in self.entering if there == name]
            held = [*queue.messages.values(), *entering]
            held += [each for messages in sent.values() for each in messages]
            delay = request.delays.get(position, settings.delivery_delay)
            if len(body) > settings.max_message_size:
                told.append("MessageTooLarge")
            elif not 0 <= delay <= MAX_DELAY:
                told.append("InvalidMessage")
            elif (settings.max_messages and len(held) >= settings.max_messages) or (
                settings.max_bytes
                and sum(len(each.body) for each in held) + len(body) > settings.max_bytes
            ):
                told.append("QueueFull")
            else:
                id = stored.results[position]
                assert isinstance(id, str), id
                message = ModelMessage(id, body)
                if delay:
                    message.state = "delayed"
                    message.due = self.wall + delay
                    message.due_monotonic = self.monotonic + delay
                sent.setdefault(delay, []).append(message)
                told.append(id)
        self.entering += [(name, each) for messages in sent.values() for each in messages]
        return told

    def delete(self, requests: Sequence[Delete]) -> list[Told]:
        """Return all deletes of a commit see what was there before any of them."""
        told: list[Told] = []
        leaving: set[tuple[str, str]] = set()
        for request in requests:
            refusal = self.refusal(request.queue)
            if refusal is not None:
                told.append(refusal)
                continue
            found = [self._by_receipt(request.queue, receipt) for receipt in request.receipts]
            found += [self._by_id(request.queue, id) for id in request.ids]
            leaving |= {(request.queue, each.id) for each in found if isinstance(each, ModelMessage)}
            told.append([each if isinstance(each, str) else None for each in found])
        for name, id in leaving:
            del self.queues[name].messages[id]
            self.gone.add(id)
        return told

    def _by_id(self, name: str, id: str) -> ModelMessage | str | None:
        return self.queues[name].messages.get(id, "MessageNotFound")

    def _by_receipt(self, name: str, receipt: str) -> ModelMessage | str | None:
        id = id_in(receipt)
        found = self.queues[name].messages.get(id)
        if found is not None:
            return found if found.receipt == receipt else "StaleReceipt"
        is_elsewhere = any(id in queue.messages for queue in self.queues.values())
        return "StaleReceipt" if is_elsewhere else None

    def change(self, request: ChangeVisibility) -> Told:
        refusal = self.refusal(request.queue)
        if refusal is not None:
            return refusal
        if not 0 <= request.visibility_timeout <= MAX_VISIBILITY:
            return "InvalidRequest"
        told: list[object] = []
        leases: dict[str, ModelMessage] = {}
        for receipt in request.receipts:
            found = self._by_receipt(request.queue, receipt)
            if isinstance(found, ModelMessage):
                leases[found.id] = found
                told.append(self.wall + request.visibility_timeout if request.visibility_timeout else 0)
            else:
                told.append("StaleReceipt")
        for lease in leases.values():
            if request.visibility_timeout:
                lease.due = self.wall + request.visibility_timeout
                lease.due_monotonic = self.monotonic + request.visibility_timeout
            else:
                self._bring_back(request.queue, lease)
        return told

    def release(self, request: ReleaseMessages) -> Told:
        refusal = self.refusal(request.queue)
        if refusal is not None:
            return refusal
        told: list[object] = []
        leases: dict[str, ModelMessage] = {}
        for receipt in request.receipts:
            found = self._by_receipt(request.queue, receipt)
            if isinstance(found, ModelMessage):
                leases[found.id] = found
                assert request.delay is not None
                told.append(self.wall + request.delay)
            else:
                told.append("StaleReceipt")
        for lease in leases.values():
            if not request.uncounted and self._dies(request.queue, lease):
                continue
            if request.uncounted:
                lease.receives -= 1
                if not lease.receives:
                    lease.first_receive = None
            self._make_ready(lease)
            if request.delay:
                lease.state = "delayed"
                lease.due = self.wall + request.delay
                lease.due_monotonic = self.monotonic + request.delay
        return told

    def give_back(self, name: str, receipts: Sequence[str]) -> Told:
        refusal = self.refusal(name)
        if refusal is not None:
            return refusal
        for found in [self._by_receipt(name, receipt) for receipt in dict.fromkeys(receipts)]:
            if isinstance(found, ModelMessage):
                found.receives -= 1
                if not found.receives:
                    found.first_receive = None
                self._make_ready(found)
        return None

    def expire(self, queue: ModelQueue) -> None:
        for message in queue.in_order("ready"):
            retention = queue.settings.retention
            if not retention or sent_at(message.id) + retention > self.wall:
                break
            del queue.messages[message.id]
            self.gone.add(message.id)

    def receive(self, request: Receive, consumer: str | None) -> list[ModelMessage] | str:
        """Return what would be leased, in order; `leased` tells the receipts."""
        refusal = self.refusal(request.queue)
        if refusal is not None:
            return refusal
        if request.max_messages < 1:
            return "InvalidRequest"
        queue = self.queues[request.queue]
        room = request.max_messages
        if consumer is not None:
            room = min(room, self.limits[consumer] - self.in_flight(consumer))
        bytes_left = request.max_bytes
        taken: list[ModelMessage] = []
        written = [each for name, each in self.entering if name == request.queue]
        for message in [*queue.in_order("ready"), *(each for each in written if each.state == "ready")]:
            if room <= 0:
                break
            if self._dies(request.queue, message):
                continue
            if taken and len(message.body) > bytes_left:
                break
            taken.append(message)
            room -= 1
            bytes_left -= len(message.body)
        visibility = queue.settings.visibility_timeout
        if request.visibility_timeout is not None:
            visibility = request.visibility_timeout
        for message in taken:
            message.state = "leased"
            message.receives += 1
            if message.first_receive is None:
                message.first_receive = self.wall
            message.due = self.wall + visibility
            message.due_monotonic = self.monotonic + visibility
            message.consumer = consumer
        return taken

    def leased(self, deliveries: Sequence[Delivery]) -> None:
        sent = {each.id: each for _, each in self.entering}
        for delivery in deliveries:
            for id, receipt in zip(delivery.ids, delivery.receipts, strict=True):
                there = self.queues[delivery.queue].messages.get(id)
                (there or sent[id]).receipt = receipt

    def tick(self, wall: int) -> None:
        self.wall = wall
        for queue in self.queues.values():
            self.expire(queue)

    def in_flight(self, consumer: str) -> int:
        messages = [each for queue in self.queues.values() for each in queue.messages.values()]
        messages += [each for _, each in self.entering]
        return sum(message.consumer == consumer for message in messages)

    def _make_ready(self, message: ModelMessage) -> None:
        message.state, message.due, message.receipt, message.consumer = "ready", None, None, None

    def _bring_back(self, name: str, message: ModelMessage) -> None:
        if message.state != "leased" or not self._dies(name, message):
            self._make_ready(message)

    def _dies(self, name: str, message: ModelMessage) -> bool:
        """Move a message to the dead-letter queue, if it has had its last lease."""
        settings = self.queues[name].settings
        is_worn = settings.max_receives and message.receives >= settings.max_receives
        if not is_worn or settings.dead_letter_queue not in self.queues:
            return False
        del self.queues[name].messages[message.id]
        dead = ModelMessage(message.id, message.body)
        self.queues[settings.dead_letter_queue].messages[message.id] = dead
        return True


def id_in(receipt: str) -> str:
    return receipt.partition(":")[2][:36]

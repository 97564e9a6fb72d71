"""What the store promises, in the simplest form that can be run: dictionaries, and no disk.

It is told the ids and tokens that the engine made, which are the engine's to choose, and predicts
everything else: which messages come in which order, with which counts, dues and errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from arrivals_model import ArrivalsModel
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.ids import sent_at
from spoolrack_store.model.operations import (
    ById,
    Message,
    Outgoing,
    Receive,
    Sent,
    Target,
    VisibilityChange,
)
from spoolrack_store.model.settings import MAX_DELAY, MAX_VISIBILITY, QueueSettings

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
        self.moving: list[tuple[str, str, ModelMessage]] = []
        """Dead letters on their way, with where from and where to, until the commit is finished."""
        self.entering: list[tuple[str, ModelMessage]] = []
        self.arrivals: ArrivalsModel[ModelMessage] = ArrivalsModel()
        self.gone: set[str] = set()
        """Ids of messages that were deleted, expired or purged: never to be seen again."""
        self.limits: dict[str, int] = {}

    # One commit. The order of the calls is that of `Engine.apply`.

    def begin(self, wall: int, monotonic: int) -> None:
        self.wall, self.monotonic = wall, monotonic
        self.arrivals.clear()
        for name, queue in self.queues.items():
            for message in list(queue.messages.values()):
                if message.state != "ready" and message.due_monotonic <= monotonic:
                    self._requeue(name, message)

    def finish(self) -> None:
        """The commit is durable: what waited for that happens."""
        for source, target, message in self.moving:
            message.receives, message.first_receive = 0, None
            if target in self.queues:
                self.queues[target].messages[message.id] = message
            elif target in self.doomed:
                self.gone.add(message.id)
            else:
                self.queues[source].messages[message.id] = message
        self.moving.clear()
        for name, message in self.entering:
            if name in self.queues:
                self.queues[name].messages[message.id] = message
        self.entering.clear()
        self.doomed.clear()

    def die(self, wall: int, monotonic: int) -> None:
        """Kill -9, before `finish` or after, and a new start."""
        self.arrivals.clear()
        for source, _, message in self.moving:
            if source in self.queues:
                self.queues[source].messages[message.id] = message
        self.moving.clear()
        self.finish()
        self.wall, self.monotonic = wall, monotonic
        for queue in self.queues.values():
            for message in queue.messages.values():
                message.consumer = None
                if message.due is not None:
                    most = MAX_DELAY if message.state == "delayed" else MAX_VISIBILITY
                    message.due_monotonic = monotonic + min(message.due - wall, most)
        self.begin(wall, monotonic)

    # Queues.

    def refusal(self, name: str) -> str | None:
        return None if name in self.queues else "QueueNotFound"

    def create(self, name: str, settings: QueueSettings) -> str | None:
        if name in self.doomed:
            return "QueueBeingDeleted"
        if name in self.queues:
            return None if self.queues[name].settings == settings else "QueueExists"
        if settings.dead_letter_queue and settings.dead_letter_queue not in self.queues:
            return "InvalidSetting"
        self.queues[name] = ModelQueue(settings)
        return None

    def update(self, name: str, settings: QueueSettings) -> str | None:
        refusal = self.refusal(name)
        if refusal is not None:
            return refusal
        if settings == self.queues[name].settings:
            return None
        if settings.dead_letter_queue and settings.dead_letter_queue not in self.queues:
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
        count = len(self.queues[name].messages)
        self.gone.update(self.queues[name].messages)
        self.queues[name].messages.clear()
        # A dead letter that has not left yet lies among them.
        for source, target, message in list(self.moving):
            if source == name:
                self.moving.remove((source, target, message))
                self.gone.add(message.id)
        return count

    # Messages.

    def send(self, name: str, messages: Sequence[Outgoing], results: Sequence[object]) -> Told:
        """The error of each, or the id that the engine gave it."""
        if name in self.doomed:
            return "QueueBeingDeleted"
        refusal = self.refusal(name)
        if refusal is not None:
            return refusal
        queue = self.queues[name]
        told: list[object] = []
        sent: list[tuple[int, ModelMessage, int]] = []
        for outgoing, result in zip(messages, results, strict=True):
            settings = queue.settings
            entering = [m for n, m in self.entering if n == name]
            held = [*queue.messages.values(), *entering]
            delay = settings.delivery_delay if outgoing.delay is None else outgoing.delay
            size = len(outgoing.body)
            if size > settings.max_message_size:
                told.append("MessageTooLarge")
            elif not 0 <= delay <= MAX_DELAY:
                told.append("InvalidMessage")
            elif (settings.max_messages and len(held) >= settings.max_messages) or (
                settings.max_bytes and sum(len(m.body) for m in held) + size > settings.max_bytes
            ):
                told.append("QueueFull")
            else:
                assert isinstance(result, Sent), result
                message = ModelMessage(result.id, outgoing.body)
                if delay:
                    message.state = "delayed"
                    message.due = self.wall + delay
                    message.due_monotonic = self.monotonic + delay
                self.entering.append((name, message))
                sent.append((delay, message, size))
                told.append(result)
        self.arrivals.add(name, sent)
        return told

    def delete(self, deletes: Sequence[tuple[str, Sequence[Target]]]) -> list[Told]:
        """All deletes of a commit see what was there before any of them."""
        told: list[Told] = []
        leaving: set[tuple[str, str]] = set()
        for name, targets in deletes:
            refusal = self.refusal(name)
            if refusal is not None:
                told.append(refusal)
                continue
            results: list[object] = []
            for target in targets:
                found = self._target(name, target)
                if isinstance(found, ModelMessage):
                    leaving.add((name, found.id))
                    found = None
                results.append(found)
            told.append(results)
        for name, id in leaving:
            del self.queues[name].messages[id]
            self.gone.add(id)
        return told

    def _target(self, name: str, target: Target) -> ModelMessage | str | None:
        messages = self.queues[name].messages
        if isinstance(target, ById):
            return messages.get(target.id, "MessageNotFound")
        id = id_in(target.receipt)
        if id in messages:
            return messages[id] if messages[id].receipt == target.receipt else "StaleReceipt"
        return "StaleReceipt" if self._is_buried(name, id) else None

    def _is_buried(self, name: str, id: str) -> bool:
        if any(message.id == id for _, _, message in self.moving):
            return True
        target = self.queues[name].settings.dead_letter_queue
        while target in self.queues:
            if id in self.queues[target].messages:
                return True
            target = self.queues[target].settings.dead_letter_queue
        return False

    def change(self, name: str, changes: Sequence[VisibilityChange]) -> Told:
        refusal = self.refusal(name)
        if refusal is not None:
            return refusal
        told: list[object] = []
        at_once: dict[str, tuple[int, object, str]] = {}
        """Repetitions within one call that ask for the same, by the same receipt, are one."""
        for change in changes:
            if not 0 <= change.visibility <= MAX_VISIBILITY:
                told.append("InvalidRequest")
                continue
            id = id_in(change.receipt)
            if id in at_once and at_once[id][0] != change.visibility:
                at_once.clear()
            found = self.queues[name].messages.get(id)
            if id in at_once:
                told.append(at_once[id][1] if at_once[id][2] == change.receipt else "StaleReceipt")
                continue
            outcome = self._change(name, found, change)
            if outcome != "StaleReceipt":
                at_once[id] = (change.visibility, outcome, change.receipt)
            told.append(outcome)
        return told

    def _change(self, name: str, found: ModelMessage | None, change: VisibilityChange) -> object:
        if found is None or found.receipt != change.receipt:
            return "StaleReceipt"
        if not change.visibility:
            self._requeue(name, found)
            return None
        found.due = self.wall + change.visibility
        found.due_monotonic = self.monotonic + change.visibility
        return found.due

    def give_back(self, name: str, receipts: Iterable[str]) -> Told:
        refusal = self.refusal(name)
        if refusal is not None:
            return refusal
        for receipt in receipts:
            found = self.queues[name].messages.get(id_in(receipt))
            if found is not None and found.receipt == receipt:
                found.receives -= 1
                if not found.receives:
                    found.first_receive = None
                self._requeue(name, found)
        return None

    def receive(self, request: Receive, consumer: str | None) -> list[ModelMessage] | str:
        """Who would be leased, in order; `leased` tells the receipts."""
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
        for message in queue.in_order("ready"):
            if room <= 0 or (taken and len(message.body) > bytes_left):
                break
            if self._is_expired(queue, message.id):
                del queue.messages[message.id]
                self.gone.add(message.id)
                continue
            if self._is_dead(request.queue, message):
                continue
            taken.append(message)
            room -= 1
            bytes_left -= len(message.body)
        if len(queue.in_order("ready")) == len(taken):  # What was taken is still called ready here.
            is_empty = not taken
            taken += self.arrivals.take(request.queue, room, bytes_left, is_empty=is_empty)
        visibility = queue.settings.visibility_timeout
        if request.visibility is not None:
            visibility = request.visibility
        for message in taken:
            message.state = "leased"
            message.receives += 1
            if message.first_receive is None:
                message.first_receive = self.wall
            message.due = self.wall + visibility
            message.due_monotonic = self.monotonic + visibility
            message.consumer = consumer
        return taken

    def leased(self, messages: Sequence[Message]) -> None:
        sent = {each.id: each for _, each in self.entering}
        for message in messages:
            there = self.queues[message.queue].messages.get(message.id)
            (there or sent[message.id]).receipt = message.receipt

    def tick(self) -> None:
        for queue in self.queues.values():
            for message in queue.in_order("ready"):
                if not self._is_expired(queue, message.id):
                    break
                del queue.messages[message.id]
                self.gone.add(message.id)

    def in_flight(self, consumer: str) -> int:
        messages = [each for queue in self.queues.values() for each in queue.messages.values()]
        messages += [each for _, each in self.entering]
        return sum(message.consumer == consumer for message in messages)

    def _requeue(self, name: str, message: ModelMessage) -> None:
        message.state, message.due, message.receipt, message.consumer = "ready", None, None, None
        self._is_dead(name, message)

    def _is_dead(self, name: str, message: ModelMessage) -> bool:
        settings = self.queues[name].settings
        if not settings.max_receives or message.receives < settings.max_receives:
            return False
        if settings.dead_letter_queue not in self.queues:
            return False
        del self.queues[name].messages[message.id]
        self.moving.append((name, settings.dead_letter_queue, message))
        return True

    def _is_expired(self, queue: ModelQueue, id: str) -> bool:
        retention = queue.settings.retention
        return bool(retention) and sent_at(id) + retention <= self.wall


def id_in(receipt: str) -> str:
    return receipt.rpartition("~")[0][-36:]


def millis(value: int) -> Millis:
    return Millis(value)

"""Queues in memory, in time that a test moves.

Simple where the store is clever: a queue is a list in the order of the sends. It keeps the store's
promises except durability. `Memory.failures` makes calls fail in the ways that networks have.
"""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spoolrack._redrive_values import Redrive
from spoolrack._runtime import Runtime, Signal
from spoolrack._values import (
    DeadLetterRecord,
    Envelope,
    MessageState,
    QueueSettings,
    moment_of,
)
from spoolrack.errors import (
    ClientClosed,
    InvalidReceipt,
    QueueNotFound,
    SpoolrackError,
    StaleReceipt,
    Unreachable,
)

PAGE = 100


@dataclass
class Held:
    """A message in a queue."""

    id: str
    body: bytes
    attributes: Mapping[str, str | bytes]
    sent_ms: int
    receives: int = 0
    first_receive_ms: int | None = None
    due_ms: int | None = None
    token: str | None = None
    stream: MemoryDeliveries | None = None
    deaths: list[DeadLetterRecord] = field(default_factory=list)

    @property
    def state(self) -> MessageState:
        if self.token is not None:
            return MessageState.LEASED
        return MessageState.READY if self.due_ms is None else MessageState.DELAYED

    @property
    def size(self) -> int:
        return len(self.body) + sum(len(name) + len(value) for name, value in self.attributes.items())

    def envelope(self, receipt: str = "", max_body: int | None = None) -> Envelope:
        return Envelope(
            id=self.id,
            body=self.body if max_body is None else self.body[:max_body],
            attributes=self.attributes,
            size=len(self.body),
            sent_ms=self.sent_ms,
            receive_count=self.receives,
            first_receive_ms=self.first_receive_ms,
            due_ms=self.due_ms,
            receipt=receipt,
            state=self.state,
            dead_letter_records=() if receipt else list(self.deaths),
        )


@dataclass
class Box:
    """A queue."""

    settings: QueueSettings
    created_ms: int
    version: int = 1
    labels: dict[str, str] = field(default_factory=dict)
    messages: dict[str, Held] = field(default_factory=dict)
    sent_before: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Id and time of the first message with each deduplication id."""

    def in_order(self) -> list[Held]:
        return sorted(self.messages.values(), key=lambda held: held.id)


@dataclass
class StagedMessages:
    """A stage: the messages of each chunk by queue, with the delays."""

    due_ms: int
    chunks: dict[int, list[tuple[str, Held, float | None]]] = field(default_factory=dict)


@dataclass
class Reserved:
    """A reservation: messages of a queue, with the tokens of their leases."""

    queue: str
    tokens: dict[str, str]
    size: int
    hold_ms: int
    due_ms: int
    reads: int = 0


@dataclass
class Redriven:
    """A redrive, and the ids of the messages that it hasn't looked at yet."""

    told: Redrive
    left: list[str]
    begun_ms: int


class Memory:
    """The queues, and the clock they live by."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.now_ms = 1_700_000_000_000
        self.boxes: dict[str, Box] = {}
        self.waiting: set[Signal] = set()
        self.failures: deque[SpoolrackError] = deque()
        """Each is raised by one call, in order, before it does anything."""
        self._failing: dict[str, deque[Exception]] = {}
        self._losing: dict[str, deque[Exception]] = {}
        self.calls: list[tuple[str, int]] = []
        """The calls, and the number of items of each."""
        self.streams: set[MemoryDeliveries] = set()
        self.stages: dict[str, StagedMessages] = {}
        self.epochs: dict[str, int] = {}
        """The last one of each writer."""
        self.reserved: dict[tuple[str, int], Reserved] = {}
        self.committed: dict[str, int] = {}
        self.redrives: dict[str, Redriven] = {}
        self._serial = 0

    def advance(self, millis: int) -> None:
        with self.lock:
            self.now_ms += millis
            for name in list(self.boxes):
                self.tick(name)
        self.wake()

    def wake(self) -> None:
        with self.lock:
            for signal in list(self.waiting):
                signal.set()

    def break_connections(self, error: SpoolrackError | None = None) -> None:
        """End every stream as a broken connection does."""
        with self.lock:
            for stream in list(self.streams):
                stream.failure = error or Unreachable("broken by the test")
        self.wake()

    def called(self, name: str, items: int = 1) -> None:
        with self.lock:
            self.calls.append((name, items))
            if self.failures:
                raise self.failures.popleft()
            if self._failing.get(name):
                raise self._failing[name].popleft()

    def fail(self, name: str, *errors: Exception) -> None:
        """Let the next calls of this kind raise these errors, before they do anything."""
        self._failing[name] = deque(errors)

    def lose(self, name: str, *errors: Exception) -> None:
        """Let them raise these errors after they did all: their answers are lost."""
        self._losing[name] = deque(errors)

    def answered(self, name: str) -> None:
        with self.lock:
            if self._losing.get(name):
                raise self._losing[name].popleft()

    def box(self, name: str) -> Box:
        if name not in self.boxes:
            raise QueueNotFound(
                f"There is no queue {name}: it was deleted, or never created. Check its name; "
                "to use it, create it."
            )
        self.tick(name)
        return self.boxes[name]

    def new_id(self) -> str:
        self._serial += 1
        return str(uuid.UUID(int=(self.now_ms << 80) | (7 << 76) | (2 << 62) | self._serial))

    def tick(self, name: str) -> None:
        """Do all that is due."""
        box = self.boxes[name]
        retention = box.settings.retention * 1_000
        for held in box.in_order():
            if held.due_ms is not None and held.due_ms <= self.now_ms:
                self.end_lease(name, held)
            if retention and held.sent_ms + retention <= self.now_ms and held.token is None:
                box.messages.pop(held.id, None)

    def end_lease(
        self, name: str, held: Held, *, explanation: str = "", is_counted: bool = True
    ) -> None:
        settings = self.boxes[name].settings
        was_leased = held.token is not None
        held.due_ms = held.token = None
        self.give_back(held)
        is_worn = was_leased and is_counted and held.receives >= settings.max_receives
        if is_worn and settings.dead_letter_queue in self.boxes:
            self.bury(name, held, "max_receives", explanation)

    def bury(self, name: str, held: Held, reason: str, explanation: str) -> None:
        box = self.boxes[name]
        held.due_ms = held.token = None
        self.give_back(held)
        first = held.first_receive_ms
        death = DeadLetterRecord(
            source_queue=name,
            reason=reason,
            receive_count=held.receives,
            first_received_at=None if first is None else moment_of(first),
            dead_lettered_at=moment_of(self.now_ms),
            explanation=explanation,
        )
        held.deaths.append(death)
        held.receives, held.first_receive_ms = 0, None
        del box.messages[held.id]
        self.boxes[box.settings.dead_letter_queue].messages[held.id] = held

    def back_off(self, name: str, held: Held) -> float:
        """Return the seconds of the queue's back-off, without jitter."""
        settings = self.boxes[name].settings
        whole = settings.backoff_initial * settings.backoff_factor ** (held.receives - 1)
        return min(whole, settings.backoff_maximum)

    def give_back(self, held: Held) -> None:
        if held.stream is not None:
            held.stream.in_flight -= 1
            held.stream = None

    def lease(self, name: str, limit: int, visibility: float | None) -> list[Envelope]:
        box = self.box(name)
        span = box.settings.visibility_timeout if visibility is None else visibility
        leased: list[Envelope] = []
        for held in box.in_order():
            if len(leased) == limit or box.settings.receiving == "paused":
                break
            if held.state is MessageState.READY:
                held.token = uuid.uuid4().hex
                held.due_ms = self.now_ms + round(span * 1_000)
                held.receives += 1
                held.first_receive_ms = held.first_receive_ms or self.now_ms
                leased.append(held.envelope(f"{name}/{held.id}/{held.token}"))
        return leased

    def find(self, queue: str, receipt: str) -> Held | None:
        """Return the message of a valid lease; None if it is deleted. Raises for a stale or a false
        one."""
        parts = receipt.split("/")
        if len(parts) != 3 or parts[0] != queue:
            raise InvalidReceipt(f"{receipt!r} is not a receipt.")
        held = self.box(queue).messages.get(parts[1])
        if held is not None and held.token != parts[2]:
            raise StaleReceipt(f"The lease on message {held.id} is over.")
        return held


class MemoryDeliveries:
    """A stream with credits."""

    def __init__(
        self, memory: Memory, runtime: Runtime, queue: str, limit: int, visibility: float | None
    ):
        self._memory = memory
        self._runtime = runtime
        self._queue = queue
        self._limit = limit
        self._visibility = visibility
        self.in_flight = 0
        self.begun = 0
        self.failure: SpoolrackError | None = None
        self._connected = False
        memory.streams.add(self)

    async def next(self) -> Sequence[Envelope]:
        memory = self._memory
        while True:
            signal = self._runtime.signal()
            with memory.lock:
                if not self._connected:
                    memory.called("stream")
                    self._connected = True
                if self.failure is not None:
                    raise self.failure
                leased = memory.lease(self._queue, self._limit - self.in_flight, self._visibility)
                if leased:
                    self.in_flight += len(leased)
                    for envelope in leased:
                        memory.boxes[self._queue].messages[envelope.id].stream = self
                    return leased
                memory.waiting.add(signal)
            try:
                await signal.wait()
            finally:
                memory.waiting.discard(signal)

    def report(self, begun: int, max_in_flight: int) -> None:
        self.begun = begun
        self._limit = max_in_flight

    def connected(self) -> bool:
        return self._connected

    def cancel(self) -> None:
        self.failure = ClientClosed("The stream was closed.")
        self._memory.streams.discard(self)
        self._memory.wake()

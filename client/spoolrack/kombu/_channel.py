"""A channel: kombu publishes, consumes and acknowledges on it.

Each consumer is a stream with as many credits as the channel prefetches. The lease of a message that is
not acknowledged is extended for as long as the channel lives. Acknowledgements may come from any
thread; all else belongs to the thread that drains the connection.

What can fail: each call to the server, with a `SpoolrackError`. A lost lease is no failure: the message
is delivered again.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from queue import Empty
from typing import Any, Final

from kombu.transport import virtual
from kombu.transport.base import to_rabbitmq_queue_arguments
from kombu.transport.virtual.base import queue_declare_ok_t

from .._arguments import MAX_IN_FLIGHT
from .._blocking import Queue
from .._core.acks import Ack, Acks
from .._core.lease_extender import LeaseExtender
from .._core.stream import EnvelopeStream
from .._runtime import run
from .._values import Envelope, MessageRelease, QueueInfo
from ..errors import SpoolrackError, StaleReceipt
from ._broker import PATIENCE, SILENT, Binding, Broker, in_event_loop, in_worker_process

log = logging.getLogger("spoolrack")

UNLIMITED: Final = 1_000
"""Credits of a stream whose channel has no limit of its own."""
LONGEST_DELAY: Final = 365 * 86_400.0
"""Seconds for which the server delays a message at most; the consumer waits for the rest."""
BODY_ENCODINGS: Final = (None, "", "utf-8", "UTF-8", "base64")
"""Of kombu's envelopes."""
TRANSIENT: Final = 1
"""AMQP's delivery mode of messages that may be lost."""


@dataclass(slots=True)
class _Unacknowledged:
    """A message that was handed to kombu."""

    queue: Queue
    envelope: Envelope
    drop_lease: Callable[[Envelope], None]
    """Ends the extension of its lease."""
    acks: Acks | None = None
    """Those of the stream that a worker of Celery has it from; None: another program has it."""
    is_task: bool = False
    """Whether a worker has it, which tells what it begins."""
    request: Any = None
    """The worker's request for the task, once it has made one."""

    @property
    def has_begun(self) -> bool:
        """Whether a program has begun to work on it."""
        return not self.is_task or getattr(self.request, "time_start", None) is not None

    def end(self, timeout: float | None, release: MessageRelease | None) -> None:
        """Delete it, or release it."""
        receipt = self.envelope.receipt
        if release is None:
            self.queue.delete(receipt, timeout=timeout)
        else:
            self.queue.release(receipt, count=release.count, timeout=timeout)

    def end_later(self, release: MessageRelease | None) -> None:
        """Delete it, or release it, in the background."""
        assert self.acks is not None
        self.acks.add(Ack(self.envelope.receipt, release, self._note_end))

    def _note_end(self, error: SpoolrackError | None) -> None:
        if error is not None:
            log.warning("message %s is delivered again: %s", self.envelope.id, error)


@dataclass(frozen=True, slots=True)
class _Consumer:
    """A consumer, with its stream of as many credits as it prefetches."""

    name: str
    queue: Queue
    callback: Callable[[Any], object] | None
    no_ack: bool
    credits: int
    stream: EnvelopeStream


class QoS(virtual.QoS):
    """Messages that are not acknowledged yet, each with its lease."""

    def ack(self, delivery_tag: str) -> None:
        """Delete a message; returns when that is on stable media. A worker doesn't wait for a server
        that doesn't answer: the message is deleted in the background, once it does."""
        self.channel._end_lease(delivery_tag, lambda _: None)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Release a message to its old place in the queue, or delete it."""
        if requeue:
            # A worker rejects what it has begun only, when Celery counts the task as active no more.
            self.channel._end_lease(
                delivery_tag, lambda message: MessageRelease(message.envelope.receipt)
            )
            self._quick_ack(delivery_tag)
        else:
            self.ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        """Release all messages that are not acknowledged: they are ready at once. Receives of tasks
        that never began don't count."""
        self._flush()
        self.channel._release_all(list(self._delivered))
        self._delivered.clear()
        return []


class Channel(virtual.Channel):
    """A channel of kombu's; see the module."""

    QoS = QoS
    supports_fanout = True

    def __init__(self, connection: Any, **kwargs: Any) -> None:
        self._consumers_by_tag: dict[str, _Consumer] = {}
        self._turns: deque[str] = deque()
        """Tags of the consumers; the next one to deliver is at the left."""
        self._unacknowledged: dict[str, _Unacknowledged] = {}
        self._gets: dict[str, LeaseExtender] = {}
        """Leases of `basic_get`, by queue."""
        super().__init__(connection, **kwargs)

    @property
    def broker(self) -> Broker:
        broker: Broker = self.connection.broker
        return broker

    @property
    def _visibility_timeout(self) -> float | None:
        seconds: float | None = self.connection.client.transport_options.get("visibility_timeout")
        return seconds

    # Queues and bindings

    def prepare_queue_arguments(self, arguments: Any, **kwargs: Any) -> Any:
        return to_rabbitmq_queue_arguments(arguments, **kwargs)

    def queue_declare(self, queue: str | None = None, passive: bool = False, **kwargs: Any) -> Any:
        """Declare a queue. kombu's own asks for the size with one more call."""
        if passive or not queue:
            return super().queue_declare(queue, passive, **kwargs)
        found = self._new_queue(queue, **kwargs)
        size = self._size(queue) if found is None else found.counts.ready_count
        return queue_declare_ok_t(queue, size, 0)

    def _new_queue(self, queue: str, **kwargs: Any) -> QueueInfo | None:
        arguments = kwargs.get("arguments") or {}
        return self.broker.declare(
            queue,
            expires=_span(arguments.get("x-expires")),
            message_ttl=_span(arguments.get("x-message-ttl")),
            is_exclusive=bool(kwargs.get("exclusive")),
            is_auto_delete=bool(kwargs.get("auto_delete")),
        )

    def _has_queue(self, queue: str, **kwargs: Any) -> bool:
        return self.broker.info(queue) is not None

    def _size(self, queue: str) -> int:
        info = self.broker.info(queue)
        return 0 if info is None else info.counts.ready_count

    def _purge(self, queue: str) -> int:
        return self.broker.queue(queue).purge()

    def queue_delete(
        self, queue: str, if_unused: bool = False, if_empty: bool = False, **kwargs: Any
    ) -> None:
        if if_empty and self._size(queue):
            return
        self.broker.delete(queue)
        self.state.queue_bindings_delete(queue)

    def after_reply_message_received(self, queue: str) -> None:
        """Delete a queue of replies: its next use declares it again. If that fails, it expires."""
        try:
            self.queue_delete(queue)
        except SpoolrackError as error:
            log.info("the queue of replies %s stays until it expires: %s", queue, error)

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str | None, queue: str) -> None:
        self.broker.bind(exchange, Binding(routing_key, pattern, queue))

    def queue_unbind(
        self,
        queue: str,
        exchange: str = "",
        routing_key: str = "",
        arguments: Any = None,
        **kwargs: Any,
    ) -> None:
        self.state.binding_delete(queue, exchange, routing_key)
        bound = self.typeof(exchange).prepare_bind(queue, exchange, routing_key, arguments)
        self.broker.unbind(exchange, Binding(*bound))

    def get_table(self, exchange: str) -> list[Binding]:
        return self.broker.table(exchange, fresh=False)

    def _lookup(
        self,
        exchange: str,
        routing_key: str,
        default: str | None = None,
        timeout: float | None = None,
    ) -> list[str]:
        default = default or self.deadletter_queue
        if not exchange:
            return [name for name in [routing_key or default] if name]
        kind = self.typeof(exchange)
        queues = self._routed(kind, exchange, routing_key, timeout, fresh=kind.type == "fanout")
        if not queues and kind.type == "direct":
            # A queue for replies that was bound a moment ago.
            queues = self._routed(kind, exchange, routing_key, timeout, fresh=True)
        if not queues and default:
            self._new_queue(default)
            return [default]
        return sorted(queues)

    def _routed(
        self, kind: Any, exchange: str, routing_key: str, timeout: float | None, *, fresh: bool
    ) -> set[str]:
        table = self.broker.table(exchange, fresh=fresh, timeout=timeout)
        found: set[str] = kind.lookup(table, exchange, routing_key, None)
        return found

    # Publishing

    def basic_publish(
        self, message: dict[str, Any], exchange: str, routing_key: str, **kwargs: Any
    ) -> None:
        """Send a message to all queues that it is routed to, in one atomic batch. A transient one of a
        worker's event loop, and an event of a worker, is dropped if the server doesn't answer."""
        self._inplace_augment_message(message, exchange, routing_key)

        def publish(timeout: float | None) -> None:
            self._send(self._lookup(exchange, routing_key, timeout=timeout), message, timeout)

        is_event = in_worker_process() and exchange and self.typeof(exchange).type == "topic"
        if _is_transient(message) and (is_event or in_event_loop()):
            self.broker.publish_or_drop(publish, routing_key)
        else:
            publish(None)

    def _put(self, queue: str, message: dict[str, Any], **kwargs: Any) -> None:
        self._send([queue], message)

    def _send(self, queues: list[str], message: dict[str, Any], timeout: float | None = None) -> None:
        self.broker.publish(
            queues,
            json.dumps(message).encode(),
            _delay(message),
            self._get_message_priority(message),
            is_transient=_is_transient(message),
            timeout=timeout,
        )

    # Consuming

    def basic_consume(
        self,
        queue: str,
        no_ack: bool,
        callback: Callable[[Any], object],
        consumer_tag: str,
        **kwargs: Any,
    ) -> None:
        self._consumers.add(consumer_tag)
        self._tag_to_queue[consumer_tag] = queue
        self._active_queues.append(queue)
        self.broker.consumes_from(queue)
        self._open(consumer_tag, queue, callback, no_ack=no_ack, credits=self._credits())

    def _open(
        self,
        consumer_tag: str,
        queue: str,
        callback: Callable[[Any], object] | None,
        *,
        no_ack: bool,
        credits: int,
    ) -> None:
        credits = min(credits, MAX_IN_FLIGHT)
        handle = self.broker.queue(queue)
        stream = handle._envelopes(
            max_in_flight=credits,
            visibility_timeout=self._visibility_timeout,
            until_dropped=True,
            on_arrival=self.connection.wake,
        )
        self._consumers_by_tag[consumer_tag] = _Consumer(
            queue, handle, callback, no_ack, credits, stream
        )
        if consumer_tag not in self._turns:
            self._turns.append(consumer_tag)
        self.connection.wake()

    def basic_cancel(self, consumer_tag: str) -> None:
        super().basic_cancel(consumer_tag)
        if consumer_tag in self._consumers_by_tag:
            self._turns.remove(consumer_tag)
            self._close_stream(self._consumers_by_tag.pop(consumer_tag).stream)

    def _close_stream(self, stream: EnvelopeStream) -> None:
        if not run(stream.close(self.broker.patience)):
            self.broker.note_silence(f"it has not answered within {PATIENCE:.0f} s")

    def basic_qos(
        self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False
    ) -> None:
        super().basic_qos(prefetch_size, prefetch_count, apply_global)
        self.connection.wake()  # More may be delivered now.

    def _credits(self) -> int:
        return self.qos.prefetch_count or UNLIMITED

    def deliver_next(self) -> bool:
        """Deliver one message to its consumer; False if there is none, or none is allowed."""
        for _ in range(len(self._turns)):
            consumer_tag = self._turns[0]
            self._turns.rotate(-1)
            consumer = self._consumers_by_tag[consumer_tag]
            if self.broker.is_missing(consumer.name):
                continue
            if not consumer.no_ack and not self._may_deliver(consumer_tag, consumer):
                continue
            consumer = self._consumers_by_tag[consumer_tag]
            envelopes = run(consumer.stream.receive(1, 0.0))
            if envelopes:
                self._deliver(consumer, envelopes[0])
                return True
        return False

    def _may_deliver(self, consumer_tag: str, consumer: _Consumer) -> bool:
        """Return whether the prefetch count allows one more message; fit the stream's credits to it."""
        if not self.qos.can_consume():
            return False
        credits = self._credits()
        if credits > consumer.credits and len(self._unacknowledged) >= consumer.credits:
            # Celery raises its prefetch by one for each task that waits for its time.
            credits = max(credits, 2 * consumer.credits)
        elif credits > consumer.credits // 2:
            return True
        self._close_stream(consumer.stream)
        self._open(
            consumer_tag, consumer.name, consumer.callback, no_ack=consumer.no_ack, credits=credits
        )
        return True

    def _deliver(self, consumer: _Consumer, envelope: Envelope) -> None:
        drop_lease = consumer.stream.drop_lease
        if consumer.no_ack:
            try:
                # An event loop that waits for long can't be stopped.
                _delete(consumer.queue, envelope, PATIENCE if in_event_loop() else None)
            finally:
                drop_lease(envelope)
            message = self._message(envelope)
            unacknowledged = None
        else:
            is_task = _is_worker(consumer.callback)
            acks = consumer.stream.acks if is_task else None
            unacknowledged = _Unacknowledged(consumer.queue, envelope, drop_lease, acks, is_task)
            message = self._hold(unacknowledged)
        assert consumer.callback is not None
        try:
            consumer.callback(message)
        except BaseException:
            if unacknowledged is not None:
                # It may end each worker that gets it.
                unacknowledged.is_task = False
            raise

    def _hold(self, unacknowledged: _Unacknowledged) -> Any:
        message = self._message(unacknowledged.envelope)
        self._unacknowledged[message.delivery_tag] = unacknowledged
        self.qos.append(message, message.delivery_tag)
        return message

    def _message(self, envelope: Envelope) -> Any:
        """Return a message for kombu; one that isn't kombu's is delivered as bytes."""
        payload = _envelope_of_kombu(envelope.body)
        if payload is not None:
            try:
                return self.Message(_with_delivery(payload, envelope), channel=self)
            except ValueError as error:  # The body isn't encoded as it says.
                log.warning("message %s is delivered as bytes: %s", envelope.id, error)
        return self.Message(_with_delivery(_bytes(envelope.body), envelope), channel=self)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        """Lease one message, or return None if none is ready."""
        try:
            envelope = self._get_envelope(queue)
        except Empty:
            return None
        handle = self.broker.queue(queue)
        if no_ack:
            _delete(handle, envelope)
            return self._message(envelope)
        leases = self._gets.get(queue)
        if leases is None:
            calling = handle._context
            leases = self._gets[queue] = LeaseExtender(calling, handle.name, self._visibility_timeout)
        leases.add([envelope])
        return self._hold(
            _Unacknowledged(handle, envelope, lambda envelope: leases.drop(envelope.receipt))
        )

    def _get_envelope(self, queue: str) -> Envelope:
        found = self.broker.queue(queue).receive(visibility_timeout=self._visibility_timeout)
        if not found:
            raise Empty
        return found[0]._envelope

    def note_request(self, delivery_tag: str, request: Any) -> None:
        """Note a worker's request for a task, which tells whether that has begun."""
        if delivery_tag in self._unacknowledged:
            self._unacknowledged[delivery_tag].request = request

    def _end_lease(
        self, delivery_tag: str, release_of: Callable[[_Unacknowledged], MessageRelease | None]
    ) -> None:
        """Delete or release a message; one that was lost is the next consumer's."""
        unacknowledged = self._unacknowledged.pop(delivery_tag, None)
        if unacknowledged is None:
            return
        release = release_of(unacknowledged)
        try:
            if unacknowledged.acks is None:
                unacknowledged.end(None, release)
            elif self.broker.silence:
                unacknowledged.end_later(release)
            else:
                try:
                    with self.broker.noting_silence():
                        unacknowledged.end(PATIENCE, release)
                except SILENT:
                    unacknowledged.end_later(release)
        except StaleReceipt as error:
            log.warning("message %s is delivered again: %s", unacknowledged.envelope.id, error)
        finally:
            unacknowledged.drop_lease(unacknowledged.envelope)
            if self.connection is not None:
                self.connection.wake()

    def _release_all(self, delivery_tags: Iterable[str]) -> None:
        """Release messages together, within the seconds that an end has for the server."""
        found = [self._unacknowledged.pop(delivery_tag, None) for delivery_tag in delivery_tags]
        messages = [message for message in found if message is not None]
        together: dict[tuple[str, bool], list[_Unacknowledged]] = {}
        for message in messages:
            together.setdefault((message.queue.name, message.has_begun), []).append(message)
        left: list[str] = []
        for (_, has_begun), each in together.items():
            left += self._release(each, count=has_begun)
        for message in messages:
            message.drop_lease(message.envelope)
        if left:
            log.warning(
                "%d messages are leased until their visibility timeouts end: %s", len(left), left[0]
            )

    def _release(self, messages: Sequence[_Unacknowledged], *, count: bool) -> list[str]:
        """Release messages of one queue; return why not, for each that wasn't."""
        if self.broker.silence:
            return [self.broker.silence] * len(messages)
        receipts = [message.envelope.receipt for message in messages]
        try:
            with self.broker.noting_silence():
                results = messages[0].queue.release_many(receipts, count=count, timeout=PATIENCE)
        except SpoolrackError as error:
            return [str(error)] * len(messages)
        errors = [result.error for result in results if result.error is not None]
        # The lease that was lost is another consumer's.
        return [str(error) for error in errors if not isinstance(error, StaleReceipt)]

    def close(self) -> None:
        """End the consumers, and release unacknowledged messages."""
        if not self.closed and not self.connection.is_forked:
            super().close()
            for leases in self._gets.values():
                leases.stop()


def _delete(queue: Queue, envelope: Envelope, timeout: float | None = None) -> None:
    try:
        queue.delete(envelope.receipt, timeout=timeout)
    except StaleReceipt as error:
        log.warning("message %s is delivered again: %s", envelope.id, error)


def _is_worker(callback: Any) -> bool:
    """Return whether a consumer's callback hands its messages to a worker of Celery."""
    on_message = getattr(getattr(callback, "__self__", None), "on_message", None)
    if not str(getattr(on_message, "__module__", "")).startswith("celery.worker."):
        return False
    _note_requests()
    return True


@cache
def _note_requests() -> None:
    """Note the requests of workers from now on. By then Celery is imported."""
    sys.modules["celery.signals"].task_received.connect(_note_request, weak=False)


def _note_request(request: Any, **kwargs: Any) -> None:
    """Note that a worker has made a request for a task of one of these channels. Celery's own list of
    active requests is no help at an end: a cold stop takes the requests from it before the messages are
    released."""
    channel = request.message.channel
    if isinstance(channel, Channel):
        channel.note_request(request.message.delivery_tag, request)


def _is_transient(message: dict[str, Any]) -> bool:
    return bool(message["properties"].get("delivery_mode") == TRANSIENT)


def _envelope_of_kombu(body: bytes) -> dict[str, Any] | None:
    """Return a message as kombu's virtual transports keep it; None if another program wrote it."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(payload, dict) or not isinstance(payload.get("body"), str):
        return None
    properties = payload.get("properties")
    if not isinstance(properties, dict) or not isinstance(properties.get("delivery_info", {}), dict):
        return None
    if not isinstance(payload.get("headers") or {}, dict):
        return None
    if any(
        not isinstance(payload.get(name) or "", str) for name in ("content-type", "content-encoding")
    ):
        return None
    return payload if properties.get("body_encoding") in BODY_ENCODINGS else None


def _bytes(body: bytes) -> dict[str, Any]:
    return {
        "body": base64.b64encode(body).decode(),
        "content-type": "application/data",
        "content-encoding": "binary",
        "properties": {"body_encoding": "base64"},
    }


def _with_delivery(payload: dict[str, Any], envelope: Envelope) -> dict[str, Any]:
    properties = payload["properties"]
    properties["delivery_tag"] = envelope.receipt
    properties.setdefault("delivery_info", {})["redelivered"] = envelope.receive_count > 1
    return payload


def _delay(message: dict[str, Any]) -> float | None:
    """Return the seconds until a task is due, so that no worker holds it before; None: it is due."""
    eta = (message.get("headers") or {}).get("eta")
    if not isinstance(eta, str):
        return None
    try:
        due = datetime.fromisoformat(eta)
    except ValueError:
        return None
    if due.tzinfo is None:
        due = due.replace(tzinfo=UTC)
    seconds = (due - datetime.now(UTC)).total_seconds()
    return min(seconds, LONGEST_DELAY) if seconds > 0 else None


def _span(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000.0

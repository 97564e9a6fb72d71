"""The operations of SQS, by the store's: parameters in, a response of JSON out.

Knows nothing of HTTP and of either protocol's form. An operation raises `SqsError`, or the `StoreError`
that `sqs_errors` translates. The caller hands the messages of a receive over, with their memory.
"""

# ruff: noqa: N802 - SQS names the methods

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import uuid4

from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.errors import (
    InvalidRequest,
    MessageNotFound,
    QueueBeingDeleted,
    QueueExists,
    QueueNotFound,
    RedriveNotFound,
    StaleReceipt,
    StoreError,
    WrongShard,
)
from spoolrack_store.model.message_ids import is_id
from spoolrack_store.model.names import FIFO, is_queue_name
from spoolrack_store.model.operations import (
    CreateQueue,
    Delete,
    LastReceive,
    Message,
    Queue,
    Receive,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.redrive_requests import Redrive, RedriveState, StartRedrive
from spoolrack_store.model.settings import MIB

from ..app.application import Application
from ..app.caller import Caller, permission_of
from ..app.leases import Leases
from ..app.memory import MemoryLimiter
from ..app.queues import Queues
from ..app.receives import LeasedMessages, Receives
from ..app.redrives import Redrives, require_start
from ..app.sends import Sends
from . import messages, queue_attributes, sqs_errors
from .batches import BatchEntries, Refusal, SendBatch
from .parameters import Parameters
from .queue_attributes import LABEL, QueueFacts, queue_of_url
from .receipt_handles import Handle, parse
from .sqs_errors import SqsError

MOST_LISTED: Final = 1_000
CREATE_TRIES: Final = 40
CREATE_WAIT: Final = 0.05
"""Seconds between two tries to create a queue while one of this name is still being removed."""
FACTS_LIFETIME: Final = Millis(1_000)
"""Facts of a queue are read again after so long: a change by another process counts then."""
MOST_FACTS: Final = 10_000
ATTEMPT_LIFETIME: Final = Millis(5 * 60 * 1_000)
"""A receive may be repeated under its id for so long."""
MOST_ATTEMPTS: Final = 10_000
COPIES: Final = 4
"""Of a body until its response is made: bytes, text, text as the protocol has it, and those bytes."""
LARGE: Final = MIB
"""Bytes of bodies from which a response is made in a thread."""
MAX_HIDDEN: Final = 43_200
"""Seconds from a receive to the end of its lease, at most."""
OLDER_TRIES: Final = 3
"""Of a change by an older receipt: other receives of the message may come in between."""
_REDRIVE_STATES: Final = {
    RedriveState.RUNNING: "RUNNING",
    RedriveState.DONE: "COMPLETED",
    RedriveState.CANCELLED: "CANCELLED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SqsCaller(Caller):
    """The caller of a request, and the facts that its parameters leave out."""

    region: str
    account: str
    url: str
    """Where this server is for the caller, without a path."""
    peer: str
    """The connection that the request came over."""
    consumer: str = ""
    """The name that its leases are shown with."""
    trace: Mapping[str, str] = field(default_factory=dict)
    trace_header: str = ""
    """Of X-Ray, which a message carries as AWSTraceHeader."""

    @property
    def place(self) -> str:
        """Region and account, as an ARN has them."""
        return f"{self.region}:{self.account}"


@dataclass(slots=True)
class Result:
    """The response of an operation."""

    content: dict[str, Any]
    leased: LeasedMessages | None = None
    """The messages that it leased, whose memory the response takes."""
    is_large: bool = False
    """Whether rendering it takes too long for the event loop."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A receive from a FIFO queue, which its caller may repeat under the same id."""

    began: Millis
    received_at: Millis
    receipts: Sequence[str]


class SqsOperations:
    """The handlers of the operations. Lives in one event loop."""

    def __init__(self, app: Application, memory: MemoryLimiter, clock: Clock) -> None:
        self._messages = app.messages
        self._receives = app.receives
        self._leases = app.leases
        self._sends = app.sends
        self._queues = app.queues
        self._redrives = app.redrives
        self._in_thread = app.in_thread
        self._memory = memory
        self._clock = clock
        self._facts: dict[str, QueueFacts] = {}
        self._attempts: dict[tuple[str, str, str], _Attempt] = {}
        """Receives from FIFO queues by queue, caller and id, the oldest first."""

    def find(self, name: str) -> Callable[[SqsCaller, Parameters], Awaitable[Result]]:
        """Return an operation by name; raise the error of an unknown one."""
        if name not in OPERATIONS:
            raise sqs_errors.invalid_action(name)
        found: Callable[[SqsCaller, Parameters], Awaitable[Result]] = getattr(self, name)
        return found

    def _queue(self, caller: SqsCaller, parameters: Parameters, needed: Callable[..., Any]) -> str:
        """Return the queue of a request, on which the caller has the permission of a use case."""
        queue = queue_of_url(parameters.required("QueueUrl"))
        caller.require(permission_of(needed), queue)
        return queue

    async def _facts_of(self, queue: str) -> QueueFacts:
        facts, now = self._facts.get(queue), self._clock.monotonic()
        if facts is not None and now - facts.read_at < FACTS_LIFETIME:
            return facts
        facts = queue_attributes.facts_of(await self._queues.get_unchecked(queue), now)
        if len(self._facts) >= MOST_FACTS:
            self._facts.clear()
        self._facts[queue] = facts
        return facts

    async def _leasing_queue(self, caller: SqsCaller, parameters: Parameters) -> str:
        """Return the queue of a request that ends or changes leases; raise `QueueNotFound` before its
        receipt handles are read."""
        queue = self._queue(caller, parameters, Leases.delete)
        await self._facts_of(queue)
        return queue

    # Queues.

    async def CreateQueue(self, caller: SqsCaller, parameters: Parameters) -> Result:
        name = parameters.required("QueueName")
        if not is_queue_name(name) or "." in name.removesuffix(FIFO):
            told = (
                "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
            )
            if name[0] in "-_":  # Amazon takes these.
                told += ". Here a letter or a digit must be the first."
            raise sqs_errors.invalid_value(told)
        caller.require(permission_of(Queues.create), name)
        attributes = parameters.mapping("Attributes") or {}
        if name.endswith(FIFO) and attributes.get("FifoQueue", "").lower() != "true":
            raise sqs_errors.invalid_value(
                "The name of a queue can end in .fifo only with the attribute FifoQueue of true: Can "
                "only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
            )
        changes = queue_attributes.changes_in(name, attributes)
        queue_attributes.check_throughput({}, changes)
        await self._check_target(caller, name, attributes, changes.dead_letter_queue)
        tags = parameters.mapping("tags") or {}
        queue_attributes.check_tags(name, tags)
        labels = {**tags, **{label: value for label, value in changes.labels.items() if value}}
        settings = queue_attributes.initial_settings(name, changes)
        try:
            await _create(
                self._queues, caller, CreateQueue(name=name, settings=settings, labels=labels)
            )
        except QueueExists:
            there = await self._queues.get_unchecked(name)
            differing = queue_attributes.differing(there, changes, caller.place)
            if differing is not None:
                raise sqs_errors.queue_exists(
                    "A queue already exists with the same name and a different value for attribute "
                    f"{differing}"
                ) from None
        self._facts.pop(name, None)
        return Result({"QueueUrl": _url(caller, name)})

    async def _check_target(
        self, caller: SqsCaller, queue: str, attributes: Mapping[str, str], target: str
    ) -> None:
        """Raise the error of a dead-letter queue that isn't there, that doesn't allow `queue` as its
        source, or that the caller can't send to."""
        if not target:
            return
        policy = attributes[queue_attributes.REDRIVE][:300]
        refusal = f"Value {policy} for parameter RedrivePolicy is invalid. Reason: "
        try:
            found = await self._queues.get_target(caller, target)
        except QueueNotFound:
            raise sqs_errors.invalid_value(refusal + "Dead letter target does not exist.") from None
        except WrongShard:
            return  # The store refuses the setting, and names the tag that the target needs.
        if not queue_attributes.allows_source(found, queue):
            raise sqs_errors.invalid_value(
                f"{refusal}The RedriveAllowPolicy of the dead letter target doesn't allow {queue}."
            )

    async def GetQueueUrl(self, caller: SqsCaller, parameters: Parameters) -> Result:
        name = parameters.required("QueueName")
        if not is_queue_name(name):
            raise sqs_errors.queue_not_found()
        if not caller.permissions(name):
            caller.require(permission_of(Queues.get), name)
        await self._queues.get_unchecked(name)
        return Result({"QueueUrl": _url(caller, name)})

    async def ListQueues(self, caller: SqsCaller, parameters: Parameters) -> Result:
        prefix = parameters.text("QueueNamePrefix") or ""
        names, token = await self._page(caller, parameters, prefix=prefix)
        urls = {"QueueUrls": [_url(caller, name) for name in names]} if names else {}
        return Result(urls | token)

    async def _page(
        self,
        caller: SqsCaller,
        parameters: Parameters,
        is_wanted: Callable[[Queue], bool] | None = None,
        *,
        prefix: str = "",
    ) -> tuple[list[str], dict[str, Any]]:
        """Return the names of a page of queues, and the token of the next as the response has it."""
        caller.require_somewhere(permission_of(Queues.list))
        size = parameters.integer("MaxResults", 1, MOST_LISTED)
        try:
            page = await self._queues.list(
                caller,
                is_wanted=is_wanted,
                prefix=prefix,
                page_size=size or MOST_LISTED,
                page_token=parameters.text("NextToken") or "",
            )
        except InvalidRequest:
            raise sqs_errors.invalid_value("Invalid or expired next token.") from None
        token = {"NextToken": page.next_token} if size is not None and page.next_token else {}
        return [queue.name for queue in page.items], token

    async def GetQueueAttributes(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.get)
        names = parameters.texts("AttributeNames")
        shown = queue_attributes.attributes_of(await self._queues.get_unchecked(queue), caller.place)
        attributes = queue_attributes.selected(shown, names)
        return Result({"Attributes": attributes} if attributes else {})

    async def SetQueueAttributes(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.update)
        attributes = parameters.mapping("Attributes")
        if attributes is None:
            raise sqs_errors.missing_parameter("The request must contain the parameter Attributes.")
        if "FifoQueue" in attributes and not queue.endswith(FIFO):
            raise sqs_errors.unknown_attribute("FifoQueue")
        changes = queue_attributes.changes_in(queue, attributes)
        queue_attributes.check_throughput((await self._queues.get_unchecked(queue)).labels, changes)
        await self._check_target(caller, queue, attributes, changes.dead_letter_queue)
        changes.labels[LABEL + queue_attributes.MODIFIED] = str(self._clock.wall() // 1_000)
        labels = {name: value or None for name, value in changes.labels.items()}
        await self._update(caller, queue, labels, changes.settings)
        return Result({})

    async def _update(
        self,
        caller: SqsCaller,
        queue: str,
        labels: Mapping[str, str | None],
        settings: Mapping[str, object] = {},
    ) -> None:
        """Change labels and settings; None removes a label."""
        request = UpdateQueue(name=queue, changes=settings, labels=labels)
        await self._queues.update(caller, request)
        self._facts.pop(queue, None)

    async def DeleteQueue(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.delete)
        await self._queues.delete(caller, queue)
        self._facts.pop(queue, None)
        return Result({})

    async def PurgeQueue(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.purge)
        await self._queues.purge(caller, queue)
        if queue.endswith(FIFO):
            # The store keeps deduplication ids, SQS forgets them: from now on they are others. By an id
            # that was never there: of purges at the same time, each would write the same number.
            await self._update(caller, queue, {queue_attributes.PURGES: uuid4().hex})
        return Result({})

    async def ListDeadLetterSourceQueues(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.get)
        await self._queues.get_unchecked(queue)
        names, token = await self._page(
            caller,
            parameters,
            lambda other: queue_attributes.dead_letter_queue_of(other) == queue,
        )
        return Result({"queueUrls": [_url(caller, name) for name in names]} | token)

    # Tags and permissions.

    async def TagQueue(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.update)
        tags = parameters.mapping("Tags")
        if not tags:
            raise sqs_errors.missing_parameter("The request must contain the parameter Tags.")
        queue_attributes.check_tags(queue, tags)
        there = await self._queues.get_unchecked(queue)
        queue_attributes.check_tags(queue, queue_attributes.tags_of(there.labels) | tags)
        await self._update(caller, queue, tags)
        return Result({})

    async def UntagQueue(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.update)
        keys = {key for key in parameters.texts("TagKeys") if not key.startswith(LABEL)}
        if not keys:
            raise sqs_errors.missing_parameter("The request must contain the parameter TagKeys.")
        await self._update(caller, queue, dict.fromkeys(keys))
        return Result({})

    async def ListQueueTags(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.get)
        tags = queue_attributes.tags_of((await self._queues.get_unchecked(queue)).labels)
        return Result({"Tags": tags} if tags else {})

    async def AddPermission(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.update)
        labels = queue_attributes.with_permission(
            await self._queues.get_unchecked(queue),
            caller.place,
            parameters.required("Label"),
            parameters.texts("AWSAccountIds"),
            parameters.texts("Actions"),
        )
        await self._update(caller, queue, labels)
        return Result({})

    async def RemovePermission(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Queues.update)
        found = await self._queues.get_unchecked(queue)
        label = parameters.required("Label")
        labels = queue_attributes.without_permission(found, caller.place, label)
        await self._update(caller, queue, labels)
        return Result({})

    # Sends.

    async def SendMessage(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Sends.send)
        send = await self._send_batch(queue, caller)
        send.add(parameters)
        (result,) = await self._send(caller, send)
        if isinstance(result, StoreError):
            raise result
        return Result(send.answer(0, result))

    async def SendMessageBatch(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Sends.send)
        batch = BatchEntries(parameters, "SendMessageBatchRequestEntry")
        send = await self._send_batch(queue, caller)
        for entry in batch.entries.values() if queue.endswith(FIFO) else ():
            if lacking := send.lacking(entry):
                raise sqs_errors.invalid_value(str(lacking))
        positions = batch.read(send.add)
        if send.size > messages.LONGEST:
            raise sqs_errors.batch_too_long(
                f"Batch requests cannot be longer than {messages.LONGEST} bytes. You have "
                f"sent {send.size} bytes."
            )
        results = await self._send(caller, send) if positions else []
        for id, position in positions.items():
            result = results[position]
            if isinstance(result, StoreError):
                batch.fail(id, result)
            else:
                batch.succeed(id, send.answer(position, result))
        return Result(batch.content())

    async def _send_batch(self, queue: str, caller: SqsCaller) -> SendBatch:
        facts = await self._facts_of(queue)
        return SendBatch(queue, facts, caller.name, caller.trace, caller.trace_header)

    async def _send(self, caller: SqsCaller, send: SendBatch) -> list[str | StoreError]:
        self._memory.require()
        stored = await (await self._sends.send(caller, send.request)).answered()
        return stored.results

    # Receives.

    async def ReceiveMessage(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = self._queue(caller, parameters, Receives.receive)
        most = parameters.integer("MaxNumberOfMessages", 1, 10)
        hidden = parameters.integer("VisibilityTimeout", 0, MAX_HIDDEN)
        wait = parameters.integer("WaitTimeSeconds", 0, 20)
        system = {*parameters.texts("AttributeNames"), *parameters.texts("MessageSystemAttributeNames")}
        if unknown := system - messages.SYSTEM_NAMES:
            raise sqs_errors.unknown_attribute(min(unknown))
        waits = (await self._facts_of(queue)).wait if wait is None else Millis(wait * 1_000)
        request = Receive(
            queue=queue,
            max_messages=most or 1,
            # The store's least is a millisecond.
            visibility_timeout=None if hidden is None else Millis(hidden * 1_000 or 1),
            wait=waits,
            consumer=caller.consumer,
        )
        attempt = messages.token(parameters, "ReceiveRequestAttemptId") if queue.endswith(FIFO) else ""
        key = (queue, caller.name, attempt)
        repeated = await self._repeated(caller, key, request) if attempt else None
        if repeated is None:
            leased = await self._receives.receive(caller, request, caller.peer, copies=COPIES)
            received_at, found = self._clock.wall(), messages_of(leased.deliveries)
            leased.deliveries = []
        else:
            leased, received_at, found = repeated
        if attempt and found:
            self._attempts[key] = _Attempt(self._clock.monotonic(), received_at, leased.receipts)
        wanted = parameters.texts("MessageAttributeNames")

        def shown() -> list[dict[str, Any]]:
            return [
                messages.received(each, received_at, system, wanted, caller.place) for each in found
            ]

        is_large = sum(len(message.body) for message in found) > LARGE
        try:
            entries = await self._in_thread(shown) if is_large else shown()
        except BaseException:
            leased.give_back()
            leased.free()
            raise
        return Result({"Messages": entries} if entries else {}, leased, is_large)

    async def _repeated(
        self, caller: SqsCaller, key: tuple[str, str, str], request: Receive
    ) -> tuple[LeasedMessages, Millis, list[Message]] | None:
        """Lease the messages of an earlier receive again, all of them, under their receipts; return
        them, and when that was. None, if that is long ago, or one of these leases has ended since."""
        now = self._clock.monotonic()
        while self._attempts:
            oldest = next(iter(self._attempts))
            is_young = now - self._attempts[oldest].began < ATTEMPT_LIFETIME
            if is_young and len(self._attempts) <= MOST_ATTEMPTS:
                break
            del self._attempts[oldest]
        if key not in self._attempts:
            return None
        leased = await self._receives.room_for(request, caller.peer, copies=COPIES)
        found: list[Message] = []
        try:
            attempt = self._attempts.pop(key, None)
            if attempt is not None:
                found = await self._leased_again(caller, request, attempt.receipts)
        finally:
            leased.resize(COPIES * sum(len(message.body) for message in found))
        if attempt is None or not found:
            return None
        leased.receipts = [message.receipt for message in found if message.receipt is not None]
        return leased, attempt.received_at, found

    async def _leased_again(
        self, caller: SqsCaller, request: Receive, receipts: Sequence[str]
    ) -> list[Message]:
        """Extend all leases, and return their messages; none if one of them has ended."""
        visibility = request.visibility_timeout
        if visibility is None:
            visibility = (await self._facts_of(request.queue)).visibility
        changes = [(receipt, visibility) for receipt in receipts]
        results = await self._leases.extend(caller, request.queue, changes).answered()
        if any(isinstance(result, StoreError) for result in results):
            return []
        found: list[Message] = []
        for receipt in receipts:
            id = receipt.partition(":")[2].partition("~")[0]
            try:
                message = await self._messages.get(caller, request.queue, id)
            except MessageNotFound:
                continue  # Deleted since the change.
            found.append(replace(message, receipt=receipt))
        return found

    # The end of a lease.

    async def DeleteMessage(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = await self._leasing_queue(caller, parameters)
        (error,) = await self._delete(caller, queue, [_handle_in(parameters)])
        if error is not None:
            raise error
        return Result({})

    async def DeleteMessageBatch(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = await self._leasing_queue(caller, parameters)
        batch = BatchEntries(parameters, "DeleteMessageBatchRequestEntry")
        handles = batch.read(_handle_in)
        batch.end(handles, await self._delete(caller, queue, list(handles.values())))
        return Result(batch.content())

    async def _delete(
        self, caller: SqsCaller, queue: str, handles: Sequence[Handle]
    ) -> list[Refusal | None]:
        request = Delete(
            queue=queue,
            receipts=[handle.receipt for handle in handles],
            last_receives=_last_receives(queue, handles),
        )
        results: list[Refusal | None] = []
        errors = await self._leases.delete(caller, request).answered()
        for handle, error in zip(handles, errors, strict=True):
            if not isinstance(error, StaleReceipt):
                results.append(error)
            elif queue.endswith(FIFO):
                results.append(_expired(handle))
            else:
                # A delete by the receipt of an earlier receive succeeds, and deletes nothing.
                results.append(None)
        return results

    async def ChangeMessageVisibility(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = await self._leasing_queue(caller, parameters)
        (error,) = await self._change(caller, queue, [self._change_in(parameters)])
        if error is not None:
            raise error
        return Result({})

    async def ChangeMessageVisibilityBatch(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = await self._leasing_queue(caller, parameters)
        batch = BatchEntries(parameters, "ChangeMessageVisibilityBatchRequestEntry")
        changes = batch.read(self._change_in)
        batch.end(changes, await self._change(caller, queue, list(changes.values())))
        return Result(batch.content())

    def _change_in(self, parameters: Parameters) -> tuple[Handle, Millis]:
        """Return a receipt handle, and the visibility timeout that it is to have from now on."""
        handle = _handle_in(parameters)
        hidden = parameters.integer("VisibilityTimeout", 0, MAX_HIDDEN)
        if hidden is None:
            raise sqs_errors.missing_parameter(
                "The request must contain the parameter VisibilityTimeout."
            )
        passed = (self._clock.wall() - handle.received_at) // 1_000
        if hidden and passed + hidden > MAX_HIDDEN:
            raise sqs_errors.invalid_value(
                f"Value {hidden} for parameter VisibilityTimeout is invalid. Reason: Total "
                f"VisibilityTimeout for the message is beyond the limit [{MAX_HIDDEN} seconds]"
            )
        return handle, Millis(hidden * 1_000)

    async def _change(
        self, caller: SqsCaller, queue: str, changes: Sequence[tuple[Handle, Millis]]
    ) -> list[Refusal | None]:
        extended = self._leases.extend(
            caller,
            queue,
            [(handle.receipt, visibility) for handle, visibility in changes],
            _last_receives(queue, [handle for handle, _ in changes]),
        )
        errors: list[Refusal | None] = []
        for (handle, visibility), result in zip(changes, await extended.answered(), strict=True):
            if isinstance(result, StaleReceipt):
                errors.append(await self._change_by_older(caller, queue, handle, visibility))
            else:
                errors.append(result if isinstance(result, StoreError) else None)
        return errors

    async def _change_by_older(
        self, caller: SqsCaller, queue: str, handle: Handle, visibility: Millis
    ) -> Refusal | None:
        """Change the visibility of a message that was received again since `handle` was given out, by
        the current lease; not of a FIFO queue."""
        for _ in range(OLDER_TRIES):
            try:
                opened = await self._messages.open(caller, queue, handle.id)
            except MessageNotFound:
                return sqs_errors.invalid_value(
                    f"Value {handle} for parameter ReceiptHandle is invalid. Reason: Message "
                    "does not exist or is not available for visibility timeout change."
                )
            self._messages.close(opened)
            message = opened.message
            if queue.endswith(FIFO):
                return _expired(handle)
            first = message.first_received_at
            if (
                first != handle.last.first_received_at
                or message.receive_count < handle.last.receive_count
            ):
                break  # It was a dead letter since.
            extended = self._leases.extend(
                caller,
                queue,
                [(handle.receipt, visibility)],
                {0: LastReceive(message.receive_count, first)},
            )
            (result,) = await extended.answered()
            if not isinstance(result, StaleReceipt):
                return result if isinstance(result, StoreError) else None
        return sqs_errors.message_not_inflight(
            "The specified message isn't in flight with this receipt: it was received again since."
        )

    # Redrives.

    async def StartMessageMoveTask(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = _arn(parameters, "SourceArn", parameters.required("SourceArn"))
        destination = parameters.text("DestinationArn")
        target = "" if not destination else _arn(parameters, "DestinationArn", destination)
        require_start(caller, queue, target)
        rate = parameters.integer("MaxNumberOfMessagesPerSecond", 1, 500)
        await self._require_there("SourceArn", queue)
        if target:
            with suppress(WrongShard):  # The start is refused with the tag that the target needs.
                await self._require_there("DestinationArn", target)
        if not await self._queues.has(
            lambda other: queue_attributes.dead_letter_queue_of(other) == queue
        ):
            raise sqs_errors.invalid_value("Source queue must be configured as a Dead Letter Queue.")
        started = await self._redrives.start(
            caller, StartRedrive(queue=queue, destination=target, max_messages_per_second=rate or 0)
        )
        return Result({"TaskHandle": _handle_of_task(started, caller.place)})

    async def ListMessageMoveTasks(self, caller: SqsCaller, parameters: Parameters) -> Result:
        queue = _arn(parameters, "SourceArn", parameters.required("SourceArn"))
        caller.require(permission_of(Redrives.last), queue)
        most = parameters.integer("MaxResults", 1, 10) or 1
        await self._require_there("SourceArn", queue)
        found = await self._redrives.last(caller, most, queue=queue)
        return Result({"Results": [_task(each, caller.place) for each in reversed(found)]})

    async def _require_there(self, parameter: str, queue: str) -> None:
        try:
            await self._queues.get_unchecked(queue)
        except QueueNotFound:
            raise sqs_errors.no_resource(parameter) from None

    async def CancelMessageMoveTask(self, caller: SqsCaller, parameters: Parameters) -> Result:
        id, queue = _task_in(parameters.required("TaskHandle"))
        # Without the permission a caller isn't told which queues there are.
        if not caller.may(permission_of(Redrives.cancel), queue):
            raise RedriveNotFound(redrive=id)
        await self._require_there("SourceArn", queue)
        found = await self._redrives.get_to_cancel(caller, id)
        if found.queue != queue:
            raise RedriveNotFound(redrive=id)
        if found.state is not RedriveState.RUNNING:
            raise sqs_errors.resource_not_found("The task is not running: it has ended.")
        ended = await self._redrives.cancel(caller, id)
        return Result({"ApproximateNumberOfMessagesMoved": ended.moved_count})


OPERATIONS: Final = frozenset(
    name for name, value in vars(SqsOperations).items() if name[0].isupper() and callable(value)
)


async def _create(queues: Queues, caller: Caller, request: CreateQueue) -> None:
    """Create a queue; wait for the end of the removal of one of this name, which takes moments."""
    for _ in range(CREATE_TRIES):
        try:
            await queues.create(caller, request)
            return
        except QueueBeingDeleted:
            await asyncio.sleep(CREATE_WAIT)
    await queues.create(caller, request)


def _handle_in(parameters: Parameters) -> Handle:
    return parse(parameters.required("ReceiptHandle"))


def _last_receives(queue: str, handles: Sequence[Handle]) -> dict[int, LastReceive]:
    """Return by position the receives whose leases may be over; of a FIFO queue no lease may."""
    if queue.endswith(FIFO):
        return {}
    return {position: handle.last for position, handle in enumerate(handles)}


def _expired(handle: Handle) -> SqsError:
    return sqs_errors.invalid_value(
        f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt "
        "handle has expired."
    )


def _arn(parameters: Parameters, name: str, arn: str) -> str:
    queue = queue_attributes.queue_of_arn(arn)
    if queue is None:
        raise sqs_errors.invalid_value(
            f"You must use this format to specify the {name}: "
            "arn:<partition>:<service>:<region>:<account-id>:<resource-id>"
        )
    return queue


def _task(redrive: Redrive, place: str) -> dict[str, Any]:
    task: dict[str, Any] = {
        "Status": _REDRIVE_STATES[redrive.state],
        "SourceArn": queue_attributes.arn_of(redrive.queue, place),
        "ApproximateNumberOfMessagesMoved": redrive.moved_count,
        "ApproximateNumberOfMessagesToMove": redrive.moved_count
        + redrive.failed_count
        + redrive.remaining_count,
        "StartedTimestamp": redrive.started_at,
    }
    if redrive.state is RedriveState.RUNNING:
        task["TaskHandle"] = _handle_of_task(redrive, place)
    if redrive.destination:
        task["DestinationArn"] = queue_attributes.arn_of(redrive.destination, place)
    if redrive.max_messages_per_second:
        task["MaxNumberOfMessagesPerSecond"] = redrive.max_messages_per_second
    if redrive.failed_count and redrive.state is RedriveState.DONE:
        task["Status"] = "FAILED"
        task["FailureReason"] = (
            sqs_errors.NO_QUEUE
            if redrive.lacks_queue
            else sqs_errors.NO_SOURCE
            if redrive.lacks_source
            else redrive.last_failure
        )
    return task


def _handle_of_task(redrive: Redrive, place: str) -> str:
    told = {"taskId": redrive.id, "sourceArn": queue_attributes.arn_of(redrive.queue, place)}
    return base64.b64encode(json.dumps(told).encode()).decode()


def _task_in(handle: str) -> tuple[str, str]:
    """Return the id and the queue of a task."""
    try:
        told = queue_attributes.object_in(base64.b64decode(handle, validate=True)) or {}
    except ValueError:
        told = {}
    id = str(told.get("taskId"))
    queue = queue_attributes.queue_of_arn(str(told.get("sourceArn")))
    if queue is None or not is_id(id):
        raise sqs_errors.invalid_value("Value for parameter TaskHandle is invalid.")
    return id, queue


def _url(caller: SqsCaller, queue: str) -> str:
    return f"{caller.url}/{caller.account}/{queue}"

"""The entries of a batch request, and the messages of a send.

A wrong entry fails alone; a batch that is wrong as a whole raises an `SqsError`. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.message_content import MAX_ATTRIBUTES_SIZE, size_of
from spoolrack_store.model.names import FIFO
from spoolrack_store.model.operations import Send

from ..app.trace_context import inherit_context
from . import messages, sqs_errors
from .messages import SqsMessage
from .parameters import Parameters
from .queue_attributes import QueueFacts
from .sqs_errors import SqsError

MOST_ENTRIES: Final = 10
_ENTRY_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")
_TRACE_HEADER: Final = re.compile(r"[\x20-\x7e]{1,1024}")
Refusal = StoreError | SqsError
T = TypeVar("T")


class BatchEntries:
    """The entries of a request, and the result of each."""

    def __init__(self, parameters: Parameters, entry: str) -> None:
        """Read the entries, which Query calls `entry`; raise the error of a list that can't be."""
        entries = parameters.entries()
        if not entries:
            raise sqs_errors.empty_batch(f"There should be at least one {entry} in the request.")
        if len(entries) > MOST_ENTRIES:
            raise sqs_errors.too_many_entries(
                f"Maximum number of entries per request are {MOST_ENTRIES}. You have sent "
                f"{len(entries)}."
            )
        self.entries: dict[str, Parameters] = {}
        for each in entries:
            id = each.text("Id")
            if id is None:
                raise sqs_errors.missing_parameter("The request must contain the parameter Id.")
            if not _ENTRY_ID.fullmatch(id):
                raise sqs_errors.invalid_batch_id(
                    "A batch entry id can only contain alphanumeric characters, hyphens and "
                    "underscores. It can be at most 80 letters long."
                )
            if id in self.entries:
                raise sqs_errors.ids_not_distinct(f"Id {id} repeated.")
            self.entries[id] = each
        self._succeeded: dict[str, dict[str, Any]] = {}
        self._failed: dict[str, SqsError] = {}

    def read(self, parse: Callable[[Parameters], T]) -> dict[str, T]:
        """Return what `parse` makes of each entry, by its id; an entry that it refuses fails."""
        values: dict[str, T] = {}
        for id, entry in self.entries.items():
            try:
                values[id] = parse(entry)
            except SqsError as error:
                self.fail(id, error)
        return values

    def succeed(self, id: str, answer: dict[str, Any]) -> None:
        self._succeeded[id] = answer

    def fail(self, id: str, error: Refusal) -> None:
        """Fail one entry; raise an error of the store that must not reach a client."""
        found = error if isinstance(error, SqsError) else sqs_errors.of_store(error)
        if found is None:
            raise error
        self._failed[id] = found

    def end(self, ids: Iterable[str], errors: Iterable[Refusal | None]) -> None:
        """Add the results of entries whose success has no content, or their errors."""
        for id, error in zip(ids, errors, strict=True):
            if error is None:
                self.succeed(id, {})
            else:
                self.fail(id, error)

    def content(self) -> dict[str, Any]:
        """Return the response, each list in the order of the request."""
        content: dict[str, Any] = {
            "Successful": [
                {"Id": id, **self._succeeded[id]} for id in self.entries if id in self._succeeded
            ]
        }
        failed = [
            {
                "Id": id,
                "SenderFault": self._failed[id].side == "Sender",
                "Code": self._failed[id].code,
                "Message": str(self._failed[id]),
            }
            for id in self.entries
            if id in self._failed
        ]
        if failed:
            content["Failed"] = failed
        return content


class SendBatch:
    """The messages of a send request."""

    def __init__(
        self,
        queue: str,
        facts: QueueFacts,
        sender: str,
        trace: Mapping[str, str],
        trace_header: str = "",
    ) -> None:
        """`trace` and `trace_header` go into the messages that have none of their own."""
        self._facts = facts
        self._trace_header = trace_header if _TRACE_HEADER.fullmatch(trace_header) else ""
        self._sender = sender
        self._trace = trace
        self._is_fifo = queue.endswith(FIFO)
        self._longest = min(facts.max_message_size, messages.LONGEST)
        self._bodies: list[bytes] = []
        self._answers: list[dict[str, Any]] = []
        self._attributes: dict[int, dict[str, str | bytes]] = {}
        self._deduplication_ids: dict[int, str] = {}
        self._delays: dict[int, Millis] = {}
        self._groups: dict[int, str] = {}
        self.size = 0
        """Bytes of all messages, those included that can't be sent."""
        self.request = Send(
            queue=queue,
            bodies=self._bodies,
            attributes=self._attributes,
            deduplication_ids=self._deduplication_ids,
            delays=self._delays,
            groups=self._groups,
        )

    def add(self, parameters: Parameters) -> int:
        """Add a message; return its position. Raise the error of an invalid one."""
        delay = parameters.integer("DelaySeconds", 0, 900)
        message = messages.outgoing(parameters, self._sender)
        self.size += message.size
        if message.size > self._longest:
            raise sqs_errors.invalid_value(
                "One or more parameters are invalid. Reason: Message must be shorter than "
                f"{self._longest} bytes."
            )
        group = messages.token(parameters, "MessageGroupId")
        deduplicated = self._deduplication(parameters, message, group)
        if self._is_fifo and delay:
            raise sqs_errors.invalid_value(
                f"Value {delay} for parameter DelaySeconds is invalid. Reason: The request include "
                "parameter that is not valid for this queue type."
            )
        if self._trace_header and messages.TRACE not in message.attributes:
            held = size_of(message.attributes) + len(messages.TRACE) + len(self._trace_header)
            if held <= MAX_ATTRIBUTES_SIZE:
                message.attributes[messages.TRACE] = self._trace_header
        if self._trace and inherit_context(self._trace, message.attributes):
            message.attributes[messages.INHERITED] = " ".join(self._trace)
        position = len(self._bodies)
        self._bodies.append(message.body)
        self._answers.append(message.answer)
        if message.attributes:
            self._attributes[position] = message.attributes
        if deduplicated:
            self._deduplication_ids[position] = deduplicated
        if delay is not None and not self._is_fifo:
            self._delays[position] = Millis(delay * 1_000)
        if group:
            self._groups[position] = group
        return position

    def _deduplication(self, parameters: Parameters, message: SqsMessage, group: str) -> str:
        """Return the deduplication id of a message for the store; empty: it has none."""
        id = messages.token(parameters, "MessageDeduplicationId")
        if not self._is_fifo:
            if id:
                raise sqs_errors.invalid_value(
                    f"Value {id} for parameter MessageDeduplicationId is invalid. Reason: The "
                    "request includes a parameter that is not valid for this queue type."
                )
            return ""
        if lacking := self.lacking(parameters):
            raise lacking
        id = id or hashlib.sha256(message.body).hexdigest()
        message.attributes[messages.DEDUPLICATION] = id
        scope = f"{group}\0" if self._facts.is_deduplicated_by_group else ""
        if self._facts.purge:
            scope = f"purge {self._facts.purge}\0{scope}"
        return hashlib.sha256(f"{scope}{id}".encode()).hexdigest() if scope else id

    def lacking(self, parameters: Parameters) -> SqsError | None:
        """Return the error of a message to a FIFO queue that has no group, or no deduplication id where
        the queue doesn't make it of the content."""
        if not parameters.text("MessageGroupId"):
            return sqs_errors.missing_parameter(
                "The request must contain the parameter MessageGroupId."
            )
        if not parameters.text("MessageDeduplicationId") and not self._facts.is_content_deduplicated:
            return sqs_errors.invalid_value(
                "The queue should either have ContentBasedDeduplication enabled or "
                "MessageDeduplicationId provided explicitly"
            )
        return None

    def answer(self, position: int, id: str) -> dict[str, Any]:
        """Return the response's entry for a stored message."""
        answer = self._answers[position]
        answer["MessageId"] = id
        if self._is_fifo:
            answer["SequenceNumber"] = messages.sequence_number(id)
        return answer

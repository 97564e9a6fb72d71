"""SQS's errors: the shape of JSON, the code of Query, the status, and the side at fault.

The store's errors come by one table. A store error that isn't in it is a defect: the endpoint logs it
and answers `InternalFailure`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from spoolrack_store.model.errors import InvalidReceipt, StoreError
from spoolrack_store.model.terminal_text import printable

PREFIX: Final = "AWS.SimpleQueueService."


class SqsError(Exception):
    """An error response of SQS."""

    def __init__(
        self, shape: str, code: str, message: str, *, status: int = 400, side: str = "Sender"
    ) -> None:
        super().__init__(printable(message))
        self.shape = shape
        """The part of JSON's `__type` after `com.amazonaws.sqs#`."""
        self.code = code
        """Of Query, and of the header `x-amzn-query-error`."""
        self.status = status
        self.side = "Receiver" if self.is_fault else side
        """At fault: the Sender, or the Receiver."""

    @property
    def is_fault(self) -> bool:
        """Whether the server has failed."""
        return self.status >= 500


def _prefixed(shape: str) -> Callable[[str], SqsError]:
    return lambda message: SqsError(shape, PREFIX + shape, message)


def _same(
    shape: str, *, status: int = 400, code: str = "", side: str = "Sender"
) -> Callable[[str], SqsError]:
    return lambda message: SqsError(shape, code or shape, message, status=status, side=side)


def _saying(make: Callable[[str], SqsError], text: str) -> Callable[[str], SqsError]:
    """Return an error with SQS's own text in place of the store's."""
    return lambda _: make(text)


message_not_inflight = _prefixed("MessageNotInflight")
too_many_entries = _prefixed("TooManyEntriesInBatchRequest")
empty_batch = _prefixed("EmptyBatchRequest")
ids_not_distinct = _prefixed("BatchEntryIdsNotDistinct")
batch_too_long = _prefixed("BatchRequestTooLong")
invalid_batch_id = _prefixed("InvalidBatchEntryId")
unsupported = _prefixed("UnsupportedOperation")
over_limit = _same("OverLimit", status=403)
invalid_address = _same("InvalidAddress", status=404)
queue_deleted_recently = _prefixed("QueueDeletedRecently")
queue_exists = _same("QueueNameExists", code="QueueAlreadyExists")
invalid_receipt = _same("ReceiptHandleIsInvalid", status=404)
invalid_attribute_name = _same("InvalidAttributeName")
invalid_attribute_value = _same("InvalidAttributeValue")
invalid_contents = _same("InvalidMessageContents")
invalid_value = _same("InvalidParameterValueException", code="InvalidParameterValue")
missing_parameter = _same("MissingRequiredParameterException", code="MissingParameter")
resource_not_found = _same("ResourceNotFoundException", status=404)
throttled = _same("RequestThrottled", status=403, side="Receiver")
access_denied = _same("AccessDeniedException", code="AccessDenied", status=403)
missing_token = _same("MissingAuthenticationToken", status=403)
unrecognized_client = _same("InvalidClientTokenId", status=403)
incomplete_signature = _same("IncompleteSignature")
signature_differs = _same("SignatureDoesNotMatch", status=403)
unknown_operation = _same("UnknownOperationException", code="InvalidAction")
missing_action = _same("MissingAction")
no_operation = _same("UnknownOperationException", status=404)
unreadable = _same("SerializationException")
unavailable = _same("ServiceUnavailable", status=503)
internal = _same("InternalFailure", status=500)


NO_QUEUE: Final = PREFIX + "NonExistentQueue"
NO_SOURCE: Final = "CouldNotDetermineMessageSource"


def queue_not_found() -> SqsError:
    return SqsError("QueueDoesNotExist", NO_QUEUE, "The specified queue does not exist.")


def unknown_attribute(name: str) -> SqsError:
    return invalid_attribute_name(f"Unknown Attribute {name[:100]}.")


def invalid_action(name: str) -> SqsError:
    return unknown_operation(f"The action {name[:100]} is not valid for this endpoint.")


def no_resource(parameter: str) -> SqsError:
    return resource_not_found(
        f"The resource that you specified for the {parameter} parameter doesn't exist."
    )


def not_a_receipt(handle: str) -> SqsError:
    return invalid_receipt(f'The input receipt handle "{handle[:300]}" is not a valid receipt handle.')


FAULT: Final = "The server made a mistake, and its log says more: please report it."

_FROM_STORE: Final[Mapping[str, Callable[[str], SqsError]]] = {
    "INVALID_QUEUE_NAME": invalid_value,
    "INVALID_SETTING": invalid_attribute_value,
    "INVALID_REQUEST": invalid_value,
    "INVALID_MESSAGE": invalid_value,
    "MESSAGE_TOO_LARGE": invalid_value,
    "ATTRIBUTES_TOO_LARGE": invalid_value,
    "UNAUTHENTICATED": missing_token,
    "PERMISSION_DENIED": access_denied,
    "MESSAGE_NOT_FOUND": invalid_value,
    # SQS's own for a queue's URL at an endpoint that doesn't serve it.
    "WRONG_SHARD": invalid_address,
    "REDRIVE_NOT_FOUND": _saying(resource_not_found, "Task does not exist."),
    "QUEUE_EXISTS": queue_exists,
    "STALE_RECEIPT": message_not_inflight,
    "REDRIVE_RUNNING": _saying(
        invalid_value,
        "There is already a task running. Only one active task is allowed for a source queue arn at a "
        "given time.",
    ),
    "NO_DEAD_LETTER_QUEUE": unsupported,
    "SENDING_PAUSED": unsupported,
    # SDKs repeat what is unavailable or throttled, with a backoff.
    "QUEUE_FULL": throttled,
    "TOO_MANY_DEDUPLICATION_IDS": throttled,
    "MEMORY_LIMIT": unavailable,
    "QUEUE_BEING_DELETED": queue_deleted_recently,
    "DISK_FULL": unavailable,
    "DISK_ERROR": unavailable,
    "DRAINING": unavailable,
    "STORE_FAILED": unavailable,
    "OUTCOME_UNKNOWN": internal,
    "MESSAGE_DAMAGED": internal,
}


def of_store(error: StoreError) -> SqsError | None:
    """Return SQS's form of a store's error; None for one that must not reach a client."""
    if error.reason == "QUEUE_NOT_FOUND":
        return queue_not_found()
    if isinstance(error, InvalidReceipt):
        return not_a_receipt(str(error.facts["receipt"]))
    make = _FROM_STORE.get(error.reason)
    return None if make is None else make(str(error))

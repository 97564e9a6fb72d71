"""The attributes of a queue: some are the store's settings, the others are kept in the queue's labels.

An attribute that the store doesn't have is stored in a label `aws:sqs:<attribute>`, and shown. The
other labels are the queue's tags; SQS reserves tags that begin with "aws:". Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from spoolrack_store.model.clock import DAY, Millis
from spoolrack_store.model.names import is_queue_name
from spoolrack_store.model.operations import Queue
from spoolrack_store.model.settings import MIB, QueueSettings

from . import sqs_errors
from .json_protocol import value_in

LABEL: Final = "aws:sqs:"
FIFO: Final = ".fifo"
ACCOUNT: Final = "000000000000"
LONGEST_LABEL: Final = 1_024
MOST_TAGS: Final = 50
DEFAULT_RETENTION: Final = Millis(4 * DAY)
"""SQS's own, which a queue has that is created over SQS and doesn't say another."""
MAX_RETENTION: Final = Millis(14 * DAY)
"""The largest value of SQS: shown for a queue that keeps messages longer, or for ever."""
MODIFIED: Final = "LastModifiedTimestamp"
WAIT: Final = "ReceiveMessageWaitTimeSeconds"
REDRIVE: Final = "RedrivePolicy"
PURGES: Final = LABEL + "Purges"
"""The label that counts the purges of a FIFO queue: each makes its deduplication ids other ones."""
_ARN: Final = re.compile(r"arn:[a-z-]+:sqs:[a-z0-9-]*:[0-9]*:(?P<queue>.+)")
_SHOWN_ONLY: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    MODIFIED,
    "QueueArn",
)


def arn_of(queue: str, region: str) -> str:
    return f"arn:aws:sqs:{region}:{ACCOUNT}:{queue}"


def queue_of_arn(arn: str) -> str | None:
    """Return the queue's name, whatever the region and the account; None if it isn't a queue's ARN."""
    found = _ARN.fullmatch(arn)
    return found["queue"] if found and is_queue_name(found["queue"]) else None


def queue_of_url(url: str) -> str:
    """Return the last segment of a `QueueUrl`; raise the error of one without a queue."""
    queue = url.rstrip("/").rpartition("/")[2]
    if not is_queue_name(queue):
        raise sqs_errors.queue_not_found(url[:300])
    return queue


# Settings.


def _seconds(least: int, most: int) -> Callable[[str, str], Millis]:
    return lambda name, value: Millis(_number(name, value, least, most) * 1_000)


def _visibility(name: str, value: str) -> Millis:
    # The store's least is a millisecond: shown as 0 s again.
    return Millis(_number(name, value, 0, 43_200) * 1_000 or 1)


_SETTINGS: Final[Mapping[str, tuple[str, Callable[[str, str], int]]]] = {
    "VisibilityTimeout": ("visibility_timeout", _visibility),
    "DelaySeconds": ("delivery_delay", _seconds(0, 900)),
    "MaximumMessageSize": ("max_message_size", lambda name, value: _number(name, value, 1_024, MIB)),
    "MessageRetentionPeriod": ("retention", _seconds(60, 1_209_600)),
}
"""The attributes that are settings of the store."""


def _number(name: str, value: str, least: int, most: int) -> int:
    # An int of Python takes blanks and underscores, too.
    number = int(value) if re.fullmatch(r"-?\d{1,15}", value, re.ASCII) else None
    if number is None or not least <= number <= most:
        raise _invalid(name, f"must be a number from {least} to {most}")
    return number


def _invalid(name: str, rule: str) -> sqs_errors.SqsError:
    return sqs_errors.invalid_attribute_value(f"Invalid value for the parameter {name}: it {rule}.")


# Labels.


def _in(*allowed: str) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        if value not in allowed:
            raise _invalid(name, f"must be {' or '.join(allowed)}")
        return value

    return check


def _within(least: int, most: int) -> Callable[[str, str], str]:
    return lambda name, value: str(_number(name, value, least, most))


def _json(name: str, value: str) -> str:
    if not value:
        return value
    try:
        found = value_in(value)
    except ValueError as error:
        raise _invalid(name, "must be JSON, or empty") from error
    if not isinstance(found, dict):
        raise _invalid(name, "must be an object of JSON, or empty")
    return value


def _any(name: str, value: str) -> str:
    return value


_LABELS: Final[Mapping[str, Callable[[str, str], str]]] = {
    WAIT: _within(0, 20),
    "FifoQueue": _in("true", "false"),
    "ContentBasedDeduplication": _in("true", "false"),
    "DeduplicationScope": _in("queue", "messageGroup"),
    "FifoThroughputLimit": _in("perQueue", "perMessageGroupId"),
    "Policy": _json,
    "RedriveAllowPolicy": _json,
    "KmsMasterKeyId": _any,
    "KmsDataKeyReusePeriodSeconds": _within(60, 86_400),
    "SqsManagedSseEnabled": _in("true", "false"),
}
"""The attributes that are kept in labels; an empty value removes one."""
_PARTS: Final[Mapping[str, int]] = {"Policy": 8}
"""The labels of an attribute that may be longer than one: `aws:sqs:Policy`, `aws:sqs:Policy.1` ..."""
_FIFO_ONLY: Final = frozenset(
    {"ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"}
)
_FIFO_DEFAULTS: Final[Mapping[str, str]] = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    "DeduplicationScope": "queue",
    "FifoThroughputLimit": "perQueue",
}
NAMES: Final = frozenset({*_SETTINGS, *_LABELS, *_SHOWN_ONLY, REDRIVE})


@dataclass(slots=True)
class AttributeChanges:
    """The attributes that a request sets, as the store has them."""

    settings: dict[str, object] = field(default_factory=dict)
    """By the store's names."""
    labels: dict[str, str] = field(default_factory=dict)
    """By their names; an empty one is removed."""
    dead_letter_queue: str = ""
    """The queue that a redrive policy names; empty: none does."""


def changes_in(queue: str, attributes: Mapping[str, str]) -> AttributeChanges:
    """Parse the attributes that a request sets; raise the error of an invalid one."""
    changes = AttributeChanges()
    is_fifo = queue.endswith(FIFO)
    for name, value in attributes.items():
        if name not in NAMES or name in _SHOWN_ONLY:
            raise sqs_errors.invalid_attribute_name(f"Unknown Attribute {name[:100]}.")
        if name == REDRIVE:
            _read_redrive(value, changes, is_fifo=is_fifo)
        elif name in _SETTINGS:
            setting, read = _SETTINGS[name]
            changes.settings[setting] = read(name, value)
        else:
            if name == "FifoQueue" and (value == "true") != is_fifo:
                raise sqs_errors.invalid_value(
                    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
                    "underscores, must end with .fifo suffix and be 1 to 80 in length."
                    if value == "true"
                    else "The attribute FifoQueue can't be false for a queue whose name ends in .fifo."
                )
            if name in _FIFO_ONLY and not is_fifo:
                raise sqs_errors.invalid_attribute_name(
                    f"You can specify the {name} only when FifoQueue is set to true."
                )
            kept = _LABELS[name](name, value) if value else ""
            longest = LONGEST_LABEL * _PARTS.get(name, 1)
            if len(kept) > longest or not _is_text(kept):
                raise _invalid(name, f"must be text of up to {longest} characters")
            changes.labels |= _labels_of(name, kept)
    return changes


def _labels_of(name: str, value: str) -> dict[str, str]:
    """Return the labels that an attribute is kept in; empty ones are removed."""
    labels = {LABEL + name: value[:LONGEST_LABEL]}
    for part in range(1, _PARTS.get(name, 1)):
        begin = part * LONGEST_LABEL
        labels[f"{LABEL}{name}.{part}"] = value[begin : begin + LONGEST_LABEL]
    return labels


def _kept_in(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes that are kept in labels."""
    found: dict[str, str] = {}
    for label in sorted(labels):
        if label.startswith(LABEL):
            name = label.removeprefix(LABEL).partition(".")[0]
            if name in NAMES:
                found[name] = found.get(name, "") + labels[label]
    return found


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The facts of a queue that a send or a receive needs."""

    read_at: Millis
    max_message_size: int
    visibility: Millis
    wait: Millis
    is_content_deduplicated: bool
    is_deduplicated_by_group: bool
    purges: int


def facts_of(queue: Queue, now: Millis) -> QueueFacts:
    kept = _kept_in(queue.labels)
    return QueueFacts(
        read_at=now,
        max_message_size=queue.settings.max_message_size,
        visibility=queue.settings.visibility_timeout,
        wait=Millis(int(kept.get(WAIT, "0")) * 1_000),
        is_content_deduplicated=kept.get("ContentBasedDeduplication") == "true",
        is_deduplicated_by_group=kept.get("DeduplicationScope") == "messageGroup",
        purges=purges_in(queue.labels),
    )


def purges_in(labels: Mapping[str, str]) -> int:
    """Return the number of purges of a FIFO queue."""
    return int(labels.get(PURGES, "0"))


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _read_redrive(value: str, changes: AttributeChanges, *, is_fifo: bool) -> None:
    """Read a redrive policy; an empty one removes it."""
    if not value:
        changes.settings |= {"dead_letter_queue": "", "max_receives": 0}
        return
    refusal = f"Value {value[:300]} for parameter RedrivePolicy is invalid. Reason: "
    try:
        policy = value_in(value)
    except ValueError as error:
        raise sqs_errors.invalid_value(refusal + "Redrive policy is not a valid JSON map.") from error
    if not isinstance(policy, dict):
        raise sqs_errors.invalid_value(refusal + "Redrive policy is not a valid JSON map.")
    for name in ("maxReceiveCount", "deadLetterTargetArn"):
        if name not in policy:
            raise sqs_errors.invalid_value(
                refusal + f"Redrive policy does not contain mandatory attribute: {name}."
            )
    for name in policy:
        if name not in ("maxReceiveCount", "deadLetterTargetArn"):
            raise sqs_errors.invalid_value(
                refusal + f"Only following attributes are supported: [deadLetterTargetArn, "
                f"maxReceiveCount], not {str(name)[:100]}."
            )
    try:
        count = int(str(policy["maxReceiveCount"]))
    except ValueError:
        count = 0
    if not 1 <= count <= 1_000:
        raise sqs_errors.invalid_value(
            refusal + "Invalid value for maxReceiveCount: it must be from 1 to 1000."
        )
    queue = queue_of_arn(str(policy["deadLetterTargetArn"]))
    if queue is None:
        raise sqs_errors.invalid_value(refusal + "Invalid value for deadLetterTargetArn.")
    if queue.endswith(FIFO) != is_fifo:
        raise sqs_errors.invalid_value(
            refusal + "Dead letter target must be same type of queue as the source: FIFO for a FIFO "
            "queue, standard for a standard one."
        )
    changes.dead_letter_queue = queue
    changes.settings |= {"dead_letter_queue": queue, "max_receives": count}


def initial_settings(queue: str, changes: AttributeChanges) -> QueueSettings:
    """Return the settings of a queue that is created over SQS."""
    first: dict[str, object] = {"retention": DEFAULT_RETENTION, "dead_letter_at": "receive"}
    if queue.endswith(FIFO):
        first["group_order"] = "strict"
    return QueueSettings().changed(first | changes.settings)


def attributes_of(queue: Queue, region: str) -> dict[str, str]:
    """Return all attributes of a queue."""
    settings = queue.settings
    retention = min(settings.retention or MAX_RETENTION, MAX_RETENTION)
    found = {
        "QueueArn": arn_of(queue.name, region),
        "ApproximateNumberOfMessages": str(queue.counts.ready_count),
        "ApproximateNumberOfMessagesNotVisible": str(queue.counts.leased_count),
        "ApproximateNumberOfMessagesDelayed": str(queue.counts.delayed_count),
        "CreatedTimestamp": str(queue.created_at // 1_000),
        MODIFIED: str(queue.created_at // 1_000),
        "VisibilityTimeout": str(settings.visibility_timeout // 1_000),
        "MaximumMessageSize": str(settings.max_message_size),
        "MessageRetentionPeriod": str(retention // 1_000),
        "DelaySeconds": str(settings.delivery_delay // 1_000),
        WAIT: "0",
        "SqsManagedSseEnabled": "false",
    }
    if settings.dead_letter_queue:
        target = arn_of(settings.dead_letter_queue, region)
        found[REDRIVE] = json.dumps(
            {"deadLetterTargetArn": target, "maxReceiveCount": settings.max_receives},
            separators=(",", ":"),
        )
    if queue.name.endswith(FIFO):
        found |= _FIFO_DEFAULTS
    return found | _kept_in(queue.labels)


def differing(queue: Queue, changes: AttributeChanges, region: str) -> str | None:
    """Return the first attribute whose value differs between `changes` and the queue, or None."""
    names = {setting: name for name, (setting, _) in _SETTINGS.items()}
    names |= {"dead_letter_queue": REDRIVE, "max_receives": REDRIVE}
    for setting, value in changes.settings.items():
        if getattr(queue.settings, setting) != value:
            return names[setting]
    now = attributes_of(queue, region)
    for name, value in _kept_in(changes.labels).items():
        if now.get(name, "") != value:
            return name
    return None


def selected(attributes: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return the attributes that a request names; raise `InvalidAttributeName` for an unknown one."""
    for name in names:
        if name != "All" and name not in NAMES:
            raise sqs_errors.invalid_attribute_name(f"Unknown Attribute {name[:100]}.")
    if "All" in names:
        return dict(attributes)
    return {name: value for name, value in attributes.items() if name in names}


def tags_of(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if not name.startswith(LABEL)}


def check_tags(tags: Mapping[str, Any]) -> None:
    """Raise the error of invalid tags."""
    if len(tags) > MOST_TAGS:
        raise sqs_errors.invalid_value(f"Too many tags: a queue has {MOST_TAGS} at most.")
    for name, value in tags.items():
        if not 1 <= len(name) <= 128 or name.lower().startswith("aws:") or not _is_text(name):
            raise sqs_errors.invalid_value(
                f"The tag key '{name[:100]!r}' is invalid: 1 to 128 characters, and not aws: first."
            )
        if len(value) > 256 or not _is_text(value):
            raise sqs_errors.invalid_value(f"The value of the tag {name!r} has over 256 characters.")

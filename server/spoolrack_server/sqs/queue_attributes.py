"""The attributes of a queue: some are the store's settings, the others are kept in the queue's labels.

An attribute that the store doesn't have is stored in a label `aws:sqs:<attribute>`, and shown. The
other labels are the queue's tags; SQS reserves tags that begin with "aws:". Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from spoolrack_store.model.clock import DAY, Millis
from spoolrack_store.model.names import FIFO, is_queue_name
from spoolrack_store.model.operations import Queue
from spoolrack_store.model.settings import MIB, QueueSettings

from . import sqs_errors
from .json_protocol import value_in

LABEL: Final = "aws:sqs:"
LONGEST_LABEL: Final = 1_024
MOST_TAGS: Final = 50
DEFAULT_RETENTION: Final = Millis(4 * DAY)
"""SQS's own, which a queue has that is created over SQS and doesn't say another."""
MAX_RETENTION: Final = Millis(14 * DAY)
"""The largest value of SQS: shown for a queue that keeps messages longer, or for ever."""
MODIFIED: Final = "LastModifiedTimestamp"
WAIT: Final = "ReceiveMessageWaitTimeSeconds"
REDRIVE: Final = "RedrivePolicy"
POLICY: Final = "Policy"
REDRIVE_ALLOW: Final = "RedriveAllowPolicy"
SSE: Final = "SqsManagedSseEnabled"
KMS: Final = "KmsMasterKeyId"
SCOPE: Final = "DeduplicationScope"
THROUGHPUT: Final = "FifoThroughputLimit"
MOST_SOURCES: Final = 10
MOST_ACTIONS: Final = 7
"""Of a permission."""
_ACTIONS: Final = frozenset(
    {
        "*",
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
    }
)
"""The actions that a permission may name."""
MAX_WAIT: Final = 20
"""Seconds of a receive without messages."""
PURGES: Final = LABEL + "Purges"
"""The label with the id of a FIFO queue's last purge: each makes the deduplication ids other ones."""
_ARN: Final = re.compile(r"arn:[a-z-]+:sqs:[a-z0-9-]*:[0-9]*:(?P<queue>.+)")
_SHOWN_ONLY: Final = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    MODIFIED,
    "QueueArn",
)


def object_in(text: str | bytes) -> dict[str, Any] | None:
    """Return an object of JSON; None for any other text."""
    try:
        found = value_in(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def arn_of(queue: str, place: str) -> str:
    """Return a queue's ARN; `place` is the region and the account, with a colon between them."""
    return f"arn:aws:sqs:{place}:{queue}"


def queue_of_arn(arn: str) -> str | None:
    """Return the queue's name, whatever the region and the account; None if it isn't a queue's ARN."""
    found = _ARN.fullmatch(arn)
    return found["queue"] if found and is_queue_name(found["queue"]) else None


def queue_of_url(url: str) -> str:
    """Return the last segment of a `QueueUrl`; raise the error of one without a queue."""
    queue = url.rstrip("/").rpartition("/")[2]
    if not is_queue_name(queue):
        raise sqs_errors.queue_not_found()
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


def _boolean(name: str, value: str) -> str:
    return _in("true", "false")(name, value.lower())


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
    if object_in(value) is None:
        raise _invalid(name, "must be an object of JSON, or empty")
    return value


def _any(name: str, value: str) -> str:
    return value


def _allow_policy(name: str, value: str) -> str:
    """Check which queues may have this one as their dead-letter queue."""
    policy = object_in(value) or {}
    permission, sources = policy.get("redrivePermission"), policy.get("sourceQueueArns") or []
    if (
        not policy.keys() <= {"redrivePermission", "sourceQueueArns"}
        or permission not in ("allowAll", "denyAll", "byQueue")
        or not isinstance(sources, list)
        or not all(isinstance(each, str) for each in sources)
    ):
        raise sqs_errors.invalid_attribute_value(
            f"Invalid value for the parameter {name}. Reason: Amazon SQS can't create the redrive "
            "allow policy, as it\u2019s in an unsupported format."
        )
    rule = ""
    if sources and permission != "byQueue":
        rule = "To specify one or more source queue ARNs, you must set redrivePermission to byQueue."
    elif permission == "byQueue" and not sources:
        rule = (
            "When you specify the byQueue permission type, you must also specify one or more "
            "sourceQueueArns values."
        )
    elif len(sources) > MOST_SOURCES:
        rule = f"The maximum number of source queue ARNs you can specify is {MOST_SOURCES}."
    if rule:
        raise sqs_errors.invalid_value(
            f"Value {value[:300]} for parameter {name} is invalid. Reason: Amazon SQS can't create the "
            f"redrive allow policy. {rule}"
        )
    return value


def allows_source(target: Queue, queue: str) -> bool:
    """Return whether a queue's redrive allow policy lets `queue` have it as its dead-letter queue."""
    policy = object_in(_kept_in(target.labels).get(REDRIVE_ALLOW, "")) or {}
    sources = policy.get("sourceQueueArns")
    if policy.get("redrivePermission") == "byQueue" and isinstance(sources, list):
        return any(queue_of_arn(str(each)) == queue for each in sources)
    return policy.get("redrivePermission") not in ("byQueue", "denyAll")


def dead_letter_queue_of(queue: Queue) -> str:
    """Return the dead-letter queue that a queue shows; empty for none."""
    return queue.name if LABEL + REDRIVE in queue.labels else queue.settings.dead_letter_queue


_LABELS: Final[Mapping[str, Callable[[str, str], str]]] = {
    WAIT: _within(0, MAX_WAIT),
    "FifoQueue": _boolean,
    "ContentBasedDeduplication": _boolean,
    SCOPE: _in("queue", "messageGroup"),
    THROUGHPUT: _in("perQueue", "perMessageGroupId"),
    POLICY: _json,
    REDRIVE_ALLOW: _allow_policy,
    KMS: _any,
    "KmsDataKeyReusePeriodSeconds": _within(60, 86_400),
    SSE: _boolean,
}
"""The attributes that are kept in labels; an empty value removes one."""
_PARTS: Final[Mapping[str, int]] = {POLICY: 8, REDRIVE_ALLOW: 2}
"""The labels of an attribute that may be longer than one: `aws:sqs:Policy`, `aws:sqs:Policy.1` ..."""
_NOT_SHOWN: Final = {"KmsDataKeyReusePeriodSeconds": "300"}
"""The defaults that SQS doesn't show."""
_FIFO_ONLY: Final = frozenset({"ContentBasedDeduplication", SCOPE, THROUGHPUT})
_FIFO_DEFAULTS: Final[Mapping[str, str]] = {
    "FifoQueue": "true",
    "ContentBasedDeduplication": "false",
    SCOPE: "queue",
    THROUGHPUT: "perQueue",
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
            raise sqs_errors.unknown_attribute(name)
        if name == REDRIVE:
            _read_redrive(queue, value, changes)
        elif name in _SETTINGS:
            setting, read = _SETTINGS[name]
            changes.settings[setting] = read(name, value)
        else:
            if name == "FifoQueue":
                _check_kind(value, is_fifo=is_fifo)
            if name == "ContentBasedDeduplication" and not is_fifo:
                raise sqs_errors.unknown_attribute(name)
            if name in _FIFO_ONLY and not is_fifo:
                raise sqs_errors.invalid_attribute_name(
                    f"You can specify the {name} only when FifoQueue is set to true."
                )
            text = _LABELS[name](name, value) if value else ""
            if text == _NOT_SHOWN.get(name):
                text = ""
            longest = LONGEST_LABEL * _PARTS.get(name, 1)
            if len(text) > longest or not _is_text(text):
                raise _invalid(name, f"must be text of up to {longest} characters")
            changes.labels |= _labels_of(name, text)
    _choose_encryption(changes.labels)
    return changes


def _check_kind(value: str, *, is_fifo: bool) -> None:
    """Raise the error of an attribute FifoQueue that contradicts the queue's name."""
    says_fifo = _boolean("FifoQueue", value) == "true"
    if says_fifo and not is_fifo:
        raise sqs_errors.invalid_value(
            "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
            "underscores, must end with .fifo suffix and be 1 to 80 in length."
        )
    if not says_fifo and not is_fifo:
        raise sqs_errors.unknown_attribute("FifoQueue")
    if not says_fifo:
        raise sqs_errors.invalid_attribute_value(
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
        )


def _choose_encryption(labels: dict[str, str]) -> None:
    """Let the one kind of encryption that a request enables end the other."""
    key, managed = labels.get(LABEL + KMS), labels.get(LABEL + SSE)
    if key and managed == "true":
        raise sqs_errors.invalid_attribute_name(
            "You can use one type of server-side encryption (SSE) at one time. You can either enable "
            "KMS SSE or SQS SSE."
        )
    if key:
        labels[LABEL + SSE] = "false"
    elif managed == "true":
        labels[LABEL + KMS] = ""


def check_throughput(before: Mapping[str, str], changes: AttributeChanges) -> None:
    """Raise the error of a throughput limit that doesn't go with the deduplication scope, if a request
    changes one of them; `before` are the queue's labels."""
    changed = _kept_in(changes.labels)
    if not changed.keys() & {SCOPE, THROUGHPUT}:
        return
    after = _kept_in(before) | changed
    if after.get(THROUGHPUT) == "perMessageGroupId" and after.get(SCOPE) != "messageGroup":
        raise sqs_errors.invalid_attribute_value(
            f"Invalid value for the parameter {THROUGHPUT}. Reason: To set {THROUGHPUT} to "
            f"perMessageGroupId, the {SCOPE} must be messageGroup."
        )


def _labels_of(name: str, value: str) -> dict[str, str]:
    """Return the labels that an attribute is kept in; empty ones are removed."""
    labels = {LABEL + name: value[:LONGEST_LABEL]}
    for part in range(1, _PARTS.get(name, 1)):
        begin = part * LONGEST_LABEL
        labels[f"{LABEL}{name}.{part}"] = value[begin : begin + LONGEST_LABEL]
    return labels


def _kept_in(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes that are kept in labels."""
    attributes: dict[str, str] = {}
    for label in sorted(labels):
        if label.startswith(LABEL):
            name = label.removeprefix(LABEL).partition(".")[0]
            if name in NAMES:
                attributes[name] = attributes.get(name, "") + labels[label]
    return attributes


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The facts of a queue that a send or a receive needs."""

    read_at: Millis
    max_message_size: int
    visibility: Millis
    wait: Millis
    is_content_deduplicated: bool
    is_deduplicated_by_group: bool
    purge: str
    """The id of its last purge; empty: there was none."""


def facts_of(queue: Queue, now: Millis) -> QueueFacts:
    attributes = _kept_in(queue.labels)
    return QueueFacts(
        read_at=now,
        max_message_size=queue.settings.max_message_size,
        visibility=queue.settings.visibility_timeout,
        wait=Millis(_count_in(attributes.get(WAIT, ""), MAX_WAIT) * 1_000),
        is_content_deduplicated=attributes.get("ContentBasedDeduplication") == "true",
        is_deduplicated_by_group=attributes.get("DeduplicationScope") == "messageGroup",
        purge=queue.labels.get(PURGES, ""),
    )


def _count_in(text: str, most: int) -> int:
    """Return the number in a label, which any client with the permission may have set; 0 for none."""
    return min(int(text), most) if re.fullmatch(r"\d{1,15}", text, re.ASCII) else 0


def _is_text(value: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _read_redrive(source: str, value: str, changes: AttributeChanges) -> None:
    """Read the redrive policy of the queue `source`; an empty one removes it."""
    changes.labels[LABEL + REDRIVE] = ""
    changes.settings |= {"dead_letter_queue": "", "max_receives": 0}
    if not value:
        return
    refusal = f"Value {value[:300]} for parameter RedrivePolicy is invalid. Reason: "
    policy = object_in(value)
    if policy is None:
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
    count = _count_in(str(policy["maxReceiveCount"]), 10**15)
    if not 1 <= count <= 1_000:
        raise sqs_errors.invalid_value(
            refusal
            + f"Invalid value for maxReceiveCount: {str(policy['maxReceiveCount'])[:20]}, valid "
            "values are from 1 to 1000 both inclusive."
        )
    queue = queue_of_arn(str(policy["deadLetterTargetArn"]))
    if queue is None:
        raise sqs_errors.invalid_value(refusal + "Invalid value for deadLetterTargetArn.")
    if queue == source:
        # Its messages stay where they are: the policy is only shown.
        changes.labels[LABEL + REDRIVE] = _redrive_policy(policy["deadLetterTargetArn"], count)
        return
    if queue.endswith(FIFO) != source.endswith(FIFO):
        raise sqs_errors.invalid_value(
            refusal + "Dead-letter queue must be same type of queue as the source.."
        )
    changes.dead_letter_queue = queue
    changes.settings |= {"dead_letter_queue": queue, "max_receives": count}


def _redrive_policy(arn: str, count: int) -> str:
    return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": count}, separators=(",", ":"))


def initial_settings(queue: str, changes: AttributeChanges) -> QueueSettings:
    """Return the settings of a queue that is created over SQS."""
    first: dict[str, object] = {"retention": DEFAULT_RETENTION, "dead_letter_at": "receive"}
    if queue.endswith(FIFO):
        first["group_order"] = "strict"
    return QueueSettings().changed(first | changes.settings)


def attributes_of(queue: Queue, place: str) -> dict[str, str]:
    """Return all attributes of a queue."""
    settings = queue.settings
    retention = min(settings.retention or MAX_RETENTION, MAX_RETENTION)
    attributes = {
        "QueueArn": arn_of(queue.name, place),
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
        SSE: "false" if LABEL + KMS in queue.labels else "true",
    }
    if settings.dead_letter_queue:
        target = arn_of(settings.dead_letter_queue, place)
        attributes[REDRIVE] = _redrive_policy(target, settings.max_receives)
    if queue.name.endswith(FIFO):
        attributes |= _FIFO_DEFAULTS
    return attributes | _kept_in(queue.labels)


# Permissions, which are statements of the policy.


def with_permission(
    queue: Queue, place: str, label: str, accounts: Sequence[str], actions: Sequence[str]
) -> dict[str, str | None]:
    """Return the labels of the queue's policy with a permission more."""
    if not accounts:
        raise sqs_errors.invalid_value(
            "Value [] for parameter PrincipalId is invalid. Reason: Unable to verify."
        )
    if not actions:
        raise sqs_errors.missing_parameter("The request must contain the parameter Actions.")
    if len(actions) > MOST_ACTIONS:
        raise sqs_errors.over_limit(
            f"{len(actions)} Actions were found, maximum allowed is {MOST_ACTIONS}."
        )
    if unknown := [action for action in actions if action not in _ACTIONS]:
        raise sqs_errors.invalid_value(
            f"Value SQS:{unknown[0][:100]} for parameter ActionName is invalid. Reason: Only the queue "
            "owner is allowed to invoke this action."
        )
    policy, statements = _policy_of(queue, place)
    if any(each.get("Sid") == label for each in statements):
        raise _invalid_label(label, "Already exists.")
    statement = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": _one_or_all([f"arn:aws:iam::{account}:root" for account in accounts])},
        "Action": _one_or_all([f"SQS:{action}" for action in actions]),
        "Resource": arn_of(queue.name, place),
    }
    return _policy_labels(policy, [*statements, statement])


def without_permission(queue: Queue, place: str, label: str) -> dict[str, str | None]:
    """Return the labels of the queue's policy without a permission."""
    policy, statements = _policy_of(queue, place)
    left = [each for each in statements if each.get("Sid") != label]
    if len(left) == len(statements):
        raise _invalid_label(label, "can't find label on existing policy.")
    return _policy_labels(policy, left)


def _policy_of(queue: Queue, place: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    policy = object_in(_kept_in(queue.labels).get(POLICY, "")) or {
        "Version": "2012-10-17",
        "Id": f"{arn_of(queue.name, place)}/SQSDefaultPolicy",
    }
    found = policy.get("Statement", [])
    statements = found if isinstance(found, list) else [found]
    return policy, [each for each in statements if isinstance(each, dict)]


def _policy_labels(
    policy: Mapping[str, Any], statements: Sequence[Mapping[str, Any]]
) -> dict[str, str | None]:
    content = {**policy, "Statement": statements}
    text = json.dumps(content, separators=(",", ":")) if statements else ""
    longest = LONGEST_LABEL * _PARTS[POLICY]
    if len(text) > longest:
        raise _invalid(POLICY, f"must be text of up to {longest} characters")
    return {label: part or None for label, part in _labels_of(POLICY, text).items()}


def _one_or_all(values: list[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else values


def _invalid_label(label: str, why: str) -> sqs_errors.SqsError:
    return sqs_errors.invalid_value(
        f"Value {label[:100]} for parameter Label is invalid. Reason: {why}"
    )


def differing(queue: Queue, changes: AttributeChanges, place: str) -> str | None:
    """Return the first attribute whose value differs between `changes` and the queue, or None."""
    names = {setting: name for name, (setting, _) in _SETTINGS.items()}
    names |= {"dead_letter_queue": REDRIVE, "max_receives": REDRIVE}
    own = queue.labels.get(LABEL + REDRIVE, "")
    if changes.labels.get(LABEL + REDRIVE, own) != own:
        return REDRIVE
    for setting, value in changes.settings.items():
        if getattr(queue.settings, setting) != value:
            return names[setting]
    now = attributes_of(queue, place)
    for name, value in _kept_in(changes.labels).items():
        if name != REDRIVE and now.get(name, "") != value:
            return name
    return None


def selected(attributes: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    """Return the attributes that a request names; raise `InvalidAttributeName` for an unknown one."""
    for name in names:
        if name != "All" and name not in NAMES:
            raise sqs_errors.unknown_attribute(name)
    if "All" in names:
        return dict(attributes)
    return {name: value for name, value in attributes.items() if name in names}


def tags_of(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in labels.items() if not name.startswith(LABEL)}


def check_tags(queue: str, tags: Mapping[str, Any]) -> None:
    """Raise the error of invalid tags."""
    if len(tags) > MOST_TAGS:
        raise sqs_errors.invalid_value(f"Too many tags added for queue {queue}.")
    for name, value in tags.items():
        if not 1 <= len(name) <= 128 or name.lower().startswith("aws:") or not _is_text(name):
            raise sqs_errors.invalid_value(
                f"The tag key '{name[:100]!r}' is invalid: 1 to 128 characters, and not aws: first."
            )
        if len(value) > 256 or not _is_text(value):
            raise sqs_errors.invalid_value(f"The value of the tag {name!r} has over 256 characters.")

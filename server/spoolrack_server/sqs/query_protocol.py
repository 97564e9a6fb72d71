"""AWS Query: forms in, XML out, as SDKs before November 2023 speak (and botocore 1.32.7 to 1.34.82).

A form becomes the same parameters as a request of JSON, and the same response becomes XML: lists and
maps are flattened, each under the name that the tables say. Pure.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from . import sqs_errors
from .messages import NOT_XML
from .parameters import Parameters
from .sqs_errors import SqsError

CONTENT_TYPE: Final = "text/xml"
NAMESPACE: Final = "http://queue.amazonaws.com/doc/2012-11-05/"
MOST_FIELDS: Final = 2_000
"""Fields of a form: a batch of ten messages, each with ten attributes, has 500."""
LONGEST_NAME: Final = 200
"""Characters of a field's name, which say how deep it is nested."""

_LISTS: Final[Mapping[str, str]] = {
    "AttributeName": "AttributeNames",
    "MessageAttributeName": "MessageAttributeNames",
    "MessageSystemAttributeName": "MessageSystemAttributeNames",
    "TagKey": "TagKeys",
    "AWSAccountId": "AWSAccountIds",
    "ActionName": "Actions",
    "SendMessageBatchRequestEntry": "Entries",
    "DeleteMessageBatchRequestEntry": "Entries",
    "ChangeMessageVisibilityBatchRequestEntry": "Entries",
}
_MAPS: Final[Mapping[str, tuple[str, str]]] = {
    "Attribute": ("Attributes", "Name"),
    "Tag": ("Tags", "Key"),
    "MessageAttribute": ("MessageAttributes", "Name"),
    "MessageSystemAttribute": ("MessageSystemAttributes", "Name"),
}
"""Of each flattened map its parameter, and the field that has the key; "Value" has the value."""
_COLLECTIONS: Final = frozenset(
    {*_LISTS, *_LISTS.values(), *_MAPS, *(into for into, _ in _MAPS.values())}
)
_INTEGERS: Final = frozenset(
    {
        "DelaySeconds",
        "MaxNumberOfMessages",
        "MaxNumberOfMessagesPerSecond",
        "MaxResults",
        "VisibilityTimeout",
        "WaitTimeSeconds",
    }
)
_ELEMENTS: Final[Mapping[str, str]] = {
    "QueueUrls": "QueueUrl",
    "queueUrls": "QueueUrl",
    "Messages": "Message",
    "Failed": "BatchResultErrorEntry",
    "Results": "ListMessageMoveTasksResultEntry",
    "Attributes": "Attribute",
    "MessageAttributes": "MessageAttribute",
    "Tags": "Tag",
}
"""How the elements of a list or a map are called."""
_EMPTY: Final = frozenset(
    {
        "AddPermission",
        "ChangeMessageVisibility",
        "DeleteMessage",
        "DeleteQueue",
        "PurgeQueue",
        "RemovePermission",
        "SetQueueAttributes",
        "TagQueue",
        "UntagQueue",
    }
)
"""Operations without a result."""
_CONTROL: Final = re.compile(r"[\r\t\n]")
_QUEUE_PATH: Final = re.compile(r"/[0-9]{12}/[^/]+/?")
"""The path of a queue's URL."""
_NOT_OF_A_QUEUE: Final = frozenset({"CreateQueue", "ListQueues"})
"""Operations that a queue's URL hasn't."""
_TEXTS: Final = {sqs_errors.NO_QUEUE: "The specified queue does not exist for this wsdl version."}
"""The errors, by their codes, that say something else than in JSON."""


def form_in(body: bytes, query: str) -> dict[str, str]:
    """Return the fields of a request's body and of its URL, whose `query` is as it was sent."""
    try:
        text = "&".join(filter(None, (query, body.decode())))
        pairs = parse_qsl(
            text,
            keep_blank_values=True,
            strict_parsing=bool(text),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise sqs_errors.unreadable(f"The form can't be read: {str(error)[:200]}.") from error
    if any(len(name) > LONGEST_NAME for name, _ in pairs):
        raise sqs_errors.unreadable(f"The name of a parameter has over {LONGEST_NAME} characters.")
    return dict(pairs)


def operation_in(form: Mapping[str, str], path: str) -> str:
    """Return the operation of a form that was sent to `path`."""
    action, is_queue = form.get("Action"), _QUEUE_PATH.fullmatch(path) is not None
    if is_queue and action in _NOT_OF_A_QUEUE:
        raise sqs_errors.invalid_action(action)
    if not action:
        if is_queue:
            raise sqs_errors.no_operation("The request has no parameter Action.")
        raise sqs_errors.missing_action(
            "This is the port for clients of Amazon SQS, whose calls have the header X-Amz-Target (AWS "
            "JSON 1.0) or the parameter Action (AWS Query). HTTP is served at the port of serve --http."
        )
    return action


def parameters_in(form: Mapping[str, str], path: str) -> Parameters:
    """Return the parameters of a form; a path of more than a slash is the `QueueUrl`."""
    values = _structure(form)
    if "QueueUrl" not in values and path.strip("/"):
        values["QueueUrl"] = path
    if form.get("Action") == "CreateQueue" and "Tags" in values:
        values["tags"] = values.pop("Tags")
    return Parameters(values)


def _structure(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters of a structure whose fields are given without their prefix."""
    values: dict[str, Any] = {}
    numbered: dict[str, dict[int, dict[str, str]]] = {}
    for name, value in form.items():
        head, _, rest = name.partition(".")
        number, _, field = rest.partition(".")
        if (head in _LISTS or head in _MAPS) and number.isascii() and number.isdigit():
            numbered.setdefault(head, {}).setdefault(int(number[:9]), {})[field] = value
        elif not value and name in _COLLECTIONS:
            pass  # An empty list or map.
        elif head in _INTEGERS:
            values[name] = _integer(name, value)
        else:
            values[name] = value
    for head, elements in numbered.items():
        fields = [elements[number] for number in sorted(elements)]
        if head in _MAPS:
            into, key = _MAPS[head]
            values[into] = {each.get(key, ""): _value(each) for each in fields}
        elif all(set(each) == {""} for each in fields):
            values[_LISTS[head]] = [each[""] for each in fields]
        else:
            values[_LISTS[head]] = [_structure(each) for each in fields]
    return values


def _value(fields: Mapping[str, str]) -> Any:
    """Return the value of an entry of a map: a text, or the value of a message attribute."""
    if "Value" in fields:
        return fields["Value"]
    structure: dict[str, Any] = {
        name.removeprefix("Value."): value
        for name, value in fields.items()
        if name.startswith("Value.")
    }
    for name in ("StringListValue", "BinaryListValue"):
        # Flattened, as all lists.
        if listed := [value for key, value in structure.items() if key.startswith(f"{name}.")]:
            structure[f"{name}s"] = listed
    coded = structure.get("BinaryValue")
    if coded is not None:
        try:
            base64.b64decode(coded, validate=True)
        except (binascii.Error, ValueError):
            # A form decodes an unescaped plus sign to this.
            structure["BinaryValue"] = coded.replace(" ", "+")
    return structure


def _integer(name: str, value: str) -> int:
    if not re.fullmatch(r"-?\d{1,15}", value, re.ASCII):
        raise sqs_errors.unreadable(f"The parameter {name} must be an integer.")
    return int(value)


def response(operation: str, content: Mapping[str, Any], request_id: str) -> bytes:
    result = "".join(_members(operation, content))
    if operation not in _EMPTY:
        result = f"<{operation}Result>{result}</{operation}Result>"
    return _document(
        f'<{operation}Response xmlns="{NAMESPACE}">{result}<ResponseMetadata><RequestId>'
        f"{_text(request_id)}</RequestId></ResponseMetadata></{operation}Response>"
    )


def error_response(error: SqsError, request_id: str) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of an error."""
    if has_no_operation(error):
        return _document(f"<{error.code}/>"), {}
    return (
        _document(
            f'<ErrorResponse xmlns="{NAMESPACE}"><Error><Type>{error.side}</Type>'
            f"<Code>{error.code}</Code><Message>{_text(text_of(error))}</Message><Detail/></Error>"
            f"<RequestId>{_text(request_id)}</RequestId></ErrorResponse>"
        ),
        {},
    )


def has_no_operation(error: SqsError) -> bool:
    """Return whether an error is the one of a request without an operation: always a bare element."""
    return error.code == "UnknownOperationException"


def text_of(error: SqsError) -> str:
    return _TEXTS.get(error.code, str(error))


def _document(text: str) -> bytes:
    return f'<?xml version="1.0"?>{text}'.encode()


def _members(operation: str, content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the elements of a structure."""
    for name, value in content.items():
        element = _ELEMENTS.get(name, name)
        if name == "Successful":
            element = f"{operation}ResultEntry"
        match value:
            case list():
                for each in value:
                    yield f"<{element}>{_content(operation, each)}</{element}>"
            case dict():
                key = "Key" if name == "Tags" else "Name"
                for field, each in value.items():
                    inner = f"<{key}>{_text(field)}</{key}><Value>{_content(operation, each)}</Value>"
                    yield f"<{element}>{inner}</{element}>"
            case bool():
                yield f"<{element}>{str(value).lower()}</{element}>"
            case _:
                yield f"<{element}>{_text(str(value))}</{element}>"


def _content(operation: str, value: Any) -> str:
    return "".join(_members(operation, value)) if isinstance(value, dict) else _text(value)


def _text(text: str) -> str:
    """Return a text as XML has it; a reader of XML takes a bare line end for another one."""
    text = _CONTROL.sub(lambda found: f"&#{ord(found[0])};", escape(text))
    return NOT_XML.sub("\ufffd", text)

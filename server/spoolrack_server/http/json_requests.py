"""JSON of requests: settings, labels and schedules by their names, with spans in seconds. Pure.

A value that can't be raises `InvalidRequest` or `InvalidSetting`, which name it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidRequest, InvalidSetting
from spoolrack_store.model.settings import SCHEMA, QueueSettings

SCHEDULE_FIELDS: Final = frozenset(
    {"cron", "time_zone", "body", "binary_body", "attributes", "binary_attributes", "group"}
)
_DEFAULTS: Final = QueueSettings()


def object_in(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in a body; raise `InvalidRequest` for anything else."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(what="the body", value=str(error), rule="must be JSON") from error
    if not isinstance(found, dict):
        raise InvalidRequest(what="the body", value=type(found).__name__, rule="must be a JSON object")
    return found


def declared(asked: Mapping[str, Any]) -> tuple[QueueSettings, dict[str, str]]:
    """Return the settings and the labels that a body declares: settings by their names, with spans in
    seconds, and `labels`."""
    labels = asked.get("labels", {})
    if not isinstance(labels, dict):
        raise InvalidSetting(name="labels", value=labels, rule="must be an object")
    changes = changes_in({name: value for name, value in asked.items() if name != "labels"})
    return _DEFAULTS.changed(changes), labels


def changes_in(found: Mapping[str, Any]) -> dict[str, object]:
    """Return the settings in an object of JSON by the store's names, with spans in milliseconds."""
    return {
        name: _millis(name, value) if name in SCHEMA and SCHEMA[name].is_span else value
        for name, value in found.items()
    }


def _millis(name: str, seconds: object) -> Millis:
    # An infinite span, or none at all, would not come through the store's bounds as an integer.
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not abs(seconds) < 1e15:
        raise InvalidSetting(name=name, value=seconds, rule="must be a number of seconds")
    return Millis(round(seconds * 1_000))


def content_of(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the content of the schedule that JSON declares, by the names of `Schedules.create`; raise
    `InvalidRequest`."""
    unknown = sorted(asked.keys() - SCHEDULE_FIELDS)
    if unknown:
        known = ", ".join(sorted(SCHEDULE_FIELDS))
        raise InvalidRequest(
            what="the schedule's field", value=unknown[0], rule=f"must be one of {known}"
        )
    if "body" in asked and "binary_body" in asked:
        raise InvalidRequest(what="body", value="twice", rule="goes without binary_body")
    body = _bytes("binary_body", asked["binary_body"]) if "binary_body" in asked else b""
    attributes: dict[str, str | bytes] = dict(_texts(asked, "attributes"))
    for attribute, text in _texts(asked, "binary_attributes").items():
        if attribute in attributes:
            raise InvalidRequest(what="binary_attributes", value=attribute, rule="is an attribute, too")
        attributes[attribute] = _bytes("binary_attributes", text)
    return {
        "cron_text": _text(asked, "cron"),
        "time_zone": _text(asked, "time_zone"),
        "body": _text(asked, "body").encode(errors="replace") or body,
        "attributes": attributes,
        "group": _text(asked, "group"),
    }


def _text(asked: dict[str, Any], name: str) -> str:
    text = asked.get(name, "")
    if not isinstance(text, str):
        raise InvalidRequest(what=name, value=type(text).__name__, rule="must be a text")
    return text


def _texts(asked: dict[str, Any], name: str) -> dict[str, str]:
    found = asked.get(name, {})
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise InvalidRequest(what=name, value=type(found).__name__, rule="must be an object of texts")
    return found


def _bytes(name: str, text: object) -> bytes:
    try:
        return base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(what=name, value=text, rule="must be base64") from error

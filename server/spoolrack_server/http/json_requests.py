"""JSON of requests: an object, and settings and labels by their names, with spans in seconds. Pure.

A value that can't be raises `InvalidRequest` or `InvalidSetting`, which name it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import InvalidRequest, InvalidSetting
from spoolrack_store.model.settings import SCHEMA, QueueSettings

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

"""Changes of the catalogue of queues: creation, settings, labels, deletion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final

from .. import _arguments as arguments
from .._call_values import CreateQueue, DeleteQueue, GetQueue, UpdateQueue
from .._settings import CHOICES, MOST, RATES, QueueSettings
from .._values import QueueInfo, Seconds
from ..errors import InvalidRequest, InvalidSetting, QueueExists, QueueNotFound
from .client_context import ClientContext

_KNOWN: Final = {setting.name: setting.default for setting in fields(QueueSettings)}


async def create_queue(
    context: ClientContext,
    name: str,
    labels: Mapping[str, str] | None,
    timeout: Seconds | None,
    settings: Mapping[str, Any],
) -> QueueInfo:
    """See `Client.create_queue`."""
    arguments.text("name", name)
    given = {} if labels is None else labels
    arguments.labels(given)
    named = {name: value for name, value in _checked(settings).items() if value is not None}
    return await context.ask(CreateQueue(name=name, settings=named, labels=given), timeout)


async def ensure_queue(
    context: ClientContext,
    name: str,
    labels: Mapping[str, str] | None,
    timeout: Seconds | None,
    settings: Mapping[str, Any],
) -> QueueInfo:
    """See `Client.ensure_queue`."""
    arguments.text("name", name)
    arguments.labels({} if labels is None else labels)
    wanted = {
        setting: _KNOWN[setting] if value is None else value
        for setting, value in _checked(settings).items()
    }
    while True:
        try:
            found = await context.ask(GetQueue(name=name), timeout)
        except QueueNotFound:
            try:
                return await create_queue(context, name, labels, timeout, settings)
            except QueueExists:
                continue  # Another caller was faster, with other settings.
        changes = {
            setting: value
            for setting, value in wanted.items()
            if value != getattr(found.settings, setting)
        }
        given: dict[str, str | None] = {}
        if labels is not None and found.labels != labels:
            given = {**dict.fromkeys(found.labels), **labels}
        if not changes and not given:
            return found
        try:
            return await update_queue(context, name, given, None, timeout, changes)
        except QueueNotFound:
            continue  # It was deleted meanwhile.


async def update_queue(
    context: ClientContext,
    name: str,
    labels: Mapping[str, str | None] | None,
    if_version: int | None,
    timeout: Seconds | None,
    settings: Mapping[str, Any],
) -> QueueInfo:
    """See `Client.update_queue`."""
    arguments.text("name", name)
    version = arguments.version(if_version)
    given = {} if labels is None else labels
    arguments.labels(given, may_remove=True)
    changes = _checked(settings)
    if not changes and not given and not version:
        return await context.ask(GetQueue(name=name), timeout)
    request = UpdateQueue(name=name, settings=changes, labels=given, version=version)
    return await context.ask(request, timeout)


async def delete_queue(
    context: ClientContext, name: str, if_version: int | None, timeout: Seconds | None
) -> None:
    """See `Client.delete_queue`."""
    version = arguments.version(if_version)
    arguments.text("name", name)
    await context.ask(DeleteQueue(name=name, version=version), timeout, done_if=QueueNotFound)


def _checked(settings: Mapping[str, Any]) -> dict[str, object]:
    """Return settings as the transport takes them: known names, spans in seconds."""
    checked: dict[str, object] = {}
    for name, value in settings.items():
        if name not in _KNOWN:
            near = get_close_matches(name, _KNOWN, 1)
            raise InvalidSetting(
                f"{name} is not a setting of a queue{f' ({near[0]} is)' if near else ''}: there are "
                f"{', '.join(sorted(_KNOWN))}."
            )
        if isinstance(value, timedelta) and name not in RATES:
            value = value.total_seconds()
        default = _KNOWN[name]
        kinds = (int, float) if isinstance(default, float) else type(default)
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise InvalidSetting(f"The setting {name} can't be {value!r}: it {_rule(name, default)}.")
        if name in CHOICES and value not in (*CHOICES[name], None):
            choices = " or ".join(map(repr, CHOICES[name]))
            raise InvalidSetting(f"{name} can't be {value!r}: it is {choices}.")
        try:
            _check(name, value)
        except InvalidRequest as error:
            raise InvalidSetting(str(error)) from None
        checked[name] = value
    return checked


def _rule(name: str, default: object) -> str:
    """Return the rule for the type of a setting."""
    match default:
        case float() if name in RATES:
            return "must be a number of leases a second"
        case float():
            return "must be a number of seconds, or a timedelta"
        case int():
            return "must be an integer"
        case _:
            return "must be text, such as the name of a queue or of a choice"


def _check(name: str, value: object) -> None:
    """Raise `InvalidRequest` for what has the right type, and can't be on the wire."""
    match value:
        case str():
            arguments.text(name, value)
        case int() if not isinstance(_KNOWN[name], float):
            arguments.integer(name, value, 0, MOST[name])
        case int() | float() if name in RATES:
            arguments.number(name, value, 0)
        case int() | float():
            arguments.span(name, value)

"""`spoolrack queues apply`: makes queues be as a file declares them.

It owns the file: JSON, a queue's settings under each name. It may be repeated, and stops at the first
queue that the server refuses, which leaves those before it as declared. It never deletes a queue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final

import click
from spoolrack import Client, QueueSettings, errors

from .connecting import Reach, reaches_queues
from .exits import BAD_CONTENT, Failed
from .output import tell
from .units import Size, Span

_SPANS: Final = {"visibility_timeout", "delivery_delay", "retention", "deduplication_window"}
_SIZES: Final = {"max_bytes", "max_message_size"}
_NUMBERS: Final = {"max_receives", "max_messages"}
_KNOWN: Final = tuple(field.name for field in fields(QueueSettings))


@click.command()
@click.argument("file", type=click.File("rb"))
@reaches_queues
def command(reach: Reach, file: Any) -> None:
    """Make queues be as FILE declares them: JSON, such as {"jobs": {"visibility_timeout": "5m"}}.

    A queue that isn't there is created; of one that is there, the settings become the declared ones,
    and those that are not declared the defaults. Other queues are left alone, and none is deleted. A
    server that isn't there yet is waited for, as long as --timeout says. "-" reads standard input.
    """
    declared = declared_in(file.read(), file.name)
    with reach.patient() as client:
        for name, settings in declared.items():
            tell(f"{name}: {_apply(client, name, settings)}")


def declared_in(text: bytes, source: str) -> dict[str, QueueSettings]:
    """The queues that a file declares, dead-letter queues before those that lead to them."""
    try:
        declared = json.loads(text, object_pairs_hook=_without_repeats)
    except ValueError as error:
        raise Failed(f"{source} declares no queues: {error}", BAD_CONTENT) from error
    if not isinstance(declared, dict):
        raise Failed(
            f"{source} declares no queues: write an object, with a queue's name for each key",
            BAD_CONTENT,
        )
    queues = {name: _settings(name, each, source) for name, each in declared.items()}
    leads_to = {name: {each.dead_letter_queue} - {""} for name, each in queues.items()}
    try:
        order = list(TopologicalSorter(leads_to).static_order())
    except CycleError as error:
        circle = " to ".join(reversed(error.args[1]))
        raise Failed(
            f"{source}: dead letters would go in a circle, from {circle}", BAD_CONTENT
        ) from error
    return {name: queues[name] for name in order if name in queues}


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is declared twice")
    return dict(pairs)


def _settings(queue: str, declared: Any, source: str) -> QueueSettings:
    if declared is not None and not isinstance(declared, Mapping):
        raise Failed(f"{source}: the settings of {queue!r} are no object", BAD_CONTENT)
    settings = {
        name: _value(f"{source}: {name} of {queue!r}", name, value)
        for name, value in (declared or {}).items()
    }
    return QueueSettings(**settings)


def _value(where: str, name: str, value: Any) -> Any:
    if name not in _KNOWN:
        raise Failed(f"{where} is no setting; there are {', '.join(_KNOWN)}", BAD_CONTENT)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    with suppress(click.BadParameter):
        if name in _SPANS and (is_number or isinstance(value, str)):
            return Span().convert(value, None, None)
        if name in _SIZES and (isinstance(value, str) or (is_number and int(value) == value)):
            return Size().convert(int(value) if is_number else value, None, None)
        if name in _NUMBERS and is_number and int(value) == value:
            return int(value)  # Templates make 100000.0 of a large number.
        if name not in _SPANS | _SIZES | _NUMBERS and isinstance(value, str):
            return value
    wanted = (
        "a span of time, such as 30s"
        if name in _SPANS
        else "a size, such as 64k"
        if name in _SIZES
        else None
    )
    wanted = wanted or ("a whole number" if name in _NUMBERS else "text")
    raise Failed(f"{where} is {json.dumps(value)}, and should be {wanted}", BAD_CONTENT)


def _apply(client: Client, name: str, declared: QueueSettings) -> str:
    """Make the queue so; returns what was done."""
    wanted = asdict(declared)
    try:
        found = asdict(client.get_queue(name).settings)
    except errors.QueueNotFound:
        try:
            client.create_queue(name, **wanted)
        except errors.QueueExists:  # Somebody else was faster, and had other settings in mind.
            found = asdict(client.get_queue(name).settings)
        else:
            return "created"
    changes = {setting: value for setting, value in wanted.items() if value != found[setting]}
    if not changes:
        return "is as declared"
    client.update_queue(name, **changes)
    return "set " + ", ".join(
        f"{setting} from {found[setting]} to {new}" for setting, new in changes.items()
    )

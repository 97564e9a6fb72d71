"""`spoolrack queues apply`: creates and updates queues as a file declares them.

It owns the file: JSON, a queue's settings and labels under each name. It may be repeated, and stops
at the first queue that the server refuses, which leaves those before it as declared. With shards, the
queues of one that is away are left out. It never deletes a queue.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NoReturn

import click
from spoolrack import Client, QueueSettings, errors
from spoolrack_store.model.shards import shard_of

from ..kit.command_base import argument
from ..kit.connection_options import Connection, connects_to_queues
from ..kit.exit_codes import BAD_CONTENT, OK, UNAVAILABLE, Failed, line_of
from ..kit.output import announce_stdin, print_status
from ..kit.units import (
    SETTING_TYPES,
    Size,
    Span,
    is_utf8,
    quoted,
    size_text,
    span_text,
)

_LONGEST_SHOWN: Final = 60
_NUMBER: Final = click.IntRange | click.FloatRange


@click.command()
@argument("file", type=click.File("rb"))
@connects_to_queues
def command(connection: Connection, file: Any) -> int:
    """Create and update queues as FILE declares them: {"jobs": {"visibility_timeout": "5m"}}.

    A missing queue is created. An existing queue gets the declared settings, and the defaults of
    settings that aren't declared. Its labels become the declared "labels", if there are any. Other
    queues aren't changed, and no queue is deleted. Waits up to --timeout for a server that isn't up
    yet. The queues of an unreachable shard are named and left out, and the exit code is 69. "-" reads
    standard input.
    """
    if file.name == "<stdin>":
        announce_stdin("JSON")
    declared = declared_in(file.read(), file.name)
    away: dict[int, str] = {}
    """Why each shard that is away is so: its other queues don't wait for it again."""
    count = 1
    with connection.patient_client() as client:
        for name, queue in declared.items():
            if shard_of(name, count) not in away:
                try:
                    print_status(f"{name}: {_apply(client, name, queue)}")
                    continue
                except (errors.Timeout, errors.Unreachable) as error:
                    if "shard" not in error.metadata:
                        raise
                    count = int(error.metadata["shards"])
                    away[shard_of(name, count)] = line_of(error)
            print_status(f"{name}: left out. {away[shard_of(name, count)]}")
    return UNAVAILABLE if away else OK


@dataclass(frozen=True, slots=True)
class Declared:
    """A queue as a file declares it."""

    settings: QueueSettings
    labels: Mapping[str, str] | None = None
    """None: the file doesn't say, and the queue keeps those that it has."""


def declared_in(text: bytes, source: str) -> dict[str, Declared]:
    """Return the queues that a file declares, dead-letter queues before those that lead to them."""
    try:
        declared = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Failed(f"{source} declares no queues: {error}", BAD_CONTENT) from error
    if not isinstance(declared, dict):
        raise Failed(
            f"{source} declares no queues: write an object, with a queue's name for each key",
            BAD_CONTENT,
        )
    queues = {name: _declared(name, each, source) for name, each in declared.items()}
    leads_to = {name: {each.settings.dead_letter_queue} - {""} for name, each in queues.items()}
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


def _no_number(name: str) -> NoReturn:
    """Refuse what Python's JSON has and no other: NaN and Infinity."""
    raise ValueError(f"{name} is not JSON")


def _declared(queue: str, declared: Any, source: str) -> Declared:
    if not is_utf8(queue):
        raise Failed(f"{source}: {quoted(queue)} is no queue's name: it is not UTF-8", BAD_CONTENT)
    if declared is not None and not isinstance(declared, Mapping):
        raise Failed(f"{source}: the settings of {queue!r} are no object", BAD_CONTENT)
    settings = {
        name: _value(f"{source}: {name} of {queue!r}", name, value)
        for name, value in (declared or {}).items()
        if name != "labels"
    }
    labels = (declared or {}).get("labels")
    if labels is not None and not _are_texts(labels):
        raise Failed(f"{source}: the labels of {queue!r} are no object of texts", BAD_CONTENT)
    return Declared(QueueSettings(**settings), labels)


def _are_texts(labels: Any) -> bool:
    return isinstance(labels, Mapping) and all(
        isinstance(text, str) and is_utf8(name + text) for name, text in labels.items()
    )


def _value(where: str, name: str, value: Any) -> Any:
    if name not in SETTING_TYPES:
        raise Failed(f"{where} is no setting; there are {', '.join(SETTING_TYPES)}", BAD_CONTENT)
    kind = SETTING_TYPES[name]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str) or (is_number and isinstance(kind, Span | Size | _NUMBER)):
        is_count, is_written = isinstance(kind, click.IntRange), isinstance(kind, _NUMBER)
        is_whole = isinstance(value, float) and value.is_integer()
        # Templates make 100000.0 of a large number.
        written = int(value) if is_whole and is_count else value
        with suppress(click.BadParameter):
            return kind.convert(str(written) if is_written else written, None, None)
    raise Failed(f"{where} is {_value_text(value)}, and should be {_type_text(kind)}", BAD_CONTENT)


def _type_text(kind: object) -> str:
    match kind:
        case Span():
            bounds = f"from {span_text(kind.least)} to {span_text(kind.most)}"
            return f"a span of time {bounds}, such as 30s"
        case Size():
            return f"a size from {size_text(kind.least)} to {size_text(kind.most)}, such as 64k"
        case click.IntRange():
            return f"a whole number from {kind.min} to {kind.max}"
        case click.FloatRange():
            return f"a number from {kind.min:g} to {kind.max:g}"
        case click.Choice():
            return " or ".join(kind.choices)
    return "text"


def _value_text(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _apply(client: Client, name: str, declared: Declared) -> str:
    """Make the queue so; returns what was done."""
    declared_settings = asdict(declared.settings)
    try:
        info = client.queue(name).info()
    except errors.QueueNotFound:
        client.ensure_queue(name, labels=declared.labels, **declared_settings)
        return "created"
    current = asdict(info.settings)
    changes = {
        setting: value for setting, value in declared_settings.items() if value != current[setting]
    }
    labels = _label_changes(info.labels, declared.labels)
    if not changes and not labels:
        return "is as declared"
    client.ensure_queue(name, labels=declared.labels, **declared_settings)
    changes_said = [
        f"{setting} from {_setting_text(setting, current[setting])} to {_setting_text(setting, new)}"
        for setting, new in changes.items()
    ]
    changes_said += [f"label {label} to {text!r}" for label, text in labels.items() if text is not None]
    removed = [f"removed label {label}" for label, text in labels.items() if text is None]
    return ", ".join(
        [*([f"set {changes_said[0]}", *changes_said[1:]] if changes_said else []), *removed]
    )


def _label_changes(
    current: Mapping[str, str], declared: Mapping[str, str] | None
) -> dict[str, str | None]:
    if declared is None:
        return {}
    changed = {label: text for label, text in declared.items() if current.get(label) != text}
    return {**changed, **{label: None for label in current if label not in declared}}


def _setting_text(setting: str, value: Any) -> str:
    return span_text(value) if isinstance(SETTING_TYPES[setting], Span) else str(value)

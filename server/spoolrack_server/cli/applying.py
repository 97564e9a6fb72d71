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
from typing import Any, Final, NoReturn

import click
from spoolrack import Client, QueueSettings, errors

from .connecting import Reach, reaches_queues
from .exits import BAD_CONTENT, Failed
from .output import tell, tell_if_typed
from .plain import argument
from .units import (
    COUNT,
    DELAY,
    MESSAGE_SIZE,
    MESSAGES_PER_FILE,
    RETENTION,
    VISIBILITY,
    WINDOW,
    Size,
    Span,
    Text,
    is_utf8,
    quoted,
    size_text,
    span_text,
)

_TEXT: Final = Text(may_be_empty=True)
_KINDS: Final[Mapping[str, click.ParamType[Any]]] = {
    "visibility_timeout": VISIBILITY,
    "delivery_delay": DELAY,
    "retention": RETENTION,
    "deduplication_window": WINDOW,
    "archive_retention": RETENTION,
    "max_bytes": Size(),
    "max_message_size": MESSAGE_SIZE,
    "max_receives": COUNT,
    "max_messages": COUNT,
    "messages_per_file": MESSAGES_PER_FILE,
}
_LONGEST_SHOWN: Final = 60
_KNOWN: Final = tuple(field.name for field in fields(QueueSettings))


@click.command()
@argument("file", type=click.File("rb"))
@reaches_queues
def command(reach: Reach, file: Any) -> None:
    """Make queues be as FILE declares them: JSON, such as {"jobs": {"visibility_timeout": "5m"}}.

    A queue that isn't there is created; of one that is there, the settings become the declared ones,
    and those that are not declared the defaults. Other queues are left alone, and none is deleted. A
    server that isn't there yet is waited for, as long as --timeout says. "-" reads standard input.
    """
    if file.name == "<stdin>":
        tell_if_typed("JSON")
    declared = declared_in(file.read(), file.name)
    with reach.patient() as client:
        for name, settings in declared.items():
            tell(f"{name}: {_apply(client, name, settings)}")


def declared_in(text: bytes, source: str) -> dict[str, QueueSettings]:
    """The queues that a file declares, dead-letter queues before those that lead to them."""
    try:
        declared = json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
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


def _no_number(name: str) -> NoReturn:
    """Refuse what Python's JSON has and no other: NaN and Infinity."""
    raise ValueError(f"{name} is not JSON")


def _settings(queue: str, declared: Any, source: str) -> QueueSettings:
    if not is_utf8(queue):
        raise Failed(f"{source}: {quoted(queue)} is no queue's name: it is not UTF-8", BAD_CONTENT)
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
    kind = _KINDS.get(name, _TEXT)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, str) or (is_number and kind is not _TEXT):
        is_whole = isinstance(value, float) and value.is_integer()
        # Templates make 100000.0 of a large number.
        written = int(value) if is_whole and kind is COUNT else value
        with suppress(click.BadParameter):
            return kind.convert(str(written) if kind is COUNT else written, None, None)
    raise Failed(f"{where} is {_shown(value)}, and should be {_wanted(kind)}", BAD_CONTENT)


def _wanted(kind: object) -> str:
    match kind:
        case Span():
            bounds = f"from {span_text(kind.least)} to {span_text(kind.most)}"
            return f"a span of time {bounds}, such as 30s"
        case Size():
            return f"a size from {size_text(kind.least)} to {size_text(kind.most)}, such as 64k"
        case click.IntRange():
            return f"a whole number from {kind.min} to {kind.max}"
    return "text"


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _apply(client: Client, name: str, declared: QueueSettings) -> str:
    """Make the queue so; returns what was done."""
    wanted = asdict(declared)
    try:
        found = asdict(client.queue(name).info().settings)
    except errors.QueueNotFound:
        try:
            client.create_queue(name, **wanted)
        except errors.QueueExists:  # Another caller was faster, with other settings.
            found = asdict(client.queue(name).info().settings)
        else:
            return "created"
    changes = {setting: value for setting, value in wanted.items() if value != found[setting]}
    if not changes:
        return "is as declared"
    client.update_queue(name, **changes)
    return "set " + ", ".join(
        f"{setting} from {_told(setting, found[setting])} to {_told(setting, new)}"
        for setting, new in changes.items()
    )


def _told(setting: str, value: Any) -> str:
    return span_text(value) if isinstance(_KINDS.get(setting), Span) else str(value)

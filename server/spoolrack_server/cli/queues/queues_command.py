"""`spoolrack queues`: creates, lists, shows, sets, pauses, deletes and purges queues."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import click
from spoolrack import QueueInfo
from spoolrack_store.model.settings import SCHEMA, Setting, SettingKind

from ..kit.command_base import option
from ..kit.command_clock import current_time
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues, reads_queues
from ..kit.exit_codes import NOTHING, Failed
from ..kit.output import columns, print_list, print_results, print_status, queue_json
from ..kit.units import (
    SETTING_TYPES,
    Label,
    Moment,
    Text,
    age_text,
    left_text,
    moment_text,
    plural,
    size_text,
    span_text,
)
from ..messages.peek_command import state_option
from . import apply_command
from .why import why_of_message, why_of_queue

SETTINGS: Final = tuple(setting.option for setting in SCHEMA.values())
MAX_VERSION: Final = 10**15 - 1
_REMEDIES: Final = {
    "SENDING_PAUSED": " spoolrack queues resume {} --sending",
    "RECEIVING_PAUSED": " spoolrack queues resume {} --receiving",
}
"""The command that undoes an obstacle, by its reason."""
_LEASES: Final = (
    "OLDEST LEASES",
    "MESSAGES",
    "FIRST RECEIVED",
    "LEASED FOR",
    "LEASE ENDS IN",
    "RECEIVES",
    "CONSUMER",
)
_LONG: Final = 18
"""Characters of an option's name."""


class SettingName(click.Choice[str]):
    """A setting by the name of its option, or by the one that JSON has."""

    def __init__(self) -> None:
        super().__init__(SETTINGS)

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> str:
        return super().convert(value.replace("_", "-"), parameter, context).replace("-", "_")


@click.group()
def command() -> None:
    """Create, list, show, set, pause, delete and purge queues."""


command.add_command(apply_command.command, "apply")


def _has_settings(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option for each setting; those not given are None."""
    for setting in reversed([*SCHEMA.values()]):
        # A long name of a variable is cut in two in the help: that one is shared by the commands.
        is_long = len(setting.option) > _LONG
        more = {"envvar": f"SPOOLRACK_QUEUES_{setting.name.upper()}"} if is_long else {}
        if setting.kind is SettingKind.QUEUE:
            more["metavar"] = "QUEUE"
        function = option(
            f"--{setting.option}",
            type=SETTING_TYPES[setting.name],
            help=f"{setting.help}{zero_text(setting)}",
            **more,
        )(function)
    return function


def zero_text(setting: Setting) -> str:
    if not setting.zero:
        return ""
    return f""" {'""' if setting.kind is SettingKind.QUEUE else "0"}: {setting.zero}."""


_if_version = option(
    "--if-version",
    type=click.IntRange(1, MAX_VERSION),
    help="Only if the queue has this version, as `show` prints it.",
)


def _without_none(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


@command.command()
@queue_argument("name")
@_has_settings
@option("--label", type=Label(), multiple=True, help="A note on the queue; repeatable.")
@connects_to_queues
def create(
    connection: Connection, name: str, label: tuple[tuple[str, str], ...], **settings: Any
) -> None:
    """Create the queue NAME. If it exists with equal settings and these labels, nothing changes."""
    with connection.client() as client:
        client.create_queue(name, labels=dict(label), **_without_none(settings))


@command.command(name="list")
@queue_argument("prefix", default="", type=Text(may_be_empty=True))
@option("--json", is_flag=True, help="Print a line of JSON for each queue.")
@reads_queues
def list_(connection: Connection, prefix: str, json: bool) -> int:
    """List the queues, or those whose names begin with PREFIX."""
    with connection.client() as client:
        return print_list(client.list_queues(prefix), queue_json if json else None, table_of)


def value_text(setting: Setting, value: Any) -> str:
    if not value and setting.zero:
        return setting.zero
    match setting.kind:
        case SettingKind.SPAN:
            return span_text(value)
        case SettingKind.SIZE:
            return size_text(value)
        case SettingKind.COUNT:
            return f"{value:,}"
        case SettingKind.RATE:
            return f"{value:,.12g} a second"
    return str(value)


def table_of(queues: Sequence[QueueInfo]) -> list[str]:
    rows = [(info.name, *counts_row(info), _mark(info)) for info in queues]
    headers = ("QUEUE", "READY", "LEASED", "DELAYED", "BYTES", "OLDEST", "")
    return columns(headers, rows, right=frozenset({1, 2, 3, 4, 5}))


def counts_row(info: QueueInfo) -> tuple[str, str, str, str, str]:
    counts = info.counts
    return (
        f"{counts.ready_count:,}",
        f"{counts.leased_count:,}",
        f"{counts.delayed_count:,}",
        size_text(counts.byte_count),
        oldest_text(info),
    )


def message_count(info: QueueInfo) -> int:
    """Return the number of messages in all states."""
    return info.counts.ready_count + info.counts.leased_count + info.counts.delayed_count


def _mark(info: QueueInfo) -> str:
    """Name the causes that keep messages from going in or out."""
    settings = info.settings
    marks = {
        "blocked": info.blocking_message is not None,
        "sending paused": settings.sending == "paused",
        "receiving paused": settings.receiving == "paused",
    }
    return ", ".join(mark for mark, is_set in marks.items() if is_set)


def oldest_text(info: QueueInfo) -> str:
    return "-" if info.counts.oldest_age is None else span_text(info.counts.oldest_age)


@command.command()
@queue_argument("name")
@option("--json", is_flag=True, help="Print it as JSON.")
@reads_queues
def show(connection: Connection, name: str, json: bool) -> None:
    """Show counts and settings of the queue NAME, and the message that blocks it, if there is one."""
    with connection.client() as client:
        info = client.queue(name).info()
    if json:
        print_results(*queue_json(info, indent=2).splitlines())
        return
    counts = info.counts
    rows = {
        "ready": f"{counts.ready_count:,}",
        "leased": f"{counts.leased_count:,}",
        "delayed": f"{counts.delayed_count:,}",
        "bytes": f"{counts.byte_count:,}",
        "oldest": oldest_text(info),
        "": "",
        "created": moment_text(info.created_at),
        "version": str(info.version),
        **{
            setting.title: value_text(setting, getattr(info.settings, setting.name))
            for setting in SCHEMA.values()
        },
    }
    print_results(info.name)
    for title, value in rows.items():
        print_results(f"  {title:<22}{value}".rstrip())
    for label, text in sorted(info.labels.items()):
        print_results(f"  {'label':<22}{label}={text}")
    if info.blocking_message is not None:
        blocking = info.blocking_message
        print_results("")
        print_results(f"Blocked by message {blocking.id}: {blocking.explanation}.")
        print_results(f"  Look at it:  spoolrack peek {info.name} {blocking.id}")
        print_results(f"  Delete it:   spoolrack delete {info.name} {blocking.id}")


@command.command()
@queue_argument("name")
@click.argument("message", required=False, metavar="[ID]")
@reads_queues
def why(connection: Connection, name: str, message: str | None) -> None:
    """Tell in a line what holds back the messages of the queue NAME, or its message ID."""
    with connection.client() as client:
        if message is None:
            found = why_of_queue(client.queue(name).info())
        else:
            found = why_of_message(client, name, message, current_time())
    print_results(f"{found[:1].upper()}{found[1:]}.")


@command.command(name="set")
@queue_argument("name")
@_has_settings
@option("--reset", type=SettingName(), multiple=True, help="Reset SETTING to its default; repeatable.")
@option("--label", type=Label(), multiple=True, help="Set a label; repeatable.")
@option("--remove-label", metavar="NAME", multiple=True, help="Remove a label; repeatable.")
@_if_version
@connects_to_queues
def set_(
    connection: Connection,
    name: str,
    if_version: int | None,
    reset: tuple[str, ...],
    label: tuple[tuple[str, str], ...],
    remove_label: tuple[str, ...],
    **settings: Any,
) -> None:
    """Change the named settings and labels of the queue NAME."""
    changes: dict[str, Any] = {**_without_none(settings), **dict.fromkeys(reset)}
    named: dict[str, str | None] = {**dict(label), **dict.fromkeys(remove_label)}
    if not changes and not named:
        raise click.UsageError("Name at least one setting or label.")
    with connection.client() as client:
        client.update_queue(name, labels=named, if_version=if_version, **changes)


@command.command()
@queue_argument("name")
@option("--yes", "-y", is_flag=True, help="Skip the question.")
@_if_version
@connects_to_queues
def delete(connection: Connection, name: str, yes: bool, if_version: int | None) -> None:
    """Delete the queue NAME with all its messages, for good. Asks first, at a terminal."""
    with connection.client() as client:
        _confirm(
            yes,
            lambda: _question_text(client.queue(name).info(), "Delete the queue {}, with {} in it?"),
        )
        client.delete_queue(name, if_version=if_version)


@command.command()
@queue_argument("name")
@option(
    "--sent-before",
    metavar="TIME",
    type=Moment(),
    help="Only messages sent before TIME: 2026-11-23T10:00Z, or 7d for seven days ago.",
)
@state_option
@option("--yes", "-y", is_flag=True, help="Skip the question.")
@option("--quiet", "-q", is_flag=True, help="Don't print the number of deleted messages.")
@connects_to_queues
def purge(
    connection: Connection,
    name: str,
    sent_before: datetime | None,
    state: tuple[str, ...],
    yes: bool,
    quiet: bool,
) -> None:
    """Delete the messages of the queue NAME: all, leased and delayed ones too, or those of an age and
    some states. Asks first, at a terminal."""
    which = "those that were named" if sent_before or state else "all"
    with connection.client() as client:
        _confirm(
            yes,
            lambda: _question_text(
                client.queue(name).info(), f"Purge the queue {{}}, {which} of {{}}?"
            ),
        )
        purged = client.queue(name).purge(sent_before=sent_before, states=state)
    if not quiet:
        print_status(f"deleted {plural(purged, 'message')} of {name}")


@command.command()
@queue_argument("name")
@option("--json", is_flag=True, help="Print it as JSON, as `show` does.")
@reads_queues
def describe(connection: Connection, name: str, json: bool) -> None:
    """Show what holds back the messages of the queue NAME, and its oldest leases."""
    with connection.client() as client:
        info = client.queue(name).info()
    if json:
        print_results(*queue_json(info, indent=2).splitlines())
        return
    causes = [
        f"{each.explanation[:1].upper()}{each.explanation[1:]}."
        + _REMEDIES.get(each.reason, "").format(name)
        for each in info.obstacles
    ]
    shard = [f"It is on shard {info.shard}."] if info.shard else []
    nothing = ["Nothing keeps messages from going in or out."]
    print_results(*table_of([info]), "", *shard, *(causes or nothing))
    if not info.oldest_leases:
        return
    now = current_time()
    rows = [
        (
            each.message_id,
            str(each.message_count),
            "0s" if each.first_received_at is None else age_text(each.first_received_at, now),
            "" if each.received_at is None else age_text(each.received_at, now),
            left_text(each.lease_expires_at, now),
            str(each.receive_count),
            each.consumer or (each.stream and f"stream {each.stream}"),
        )
        for each in info.oldest_leases
    ]
    print_results("", *columns(_LEASES, rows, right=frozenset({1, 2, 3, 4, 5})))


_sending = option("--sending", is_flag=True, help="Only sends and publications.")
_receiving = option("--receiving", is_flag=True, help="Only receives and reservations.")


def _set_flow(connection: Connection, name: str, flow: str, *, sending: bool, receiving: bool) -> None:
    """Pause or resume the directions that are named; both, if none is."""
    is_both = sending == receiving
    changes: dict[str, Any] = {}
    if sending or is_both:
        changes["sending"] = flow
    if receiving or is_both:
        changes["receiving"] = flow
    with connection.client() as client:
        client.update_queue(name, **changes)


@command.command()
@queue_argument("name")
@_sending
@_receiving
@connects_to_queues
def pause(connection: Connection, name: str, sending: bool, receiving: bool) -> None:
    """Pause the queue NAME: sends are refused, and receives get no messages, until `resume`."""
    _set_flow(connection, name, "paused", sending=sending, receiving=receiving)


@command.command()
@queue_argument("name")
@_sending
@_receiving
@connects_to_queues
def resume(connection: Connection, name: str, sending: bool, receiving: bool) -> None:
    """Resume the queue NAME: it accepts sends, and receives get messages."""
    _set_flow(connection, name, "open", sending=sending, receiving=receiving)


def _question_text(info: QueueInfo, question: str) -> str:
    return question.format(info.name, plural(message_count(info), "message"))


def _confirm(yes: bool, question: Callable[[], str]) -> None:
    """Return only if the user wants it. A script is taken at its word."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not click.confirm(question(), err=True):
        raise Failed("nothing was deleted", NOTHING)

"""`spoolrack peek`: shows messages without leasing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import click
from spoolrack import MessageFacts, MessageState
from spoolrack_store.model.terminal_text import printable

from ..kit.command_base import argument, option
from ..kit.command_clock import current_time
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, reads_queues
from ..kit.exit_codes import NOTHING, OK
from ..kit.output import Output, columns, message_line, print_empty, print_results
from ..kit.units import COUNT, Label, Moment, age_text, left_text, plural

SHOWN = 60
"""Characters of a body in a table."""


max_option = option("--max", "-n", type=COUNT, default=10, help="Most messages; 0: all.")
state_option = option(
    "--state",
    "-s",
    type=click.Choice([state.value for state in MessageState]),
    multiple=True,
    help="Only messages in this state. May be repeated.",
)


@click.command()
@queue_argument()
@argument("ids", nargs=-1, metavar="[ID]...")
@max_option
@state_option
@option(
    "--sent-since",
    metavar="TIME",
    type=Moment(),
    help="Only messages sent at TIME or later: 2026-11-23T10:00Z, or 2h for two hours ago.",
)
@option("--sent-before", metavar="TIME", type=Moment(), help="Only messages sent before TIME.")
@option("--group", help="Only messages of this group.")
@option(
    "--attribute",
    "-a",
    type=Label("name and value of an attribute", "colour=red"),
    multiple=True,
    help="Only messages with this attribute; repeatable.",
)
@option("--raw", is_flag=True, help="Print the bodies only, a line each; the body of one ID unchanged.")
@option("--json", is_flag=True, help="Print a line of JSON for each message.")
@reads_queues
def command(
    connection: Connection,
    queue: str,
    ids: tuple[str, ...],
    max: int,
    state: tuple[str, ...],
    sent_since: datetime | None,
    sent_before: datetime | None,
    group: str | None,
    attribute: tuple[tuple[str, str], ...],
    raw: bool,
    json: bool,
) -> int:
    """Show the first messages of QUEUE, or those with these IDs, without leasing them.

    A filter by group or attributes examines all messages until enough match, and reads no bodies of
    the others. Exits with 1 if there is none.
    """
    if raw and json:
        raise click.UsageError("Choose one of --raw and --json.")
    is_table = not raw and not json
    with connection.client() as client:
        looked_at = client.queue(queue)
        messages = (
            (looked_at.get(id) for id in ids)
            if ids
            else looked_at.peek(
                state,
                sent_since=sent_since,
                sent_before=sent_before,
                group=group or "",
                attributes=dict(attribute),
                max_body_bytes=SHOWN * 4 if is_table else None,
                limit=max or None,
            )
        )
        if is_table:
            return print_table(list(messages), queue)
        code = print_each(messages, json=json, queue=queue, is_only=len(ids) == 1)
        if code == NOTHING:
            _say_empty(queue)
        return code


def print_each(
    messages: Iterable[MessageFacts], *, json: bool, queue: str | None = None, is_only: bool = False
) -> int:
    """Print the messages as lines of JSON, or their bodies; return the exit code. The body of one that
    `is_only` is printed as it is."""
    output = Output()
    code = NOTHING
    for message in messages:
        code = OK
        if json:
            output.write(message_line(message, queue))
        else:
            output.write_body(message.body, is_only=is_only)
    return code


def _say_empty(queue: str) -> None:
    print_empty(f"{queue} has no such message, or none at all: spoolrack queues show {queue}")


def print_table(messages: Sequence[MessageFacts], queue: str | None = None) -> int:
    """Print the messages in columns; return the exit code."""
    if not messages:
        if queue is not None:
            _say_empty(queue)
        return NOTHING
    has_dead = any(message.dead_letter_records for message in messages)
    now = current_time()
    rows = [
        (
            message.id,
            _state(message, now),
            age_text(message.sent_at, now),
            str(message.receive_count),
            str(message.body_size),
            *(_death(message, now) if has_dead else ()),
            "" if message.is_body_left_out else _shortened(message.body),
        )
        for message in messages
    ]
    dead = ("CAME FROM", "BECAUSE OF", "DEAD FOR") if has_dead else ()
    # The record has the receives before it.
    receives = "RECEIVES SINCE" if has_dead else "RECEIVES"
    headers = ("ID", "STATE", "AGE", receives, "BYTES", *dead, "BODY")
    print_results(*columns(headers, rows, right=frozenset({3, 4})))
    return OK


def _death(message: MessageFacts, now: datetime) -> tuple[str, str, str]:
    """Return source queue, reason and age of the last dead-letter record; empty texts without one, and
    no age of a message that was redriven since."""
    if not message.dead_letter_records:
        return "", "", ""
    last = message.dead_letter_records[-1]
    # What a handler raised comes first: it differs from one dead letter to the next.
    because = f"{last.reason}, {plural(last.receive_count, 'receive')}"
    if last.explanation:
        because = f"{_shortened(last.explanation)} ({because})"
    dead_for = age_text(last.dead_lettered_at, now) if last.redriven_at is None else ""
    return last.source_queue, because, dead_for


def _state(message: MessageFacts, now: datetime) -> str:
    end = message.lease_expires_at or message.deliver_at
    return message.state.value if end is None else state_text(message.state.value, end, now)


def state_text(state: str, end: datetime, now: datetime) -> str:
    """Return a state, and the time that is left of it."""
    return f"{state} {left_text(end, now)}" if end > now else state


def _shortened(text: bytes | str) -> str:
    text = printable(text)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"

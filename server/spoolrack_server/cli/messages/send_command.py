"""`spoolrack send`: one message, or one for each line."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from json import dumps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from spoolrack import BatchOptions, Outgoing, Queue
from spoolrack._values import MAX_BODY_IN_MEMORY
from spoolrack.errors import QueueExists, QueueNotFound, RootUnusable
from spoolrack_store.model.stage_requests import MAX_EPOCH

from ..kit.command_base import argument, option
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues, http_url
from ..kit.exit_codes import BAD_CONTENT, OK, Failed, outcome_of
from ..kit.output import announce_stdin, print_results, print_status
from ..kit.progress import Advance, progress_bar
from ..kit.units import DELAY, WRITER, FilePath, Moment, Text, plural
from .batch_send import LineBatch
from .line_reader import Lines
from .line_sender import LineSender

STDIN = 0


@click.command()
@queue_argument()
@argument("body", required=False, type=Text(may_be_empty=True, any_bytes=True))
@option(
    "--file", "-f", metavar="FILE", type=FilePath(), help="Send the content of FILE as one message."
)
@option(
    "--link",
    metavar="FILE",
    type=FilePath(),
    help="With --root: send FILE, which lies on the root's file system, without a copy.",
)
@option(
    "--lines",
    "-l",
    metavar="[FILE]",
    type=FilePath(),
    is_flag=False,
    flag_value="-",
    help="Send each line of FILE, or of standard input, as a message.",
)
@option(
    "--attribute",
    "-a",
    metavar="NAME=VALUE",
    multiple=True,
    help="Attribute of the message; repeatable.",
)
@option(
    "--delay",
    type=DELAY,
    help="Delay of the message, such as 30s or 5m.",
)
@option(
    "--deliver-at",
    metavar="TIME",
    type=Moment(is_ahead=True),
    help="Hide the message until TIME: 2026-12-24T18:00+01:00, or a span from now such as 3d.",
)
@option(
    "--deduplication-id",
    metavar="ID",
    help="Store one message for this ID within the queue's deduplication window.",
)
@option("--group", metavar="GROUP", help="Messages of one group are received in their order.")
@option(
    "--priority",
    type=click.IntRange(0, 9),
    default=0,
    help="Ready messages of a higher priority are received first.",
)
@option("--create", is_flag=True, help="Create the queue if it doesn't exist.")
@option(
    "--in-flight",
    type=click.IntRange(1, 64),
    default=1,
    help="With --lines: calls at one time, each of up to 1,000 lines. More are faster, and the lines' "
    "order is then kept only roughly.",
)
@option("--batch", is_flag=True, help="With --lines: send all of them at once, or nothing.")
@option("--writer", type=WRITER, help="With --batch: the name of the sender. Goes with --epoch.")
@option(
    "--epoch",
    type=click.IntRange(0, MAX_EPOCH),
    help="With --batch: a number that rises with each batch of the writer.",
)
@option(
    "--no-publish",
    is_flag=True,
    help="With --batch: leave the batch in a stage, and print its name for 'stages publish'.",
)
@option("--quiet", "-q", is_flag=True, help="Print neither ids, nor counts, nor progress.")
@option("--json", is_flag=True, help="Print the outcome as a line of JSON.")
@http_url
@connects_to_queues
def command(
    connection: Connection,
    queue: str,
    body: str | None,
    file: str | None,
    link: str | None,
    lines: str | None,
    attribute: tuple[str, ...],
    delay: float | None,
    deliver_at: datetime | None,
    deduplication_id: str | None,
    group: str | None,
    priority: int,
    create: bool,
    in_flight: int,
    batch: bool,
    writer: str | None,
    epoch: int | None,
    no_publish: bool,
    quiet: bool,
    json: bool,
) -> int:
    """Send BODY to QUEUE, and print the message's id.

    Without BODY, or with "-", the body is all of standard input. Returns when the message is on stable
    media. Waits for a full queue, up to --timeout. A file of more than 64 MiB is sent by --http-url, or
    with --root into the folder; a later write to a linked file changes the message.

    With --lines, prints the number of acknowledged messages at the end. If the command is stopped or
    fails, it prints the lines that are not stored. A line that can't be sent is named. With --batch all
    lines appear at one moment, or none does. A batch with --writer and --epoch is sent once: an epoch
    is sent only if it is higher than the writer's last.
    """
    given = [source for source in (body, file, link, lines) if source is not None]
    if len(given) > 1:
        raise click.UsageError("Choose one of BODY, --file, --link and --lines.")
    if quiet and json:
        raise click.UsageError("Choose one of --quiet and --json.")
    if delay is not None and deliver_at is not None:
        raise click.UsageError("Choose one of --delay and --deliver-at.")
    if batch and deliver_at is not None:
        raise click.UsageError("--deliver-at can't go with --batch, whose delays count from its end.")
    message = Outgoing(
        body=b"",
        attributes=dict(map(attribute_of, attribute)),
        delay=delay,
        deliver_at=deliver_at,
        group=group or "",
        priority=priority,
    )
    options = _batch_options(batch, writer, epoch, no_publish, in_flight)
    if lines is None and options is not None:
        raise click.UsageError("--batch goes with --lines.")
    if lines is not None:
        if deduplication_id is not None:
            raise click.UsageError("--deduplication-id is of one message, and can't go with --lines.")
        if create:
            _ensure(connection, queue)
        if options is not None:
            return _send_batch(connection, queue, lines, message, options, quiet, json)
        return _send_lines(connection, queue, lines, message, in_flight, quiet, json)
    if deduplication_id is not None:
        message = replace(message, deduplication_id=deduplication_id)
    is_typed = _is_typed("-" if body is None and file is None and link is None else body or file)
    with (
        connection.client() as client,
        progress_bar(f"Sending to {queue}", None, quiet or is_typed) as advance,
    ):
        send = _sender(connection, client.queue(queue), message, body, file, link, advance)
        try:
            id = send()
        except (QueueNotFound, RootUnusable):
            if not create:
                raise
            _ensure(connection, queue)
            id = send()
    if json:
        print_results(dumps({"queue": queue, "id": id}))
    elif not quiet:
        print_results(id)
    return OK


def _is_typed(source: str | None) -> bool:
    """Return whether the content is typed at a terminal: a bar would be drawn through it."""
    return source == "-" and sys.stdin.isatty()


def attribute_of(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--attribute")
    return name, value


def _ensure(connection: Connection, queue: str) -> None:
    with connection.client() as client:
        try:
            client.create_queue(queue)
        except QueueExists:
            return  # With settings of its own, and that is fine.


def _sender(
    connection: Connection,
    queue: Queue,
    message: Outgoing,
    body: str | None,
    file: str | None,
    link: str | None,
    advance: Advance,
) -> Callable[[], str]:
    """Return what sends the message, and returns its id."""
    sent: dict[str, Any] = {
        "attributes": message.attributes,
        "delay": message.delay,
        "deliver_at": message.deliver_at,
        "deduplication_id": message.deduplication_id,
        "group": message.group,
        "priority": message.priority,
    }
    if link is not None:
        if connection.root is None:
            raise click.UsageError("--link goes with --root: a file is linked into a folder.")
        return partial(queue.send_file, link, link=True, **sent)
    if file is not None and file != "-" and os.path.getsize(file) > MAX_BODY_IN_MEMORY:
        if connection.root is not None:
            return partial(queue.send_file, file, **sent)
        return partial(
            connection.http().send, queue.name, file, message, advance, wait=connection.timeout
        )
    return partial(queue.send, _content(body, file), **sent)


def _content(body: str | None, file: str | None) -> bytes:
    if body is not None and body != "-":
        return os.fsencode(body)
    if file is not None and file != "-":
        return Path(file).read_bytes()
    announce_stdin("the message")
    content = sys.stdin.buffer.read(MAX_BODY_IN_MEMORY + 1)
    if len(content) > MAX_BODY_IN_MEMORY:
        raise Failed(
            "standard input has more than 64 MiB: write it to a file, and send that with --file",
            BAD_CONTENT,
        )
    return content


def _batch_options(
    batch: bool, writer: str | None, epoch: int | None, no_publish: bool, in_flight: int
) -> BatchOptions | None:
    """Return the options of the batch that was asked for; None if none was."""
    if not batch:
        if writer is not None or epoch is not None or no_publish:
            raise click.UsageError("--writer, --epoch and --no-publish go with --batch.")
        return None
    if (writer is None) is not (epoch is None):
        raise click.UsageError("--writer and --epoch go together.")
    if no_publish and writer is not None:
        raise click.UsageError("Without publishing there is no writer: leave --writer out.")
    return BatchOptions(writer=writer, epoch=epoch, publish=not no_publish, in_flight=in_flight)


def _send_batch(
    connection: Connection,
    queue: str,
    name: str,
    like: Outgoing,
    options: BatchOptions,
    quiet: bool,
    json: bool,
) -> int:
    connection.check_queue(queue)
    with (
        _open_lines(name) as file,
        connection.patient_client() as client,
        progress_bar(f"Staging for {queue}", _length_of(file), quiet or _is_typed(name)) as advance,
    ):
        batch = LineBatch(client, queue, like, advance, quiet or json)
        code, stage = batch.send(Lines(file), options)
    if json:
        if code == OK:
            print_results(dumps({"queue": queue, "sent_count": batch.sent_count, "stage": stage}))
    elif stage is not None:
        print_results(stage)
    return code


def _send_lines(
    connection: Connection,
    queue: str,
    name: str,
    like: Outgoing,
    in_flight: int,
    quiet: bool,
    json: bool,
) -> int:
    connection.check_queue(queue)
    with (
        _open_lines(name) as file,
        connection.patient_client() as client,
        # Its measure is the bytes that were acknowledged.
        progress_bar(f"Sending to {queue}", _length_of(file), quiet or _is_typed(name)) as advance,
    ):
        sender = LineSender(
            client.queue(queue),
            like,
            in_flight=in_flight,
            retry_timeout=connection.timeout,
            advance=advance,
        )
        code, why = outcome_of(partial(sender.send, Lines(file)))
    for number, refusal in sorted(sender.refusals):
        print_status(f"line {number} is not sent: {refusal}")
    if code is not OK:
        print_status(f"{why}; {_where_to_go_on(sender, name, queue)}")
        return code
    if json:
        refused = sorted(number for number, _ in sender.refusals)
        print_results(
            dumps({"queue": queue, "sent_count": sender.acknowledged, "refused_lines": refused})
        )
    elif not quiet:
        print_status(f"sent {plural(sender.acknowledged, 'message')} to {queue}")
    return BAD_CONTENT if sender.refusals else OK


def _where_to_go_on(sender: LineSender, name: str, queue: str) -> str:
    """Return how to continue, without a repeated or a missing line."""
    sent = f"{plural(sender.acknowledged, 'message')} acknowledged"
    missing = sender.done_lines.missing()
    ((first, _), *others) = missing
    if others:
        sent += f"; lines {_ranges_text(missing)} are not"
    if name == "-":
        return f"{sent}; go on with {'these' if others else f'line {first}'}"
    cut = f"sed -n '{_sed(missing)}'" if others else f"tail -n +{first}"
    # A dash or a space in a name must not become an option, or two names.
    return f"{sent}; go on with: {cut} -- {shlex.quote(name)} | {_again(queue)}"


def _again(queue: str) -> str:
    """Return this command for the lines of a pipe, with the other options that were typed."""
    context = click.get_current_context()
    words = ["spoolrack", "send", queue, "--lines"]
    for parameter in context.command.params:
        name = parameter.name or ""
        is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not isinstance(parameter, click.Option) or not is_typed or name == "lines":
            continue
        option, value = max(parameter.opts, key=len), context.params[name]
        if parameter.is_flag:
            words.append(option)
        else:
            words += [f"{option}={each}" for each in (value if parameter.multiple else [value])]
    return shlex.join(words)


def _ranges_text(ranges: Sequence[tuple[int, int | None]]) -> str:
    """ "3, 7 to 9 and all from 12 on"."""
    *inner, (tail, _) = ranges
    parts = [f"{first}" if first == last else f"{first} to {last}" for first, last in inner]
    return f"{', '.join(parts)} and all from {tail} on"


def _sed(ranges: Sequence[tuple[int, int | None]]) -> str:
    return ";".join(f"{first},{'$' if last is None else last}p" for first, last in ranges)


@contextmanager
def _open_lines(name: str) -> Iterator[int]:
    if name == "-":
        announce_stdin("a message for each line")
        yield STDIN
        return
    with open(name, "rb", buffering=0) as file:
        yield file.fileno()


def _length_of(file: int) -> int | None:
    """Return the length of a file whose end is known."""
    facts = os.fstat(file)
    return facts.st_size if stat.S_ISREG(facts.st_mode) else None

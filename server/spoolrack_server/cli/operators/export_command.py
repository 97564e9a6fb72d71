"""`spoolrack export`: copies queues into an archive."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import click
from spoolrack import Client, Message, MessageState, Schedule
from spoolrack.errors import PermissionDenied
from spoolrack_store.model.schedule import Schedule as StoredSchedule
from spoolrack_store.read_only_root import open_read_only

from ..kit import signals
from ..kit.command_base import option
from ..kit.command_clock import current_time
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, follows_queues
from ..kit.exit_codes import BAD_CONTENT, NOTHING, OK, Failed
from ..kit.output import Output, print_status
from ..kit.progress import progress_bar
from ..kit.units import FilePath, plural, size_text
from .transfer import archive_format
from .transfer.sources import ArchivedSchedule

PART: Final = ".part"
"""The suffix of an archive until it is whole."""

MOST_SCHEDULES: Final = 1_000
"""More than a queue can have."""

Write = Callable[[bytes], None]


@click.command()
@queue_argument("queues", nargs=-1, metavar="QUEUE...")
@option("--all", "is_all", is_flag=True, help="Copy all queues, with shards those of all.")
@option(
    "--output",
    "-o",
    metavar="FILE",
    type=FilePath(),
    default="-",
    help="New file; -: standard output.",
)
@option("--quiet", "-q", is_flag=True, help="Print neither counts nor progress.")
@follows_queues
def command(
    connection: Connection, queues: tuple[str, ...], is_all: bool, output: str, quiet: bool
) -> int:
    """Copy QUEUEs, their settings, schedules and all of their messages, into an archive.

    Leased messages are exported as ready, because a lease can't be exported. Delayed messages keep the
    time at which they are ready. The messages stay in their queues. Messages that are sent or deleted
    meanwhile may be in the archive or not.
    """
    if bool(queues) is is_all:
        raise click.UsageError("Name the queues, or give --all.")
    with connection.patient_client() as client:
        found = list(
            client.list_queues()
            if is_all
            else (client.queue(name).info() for name in dict.fromkeys(queues))
        )
        names = [each.name for each in found]
        states: dict[str, Counter[MessageState]] = {name: Counter() for name in names}
        length = sum(info.counts.byte_count for info in found)
        with _open_output(output) as write, progress_bar("Exporting", length, quiet) as advance:
            exported_at = current_time().isoformat(timespec="milliseconds")
            schedules = {name: _schedules(connection, client, name) for name in names}
            for line in archive_format.beginning(str(uuid.uuid4()), exported_at, found, schedules):
                write(line)
            written = left_out = 0
            for name in names:
                for message in _messages(client, name):
                    signals.check()
                    if message.is_body_left_out:
                        print_status(_left_out(message))
                        left_out += 1
                        continue
                    written += 1
                    write(archive_format.message_line(written, message))
                    states[name][message.state] += 1
                    advance(1, message.body_size)
            write(archive_format.ending(written))
    if not quiet:
        for name in names:
            print_status(_queue_summary(name, states[name]))
    return BAD_CONTENT if left_out else OK


def _schedules(connection: Connection, client: Client, queue: str) -> list[ArchivedSchedule]:
    if connection.root is not None:
        with open_read_only(connection.root) as store:
            return [
                _archived(each.name, each.schedule, paused=each.schedule.paused)
                for each in store.schedules(queue=queue, limit=MOST_SCHEDULES)
            ]
    try:
        return [_archived(each.name, each, paused=each.paused) for each in client.schedules.list(queue)]
    except PermissionDenied as error:
        print_status(f"the schedules of {queue} are not in the archive: {error}")
        return []


def _archived(name: str, content: Schedule | StoredSchedule, *, paused: bool) -> ArchivedSchedule:
    return ArchivedSchedule(
        name=name,
        cron=content.cron,
        time_zone=content.time_zone,
        group=content.group,
        paused=paused,
        attributes=content.attributes,
        body=content.body,
    )


def _messages(client: Client, queue: str) -> Iterator[Message]:
    last = ""
    for message in client.queue(queue).peek():
        # A message that moves while pages are read may be seen twice. Ids are in the queue's order.
        if message.id <= last:
            continue
        last = message.id
        yield message


def _left_out(message: Message) -> str:
    return (
        f"message {message.id} of {message.queue_name} is not in the archive: its body has "
        f"{size_text(message.body_size)}; receive it with spoolrack receive --to DIR"
    )


def _queue_summary(queue: str, states: Counter[MessageState]) -> str:
    notes = []
    if states[MessageState.LEASED]:
        notes.append(f"{states[MessageState.LEASED]:,} of them leased, and ready in the archive")
    if states[MessageState.DELAYED]:
        notes.append(f"{states[MessageState.DELAYED]:,} of them delayed")
    return f"exported {plural(states.total(), 'message')} of {queue}" + "".join(
        f"; {note}" for note in notes
    )


@contextmanager
def _open_output(name: str) -> Iterator[Write]:
    """Open a file that gets its name once it is whole and on stable media."""
    if name == "-":
        yield Output().write
        return
    if os.path.lexists(name):
        raise Failed(f"{name} is there already, and nothing is written over it.", NOTHING)
    part = name + PART
    with open(part, "wb") as file:

        def write(content: bytes) -> None:
            file.write(content)

        yield write
        file.flush()
        os.fsync(file.fileno())
    # Unlike a rename, a link never replaces what has come there meanwhile.
    os.link(part, name)
    os.unlink(part)

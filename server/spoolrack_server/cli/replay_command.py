"""`spoolrack replay`: sends archived messages again, into their queue or another one."""

from __future__ import annotations

from pathlib import Path

import click
from spoolrack_store.archive_reader import read_archive
from spoolrack_store.files.layout import ARCHIVE
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.names import is_queue_name

from .command_base import argument, option
from .connection_options import Connection, connects_to_queues
from .exit_codes import BAD_CONTENT, NO_INPUT, NOTHING, OK, Failed
from .output import print_results, print_status
from .units import FolderPath, Moment, plural, quoted


@click.command()
@argument("queue")
@option("--since", metavar="TIME", type=Moment(), help="Messages sent from TIME on: all by default.")
@option("--until", metavar="TIME", type=Moment(), default="now", help="And before TIME.")
@option("--into", metavar="QUEUE", help="Send them to this queue: to their own by default.")
@option(
    "--archive",
    metavar="DIR",
    type=FolderPath(),
    help="The folder archive/ of a root or of a copy of it. With --root: that root's by default.",
)
@option("--dry-run", is_flag=True, help="Only count them.")
@connects_to_queues
def command(
    connection: Connection,
    queue: str,
    since: float | None,
    until: float,
    into: str | None,
    archive: str | None,
    dry_run: bool,
) -> int:
    """Send messages that have left QUEUE again, from its archive, in the order of the first sends.

    All of them appear at one moment, or none does. The messages have new ids, the same bodies,
    attributes, groups and priorities, and no delay. Messages that were replayed before are sent again.
    A queue archives messages if it has an archive retention: spoolrack queues set QUEUE
    --archive-retention 7d.

    TIME is an ISO 8601 time, such as 2026-11-23T10:00Z, or a span such as 2h: two hours ago. Exits with
    1 if there was nothing to send, and says of each file that can't be read why.
    """
    for name, hint in ((queue, "QUEUE"), (queue if into is None else into, "--into")):
        if not is_queue_name(name):
            raise click.BadParameter(f"{quoted(name)} can't be a queue's name.", param_hint=hint)
    if archive is None:
        if connection.root is None:
            raise click.UsageError("Give --archive, or --root: the archive lies in the root.")
        archive = str(Path(connection.root, ARCHIVE))
    unreadable = 0

    def problem(path: str, why: str) -> None:
        nonlocal unreadable
        unreadable += 1
        print_status(f"{queue}/{path}: {why}")

    target = into or queue
    count = 0
    messages = read_archive(
        Path(archive, queue), Millis(int((since or 0) * 1_000)), Millis(int(until * 1_000)), problem
    )
    try:
        if dry_run:
            count = sum(1 for _ in messages)
        else:
            with connection.patient_client() as client, client.batch() as batch:
                for message in messages:
                    batch.send_to(
                        target,
                        message.body,
                        attributes=message.attributes,
                        group=message.group,
                        priority=message.priority,
                    )
                    count += 1
    except FileNotFoundError as error:
        raise Failed(f"{error.filename}: there is no archive of this queue", NO_INPUT) from error
    print_results(f"{plural(count, 'message')} {'would be sent' if dry_run else 'sent'} to {target}.")
    if unreadable:
        return BAD_CONTENT
    return OK if count else NOTHING

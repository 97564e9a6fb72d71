"""`spoolrack redrive`: moves dead letters back, and shows the progress.

The redrive is the store's, and goes on without the command: over a server the command only watches it.
In a folder that no other process has open, it goes on as long as this one has it open.
"""

from __future__ import annotations

import time
from typing import Final

import click
from spoolrack import Client, Redrive, RedriveState

from ..kit.command_base import option
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues
from ..kit.exit_codes import NOTHING, OK
from ..kit.output import print_results, print_status, record_json
from ..kit.progress import Show, counting_bar
from ..kit.units import plural

FIRST_LOOK: Final = 0.02
LONGEST_PAUSE: Final = 0.5
"""Seconds between two looks; each pause is twice the last one."""


@click.command()
@queue_argument()
@option("--to", metavar="QUEUE", help="Destination queue.  [default: each message's source queue]")
@option("--id", metavar="ID", multiple=True, help="Only this message. May be repeated.")
@option(
    "--from",
    "source",
    metavar="QUEUE",
    envvar="SPOOLRACK_REDRIVE_FROM",
    help="Only messages that came from this queue.",
)
@option(
    "--rate",
    type=click.IntRange(0, 100_000),
    default=0,
    show_default=False,
    help="Most messages a second.  [default: no bound]",
)
@option("--no-wait", is_flag=True, help="Print the redrive's id, and don't wait for its end.")
@option("--json", is_flag=True, help="Print the redrive as a line of JSON.")
@option("--quiet", "-q", is_flag=True, help="Show neither progress nor counts.")
@connects_to_queues
def command(
    connection: Connection,
    queue: str,
    to: str | None,
    id: tuple[str, ...],
    source: str | None,
    rate: int,
    no_wait: bool,
    json: bool,
    quiet: bool,
) -> int:
    """Move the dead letters of QUEUE back to their source queues.

    The redrive runs in the background: Ctrl-C ends this command only, `spoolrack redrives cancel` the
    redrive. Exits with 1 if nothing was moved, if messages had to stay, or if it was cancelled.
    """
    with connection.client() as client:
        redrive: Redrive = client.queue(queue).redrive(
            destination=to or "",
            message_ids=id or None,
            source_queue=source or "",
            max_messages_per_second=rate,
        )
    if not no_wait:
        redrive = _watch(connection, redrive, quiet)
    if json:
        print_results(record_json(redrive))
    elif no_wait:
        print_results(redrive.id)
    if no_wait:
        if connection.root is not None and not quiet:
            print_status("it goes on as long as a process has the folder open")
        return OK
    if not quiet:
        print_status(_outcome(redrive))
    has_done_all = redrive.state is RedriveState.DONE and not redrive.failed_count
    return OK if has_done_all and redrive.moved_count else NOTHING


def _watch(connection: Connection, redrive: Redrive, quiet: bool) -> Redrive:
    """Show the progress of a redrive; return it once it has ended."""
    try:
        with (
            connection.patient_client() as client,
            counting_bar(f"{redrive.queue}: moved", quiet) as show,
        ):
            return _until_ended(client, redrive, show)
    except KeyboardInterrupt:
        if connection.root is None:
            print_status(f"the redrive goes on; to end it: spoolrack redrives cancel {redrive.id}")
        else:
            print_status(
                "the redrive goes on as soon as, and as long as, a process has the folder open"
            )
        raise


def _until_ended(client: Client, redrive: Redrive, show: Show) -> Redrive:
    pause = FIRST_LOOK
    while redrive.state is RedriveState.RUNNING:
        show(redrive.moved_count, redrive.moved_count + redrive.failed_count + redrive.remaining_count)
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
        redrive = client.redrives.get(redrive.id)
    return redrive


def _outcome(redrive: Redrive) -> str:
    words = [f"moved {plural(redrive.moved_count, 'message')} of {redrive.queue}"]
    if redrive.failed_count:
        words.append(f"{plural(redrive.failed_count, 'message')} had to stay ({redrive.last_failure})")
    if redrive.state is RedriveState.CANCELLED:
        words.append("then it was cancelled")
    return "; ".join(words)

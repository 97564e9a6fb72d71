"""`spoolrack redrives`: lists redrives, and ends them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click
from spoolrack import Redrive, RedriveState

from ..kit.command_base import argument, option
from ..kit.command_clock import current_time
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues, reads_queues
from ..kit.output import columns, print_list, print_status, record_json
from ..kit.units import age_text, plural


@click.group()
def command() -> None:
    """List and cancel redrives: dead letters that are moved back in the background."""


@command.command(name="list")
@queue_argument(required=False)
@option("--json", is_flag=True, help="Print a line of JSON for each redrive.")
@reads_queues
def list_(connection: Connection, queue: str | None, json: bool) -> int:
    """List the redrives, or those of the dead-letter queue QUEUE, the oldest first.

    A redrive that has ended is listed for 30 days.
    """
    with connection.client() as client:
        return print_list(client.redrives.list(queue or ""), record_json if json else None, _table)


def _table(redrives: Sequence[Redrive]) -> list[str]:
    now = current_time()
    headers = ("ID", "QUEUE", "TO", "STATE", "MOVED", "STAY", "LEFT", "BEGAN", "WHY SOME STAY")
    return columns(headers, [_row(redrive, now) for redrive in redrives], right=frozenset({4, 5, 6}))


def _row(redrive: Redrive, now: datetime) -> tuple[str, ...]:
    return (
        redrive.id,
        redrive.queue,
        redrive.destination or "-",
        redrive.state.value,
        f"{redrive.moved_count:,}",
        f"{redrive.failed_count:,}",
        f"{redrive.remaining_count:,}",
        f"{age_text(redrive.started_at, now)} ago",
        redrive.last_failure,
    )


@command.command()
@argument("ids", nargs=-1, required=True, metavar="ID...")
@option("--quiet", "-q", is_flag=True, help="Print no counts.")
@connects_to_queues
def cancel(connection: Connection, ids: tuple[str, ...], quiet: bool) -> None:
    """Cancel the redrives with these IDs. Moved messages stay moved.

    Exits with 1 if there is no such redrive. A redrive that had ended before counts as cancelled.
    """
    with connection.client() as client:
        for id in ids:
            redrive = client.redrives.cancel(id)
            if not quiet:
                moved = f"it had moved {plural(redrive.moved_count, 'message')}"
                if redrive.state is RedriveState.CANCELLED:
                    print_status(f"cancelled the redrive of {redrive.queue}: {moved}")
                else:
                    print_status(f"the redrive of {redrive.queue} had ended before: {moved}")

"""`spoolrack delete`: deletes messages by id or receipt."""

from __future__ import annotations

import click
from spoolrack import ById

from ..kit.command_base import argument, option
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues
from ..kit.exit_codes import NOTHING, OK, line_of
from ..kit.output import print_status
from ..kit.units import plural
from .line_reader import named_in


@click.command()
@queue_argument()
@argument("messages", nargs=-1, required=True, metavar="ID|RECEIPT...")
@option("--quiet", "-q", is_flag=True, help="Don't print the number of deleted messages.")
@connects_to_queues
def command(connection: Connection, queue: str, messages: tuple[str, ...], quiet: bool) -> int:
    """Delete messages of QUEUE for good, by their ids in any state, or by the receipts of a receive.

    With "-", ids and receipts are read from standard input, one a line. Exits with 1 if one of them
    isn't there or its lease is over; the others are deleted all the same.
    """
    names = named_in(messages)
    failed = 0
    with connection.client() as client:
        # A receipt says so itself: it has what no id has.
        targets = [named if "~" in named else ById(named) for named in names]
        results = client.queue(queue).delete_many(targets)
        for named, result in zip(names, results, strict=True):
            if result.error is not None:
                failed += 1
                print_status(f"{named}: {line_of(result.error)}")
    if not quiet:
        print_status(f"deleted {plural(len(names) - failed, 'message')} of {queue}")
    return NOTHING if failed else OK

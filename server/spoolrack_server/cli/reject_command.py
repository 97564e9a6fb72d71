"""`spoolrack reject`: makes leased messages dead letters."""

from __future__ import annotations

import click

from .command_base import argument, option
from .connection_options import Connection, connects_to_queues
from .release_command import end_leases


@click.command()
@argument("queue")
@argument("messages", nargs=-1, required=True, metavar="RECEIPT|ID...")
@option("--reason", metavar="TEXT", help="Reason, kept in the dead-letter record.")
@option("--quiet", "-q", is_flag=True, help="Don't print the number of rejected messages.")
@connects_to_queues
def command(
    connection: Connection, queue: str, messages: tuple[str, ...], reason: str | None, quiet: bool
) -> int:
    """Move leased messages of QUEUE to its dead-letter queue, however often they were received.

    Messages are named as for `release`. Exits with 1 if one of them isn't leased any more; the
    others are rejected all the same.
    """
    return end_leases(
        connection,
        queue,
        messages,
        lambda queue, receipts: queue.reject_many(receipts, reason or ""),
        verb="rejected",
        quiet=quiet,
    )

"""`spoolrack release` and `reject`: end leases, so that messages are ready again, or dead letters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from spoolrack import LeaseResult, Queue
from spoolrack_store.fsck import receipts_of

from ..kit.command_base import argument, option
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues
from ..kit.exit_codes import NOTHING, OK, line_of
from ..kit.output import print_status
from ..kit.units import DELAY, plural, quoted
from .line_reader import named_in


@click.command()
@queue_argument()
@argument("messages", nargs=-1, required=True, metavar="RECEIPT|ID...")
@option("--delay", type=DELAY, default="0s", help="Delay of the messages.")
@option("--backoff", is_flag=True, help="Delay the messages by the queue's back-off.")
@option(
    "--reason",
    metavar="TEXT",
    help="Reason, kept in the record of a message that becomes a dead letter.",
)
@option("--uncounted", is_flag=True, help="Don't count the receive.")
@option("--quiet", "-q", is_flag=True, help="Don't print the number of released messages.")
@connects_to_queues
def command(
    connection: Connection,
    queue: str,
    messages: tuple[str, ...],
    delay: float,
    backoff: bool,
    reason: str | None,
    uncounted: bool,
    quiet: bool,
) -> int:
    """Make leased messages of QUEUE ready again, at their old place, before their leases end.

    Messages are named by the receipts of a receive; with --root also by their ids. With "-", both are
    read from standard input, one a line. Exits with 1 if one of them isn't leased any more; the others
    are released all the same.
    """
    if backoff and delay:
        raise click.UsageError("--backoff and --delay both say how long: use one of them.")
    return _end_leases(
        connection,
        queue,
        messages,
        lambda queue, receipts: queue.release_many(
            receipts, delay=None if backoff else delay, reason=reason or "", count=not uncounted
        ),
        verb="released",
        quiet=quiet,
    )


@click.command()
@queue_argument()
@argument("messages", nargs=-1, required=True, metavar="RECEIPT|ID...")
@option("--reason", metavar="TEXT", help="Reason, kept in the dead-letter record.")
@option("--quiet", "-q", is_flag=True, help="Don't print the number of rejected messages.")
@connects_to_queues
def reject(
    connection: Connection, queue: str, messages: tuple[str, ...], reason: str | None, quiet: bool
) -> int:
    """Move leased messages of QUEUE to its dead-letter queue, however often they were received.

    Messages are named as for `release`. Exits with 1 if one of them isn't leased any more; the
    others are rejected all the same.
    """
    return _end_leases(
        connection,
        queue,
        messages,
        lambda queue, receipts: queue.reject_many(receipts, reason or ""),
        verb="rejected",
        quiet=quiet,
    )


def _end_leases(
    connection: Connection,
    queue: str,
    messages: Sequence[str],
    end: Callable[[Queue, Sequence[str]], list[LeaseResult]],
    *,
    verb: str,
    quiet: bool,
) -> int:
    """End the leases of messages by receipts or ids; `verb` is the text of a success."""
    names = named_in(messages)
    # A receipt says so itself: it has what no id has.
    ids = {named.lower() for named in names if "~" not in named}
    if ids and connection.root is None:
        raise click.UsageError(
            f"{quoted(min(ids))} is an id, and a server wants receipts: ids can be {verb} only with "
            "--root, in the folder itself."
        )
    with connection.client() as client:
        client.queue(queue).info()
        known = receipts_of(connection.root, queue, ids) if connection.root is not None and ids else {}
        leased = {named: known.get(named.lower(), named) for named in names}
        receipts = {named: receipt for named, receipt in leased.items() if "~" in receipt}
        results = end(client.queue(queue), list(receipts.values()))
        errors = {
            named: line_of(result.error)
            for named, result in zip(receipts, results, strict=True)
            if result.error is not None
        }
    for named in leased.keys() - receipts.keys():
        errors[named] = f"no message of {queue} with this id is leased"
    for named in leased:
        if named in errors:
            print_status(f"{named}: {errors[named]}")
    if not quiet:
        print_status(f"{verb} {plural(len(leased) - len(errors), 'message')} of {queue}")
    return NOTHING if errors else OK

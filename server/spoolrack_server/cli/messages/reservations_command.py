"""`spoolrack reservations`: lists, shows and releases reservations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import click
from spoolrack import Reservation, ReservationState
from spoolrack_store.model.reservation_requests import MAX_SEQUENCE_NUMBER

from ..kit.command_base import argument, option
from ..kit.command_clock import current_time
from ..kit.connection_options import Connection, connects_to_queues, reads_queues
from ..kit.output import columns, print_list, print_status, record_json
from ..kit.units import STREAM, size_text
from .peek_command import max_option, print_each, print_table, state_text


@click.group()
def command() -> None:
    """List, show and release reservations: messages that are leased under a name, for a stream."""


@command.command(name="list")
@option("--queue", help="Only reservations of this queue.")
@option("--stream", type=STREAM, help="Only reservations of this stream.")
@option("--json", is_flag=True, help="Print a line of JSON for each reservation.")
@reads_queues
def list_(connection: Connection, queue: str | None, stream: str | None, json: bool) -> int:
    """List the reservations, by stream and number.

    READS is the number of reads from the beginning. It rises with a message that breaks its reader.
    """
    with connection.client() as client:
        return print_list(
            client.reservations.list(queue=queue or "", stream=stream or ""),
            record_json if json else None,
            _table,
        )


def _table(reservations: Sequence[Reservation]) -> list[str]:
    now = current_time()
    rows = [
        (
            each.stream,
            str(each.sequence_number),
            each.queue,
            f"{each.message_count:,}",
            size_text(each.byte_count),
            f"{each.read_count:,}",
            each.state.value
            if each.state is not ReservationState.HELD
            else state_text(each.state.value, each.expires_at, now),
        )
        for each in reservations
    ]
    headers = ("STREAM", "SEQ", "QUEUE", "MESSAGES", "BYTES", "READS", "STATE")
    return columns(headers, rows, right=frozenset({1, 3, 4, 5}))


@command.command()
@argument("stream", type=STREAM)
@argument("sequence_number", type=click.IntRange(0, MAX_SEQUENCE_NUMBER))
@max_option
@option("--raw", is_flag=True, help="Print the bodies only, a line each.")
@option("--json", is_flag=True, help="Print a line of JSON for each message.")
@connects_to_queues
def show(
    connection: Connection, stream: str, sequence_number: int, max: int, raw: bool, json: bool
) -> int:
    """Show the messages of reservation SEQ of STREAM. This counts as a read.

    Exits with 1 if it has none, or has expired.
    """
    if raw and json:
        raise click.UsageError("Choose one of --raw and --json.")
    with connection.client() as client:
        found = islice(client.reservations.read(stream, sequence_number), max or None)
        if not raw and not json:
            return print_table(list(found))
        return print_each(found, json=json)


@command.command()
@argument("stream", type=STREAM)
@argument("sequence_number", type=click.IntRange(0, MAX_SEQUENCE_NUMBER))
@option("--quiet", "-q", is_flag=True, help="Don't print what was done.")
@connects_to_queues
def release(connection: Connection, stream: str, sequence_number: int, quiet: bool) -> None:
    """Release reservation SEQ of STREAM: its messages are ready again, at their old places.

    Later calls of its reader fail with RESERVATION_LOST.
    """
    with connection.client() as client:
        client.reservations.release(stream, sequence_number)
    if not quiet:
        print_status(f"released reservation {sequence_number} of {stream}")

"""`spoolrack shard`: prints which shard a queue's name belongs to. Works without a server."""

from __future__ import annotations

import click
from spoolrack_store.model.names import is_queue_name
from spoolrack_store.model.shards import MAX_SHARDS, shard_of

from ..kit.command_base import option
from ..kit.exit_codes import OK
from ..kit.output import print_results
from ..kit.units import quoted


@click.command()
@click.argument("queue")
@option(
    "--shards", type=click.IntRange(1, MAX_SHARDS), required=True, help="How many shards there are."
)
def command(queue: str, shards: int) -> int:
    """Print the number of the shard that QUEUE belongs to, from 0.

    The name alone decides, so the queue need not exist.
    """
    if not is_queue_name(queue):
        raise click.BadParameter(f"{quoted(queue)} can't be a queue's name.", param_hint="QUEUE")
    print_results(str(shard_of(queue, shards)))
    return OK

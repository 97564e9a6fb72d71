"""`spoolrack try`: sends, receives and deletes one message, to check a server, or each of several
shards."""

from __future__ import annotations

import secrets
import time
from json import dumps
from typing import Final

import click
from spoolrack import Queue
from spoolrack_store.model.shards import shard_of

from ..kit.command_base import option
from ..kit.connection_options import Connection, connects_to_queues, temporary_queue
from ..kit.exit_codes import OK, TRY_AGAIN, Failed
from ..kit.output import print_results

_PREFIX: Final = "try-"
_WAIT: Final = 10.0


@click.command()
@option("--json", is_flag=True, help="Print a line of JSON for each shard, or the server.")
@connects_to_queues
def command(connection: Connection, json: bool) -> int:
    """Send a message, receive it, and delete it.

    That happens in a queue of its own, whose name begins with "try-", and which it deletes at the end:
    where there are permissions, it needs all of them on "try-*". With shards, it does so on each.
    """
    shards = connection.url.count(",") + 1
    with connection.patient_client() as client:
        for shard in range(shards):
            with temporary_queue(client, _name_on(shard, shards)) as queue:
                took = 1_000 * _live(queue)
            if json:
                of = {"shard": f"{shard}/{shards}"} if shards > 1 else {}
                print_results(dumps({**of, "milliseconds": round(took, 1)}))
                continue
            where = f"shard {shard} of {shards}: " if shards > 1 else ""
            print_results(f"{where}sent, received and deleted a message in {took:.1f} ms")
    return OK


def _name_on(shard: int, shards: int) -> str:
    """Return a new name of a queue of this shard."""
    while shard_of(name := f"{_PREFIX}{secrets.token_hex(8)}", shards) != shard:
        pass
    return name


def _live(queue: Queue) -> float:
    """Send, receive and delete one message; return how many seconds that took."""
    body = secrets.token_bytes(1_024)
    began = time.monotonic()
    sent = queue.send(body)
    for message in queue.receive(wait=_WAIT):
        if (message.id, message.body) != (sent, body):
            raise Failed(f"{message.id} came where {sent} was sent, or not with its body", TRY_AGAIN)
        message.delete()
        return time.monotonic() - began
    raise Failed(f"the message {sent} was sent to {queue.name} and doesn't come", TRY_AGAIN)

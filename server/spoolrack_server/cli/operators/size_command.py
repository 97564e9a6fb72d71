"""`spoolrack size`: estimates what a server needs for a load. Works without a server.

The figures are those of one measured machine: docs/explanation/performance.md has them with their
conditions, and docs/how-to/sizing.md says how they are put together.
"""

from __future__ import annotations

from json import dumps
from math import ceil
from typing import Final

import click

from ..kit.command_base import option
from ..kit.exit_codes import OK
from ..kit.output import columns, print_results, print_status
from ..kit.units import Size, size_text

ALONE_US: Final = 1_742
"""Processor time of the server, for a life (send, receive, delete) whose commits are its own alone."""
SHARED_US: Final = 347
"""The same, where 16 producers and 16 consumers share commits."""
TENS_US: Final = 81
"""The same for each message, where calls have ten."""
SINGLES_PER_SECOND: Final = 2_133
TENS_PER_SECOND: Final = 9_574
"""The most lives a second that one process did: one by one, and in tens."""
SYNCS_OF_A_LIFE: Final = 7
"""Of a send, a receive and a delete that share a commit with no other call."""

_MIB: Final = 1 << 20
_BLOCK: Final = 4_096
_INODE: Final = 256
_HEAD: Final = 100
"""About what a message's attributes and its place in the file take."""
_UNLINKED_LATER: Final = 1.5
"""Deleted files are unlinked a moment later: half as many again."""
_IDLE: Final = 64 * _MIB
_TOUCHED: Final = 22 * _MIB
"""What the messages that were touched last take, with their bodies."""
_LARGEST_CALL: Final = 1_000


@click.command()
@option("--rate", type=click.IntRange(1, 10**9), required=True, help="Messages a second, at the peak.")
@option("--body", type=Size(), default="1k", help="Size of a message's body.")
@option(
    "--backlog",
    type=click.IntRange(0, 10**12),
    default=100_000,
    help="The most messages that wait at one time.",
)
@option(
    "--batch",
    type=click.IntRange(1, _LARGEST_CALL),
    default=1,
    help="Messages of one call.",
)
@option("--json", is_flag=True, help="Print it as a line of JSON; sizes are bytes.")
def command(rate: int, body: int, backlog: int, batch: int, json: bool) -> int:
    """Estimate the processors, disk, memory and syncs for a load.

    Each message is sent, received and deleted once. The estimate may be wrong by a factor of two:
    measure your machine with `spoolrack bench`.
    """
    calls = rate / batch
    # A call costs its part and each message its own: 1 is one by one, and 0 is ten or more in a call.
    single = max(10 / batch - 1, 0) / 9
    shared = TENS_US + single * (SHARED_US - TENS_US)
    most = 1 / (1 / TENS_PER_SECOND + single * (1 / SINGLES_PER_SECOND - 1 / TENS_PER_SECOND))
    processors = max(rate * shared, min(calls * ALONE_US, most * shared)) / 1e6
    files = ceil(backlog / batch)
    blocks = ceil((body + _HEAD) * batch / _BLOCK) * _BLOCK
    inodes = ceil(files * _UNLINKED_LATER)
    disk = inodes * (blocks + _INODE)
    # 0.4 KiB a file, and 8 bytes for each further message of it: 12 bytes each in a batch of 100.
    used = _IDLE + _TOUCHED + files * 410 + backlog * 8
    # Sends are refused past half of what a container's limit leaves beyond 64 MiB.
    memory = max(_IDLE + 2 * (used - _IDLE), 128 * _MIB)
    syncs = calls * SYNCS_OF_A_LIFE
    rows = [
        ("processors", f"{processors:.1f}", "of the server, for sends, receives and deletes"),
        ("disk", size_text(disk), "of blocks and inodes, with half as much again for deleted files"),
        ("inodes", f"{inodes:,}", "for as many files"),
        ("memory", size_text(memory), "as the limit of a container"),
        (
            "syncs",
            f"{syncs:,.0f}/s",
            "at most: calls that arrive together share them",
        ),
    ]
    if json:
        estimate = {
            "processors": round(processors, 1),
            "disk": disk,
            "inodes": inodes,
            "memory": memory,
            "syncs_per_second": round(syncs),
        }
        print_results(dumps(estimate))
    else:
        print_results(*columns(("WHAT", "ESTIMATE", ""), rows, right=frozenset({1})))
    print_status(
        "estimated from the figures of docs/explanation/performance.md, of 2 cores with ext4;"
        " it may be wrong by a factor of two: measure your machine by spoolrack bench"
    )
    if rate > most:
        print_status(
            f"one process did {most:,.0f} messages a second on 2 cores: send more in each call"
            " (--batch), or spread the queues over shards"
        )
    return OK

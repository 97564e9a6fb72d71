"""`spoolrack stages`: lists, publishes and aborts stages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click
from spoolrack import StageInfo
from spoolrack.errors import StageNotFound
from spoolrack_store.model.stage_requests import MAX_EPOCH, MAX_EPOCH_RETENTION, MIN_EPOCH_RETENTION

from ..kit.command_base import argument, option
from ..kit.command_clock import current_time
from ..kit.connection_options import Connection, connects_to_queues, reads_queues
from ..kit.exit_codes import NOTHING, OK
from ..kit.output import columns, print_list, print_status, record_json
from ..kit.units import STAGE, WRITER, Span, left_text, plural


@click.group()
def command() -> None:
    """List, publish and abort stages: messages that are stored and not yet visible."""


@command.command(name="list")
@option("--json", is_flag=True, help="Print a line of JSON for each stage.")
@reads_queues
def list_(connection: Connection, json: bool) -> int:
    """List the stages, with their messages by queue and the time at which they expire."""
    with connection.client() as client:
        return print_list(client.staging.list(), record_json if json else None, _table)


def _table(stages: Sequence[StageInfo]) -> list[str]:
    now = current_time()
    rows = [row for stage in stages for row in _rows(stage, now)]
    headers = ("STAGE", "CHUNKS", "EXPIRES IN", "QUEUE", "MESSAGES")
    return columns(headers, rows, right=frozenset({1, 4}))


def _rows(stage: StageInfo, now: datetime) -> list[tuple[str, ...]]:
    """Return a line for each queue; the first one names the stage."""
    head: tuple[str, ...] = (stage.name, f"{stage.chunk_count:,}", left_text(stage.expires_at, now))
    rows = []
    for queue, messages in sorted(stage.message_counts.items()) or [("", 0)]:
        rows.append((*head, queue, f"{messages:,}"))
        head = ("", "", "")
    return rows


@command.command()
@argument("stages", nargs=-1, required=True, metavar="STAGE...", type=STAGE)
@option("--writer", type=WRITER, help="The name of the publisher.  [default: the one STAGE itself]")
@option(
    "--epoch",
    type=click.IntRange(0, MAX_EPOCH),
    help="Number of the epoch, higher than the writer's last.",
)
@option(
    "--epoch-retention",
    type=Span(MIN_EPOCH_RETENTION / 1_000, MAX_EPOCH_RETENTION / 1_000),
    help="Time for which the epoch is remembered.  [default: 30d]",
)
@option("--quiet", "-q", is_flag=True, help="Don't print the number of published messages.")
@connects_to_queues
def publish(
    connection: Connection,
    stages: tuple[str, ...],
    writer: str | None,
    epoch: int | None,
    epoch_retention: float | None,
    quiet: bool,
) -> int:
    """Make all messages of all STAGES appear, or none of them.

    May be repeated: each epoch of a writer is published once. Exits with 1 if one of them isn't there;
    then none was published.
    """
    if (writer is None) is not (epoch is None):
        raise click.UsageError("--writer and --epoch go together.")
    if writer is None and len(stages) > 1:
        raise click.UsageError("Several stages need a --writer and an --epoch.")
    with connection.client() as client:
        published = client.staging.publish(
            writer or stages[0], epoch or 0, stages, epoch_retention=epoch_retention
        )
    if published.duplicate:
        print_status(f"published before (the last epoch is {published.last_epoch}): nothing was done")
    elif not quiet:
        print_status(f"published {plural(published.message_count, 'message')}")
    return OK


@command.command()
@argument("stages", nargs=-1, required=True, metavar="STAGE...", type=STAGE)
@option("--quiet", "-q", is_flag=True, help="Don't print the number of dropped messages.")
@connects_to_queues
def abort(connection: Connection, stages: tuple[str, ...], quiet: bool) -> int:
    """Delete STAGES with all their messages. Exits with 1 if one of them isn't there."""
    dropped = missing = 0
    with connection.client() as client:
        for stage in stages:
            try:
                dropped += client.staging.abort(stage)
            except StageNotFound:
                missing += 1
                print_status(f"there is no stage {stage}")
    if not quiet:
        print_status(f"dropped {plural(dropped, 'message')}")
    return NOTHING if missing else OK

"""`spoolrack schedules`: creates, changes, lists, pauses, resumes and deletes schedules."""

from __future__ import annotations

from collections.abc import Sequence

import click
from spoolrack import Schedule

from ..kit.command_base import argument, option
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues, reads_queues
from ..kit.output import columns, print_list, print_results, schedule_json
from ..kit.units import Text, moment_text
from ..messages.send_command import attribute_of


@click.group()
def command() -> None:
    """Create, change, list, pause and delete schedules: messages that are sent at each tick of CRON."""


@command.command()
@queue_argument()
@argument("name")
@argument("cron")
@argument("body", default="", type=Text(may_be_empty=True))
@option(
    "--time-zone",
    metavar="ZONE",
    default="UTC",
    help="The time zone of CRON, such as Europe/Berlin.",
)
@option(
    "--attribute",
    "-a",
    metavar="NAME=VALUE",
    multiple=True,
    help="Attribute of the messages; repeatable.",
)
@option("--group", metavar="GROUP", help="Messages of one group are received in their order.")
@connects_to_queues
def create(
    connection: Connection,
    queue: str,
    name: str,
    cron: str,
    body: str,
    time_zone: str,
    attribute: tuple[str, ...],
    group: str | None,
) -> None:
    """Send BODY to QUEUE at each tick of CRON, and print the first tick.

    CRON has five fields, as in crontab(5): "30 6 * * MON-FRI" is 6:30 on work days. If the
    schedule exists with the same content, nothing changes.
    """
    with connection.client() as client:
        schedule = client.schedules.create(
            queue,
            name,
            cron,
            body,
            time_zone=time_zone,
            attributes=dict(map(attribute_of, attribute)),
            group=group or "",
        )
    print_results("-" if schedule.next_tick_at is None else moment_text(schedule.next_tick_at))


@command.command()
@queue_argument()
@argument("name")
@option("--cron", metavar="CRON", help="Five fields, as in crontab(5).")
@option("--time-zone", metavar="ZONE", help="The time zone of CRON.")
@option("--body", metavar="BODY", type=Text(may_be_empty=True), help="The body of the messages.")
@option(
    "--attribute",
    "-a",
    metavar="NAME=VALUE",
    multiple=True,
    help="Attribute of the messages; repeatable. Replaces all of them.",
)
@option(
    "--group",
    metavar="GROUP",
    type=Text(may_be_empty=True),
    help="The group of the messages; an empty one for none.",
)
@connects_to_queues
def update(
    connection: Connection,
    queue: str,
    name: str,
    cron: str | None,
    time_zone: str | None,
    body: str | None,
    attribute: tuple[str, ...],
    group: str | None,
) -> None:
    """Change the given fields of a schedule, and print the next tick.

    After a change of CRON or ZONE that is the first tick from now on.
    """
    with connection.client() as client:
        changed = client.schedules.update(
            queue,
            name,
            cron=cron,
            time_zone=time_zone,
            body=body,
            attributes=dict(map(attribute_of, attribute)) or None,
            group=group,
        )
    print_results("-" if changed.next_tick_at is None else moment_text(changed.next_tick_at))


@command.command(name="list")
@queue_argument(required=False)
@option("--json", is_flag=True, help="Print a line of JSON for each schedule.")
@reads_queues
def list_(connection: Connection, queue: str | None, json: bool) -> int:
    """List the schedules, or those of QUEUE."""
    with connection.client() as client:
        return print_list(client.schedules.list(queue or ""), schedule_json if json else None, _table)


def _table(schedules: Sequence[Schedule]) -> list[str]:
    headers = ("QUEUE", "NAME", "CRON", "ZONE", "LAST", "NEXT")
    return columns(headers, [_row(schedule) for schedule in schedules], right=frozenset())


def _row(schedule: Schedule) -> tuple[str, ...]:
    last, following = schedule.last_tick_at, schedule.next_tick_at
    coming = "-" if following is None else moment_text(following)
    if schedule.obstacles:
        coming = ", ".join(each.reason for each in schedule.obstacles)
    return (
        schedule.queue,
        schedule.name,
        schedule.cron,
        schedule.time_zone,
        "-" if last is None else moment_text(last),
        "paused" if schedule.paused else coming,
    )


@command.command()
@queue_argument()
@argument("name")
@connects_to_queues
def pause(connection: Connection, queue: str, name: str) -> None:
    """Pause a schedule: no tick is sent until it is resumed."""
    with connection.client() as client:
        client.schedules.pause(queue, name)


@command.command()
@queue_argument()
@argument("name")
@connects_to_queues
def resume(connection: Connection, queue: str, name: str) -> None:
    """Resume a schedule. Ticks that passed meanwhile are skipped."""
    with connection.client() as client:
        client.schedules.resume(queue, name)


@command.command()
@queue_argument()
@argument("name")
@connects_to_queues
def delete(connection: Connection, queue: str, name: str) -> None:
    """Delete a schedule. Sent messages stay."""
    with connection.client() as client:
        client.schedules.delete(queue, name)

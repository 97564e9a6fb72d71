"""`spoolrack top`: a table of queues and their rates, redrawn until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text as RichText
from spoolrack import Client, QueueInfo, SpoolrackError

from .command_base import argument, option
from .command_clock import current_time
from .connection_options import Connection, connects_to_queues
from .exit_codes import OK, line_of
from .output import print_list, read_list
from .queues_command import counts_row, message_count, table_of
from .signals import Terminated
from .units import Span, Text, plural

_NUMBERS: Final = ("READY", "LEASED", "DELAYED", "CHANGE/S", "BYTES", "OLDEST")


@click.command()
@argument("prefix", default="", type=Text(may_be_empty=True))
@option("--interval", "-i", type=Span(0.1), default="1s", help="Time between two tables.")
@option("--once", is_flag=True, help="Print one table and exit, as it does without a terminal.")
@connects_to_queues
def command(connection: Connection, prefix: str, interval: float, once: bool) -> int:
    """Watch the queues, or those whose names begin with PREFIX. Ctrl-C ends it.

    CHANGE/S: the messages a second by which the queue grows, in all states together.
    """
    console = Console()
    with connection.client() as client:
        if once or not console.is_terminal:
            return print_list(client.list_queues(prefix), None, table_of)
        found, away = read_list(client.list_queues(prefix))
        try:
            _watch(client, console, connection.url, prefix, interval, found, away)
        except Terminated:
            raise
        except KeyboardInterrupt:
            pass  # As one leaves it.
    return OK


def _watch(
    client: Client,
    console: Console,
    url: str,
    prefix: str,
    interval: float,
    queues: list[QueueInfo],
    away: list[str],
) -> None:
    rates: Mapping[str, float] = {}
    looked = time.monotonic()
    trouble = "\n".join(away)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_screen(queues, rates, url, trouble), refresh=True)
            time.sleep(interval)
            before, then = queues, looked
            try:
                queues, away = read_list(client.list_queues(prefix))
            except SpoolrackError as error:
                trouble = line_of(error)
                continue
            trouble, looked = "\n".join(away), time.monotonic()
            rates = rates_of(before, queues, looked - then)


def rates_of(
    before: Sequence[QueueInfo], after: Sequence[QueueInfo], seconds: float
) -> dict[str, float]:
    """Return the messages a second by which each queue has grown."""
    held = {info.name: message_count(info) for info in before}
    return {
        info.name: (message_count(info) - held[info.name]) / seconds
        for info in after
        if info.name in held and seconds > 0
    }


def _numbers(info: QueueInfo, rate: float | None) -> tuple[str, ...]:
    *states, size, oldest = counts_row(info)
    return *states, "" if rate is None else f"{rate:+,.0f}" if round(rate) else "0", size, oldest


def _screen(queues: Sequence[QueueInfo], rates: Mapping[str, float], url: str, trouble: str) -> Group:
    table = Table(box=None, header_style="bold", expand=False)
    rows = [_numbers(info, rates.get(info.name)) for info in queues]
    # Where the terminal is too narrow, the names give way: a number that is cut is another number.
    table.add_column("QUEUE", overflow="ellipsis")
    for title, *column in zip(_NUMBERS, *rows, strict=True):
        table.add_column(
            title, justify="right", no_wrap=True, min_width=max(map(len, (title, *column)))
        )
    table.add_column("", no_wrap=True)
    for info, row in zip(queues, rows, strict=True):
        is_blocked = info.blocking_message is not None
        table.add_row(info.name, *row, RichText("blocked", style="bold red") if is_blocked else "")
    total = sum(map(message_count, queues))
    now = current_time().astimezone().strftime("%H:%M:%S")
    head = f"{url}  {plural(len(queues), 'queue')}, {plural(total, 'message')}  {now}"
    return Group(RichText(head, style="dim"), RichText(trouble, style="bold red"), table)

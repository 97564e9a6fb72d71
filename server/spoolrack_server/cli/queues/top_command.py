"""`spoolrack top`: a table of queues and their rates, redrawn until Ctrl-C."""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text as RichText
from spoolrack import Client, QueueInfo, SpoolrackError

from ..kit.command_base import option
from ..kit.command_clock import current_time
from ..kit.completion import queue_argument
from ..kit.connection_options import Connection, connects_to_queues
from ..kit.exit_codes import OK, line_of
from ..kit.output import print_list, queue_json, read_list
from ..kit.signals import Terminated
from ..kit.units import Span, Text, plural
from .queues_command import counts_row, message_count, table_of

_NUMBERS: Final = ("READY", "LEASED", "DELAYED", "CHANGE/S", "BYTES", "OLDEST")
Rates = Mapping[str, float]
_SORTS: Final[Mapping[str, Callable[[QueueInfo, Rates], float]]] = {
    "backlog": lambda info, rates: -message_count(info),
    "age": lambda info, rates: -(info.counts.oldest_age or 0),
    "rate": lambda info, rates: -abs(rates.get(info.name, 0)),
    "name": lambda info, rates: 0,
}
"""The first letter of each is its key at a terminal. Equal queues are in the order of their names."""
_KEYS: Final = {sort[0]: sort for sort in _SORTS}
_AROUND: Final = 3
"""Lines around the rows: the head, the titles, and the last one."""


@click.command()
@queue_argument("prefix", default="", type=Text(may_be_empty=True))
@option("--interval", "-i", type=Span(0.1), default="1s", help="Time between two tables.")
@option(
    "--sort",
    type=click.Choice(list(_SORTS)),
    default="backlog",
    help="The first queue: of most messages, of the oldest message, of the fastest change, or by name.",
)
@option("--once", is_flag=True, help="Print one table and exit, as it does without a terminal.")
@option("--json", is_flag=True, help="Print a line of JSON for each queue once, and exit.")
@connects_to_queues
def command(
    connection: Connection, prefix: str, interval: float, sort: str, once: bool, json: bool
) -> int:
    """Watch the queues, or those whose names begin with PREFIX. Ctrl-C or q ends it.

    CHANGE/S: the messages a second by which the queue grows, in all states together. The keys b, a, r
    and n sort by backlog, age, rate and name.
    """
    console = Console()
    with connection.client() as client:
        found, away = read_list(client.list_queues(prefix))
        if once or json or not console.is_terminal:
            return print_list(sorted_by(sort, found), queue_json if json else None, table_of, away)
        try:
            _watch(client, console, connection.url, prefix, interval, sort, found, away)
        except Terminated:
            raise
        except KeyboardInterrupt:
            pass  # As one leaves it.
    return OK


def sorted_by(sort: str, queues: Sequence[QueueInfo], rates: Rates | None = None) -> list[QueueInfo]:
    """Return the queues in the order of `--sort`."""
    return sorted(queues, key=lambda info: (_SORTS[sort](info, rates or {}), info.name))


def _watch(
    client: Client,
    console: Console,
    url: str,
    prefix: str,
    interval: float,
    sort: str,
    queues: list[QueueInfo],
    away: list[str],
) -> None:
    rates: Rates = {}
    looked = time.monotonic()
    trouble = "\n".join(away)
    with _keyboard() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            ends = time.monotonic() + interval
            while (left := ends - time.monotonic()) > 0:
                shown = sorted_by(sort, queues, rates)
                live.update(_screen(shown, rates, url, trouble, sort, console.height), refresh=True)
                key = pressed(left)
                if key == "q":
                    return
                sort = _KEYS.get(key, sort)
            before, then = queues, looked
            try:
                queues, away = read_list(client.list_queues(prefix))
            except SpoolrackError as error:
                trouble = line_of(error)
                continue
            trouble, looked = "\n".join(away), time.monotonic()
            rates = rates_of(before, queues, looked - then)


@contextmanager
def _keyboard() -> Iterator[Callable[[float], str]]:
    """Yield what waits so many seconds for a key, and returns it; "" if none was pressed. Without a
    terminal at standard input it only waits."""
    if not sys.stdin.isatty():

        def wait(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield wait
        return
    import termios
    import tty

    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    tty.setcbreak(file, termios.TCSANOW)

    def read(seconds: float) -> str:
        ready, _, _ = select.select([file], [], [], seconds)
        key = os.read(file, 1).decode(errors="replace") if ready else ""
        if ready and not key:
            time.sleep(seconds)  # The terminal is gone: it is always ready.
        return key

    try:
        yield read
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


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


def _screen(
    all_queues: Sequence[QueueInfo], rates: Rates, url: str, trouble: str, sort: str, height: int
) -> Group:
    room = height - _AROUND - len(trouble.splitlines())
    queues = all_queues[: max(1, room)]
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
    total = sum(map(message_count, all_queues))
    now = current_time().astimezone().strftime("%H:%M:%S")
    head = f"{url}  {plural(len(all_queues), 'queue')}, {plural(total, 'message')}  {now}"
    more = len(all_queues) - len(queues)
    keys = "b backlog, a age, r rate, n name, q quit"
    last = f"{f'{more:,} more; ' if more else ''}by {sort}: {keys}"
    told = [RichText(trouble, style="bold red")] if trouble else []
    return Group(RichText(head, style="dim"), *told, table, RichText(last, style="dim"))

"""Progress bars for messages, if somebody can see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

Advance = Callable[[int, int], None]
"""Told of messages and bytes that are done."""
Show = Callable[[int, int], None]
"""Told of how many messages are done, and of how many there are."""


@contextmanager
def progress_bar(title: str, length: int | None, quiet: bool) -> Iterator[Advance]:
    """A bar on standard error, as long as `length` bytes; None: nobody knows how many."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda messages, size: None
        return
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[messages]:,} messages"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with progress:
        task = progress.add_task(title, total=length, messages=0)

        def advance(messages: int, size: int) -> None:
            done = progress.tasks[0].fields["messages"] + messages
            progress.update(task, advance=size, messages=done)

        yield advance


@contextmanager
def counting_bar(title: str, quiet: bool) -> Iterator[Show]:
    """A bar on standard error for messages that somebody else counts."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda done, total: None
        return
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    with progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)

"""Progress bars on standard error, shown only at a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

Advance = Callable[[int, int], None]
"""Takes the messages and bytes done since the last call."""
Show = Callable[[int, int], None]
"""Takes how many items are done, and how many there are."""


@contextmanager
def _bar(
    title: str, quiet: bool, *columns: ProgressColumn, length: int | None = None
) -> Iterator[Callable[..., None]]:
    """Show a bar of these columns; yields what updates it with the keywords of `Progress.update`."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda **changes: None
        return
    text, bar, left = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    with Progress(text, bar, *columns, left, console=console, transient=True) as progress:
        task = progress.add_task(title, total=length, messages=0)
        yield lambda **changes: progress.update(task, **changes)


@contextmanager
def progress_bar(title: str, length: int | None, quiet: bool) -> Iterator[Advance]:
    """Show a bar of `length` bytes (None: unknown) that counts messages too."""
    columns = (
        TaskProgressColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[messages]:,} messages"),
    )
    with _bar(title, quiet, *columns, length=length) as update:
        done = 0

        def advance(messages: int, size: int) -> None:
            nonlocal done
            done += messages
            update(advance=size, messages=done)

        yield advance


@contextmanager
def counting_bar(title: str, quiet: bool) -> Iterator[Show]:
    """Show a bar whose count is kept elsewhere."""
    with _bar(title, quiet, MofNCompleteColumn()) as update:
        yield lambda done, total: update(completed=done, total=total)

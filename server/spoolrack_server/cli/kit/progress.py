"""Progress bars on standard error, shown only at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

Advance = Callable[[int, int], None]
"""Takes the messages and bytes done since the last call."""
Show = Callable[[int, int], None]
"""Takes how many items are done, and how many there are."""


@contextmanager
def _bar(
    title: str, quiet: bool, make_columns: Callable[[], Sequence[ProgressColumn]], length: int | None
) -> Iterator[Callable[..., None]]:
    """Show a bar of these columns; yields what updates it with the keywords of `Progress.update`."""
    if quiet or not sys.stderr.isatty():
        yield lambda **changes: None
        return
    # Only at a terminal: rich takes longer to load than the rest of a short command.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    text, bar, left = TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(text, bar, *make_columns(), left, console=console, transient=True) as progress:
        task = progress.add_task(title, total=length, messages=0)
        yield lambda **changes: progress.update(task, **changes)


@contextmanager
def progress_bar(title: str, length: int | None, quiet: bool) -> Iterator[Advance]:
    """Show a bar of `length` bytes (None: unknown) that counts messages too."""

    def columns() -> Sequence[ProgressColumn]:
        from rich.progress import DownloadColumn, TaskProgressColumn, TextColumn

        counted = TextColumn("{task.fields[messages]:,} messages")
        return TaskProgressColumn(), DownloadColumn(binary_units=True), counted

    with _bar(title, quiet, columns, length) as update:
        done = 0

        def advance(messages: int, size: int) -> None:
            nonlocal done
            done += messages
            update(advance=size, messages=done)

        yield advance


@contextmanager
def counting_bar(title: str, quiet: bool) -> Iterator[Show]:
    """Show a bar whose count another object keeps."""

    def columns() -> Sequence[ProgressColumn]:
        from rich.progress import MofNCompleteColumn

        return (MofNCompleteColumn(),)

    with _bar(title, quiet, columns, None) as update:
        yield lambda done, total: update(completed=done, total=total)

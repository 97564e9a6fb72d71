"""The clock of a command, an argument of the program: ages and times on the command line are by it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import click


def system_time() -> datetime:
    return datetime.fromtimestamp(time.time(), UTC)


def current_time() -> datetime:
    """Return the time in UTC, by the clock that the program was run with."""
    told: datetime = click.get_current_context().obj()
    return told

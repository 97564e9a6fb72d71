"""Completion of queue names in a shell.

What can't be listed within a second completes nothing, silently: the shell is in the middle of a line.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any, Final

import click
from spoolrack import RetryPolicy, SpoolrackError, connect

from .command_base import Decorator, argument
from .connection_options import credentials_of, is_folder_meant

_MOST: Final = 1_000
_PATIENCE: Final = 1.0


def queue_argument(name: str = "queue", **more: Any) -> Decorator:
    """Declare an argument for the name of a queue, which a shell completes."""
    return argument(name, shell_complete=complete_queues, **more)


def complete_queues(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of queues that begin with what is typed, by the connection options of the line
    and the environment."""
    options = context.params
    try:
        with context.scope(cleanup=False):
            if options.get("root") is not None and is_folder_meant():
                # By its names: an open store would be another process on the root.
                names = os.listdir(os.path.join(options["root"], "queues"))
                return sorted(name for name in names if name.startswith(incomplete))[:_MOST]
            credentials = credentials_of(options)
        with connect(
            options["url"],
            timeout=_PATIENCE,
            retry=RetryPolicy(attempts=1),
            routing=options["routing"],
            **credentials,
        ) as client:
            return [queue.name for queue in islice(client.list_queues(incomplete), _MOST)]
    except (OSError, KeyError, SpoolrackError, click.ClickException):
        return []

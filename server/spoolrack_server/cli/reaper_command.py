"""`spoolrack reaper`: one of softlayer/mq's three daemons, beside `serve` and `mover`."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from .command_base import option
from .daemons import log_format_option, root_and_folder
from .units import FolderPath


@click.command()
@option("--source", metavar="DIR", type=FolderPath(), required=True, help="ROOT/remove.")
@log_format_option
def command(source: str, log_format: Any) -> int:
    """Unlink deleted messages, until SIGTERM or Ctrl-C.

    Servers work without it, and those without --no-reaper do the same by themselves.
    """
    from ..process.background import reap

    root, _ = root_and_folder(source, "--source", ("remove",))
    return asyncio.run(reap(str(root), log_format))

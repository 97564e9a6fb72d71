"""`spoolrack mover`: one of softlayer/mq's three daemons, beside `serve` and `reaper`."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click

from .command_base import option
from .daemons import log_format_option, root_and_folder
from .exit_codes import USAGE, Failed
from .units import FolderPath, Span

NEW: Final = "new"
DELAY: Final = "delay"


@click.command()
@option("--source", metavar="DIR", type=FolderPath(), required=True, help="ROOT/new or ROOT/delay.")
@option("--destination", metavar="DIR", type=FolderPath(), required=True, help="ROOT/queues.")
@option(
    "--delay",
    type=Span(),
    default="0s",
    help="Delay between finding a file and moving it.",
)
@log_format_option
def command(source: str, destination: str, delay: float, log_format: Any) -> int:
    """Move messages into their queues, until SIGTERM or Ctrl-C.

    From ROOT/new: files put there by hand, and messages that dead processes have left. From ROOT/delay:
    messages that are due. Servers work without it, and those without --no-mover do the same by
    themselves.
    """
    from spoolrack_store.model.background_work import BackgroundWork
    from spoolrack_store.model.clock import Millis

    from ..process.background import move

    root, folder = root_and_folder(source, "--source", (NEW, DELAY))
    target, _ = root_and_folder(destination, "--destination", ("queues",))
    if root.resolve() != target.resolve():
        raise Failed(f"{source} and {destination} are not of one root", USAGE)
    background = BackgroundWork(
        adopts=folder == NEW,
        brings_back=folder == DELAY,
        wait=Millis(round(delay * 1_000)),
        unlinks=False,
    )
    return asyncio.run(move(str(root), background, log_format))

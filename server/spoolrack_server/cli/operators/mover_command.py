"""`spoolrack mover` and `reaper`: two of softlayer/mq's three daemons, beside `serve`.

softlayer/mq's take any folders. Ours take those of one root, because a message's state is its folder
and nothing may be moved past the rules: a folder outside a root is refused.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import click

from ..kit.command_base import option
from ..kit.exit_codes import NO_INPUT, USAGE, Failed
from ..kit.units import FolderPath, Span

NEW: Final = "new"
DELAY: Final = "delay"

_log_format = option(
    "--log-format",
    type=click.Choice(["logfmt", "json"]),
    default="logfmt",
    is_eager=True,  # Errors of the other options are written in this format.
    help="Format of the log, on standard error.",
)


@click.command()
@option("--source", metavar="DIR", type=FolderPath(), required=True, help="ROOT/new or ROOT/delay.")
@option("--destination", metavar="DIR", type=FolderPath(), required=True, help="ROOT/queues.")
@option(
    "--delay",
    type=Span(),
    default="0s",
    help="Delay between finding a file and moving it.",
)
@_log_format
def command(source: str, destination: str, delay: float, log_format: Any) -> int:
    """Move messages into their queues, until SIGTERM or Ctrl-C.

    From ROOT/new: files put there by hand, and messages that dead processes have left. From ROOT/delay:
    messages that are due. Servers work without it, and those without --no-mover do the same by
    themselves.
    """
    from spoolrack_store.model.background_work import BackgroundWork
    from spoolrack_store.model.clock import Millis

    from ...process.background import move

    root, folder = _root_and_folder(source, "--source", (NEW, DELAY))
    target, _ = _root_and_folder(destination, "--destination", ("queues",))
    if root.resolve() != target.resolve():
        raise Failed(f"{source} and {destination} are not of one root", USAGE)
    background = BackgroundWork(
        adopts=folder == NEW,
        brings_back=folder == DELAY,
        wait=Millis(round(delay * 1_000)),
        unlinks=False,
    )
    return asyncio.run(move(str(root), background, log_format))


@click.command()
@option("--source", metavar="DIR", type=FolderPath(), required=True, help="ROOT/remove.")
@_log_format
def reaper(source: str, log_format: Any) -> int:
    """Unlink deleted messages, until SIGTERM or Ctrl-C.

    Servers work without it, and those without --no-reaper do the same by themselves.
    """
    from ...process.background import reap

    root, _ = _root_and_folder(source, "--source", ("remove",))
    return asyncio.run(reap(str(root), log_format))


def _root_and_folder(path: str, name: str, allowed: tuple[str, ...]) -> tuple[Path, str]:
    """Return the root that has the folder at `path`, and the name of that folder in it."""
    folder = Path(path).absolute()
    wanted = " or ".join(f"ROOT/{each}" for each in allowed)
    if folder.name not in allowed:
        raise Failed(f"{name} {path}: it must be {wanted}, a folder of a root of Spoolrack", USAGE)
    root = folder.parent
    if not (root / "FORMAT").is_file():
        raise Failed(
            f"{name} {path}: {root} is not a root of Spoolrack; `spoolrack serve --root {root}` makes "
            "it one",
            NO_INPUT,
        )
    return root, folder.name

"""Shared code of the commands `mover` and `reaper`.

softlayer/mq's take any folders. Ours take those of one root, because a message's state is its folder
and nothing may be moved past the rules: a folder outside a root is refused.
"""

from __future__ import annotations

from pathlib import Path

import click

from .command_base import option
from .exit_codes import NO_INPUT, USAGE, Failed

log_format_option = option(
    "--log-format",
    type=click.Choice(["logfmt", "json"]),
    default="logfmt",
    is_eager=True,  # Errors of the other options are written in this format.
    help="Format of the log, on standard error.",
)


def root_and_folder(path: str, name: str, allowed: tuple[str, ...]) -> tuple[Path, str]:
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

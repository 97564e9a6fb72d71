"""Base of every command's options and arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .units import FolderPath, Text

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def option(*declarations: str, **more: Any) -> Decorator:
    """Declare an option whose help names its environment variable, and its default if it has one.

    Without a type it is a `Text`.
    """
    if not more.get("is_flag"):
        more.setdefault("type", Text())
    more.setdefault("show_default", more.get("default") is not None)
    return click.option(*declarations, show_envvar=True, **more)


def shared_option(name: str, **more: Any) -> Decorator:
    """Declare an option whose variable has the option's name alone: commands that have it share it."""
    return option(name, envvar=f"SPOOLRACK_{name.strip('-').replace('-', '_').upper()}", **more)


def file_option(name: str, help: str) -> Decorator:
    """Declare a shared option for a file that must exist."""
    return shared_option(name, type=click.Path(exists=True, dir_okay=False), metavar="FILE", help=help)


def argument(name: str, **more: Any) -> Decorator:
    """Declare an argument; without a type it is a `Text`."""
    more.setdefault("type", Text())
    return click.argument(name, **more)


def root_option(help: str) -> Decorator:
    """Declare the option for the folder of a root that needs no server, as `data`."""
    return option(
        "--root",
        "--data",
        "data",
        metavar="DIR",
        type=FolderPath(),
        envvar=["SPOOLRACK_ROOT", "SPOOLRACK_DATA"],
        default="data",
        help=help,
    )

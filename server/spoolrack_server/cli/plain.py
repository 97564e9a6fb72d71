"""What every command's options have in common."""

from __future__ import annotations

from functools import partial

import click

option = partial(click.option, show_envvar=True)
"""An option whose help names its environment variable, as every option's does."""

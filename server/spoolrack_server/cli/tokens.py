"""`spoolrack tokens`: tokens for a server that asks who calls. Works without a server."""

from __future__ import annotations

import click

from .exits import OK
from .output import say
from .plain import argument


@click.group()
def command() -> None:
    """Tokens, by which a server knows who calls."""


@command.command()
@argument("identity")
def new(identity: str) -> int:
    """Make a token for IDENTITY, and its line for the server's --tokens file.

    The token goes to standard output, for its user: it can't be shown again. The line goes
    to standard error and holds only a hash: add it to the file, and running servers know it within
    moments. With two lines for one identity, its old token and its new one are good side by side.
    """
    from ..access.tokens import line_of, new_token

    token = new_token()
    try:
        line = line_of(identity, token)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="IDENTITY") from error
    click.echo(line, err=True)
    say(token)
    return OK

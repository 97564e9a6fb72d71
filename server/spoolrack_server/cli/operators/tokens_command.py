"""`spoolrack tokens`: makes tokens and access keys. Works without a server."""

from __future__ import annotations

import click

from ..kit.command_base import argument, option
from ..kit.exit_codes import OK
from ..kit.output import print_results


@click.group()
def command() -> None:
    """Make tokens and access keys, which identify callers."""


@command.command()
@argument("identity")
def new(identity: str) -> int:
    """Make a token for IDENTITY, and its line for the server's --tokens file.

    The token goes to standard output, for its user: it can't be shown again. The line goes to standard
    error and holds only a hash: add it to the file, and running servers accept it within moments. With
    two lines for one identity, its old token and its new one are both valid.
    """
    from ...access.tokens import line_of, new_token

    token = new_token()
    try:
        line = line_of(identity, token)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="IDENTITY") from error
    click.echo(line, err=True)
    print_results(token)
    return OK


@command.command("sqs-key")
@argument("identity")
@option(
    "--keys",
    type=click.Path(dir_okay=False),
    required=True,
    help="The server's file of keys; created with mode 0600 if it is missing.",
)
@option("--another", is_flag=True, help="Make a further key for IDENTITY.")
def sqs_key(identity: str, keys: str, another: bool) -> int:
    """Print the access key and the secret of IDENTITY for clients of Amazon SQS.

    An identity without a key gets one, and a line in the file. The same command shows the key again.
    Running servers accept a new key within moments. To revoke a key, remove its line.
    """
    from ...access.file_format import UnreadableAccessFile
    from ...access.sqs_keys import issue

    try:
        access_key, secret = issue(keys, identity, another=another)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="IDENTITY") from error
    except (UnreadableAccessFile, OSError) as error:
        raise click.BadParameter(f"{keys} can't be used: {error}", param_hint="--keys") from error
    print_results(f"AWS_ACCESS_KEY_ID={access_key}", f"AWS_SECRET_ACCESS_KEY={secret}")
    return OK

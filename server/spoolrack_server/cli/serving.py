"""`spoolrack serve`: the server, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .plain import option
from .units import Address, Span

if TYPE_CHECKING:
    from ..server import Server

OFF: Final = "off"
USUAL_GRPC: Final = "127.0.0.1:50051"


class _AddressOrOff(Address):
    name = "host:port|off"

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, int] | None:
        return None if value == OFF else super().convert(value, parameter, context)


@click.command()
@option(
    "--data",
    metavar="DIR",
    envvar="SPOOLRACK_DATA",
    default="./data",
    show_default=True,
    help="The folder of the queues; made if it isn't there.",
)
@option(
    "--grpc",
    type=Address(),
    envvar="SPOOLRACK_GRPC",
    default=USUAL_GRPC,
    show_default=True,
    help="Where to listen for clients; port 0 takes a free one.",
)
@option(
    "--http",
    type=_AddressOrOff(),
    envvar="SPOOLRACK_HTTP",
    default="127.0.0.1:8080",
    show_default=True,
    help='Where to listen for HTTP; "off": nowhere.',
)
@option(
    "--grace",
    type=Span(),
    default="10s",
    show_default=True,
    help="How long calls may take to end when the server stops.",
)
@option(
    "--log-format",
    type=click.Choice(["logfmt", "json"]),
    default="logfmt",
    show_default=True,
    help="Of the log, on standard error.",
)
def command(
    data: str, grpc: tuple[str, int], http: tuple[str, int] | None, grace: float, log_format: str
) -> int:
    """Serve the queues in a folder, until SIGTERM or Ctrl-C.

    The first signal drains: nothing more is leased, and what was sent is committed. A second one ends
    the server at once, which is safe too.
    """
    from ..serve import ServeSettings, serve

    settings = ServeSettings(
        root=data,
        host=grpc[0],
        grpc_port=grpc[1],
        http_host=None if http is None else http[0],
        http_port=None if http is None else http[1],
        grace=grace,
        log_format="json" if log_format == "json" else "logfmt",
    )
    return asyncio.run(serve(settings, _announce))


def _announce(server: Server) -> None:
    address = server.grpc_address
    lines = [f"Spoolrack serves the queues in {Path(server.root).resolve()}", f"  gRPC  {address}"]
    if server.http_url is not None:
        lines.append(f"  HTTP  {server.http_url}/-/health")
    program = _program()
    at = "" if address == USUAL_GRPC else f" --url {address}"
    lines += [
        "Next, in another terminal:",
        f"  {program} send{at} --create hello 'Hello, world' && {program} receive{at} hello --delete",
    ]
    try:
        click.echo("\n".join(lines))
        sys.stdout.flush()
    except BrokenPipeError:
        return  # Nobody wants to know.


def _program() -> str:
    """How to call this program from the shell that started it."""
    found = shutil.which("spoolrack")
    started = os.path.abspath(sys.argv[0])
    if found is not None and os.path.realpath(found) == os.path.realpath(started):
        return "spoolrack"
    if os.path.basename(started) != "spoolrack":
        return f"{os.path.basename(sys.executable)} -m spoolrack_server"
    relative = os.path.relpath(started)
    return started if relative.startswith("..") else relative

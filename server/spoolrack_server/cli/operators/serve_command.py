"""`spoolrack serve`: the server, until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource
from spoolrack._credentials import is_loopback
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.files.root import read_shard
from spoolrack_store.model.disk_watermark import KEPT_BYTES, KEPT_FILES
from spoolrack_store.model.shards import Shard
from spoolrack_store.model.terminal_text import printable

from ...process.serve_settings import ServeSettings
from ..kit.command_base import file_option, option, shared_option
from ..kit.units import Account, Address, FolderPath, ShardNumber, Size, Span, Watermark

if TYPE_CHECKING:
    from ...process.serve import ListenAddresses

DEFAULTS: Final = ServeSettings()
OFF: Final = "off"
STDOUT: Final = 1
USUAL_GRPC: Final = "127.0.0.1:50051"
COMPATIBLE: Final[Mapping[str, Mapping[str, Any]]] = {
    "mq": {"root": "/tmp/mq", "http": ("0.0.0.0", 8080), "workers": 8, "peers": 0},
}
"""The defaults of others."""


class _AddressOrOff(Address):
    name = "host:port|off"

    def read(self, value: Any) -> tuple[str, int] | None:
        return None if value == OFF else super().read(value)


@click.command()
@option(
    "--data",
    "--root",
    "root",
    metavar="DIR",
    type=FolderPath(),
    envvar=["SPOOLRACK_DATA", "SPOOLRACK_SERVE_ROOT"],
    default=DEFAULTS.root,
    help="The folder of the queues; created if it is missing.",
)
@shared_option(
    "--grpc",
    type=Address(),
    default=USUAL_GRPC,
    help="Address of the gRPC port; port 0 takes a free one.",
)
@shared_option(
    "--http",
    type=_AddressOrOff(),
    default="127.0.0.1:8080",
    help='Address of the HTTP port; "off": none.',
)
@shared_option(
    "--sqs",
    type=_AddressOrOff(),
    default=OFF,
    help="Address of the port for clients of Amazon SQS, such as 127.0.0.1:9324.",
)
@shared_option(
    "--sqs-url",
    metavar="URL",
    default=None,
    show_default="the host of each request",
    help="Beginning of each QueueUrl.",
)
@shared_option(
    "--sqs-account",
    metavar="ACCOUNT",
    type=Account(),
    default="000000000000",
    help="Account in each QueueUrl and ARN, of 12 digits.",
)
@file_option(
    "--sqs-keys",
    "Clients of SQS must sign with a key of this file; `spoolrack tokens sqs-key NAME` makes one.",
)
@option(
    "--processes",
    type=click.IntRange(min=1, max=256),
    default=1,
    help="Number of server processes, which share the ports.",
)
@option(
    "--peers",
    type=click.IntRange(min=0, max=10_000),
    default=0,
    help="No effect; accepted for compatibility.",
)
@option(
    "--workers",
    type=click.IntRange(min=1, max=1_000_000),
    default=None,
    show_default="no bound",
    help="Bound on concurrent receives, and on concurrent sends.",
)
@option(
    "--no-mover",
    is_flag=True,
    help="Run no mover: `spoolrack mover` moves due messages, unless a waiting receive does.",
)
@option(
    "--no-reaper",
    is_flag=True,
    help="Run no reaper: `spoolrack reaper` unlinks deleted messages.",
)
@option(
    "--compat",
    type=click.Choice(sorted(COMPATIBLE)),
    default=None,
    help="Take the defaults of softlayer/mq: --root /tmp/mq --http 0.0.0.0:8080 --workers 8 --peers 0. "
    "It needs --insecure, or a certificate.",
)
@shared_option(
    "--shard",
    type=ShardNumber(),
    default=None,
    show_default="as the root is",
    help="Serve one shard of several, such as 2/8: number 2 of 8, from 0. The root remembers it.",
)
@shared_option(
    "--group-access",
    is_flag=True,
    help="Make a new root accessible to all processes of its group.",
)
@shared_option(
    "--hosts",
    type=click.Choice(["one", "several"]),
    default=None,
    show_default="as the root was made, one if it is new",
    help="Make a new root for servers of one host, or of several, on CephFS.",
)
@file_option(
    "--tls-certificate",
    "The server's certificate, in PEM, with those between it and its CA: both ports speak TLS.",
)
@file_option("--tls-key", "The key of the certificate, in PEM, without a password.")
@file_option(
    "--tls-client-ca", "Clients must show a certificate that one of the CAs in this file has signed."
)
@file_option(
    "--tokens",
    "Clients must send a token; `spoolrack tokens new NAME` makes one and its line for this file.",
)
@file_option(
    "--permissions", "The permissions of each client on queues; without it, each has all permissions."
)
@shared_option(
    "--insecure",
    is_flag=True,
    help="Serve other machines without TLS, too.",
)
@shared_option(
    "--connections",
    type=click.IntRange(min=1, max=1_000_000),
    default=DEFAULTS.connections,
    help="Bound on connections at each port of each process; one more is closed.",
)
@shared_option(
    "--memory-watermark",
    type=Watermark(),
    default="0.5",
    help="Refuse sends while the processes have more memory together: a size, or a part of what idle "
    "processes leave of the container's or machine's memory; \"off\": never.",
)
@shared_option(
    "--min-free-space",
    type=Size(least=KEPT_BYTES),
    default="4M",
    help="Refuse sends while the root's disk has less free space than this.",
)
@shared_option(
    "--min-free-inodes",
    type=click.IntRange(KEPT_FILES, 1_000_000_000),
    default=KEPT_FILES,
    help="Refuse sends while the root's disk has fewer free inodes than this.",
)
@option(
    "--grace",
    type=Span(),
    default="10s",
    help="Time for calls to end when the server stops.",
)
@shared_option(
    "--health",
    type=_AddressOrOff(),
    default=OFF,
    help="Address of a listener for probes only, without TLS.",
)
@option(
    "--traces",
    metavar="URL",
    default=None,
    show_default="none",
    help='Export a span of each call to this OTLP endpoint; needs "spoolrack[otel]".',
)
@option(
    "--metrics-queues",
    type=click.IntRange(min=0, max=1_000_000),
    default=DEFAULTS.metrics_queues,
    help="Bound on queues with metrics of their own; the others share those of the queue *.",
)
@option(
    "--log-format",
    type=click.Choice(["logfmt", "json"]),
    default=DEFAULTS.log_format,
    is_eager=True,  # Errors of the other options are written in this format.
    help="Format of the log, on standard error.",
)
@click.pass_context
def command(context: click.Context, /, processes: int, compat: str | None, **chosen: Any) -> int:
    """Serve the queues in a folder, until SIGTERM or Ctrl-C.

    The first signal drains: nothing more is leased, and the sends in flight are committed. A second one
    ends the server at once, which is safe too.
    """
    from ...app.memory import default_watermark
    from ...process.serve import serve
    from ...process.supervisor import supervise
    from ...system.logs import make_log

    if compat is not None:
        for name, value in COMPATIBLE[compat].items():
            if context.get_parameter_source(name) is ParameterSource.DEFAULT:
                chosen[name] = value
    watermark: int | float | None = chosen.pop("memory_watermark")
    if isinstance(watermark, float):
        watermark = default_watermark(watermark, processes)
    elif watermark is not None:
        watermark //= processes
    if chosen.pop("peers"):
        make_log(format=chosen["log_format"]).warning(
            "--peers has no effect: the order is exact, however many processes share the root"
        )
    settings = ServeSettings(
        mover=not chosen.pop("no_mover"),
        reaper=not chosen.pop("no_reaper"),
        memory_watermark=watermark,
        **chosen,
    )
    if processes > 1:
        return asyncio.run(supervise(settings, processes, partial(_announce, settings)))
    return asyncio.run(serve(settings, partial(_announce, settings)))


def _announce(settings: ServeSettings, server: ListenAddresses) -> None:
    """Print the addresses and an example; in a log of JSON, the line "serving" has the addresses."""
    if settings.log_format == "json":
        return
    from ...system.logs import writer_to

    address = server.grpc_address
    lines = [f"Spoolrack serves the queues in {Path(server.root).resolve()}", f"  gRPC  {address}"]
    if server.http_url is not None:
        lines.append(f"  HTTP  {server.http_url}/-/health")
    program, queue = _program(), "hello"
    if (shard := _shard_of(server.root)) is not None:
        lines.append(f"  Shard {shard}")
        queue = next(name for name in map("hello-{}".format, count(1)) if shard.has(name))
    if server.sqs_url is not None:
        lines.append(f"  SQS   {server.sqs_url}")
    if server.health_url is not None:
        lines.append(f"  Probes  {server.health_url}/-/health/ready")
    at, hints = _way_in(settings, address)
    lines += [
        "Next, in another terminal:",
        f"  {program} send{at} --create {queue} 'Hello, world' && "
        f"{program} receive{at} {queue} --delete",
        *(f"  {hint}" for hint in hints),
    ]
    output = writer_to(STDOUT)
    output.write("".join(f"{printable(line)}\n" for line in lines))
    output.flush()


def _shard_of(root: str) -> Shard | None:
    """Return which shard the root of a server is."""
    disk = LocalDisk(root)
    try:
        return read_shard(disk)
    finally:
        disk.close()


def _way_in(settings: ServeSettings, address: str) -> tuple[str, list[str]]:
    """Return the options of a client of this server, and the meaning of the file names in them."""
    options, hints = "" if address == USUAL_GRPC else f" --url {address}", []
    if settings.tls_certificate is not None:
        options = f" --url grpcs://{address} --ca CA"
        hints.append(f"CA: the certificate of the CA that signed {settings.tls_certificate}")
    if settings.tls_client_ca is not None:
        options += " --certificate CERTIFICATE --key KEY"
        hints.append(f"CERTIFICATE, KEY: a client's own, signed by a CA of {settings.tls_client_ca}")
    elif settings.tokens is not None:
        options += " --token-file TOKEN"
        hints.append(
            f"TOKEN: a file with a token, as this makes one: {_program()} tokens new NAME "
            f"2>>{shlex.quote(settings.tokens)} >TOKEN"
        )
        if settings.tls_certificate is None and not is_loopback(settings.grpc[0]):
            options += " --insecure"
    return options, hints


def _program() -> str:
    """Return how to call this program from the shell that started it."""
    found = shutil.which("spoolrack")
    started = os.path.abspath(sys.argv[0])
    if found is not None and os.path.realpath(found) == os.path.realpath(started):
        return "spoolrack"
    if os.path.basename(started) != "spoolrack":
        return f"{os.path.basename(sys.executable)} -m spoolrack_server"
    relative = os.path.relpath(started)
    return started if relative.startswith("..") else relative

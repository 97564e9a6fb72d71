"""`spoolrack import`: moves queues of vsqs and softlayer/mq in, and reads archives."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

import click
from spoolrack import RetryPolicy

from ..kit.command_base import argument, option
from ..kit.connection_options import Connection, connects_to_queues
from ..kit.exit_codes import BAD_CONTENT, OK, USAGE, outcome_of
from ..kit.output import announce_stdin, print_status
from ..kit.progress import progress_bar
from ..kit.units import FilePath, FolderPath, Span, plural
from .transfer.archive_format import ExportArchive
from .transfer.folders import mq_source, unfinished_in, vsqs_source
from .transfer.importer import Importer
from .transfer.journal import Journal
from .transfer.sources import Source

ARCHIVE: Final = "archive"
VSQS: Final = "vsqs"
MQ: Final = "mq"
STATE_ENDING: Final = ".import"


@click.command()
@argument("source", metavar="FILE|DIR|-", type=FolderPath())
@option(
    "--from",
    "kind",
    envvar="SPOOLRACK_IMPORT_FROM",
    type=click.Choice([ARCHIVE, VSQS, MQ]),
    default=ARCHIVE,
    help="Kind of FILE or DIR: an archive of export, the folder of a queue of vsqs, a root of "
    "softlayer/mq.",
)
@option("--queue", help="Into this queue. Not for mq.  [default: the folder's name; the archive's]")
@option("--keep", is_flag=True, help="Keep the messages in their folder.")
@option(
    "--state",
    metavar="FILE",
    type=FilePath(),
    help="Journal, from which a later run continues.  [default: beside the source, with "
    f"{STATE_ENDING}]",
)
@option(
    "--mover-delay",
    type=Span(),
    default="10s",
    help="For mq: the time that its mover leaves messages in ROOT/delay.",
)
@option(
    "--settle",
    type=Span(),
    default="5s",
    help="After an interruption: time before the second search for messages in doubt.",
)
@option("--quiet", "-q", is_flag=True, help="Print neither counts nor progress.")
@connects_to_queues
def command(
    connection: Connection,
    source: str,
    kind: str,
    queue: str | None,
    keep: bool,
    state: str | None,
    mover_delay: float,
    settle: float,
    quiet: bool,
) -> int:
    """Import messages into queues, in their order, and create missing queues.

    After any interruption the same command continues. No message is lost or sent twice: the attribute
    imported-from of a message names its origin. A message is removed from its folder once it is on
    stable media in its queue; --keep leaves it there. An archive is never changed. Meanwhile no other
    program should use the folder, and no consumer the queues.
    """
    if kind == MQ and queue is not None:
        raise click.UsageError("mq has queues of its own: leave --queue out.")
    with _open_source(kind, source, queue, mover_delay) as origin:
        default = origin.name.partition(":")[2] if source == "-" else os.path.abspath(source)
        with (
            Journal(state or default + STATE_ENDING, origin.name, numbered=kind == ARCHIVE) as journal,
            connection.patient_client() as client,
            # It must be known what became of a send before it is made again.
            connection.patient_client(RetryPolicy(attempts=1)) as sender,
            progress_bar("Importing", origin.length, quiet) as advance,
        ):
            importer = Importer(
                client=client,
                sender=sender,
                source=origin,
                journal=journal,
                keep=keep or kind == ARCHIVE,
                retry_timeout=connection.timeout,
                settle=settle,
                advance=advance,
            )
            code, why = outcome_of(importer.run)
    _print_report(importer, quiet)
    if code is not OK:
        # A fault of the command line, or the archive, doesn't pass.
        goes_on = code != USAGE and not journal.is_unused
        more = f"; the same command goes on from here, by what {journal.path} says" if goes_on else ""
        print_status(why.rstrip(".") + more)
        return code
    if kind == VSQS and not quiet and (unfinished := unfinished_in(source)):
        print_status(
            f"left alone: {plural(unfinished, 'file')} in {source} whose writing was never finished"
        )
    return BAD_CONTENT if importer.refusals else OK


def _print_report(importer: Importer, quiet: bool) -> None:
    for key, reason in importer.refusals:
        print_status(f"message {key} is not imported: {reason}")
    if importer.taken_count:
        print_status(
            f"other programs have taken {plural(importer.taken_count, 'message')} of the source "
            "meanwhile, which may be worked on twice"
        )
    if quiet:
        return
    for queue, count in sorted(importer.sent.items()):
        print_status(f"imported {plural(count, 'message')} into {queue}")
    if importer.before:
        print_status(f"{plural(importer.before, 'message')} had been imported before")
    elif not importer.sent:
        print_status("imported 0 messages")


@contextmanager
def _open_source(kind: str, name: str, queue: str | None, mover_delay: float) -> Iterator[Source]:
    if kind == VSQS:
        yield vsqs_source(name, queue)
    elif kind == MQ:
        yield mq_source(name, round(mover_delay * 1_000))
    elif name == "-":
        announce_stdin("an archive")
        yield _archive(sys.stdin.buffer, "Standard input", queue)
    else:
        with open(name, "rb") as file:
            yield _archive(file, name, queue)


def _archive(file: BinaryIO, name: str, queue: str | None) -> ExportArchive:
    facts = os.fstat(file.fileno())
    length = facts.st_size if stat.S_ISREG(facts.st_mode) else None
    return ExportArchive(file, name, length=length, queue=queue)

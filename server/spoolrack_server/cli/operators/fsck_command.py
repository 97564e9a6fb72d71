"""`spoolrack fsck`: checks the folders without a server, repairs them, restores from quarantine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from json import dumps
from pathlib import Path
from typing import Final

import click
from spoolrack_store import fsck
from spoolrack_store.fsck.findings import Mended, Problem, Remedy, Report
from spoolrack_store.model.terminal_text import printable
from spoolrack_store.model.transitions import State

from ..kit.command_base import argument, option, root_option
from ..kit.output import columns, print_results
from ..kit.progress import counting_bar
from ..kit.units import FolderPath, plural, size_text

_SHOWN: Final = (State.READY, State.LEASED, State.DELAYED, State.SENT, State.REMOVED)


@click.command()
@argument("root", type=FolderPath(), required=False)
@root_option("The folder to check, if ROOT isn't given.")
@option(
    "--repair",
    is_flag=True,
    help="Move damaged and foreign files to quarantine. No process may serve ROOT.",
)
@option(
    "--restore",
    metavar="ID",
    multiple=True,
    help="Restore a whole message, or queue, from quarantine, by its id or its folder's.",
)
@option("--queue", metavar="QUEUE", help="With --restore: into this queue.")
@option("--verbose", "-v", is_flag=True, help="List also unfinished work and quarantined files.")
@option("--json", is_flag=True, help="Print the report as JSON.")
@option("--quiet", "-q", is_flag=True, help="Print only the problems.")
def command(
    root: str | None,
    data: str,
    repair: bool,
    restore: tuple[str, ...],
    queue: str | None,
    verbose: bool,
    json: bool,
    quiet: bool,
) -> int:
    """Check every name, size and checksum in the folder ROOT.

    Without --repair and --restore it changes nothing, and may run beside a server. It never destroys a
    file: --repair moves damaged and foreign files to quarantine, and gives the default settings to a
    queue with messages and without settings. Work that a crash has left unfinished is no problem: the
    next start of a server finishes it.

    Exits with 0 if no problem is left, with 1 if there is one, and above if ROOT can't be checked.
    """
    root = root or data
    # The repairs are printed; the store's own log would repeat them.
    logging.getLogger("spoolrack_store").setLevel(logging.CRITICAL)
    if queue and not restore:
        raise click.UsageError("--queue goes with --restore.")
    for id in restore:
        print_results(f"{fsck.restore(root, id, queue=queue)}: restored")
    if restore and not repair:
        return 0
    mended: list[Mended] = []
    with counting_bar("Checking", quiet or json) as progress:
        if repair:
            report, mended, open_problems = fsck.repair(root, progress=progress)
        else:
            report = fsck.check(root, progress=progress)
            open_problems = report.problems
    if json:
        print_results(*_as_json(root, report, mended, open_problems).splitlines())
    else:
        _print(root, report, mended, open_problems, verbose=verbose, quiet=quiet, repaired=repair)
    return 1 if open_problems else 0


def _print(
    root: str,
    report: Report,
    mended: Sequence[Mended],
    open_problems: Sequence[Problem],
    *,
    verbose: bool,
    quiet: bool,
    repaired: bool,
) -> None:
    for done in mended:
        print_results(f"{done.problem.path}: {done.problem.why}: {done.how}")
    for problem in open_problems:
        print_results(f"{problem.path}: {problem.why}")
    if verbose:
        for leftover in report.leftovers:
            print_results(f"{leftover.path}: unfinished: {leftover.why}")
        for file in report.quarantined:
            why = f"{file.source}: {file.why}" if file.source else file.why
            print_results(f"{file.path}: {why}")
    if quiet:
        return
    if mended or open_problems or (verbose and (report.leftovers or report.quarantined)):
        print_results("")
    if report.queues:
        print_results(*_table(report), "")
    for line in _summary(root, report, mended, open_problems, repaired):
        print_results(line)


def _table(report: Report) -> list[str]:
    rows = [
        (
            f"{name} (being deleted)" if tally.is_being_deleted else name,
            *(f"{tally.counts.get(state, 0):,}" for state in _SHOWN),
            size_text(tally.bytes),
        )
        for name, tally in report.queues.items()
    ]
    headers = ("QUEUE", *(state.value.upper() for state in _SHOWN), "BYTES")
    return columns(headers, rows, right=frozenset(range(1, len(headers))))


def _summary(
    root: str,
    report: Report,
    mended: Sequence[Mended],
    open_problems: Sequence[Problem],
    repaired: bool,
) -> Iterator[str]:
    messages = sum(tally.messages for tally in report.queues.values())
    yield (
        f"{Path(root).resolve()}: {plural(len(report.queues), 'queue')}, "
        f"{plural(messages, 'whole message')}, {size_text(report.bytes)} read."
    )
    if report.identity:
        yield f"Identity: {report.identity}."
    if report.shard is not None:
        yield f"Shard: {report.shard}."
    if report.owners and not repaired:  # A repair has the root to itself, as its own owner.
        yield f"Perhaps served by {' and '.join(report.owners)}."
    if report.unchecked:
        yield (
            f"{plural(report.unchecked, 'message')} moved on before they could be read: "
            "check again when the server is less busy, or stopped."
        )
    if report.leftovers:
        yield (
            f"{plural(len(report.leftovers), 'thing')} unfinished, which a server finishes "
            "(--verbose lists them)."
        )
    if report.quarantined and not mended:
        yield f"{plural(len(report.quarantined), 'thing')} in quarantine (--verbose lists them)."
    if mended:
        yield f"{plural(len(mended), 'problem')} mended; files put aside are in quarantine/."
    if not open_problems:
        yield "No problems." if not mended else "No problems left."
        return
    by_hand = sum(problem.remedy is Remedy.HAND for problem in open_problems)
    hint = "" if repaired or by_hand == len(open_problems) else ": stop the server and use --repair"
    yield f"{plural(len(open_problems), 'problem')}{hint}."


def _as_json(
    root: str, report: Report, mended: Sequence[Mended], open_problems: Sequence[Problem]
) -> str:
    def problem(each: Problem) -> dict[str, str]:
        return {"path": printable(each.path), "why": printable(each.why), "remedy": each.remedy.value}

    return dumps(
        {
            "root": root,
            "identity": report.identity,
            "shard": "" if report.shard is None else str(report.shard),
            "queues": {
                name: {
                    **{state.value: tally.counts.get(state, 0) for state in _SHOWN},
                    "bytes": tally.bytes,
                    "is_being_deleted": tally.is_being_deleted,
                }
                for name, tally in report.queues.items()
            },
            "problems": list(map(problem, open_problems)),
            "mended": [{**problem(done.problem), "how": done.how} for done in mended],
            "unfinished": [
                {"path": printable(each.path), "why": printable(each.why)} for each in report.leftovers
            ],
            "quarantine": [
                {key: printable(value) for key, value in asdict(file).items()}
                for file in report.quarantined
            ],
            "staged": report.staged,
            "published": report.published,
            "reserved": report.reserved,
            "owners": report.owners,
            "checked": report.checked,
            "unchecked": report.unchecked,
            "bytes_read": report.bytes,
        },
        indent=2,
    )

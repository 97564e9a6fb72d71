"""`spoolrack release`: ends leases, so that messages are ready again."""

from __future__ import annotations

import click
from spoolrack_store.fsck import receipts_of

from .connecting import Reach, reaches_queues
from .exits import NOTHING, OK, line_of
from .lines import named_in
from .output import tell
from .plain import argument, option
from .units import plural, quoted


@click.command()
@argument("queue")
@argument("messages", nargs=-1, required=True, metavar="RECEIPT|ID...")
@option("--quiet", "-q", is_flag=True, help="Don't say how many were released.")
@reaches_queues
def command(reach: Reach, queue: str, messages: tuple[str, ...], quiet: bool) -> int:
    """Make leased messages of QUEUE ready again, at their old place, before their leases end.

    They are named by the receipts of a receive; with --root also by their ids, for the files' names
    tell the receipts. With "-", both are read from standard input, one a line. Exits
    with 1 if one of them isn't leased any more; the others are released all the same.
    """
    wanted = named_in(messages)
    # A receipt says so itself: it has what no id has.
    ids = {named.lower() for named in wanted if "~" not in named}
    if ids and reach.root is None:
        raise click.UsageError(
            f"{quoted(min(ids))} is an id, and a server wants receipts: ids can be released only with "
            "--root, in the folder itself."
        )
    with reach.quick() as client:
        client.queue(queue).info()
        known = receipts_of(reach.root, queue, ids) if reach.root is not None and ids else {}
        leased = {named: known.get(named.lower(), named) for named in wanted}
        receipts = {named: receipt for named, receipt in leased.items() if "~" in receipt}
        results = client.queue(queue).release_many(receipts.values())
        errors = {
            named: line_of(result.error)
            for named, result in zip(receipts, results, strict=True)
            if result.error is not None
        }
    for named in leased.keys() - receipts.keys():
        errors[named] = f"no message of {queue} with this id is leased"
    for named in leased:
        if named in errors:
            tell(f"{named}: {errors[named]}")
    if not quiet:
        tell(f"released {plural(len(leased) - len(errors), 'message')} of {queue}")
    return NOTHING if errors else OK

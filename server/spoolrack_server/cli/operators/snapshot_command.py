"""`spoolrack snapshot`: a copy of a whole root by hard links, while it is served."""

from __future__ import annotations

import click
from spoolrack_store.snapshot import take_snapshot

from ..kit.command_base import argument, root_option
from ..kit.output import print_results
from ..kit.units import FolderPath, plural


@click.command()
@argument("target", type=FolderPath())
@root_option("The root to copy; it may be served.")
def command(target: str, data: str) -> int:
    """Copy the root as it is now to TARGET, by hard links.

    TARGET must not exist, and its folder must be on the root's file system. Calls wait while the names
    are read once more, when all is linked. The snapshot can be checked, served, and copied elsewhere
    (rsync -aH); changes to it don't change the root. It takes space for names, and for messages that
    the root deletes later.
    """
    taken = take_snapshot(data, target)
    copied = (
        f" {plural(taken.copied, 'file')} copied: the file system allows no more links to "
        f"{'it' if taken.copied == 1 else 'them'}."
        if taken.copied
        else ""
    )
    print_results(
        f"{target}: {plural(taken.files, 'file')} linked; calls waited for {taken.waited:,} ms.{copied}"
    )
    return 0

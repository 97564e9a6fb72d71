"""The receipts of leases, as the names in `delay/` have them: for an operator who knows only an id."""

from __future__ import annotations

import os
from collections.abc import Collection

from ..engine.entries import resolve
from ..files.local_disk import LocalDisk
from ..model import receipts
from ..model.errors import RootUnusable
from ..model.members import indexes
from ..model.names import parse
from ..model.transitions import State
from .findings import Notes
from .listing import Lister


def receipts_of(root: str | os.PathLike[str], queue: str, ids: Collection[str]) -> dict[str, str]:
    """Return the receipt of each of these messages, by id, as far as they are leased at this moment.

    Reads names only, and changes nothing. Raise `RootUnusable`.
    """
    try:
        disk = LocalDisk(root)
    except OSError as error:
        raise RootUnusable(root=os.fspath(root), why=error.strerror or str(error)) from error
    try:
        disk.scan("delay")  # A root has one.
        receipt_of: dict[str, str] = {}
        paths = Lister(Notes(disk)).list()
        for batch in resolve(parse(path) for of_stem in paths.values() for path in of_stem).values():
            for entry in batch.entries:
                name = entry.name
                if name.state is not State.LEASED or name.queue != queue:
                    continue
                of_entry = [(index, batch.stem.message_id(index)) for index in indexes(entry.held)]
                wanted = [(index, id) for index, id in of_entry if id in ids]
                made = receipts.make(queue, name.token, wanted)
                receipt_of |= {id: receipt for (_, id), receipt in zip(wanted, made, strict=True)}
        return receipt_of
    except OSError as error:
        raise RootUnusable(root=os.fspath(root), why=str(error)) from error
    finally:
        disk.close()

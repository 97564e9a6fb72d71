"""The receipts of leases, as the names in `delay/` have them: for an operator who knows only an id."""

from __future__ import annotations

import os
from collections.abc import Collection

from ..files import layout
from ..files.disk import Disk, Found, LocalDisk
from ..model.errors import RootUnusable
from ..model.names import Batch, Filed, NotAName, Receipt, id_of, parse_filed


def receipts_of(root: str | os.PathLike[str], queue: str, ids: Collection[str]) -> dict[str, str]:
    """The receipt of each of these messages, by id, as far as they are leased at this moment.

    Reads names only, and changes nothing. Raises `RootUnusable`.
    """
    try:
        disk = LocalDisk(root)
        try:
            found = disk.scan(layout.DELAY)
            return {
                receipt.id: str(receipt)
                for name in found
                if (filed := _lease(name, queue)) is not None
                for receipt in _receipts(disk, name, filed)
                if receipt.id in ids
            }
        finally:
            disk.close()
    except OSError as error:
        raise RootUnusable(root=os.fspath(root), why=str(error)) from error


def _lease(found: Found, queue: str) -> Filed | None:
    try:
        filed = parse_filed(found.name)
    except NotAName:
        return None
    return filed if filed.queue == queue and filed.token is not None else None


def _receipts(disk: Disk, found: Found, lease: Filed) -> list[Receipt]:
    assert lease.token is not None
    queue, token, item = lease.queue, lease.token, lease.item
    if not isinstance(item, Batch):
        return [Receipt(queue=queue, id=item.id, token=token, batch=None)]
    try:
        inside = disk.scan(f"{layout.DELAY}/{found.name}")
    except FileNotFoundError:
        return []  # It has moved on: that lease is over, or was extended a moment ago.
    return [Receipt(queue=queue, id=id_of(each.name), token=token, batch=item.id) for each in inside]

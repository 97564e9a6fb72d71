"""Deletes: a message is deleted when a name in `remove/` that lists it is durable. The reaper unlinks
names later."""

from __future__ import annotations

from collections.abc import Sequence

from spoolrack_store.model.errors import InvalidRequest, MessageNotFound, StoreError
from spoolrack_store.model.ids import is_id

from .batch import Entry
from .catalog import Catalog
from .index import COUNTED, Index
from .leaser import Leaser
from .moves import Moves
from .operations import Delete, Purge

Results = list[StoreError | None]


class Remover:
    """Not thread-safe."""

    def __init__(self, moves: Moves, catalog: Catalog, leaser: Leaser) -> None:
        self._moves = moves
        self._index: Index = moves.index
        self._catalog = catalog
        self._leaser = leaser

    def delete(self, requests: Sequence[Delete]) -> list[Results | StoreError]:
        """Delete what all requests name: of each name's messages all with one link or rename."""
        outcomes: list[Results | StoreError] = []
        together: dict[Entry, int] = {}
        places: list[tuple[Entry, Results, int]] = []
        for request in requests:
            try:
                self._catalog.require(request.queue)
            except StoreError as error:
                outcomes.append(error)
                continue
            results: Results = [None] * (len(request.receipts) + len(request.ids))
            outcomes.append(results)
            for position, named in enumerate((*request.receipts, *request.ids)):
                try:
                    by_receipt = position < len(request.receipts)
                    found = (
                        self._leaser.find(request.queue, named)
                        if by_receipt
                        else self._find(request.queue, named)
                    )
                except StoreError as error:
                    results[position] = error
                    continue
                if found is not None:
                    entry, index = found
                    together[entry] = together.get(entry, 0) | 1 << index
                    places.append((entry, results, position))
        failed: dict[Entry, StoreError] = {}
        for entry, members in together.items():
            try:
                self._moves.delete(entry, members)
            except StoreError as error:
                failed[entry] = error
        if failed:
            for entry, results, position in places:
                results[position] = failed.get(entry)
        return outcomes

    def purge(self, request: Purge) -> int:
        """Delete all messages of a queue; return how many."""
        queue = request.queue
        self._catalog.require(queue)
        count = 0
        for entry in list(self._index.queue(queue).entries):
            count += entry.held.bit_count()
            self._moves.delete(entry, entry.held, is_purge=True)
        return count

    def _find(self, queue: str, id: str) -> tuple[Entry, int]:
        if not is_id(id):
            raise InvalidRequest(what="the message's id", value=id, rule="must be a UUID in lower case")
        found = self._index.holder(id)
        if found is None or found[0].name.state not in COUNTED or found[0].name.queue != queue:
            raise MessageNotFound(queue=queue, id=id)
        return found

"""Deletes: a message is deleted when a name in `remove/` that lists it is durable. The reaper unlinks
names later."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from ..model.errors import DiskError, InvalidRequest, MessageNotFound, StoreError
from ..model.message_ids import INDEX_DIGITS, is_id, sent_at
from ..model.names import Name
from ..model.operations import UNFINISHED, Delete, Purge, Unfinished
from ..model.transitions import COUNTED, State
from .catalog import Catalog
from .entries import Entry
from .index import Index
from .leaser import Leaser, Targets
from .moves import Moves, NameVanished
from .recovery import appear
from .sender import Sender

Results = list[StoreError | None]


@dataclass(slots=True)
class _PurgeJob:
    end: str
    """No message that was there when the purge began has an id above this."""
    sent: deque[str]
    """The texts of the stems of files that were in `new/` then, and aren't looked at yet."""
    after: str = ""
    """The messages of the queue up to this id are looked at."""
    deleted: int = 0
    refused: StoreError | None = None
    """The first error of the disk."""


class Remover:
    """Deletes and purges. Not thread-safe."""

    def __init__(self, moves: Moves, catalog: Catalog, leaser: Leaser, sender: Sender) -> None:
        self._moves = moves
        self._index: Index = moves.index
        self._catalog = catalog
        self._leaser = leaser
        self._sender = sender
        self._purges: dict[Purge, _PurgeJob] = {}
        """Those that go on in the next commit."""
        self._sent: list[Name] | None = None
        """Names in `new/`, if this commit has looked."""

    def delete(self, requests: Sequence[Delete]) -> list[Results | StoreError]:
        """Delete the messages of all requests: those of one name with one link or rename."""
        outcomes: list[Results | StoreError] = []
        targets = Targets()
        self._sent = None
        for request in requests:
            try:
                self._catalog.require(request.queue)
            except StoreError as error:
                outcomes.append(error)
                continue
            results: Results = [None] * (len(request.receipts) + len(request.ids))
            outcomes.append(results)
            for position in range(len(results)):
                try:
                    found = self._find(request, position)
                except StoreError as error:
                    results[position] = error
                    continue
                if found is not None:
                    targets.add(found, request, results, position)
        for entry, members in targets.members.items():
            try:
                self._moves.delete(entry, members)
            except NameVanished:
                self._find_again(targets, entry)
            except StoreError as error:
                targets.refuse(entry, error)
        return outcomes

    def _find_again(self, targets: Targets, entry: Entry) -> None:
        """Delete messages whose name was removed by hand, if another name of the batch has them."""
        for _, request, results, position in targets.places[entry]:
            try:
                found = self._find(request, position)
                if found is not None:
                    self._moves.delete(found[0], 1 << found[1])
            except StoreError as error:
                results[position] = error

    def purge(self, request: Purge) -> int | Unfinished:
        """Delete the messages of a queue that match the request, also those that other processes have
        in `new/`, a slice in each commit, in their order; return their number. None is deleted that is
        sent later. If the disk refuses a name, the others are deleted, and the first error is
        raised."""
        queue = request.queue
        job = self._purges.pop(request, None)
        self._catalog.require(queue)
        orders = self._index.queue(queue).orders
        if job is None:
            files = self._sender.in_new_of(queue) + self._sent_by_others(queue)
            sent = deque(entry.batch.stem.text for entry in files)
            last = max(filter(None, (order.names.last() for order in orders.values())), default="")
            job = _PurgeJob(last[:-INDEX_DIGITS] + "f" * INDEX_DIGITS, sent)
        effort = self._moves.effort
        most = effort.share()
        found = self._index.queue(queue).sightings(job.after, COUNTED)
        part = list(islice(takewhile(lambda each: each[0] <= job.end, found), most + 1))
        for id, entry in part[:most]:
            effort.spend()
            job.after = f"{id}\0"
            self._purge(request, self._index.unpack(id) if entry is None else entry, job)
        while len(part) < most and job.sent:
            effort.spend()
            most -= 1
            # By their file: they may be enqueued since.
            for entry in self._index.entries_of(job.sent.popleft()):
                if entry.name.queue == queue:
                    self._purge(request, entry, job)
        if len(part) > most or job.sent:
            self._purges[request] = job
            return UNFINISHED
        if job.refused is not None:
            raise job.refused
        return job.deleted

    def _purge(self, request: Purge, entry: Entry, job: _PurgeJob) -> None:
        state, members = _state_to_be(entry.name), entry.members
        if not members or state not in COUNTED:
            return
        if not request.matches(state, sent_at(entry.batch.stem.id)):
            return
        try:
            self._moves.delete(entry, members, is_purge=True)
        except NameVanished:
            return
        except StoreError as error:
            job.refused = job.refused or error
        job.deleted += (members & ~entry.members).bit_count()

    def _find(self, request: Delete, position: int) -> tuple[Entry, int] | None:
        """Return what a receipt, or behind them an id, stands for; None if it is gone already."""
        queue, receipts = request.queue, request.receipts
        if position < len(receipts):
            last = request.last_receives.get(position)
            return self._leaser.find(queue, receipts[position], last)
        id = request.ids[position - len(receipts)]
        if not is_id(id):
            raise InvalidRequest(what="the message's id", value=id, rule="must be a UUID in lower case")
        found = self._index.holder(id)
        if found is not None and found[0].name.queue == queue:
            entry = found[0]
            if entry.name.state in COUNTED or entry in self._sender.in_new_of(queue):
                return found
        if self._is_being_sent(queue, id):
            raise DiskError(detail=f"message {id} is not in its queue yet; try again")
        raise MessageNotFound(queue=queue, id=id)

    def _is_being_sent(self, queue: str, id: str) -> bool:
        """Return whether another process, which may have died, has the message in `new/`: it may
        have answered the send."""
        if self._sent is None:
            self._sent = list(self._moves.names_sent_by_others())
        return any(name.queue == queue and name.stem.holds(id) for name in self._sent)

    def _sent_by_others(self, queue: str) -> list[Entry]:
        """Take in what other processes have in `new/`: they may have answered those sends."""
        names = list(self._moves.names_sent_by_others())
        return [appear(self._moves, name) for name in names if name.queue == queue]


def _state_to_be(name: Name) -> State:
    """Return the state of a name; of one in `new/` the state that it is on its way to."""
    if name.state is not State.SENT:
        return name.state
    if name.due is None:
        return State.READY
    return State.LEASED if name.token else State.DELAYED

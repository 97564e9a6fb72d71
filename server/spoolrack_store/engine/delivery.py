"""Reads what was just leased: from here a message goes to its consumer.

The checksum is compared on every read. A message that can't be read costs itself only: what is damaged
is put aside, what the system withholds stays hidden until it is due.
"""

from __future__ import annotations

import logging

from ..files.reader import Damaged, Forbidden, Gone, read_message
from ..index.hidden import Hidden
from ..index.ready import BatchFolder
from ..model.errors import StoreError
from ..model.ids import sent_at
from ..model.names import Batch, Receipt, leases_of, moved_out, parse_entry
from ..model.operations import Message
from ..model.transitions import State
from .catalog import Live
from .requeuer import Requeuer
from .root import Root, path_in

log = logging.getLogger(__name__)


class Delivery:
    """Not thread-safe."""

    def __init__(self, root: Root, requeuer: Requeuer) -> None:
        self._root = root
        self._requeuer = requeuer

    def read(self, live: Live, hidden: Hidden) -> list[Message]:
        """The messages under a new lease. One that can't be read costs itself only."""
        messages = []
        place = self._root.path_of(live.name, hidden)
        batch = hidden.item.batch if isinstance(hidden.item, BatchFolder) else None
        for name in list(hidden.names):
            path = place if batch is None else path_in(place, name)
            try:
                message = self._read_one(live.name, hidden, batch, path, name)
            except StoreError:
                self._requeuer.requeue(live, hidden, hidden.names, undo=True)
                # The error says that nothing has happened: a crash must not undo half of that.
                self._root.commit_soon()
                raise
            if message is not None:
                messages.append(message)
        return messages

    def _read_one(
        self, queue: str, hidden: Hidden, batch: Batch | None, path: str, name: str
    ) -> Message | None:
        entry = parse_entry(name)
        try:
            found = read_message(self._root.disk, path, entry)
        except Gone:
            self._root.was_faster(path)
            self._requeuer.forget(queue, hidden, name)
            return None
        except Forbidden as error:
            log.error("%s can't be read, and stays hidden until it is due: %s", path, error)
            self._withhold(queue, hidden, name)
            return None
        except Damaged as error:
            try:
                self._root.folders.quarantine(path, str(error))
            except StoreError as refusal:
                log.error("%s can't be put aside, and stays hidden until it is due: %s", path, refusal)
                self._withhold(queue, hidden, name)
                return None
            self._requeuer.forget(queue, hidden, name)
            return None
        assert hidden.token is not None
        receives, first_receive = leases_of(entry, batch)
        receipt = Receipt(
            queue=queue,
            id=entry.id,
            token=hidden.token,
            batch=None if batch is None else batch.id,
        )
        return Message(
            queue=queue,
            id=entry.id,
            state=State.LEASED,
            body=found.body,
            attributes=found.attributes,
            size=len(found.body),
            sent_at=sent_at(entry.id),
            receives=receives,
            first_receive=first_receive,
            due=hidden.due,
            receipt=str(receipt),
        )

    def _withhold(self, queue: str, hidden: Hidden, name: str) -> None:
        """Nobody is given the message: it stays hidden until it is due, at no consumer's expense."""
        credits = hidden.credits
        if isinstance(hidden.item, BatchFolder) and len(hidden.names) > 1:
            entry = moved_out(parse_entry(name), hidden.item.batch)
            alone = Hidden(
                str(entry),
                due=hidden.due,
                due_monotonic=hidden.due_monotonic,
                token=hidden.token,
            )
            source = path_in(self._root.path_of(queue, hidden), name)
            if not self._root.folders.extend(source, self._root.path_of(queue, alone), is_folder=False):
                self._requeuer.forget(queue, hidden, name)
                return
            self._root.index.queues[queue].split(hidden, name, alone)
            self._root.index.reschedule(queue, alone)
        else:
            hidden.credits = None
        if credits is not None:
            credits.give_back(1)

"""Reads what was just leased: from here a message goes to its consumer.

The checksum is compared on every read. A message that can't be read costs itself only: what is damaged
is put aside, what the system withholds stays hidden until it is due.
"""

from __future__ import annotations

import logging

from ..files.reader import Damaged, Forbidden, Gone, read_message
from ..index.hidden import Hidden
from ..index.ready import BatchFolder
from ..model.content import Content
from ..model.errors import StoreError
from ..model.ids import sent_at
from ..model.names import Batch, id_of, is_as_sent, leases_of, moved_out, parse_entry
from ..model.operations import Message
from ..model.transitions import State
from .live import Live
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
        recent = self._recent(place, hidden)
        for name in list(hidden.names):
            found = recent.get(name)
            if found is None:
                path = place if batch is None else path_in(place, name)
                try:
                    found = self._read_one(live.name, hidden, path, name)
                except StoreError:
                    self._requeuer.requeue(live, hidden, hidden.names, undo=True)
                    # The error says that nothing has happened: a crash must not undo half of that.
                    self._root.commit_soon()
                    raise
            if found is not None:
                messages.append(message_of(live.name, hidden, batch, name, found))
        return messages

    def confirm(self, live: Live, hidden: Hidden) -> None:
        """Forget what is not under a new lease though it was believed to be, without reading any of it.

        Others may have taken messages out of a folder before it was leased whole. Raises `StoreError`
        if that can't be told; then nothing is leased.
        """
        if not (hidden.is_folder and self._root.is_shared):
            return
        place = self._root.path_of(live.name, hidden)
        try:
            there = {each.name for each in self._root.folders.scan(place)}
        except StoreError:
            self._requeuer.requeue(live, hidden, hidden.names, undo=True)
            self._root.commit_soon()
            raise
        for name in [name for name in hidden.names if name not in there]:
            self._root.was_faster(path_in(place, name))
            self._requeuer.forget(live.name, hidden, name)

    def _recent(self, place: str, hidden: Hidden) -> dict[str, Content]:
        """By name, what is in memory of the files under a lease, and certainly on disk.

        A file that was renamed by itself is there. Of a folder somebody may have taken something out,
        another process or a person; since the lease nobody does.
        """
        recent = self._root.recent
        found = {}
        for name in hidden.names:
            content = recent.take(id_of(name))
            if content is not None:
                found[name] = content
        if found and hidden.is_folder:
            try:
                there = {each.name for each in self._root.disk.scan(place)}
            except OSError as error:
                log.debug("%s can't be listed, so each message of it is read: %s", place, error)
                return {}
            found = {name: content for name, content in found.items() if name in there}
        return found

    def _read_one(self, queue: str, hidden: Hidden, path: str, name: str) -> Content | None:
        try:
            return read_message(self._root.disk, path, parse_entry(name))
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


def message_of(queue: str, hidden: Hidden, batch: Batch | None, name: str, content: Content) -> Message:
    """The message whose entry is called `name`, as who has leased it is given it."""
    assert hidden.token is not None
    id = id_of(name)
    if batch is not None and is_as_sent(name):
        receives, first_receive = batch.receives, batch.first_receive
    else:
        receives, first_receive = leases_of(parse_entry(name), batch)
    place = id if batch is None else f"{batch.id}/{id}"
    return Message(
        queue=queue,
        id=id,
        state=State.LEASED,
        body=content.body,
        attributes=content.attributes,
        size=len(content.body),
        sent_at=sent_at(id),
        receives=receives,
        first_receive=first_receive,
        due=hidden.due,
        receipt=f"{queue}:{place}~{hidden.token}",
    )

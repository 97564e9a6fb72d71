"""Moves what is published to its queues, batch by batch, once the manifest is durable.

All of it may be done again, by anybody, from whatever a crash has left: what isn't in its claim any
more has arrived. A queue that has ended since, even if it was made again, gets nothing: its batches are
deleted.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from ...files import layout
from ...index.hidden import Hidden
from ...index.ready import BatchFolder
from ...model.errors import StoreError
from ...model.manifest import Manifest
from ...model.names import NotAName, length_of, parse_entry
from ...model.stage_names import Chunk, Claim, Publication, parse_chunk, parse_stage_folder
from ...model.transitions import Move, State
from ..catalog import Catalog
from ..live import Live
from ..root import Root

log = logging.getLogger(__name__)


class Postman:
    """Not thread-safe."""

    def __init__(self, root: Root, catalog: Catalog) -> None:
        self._root = root
        self._catalog = catalog
        self._open: dict[Publication, Manifest] = {}
        """What could not be moved yet."""
        self._expected: dict[Publication, dict[str, tuple[int, int]]] = {}
        """Messages and bytes by queue, of what isn't moved yet."""
        self._distrusted: set[Publication] = set()
        """Those of which a part may be gone already."""

    def expect(self, name: Publication, weights: dict[str, tuple[int, int]]) -> None:
        """So many messages and bytes are on their way to each queue."""
        self._expected[name] = weights

    def expected(self, queue: str) -> tuple[int, int]:
        """Messages and bytes on their way to the queue."""
        weights = [each[queue] for each in self._expected.values() if queue in each]
        return sum(messages for messages, _ in weights), sum(bytes for _, bytes in weights)

    def is_open(self, name: Publication) -> bool:
        """Whether some of it isn't where it belongs."""
        return name in self._open or name in self._expected

    def distrust(self, name: Publication) -> None:
        """Not all that its batches' names say may be in them."""
        self._distrusted.add(name)
        self._expected.setdefault(name, {})

    def retry(self) -> list[tuple[Publication, Manifest]]:
        """What is to be delivered once more."""
        left, self._open = self._open, {}
        return list(left.items())

    def deliver(self, name: Publication, manifest: Manifest) -> bool:
        """Move what isn't moved yet; whether all of it is where it belongs."""
        is_done = True
        for folder in manifest.stages:
            claim = layout.published(Claim(by=name, folder=parse_stage_folder(folder)))
            try:
                self._empty(claim, manifest, is_whole=name not in self._distrusted)
            except StoreError as error:
                log.warning("%s is published, and not yet all in its queues: %s", claim, error)
                is_done = False
        if is_done:
            self._open.pop(name, None)
            self._expected.pop(name, None)
            self._distrusted.discard(name)
        else:
            self._open[name] = manifest
        return is_done

    def _empty(self, claim: str, manifest: Manifest, *, is_whole: bool) -> None:
        found = self._root.folders.scan(claim)
        for each in sorted(found, key=lambda found: found.name):
            try:
                chunk = parse_chunk(each.name)
            except NotAName:
                log.warning("%a in %s is not ours", each.name, claim)
                continue
            self._move(layout.chunk_in(claim, chunk), chunk, manifest, is_whole=is_whole)
        self._root.drop_after_sync(claim)

    def _move(self, source: str, chunk: Chunk, manifest: Manifest, *, is_whole: bool) -> None:
        root, queue = self._root, chunk.queue
        live = self._live(queue, manifest)
        if live is None:
            self._delete(source, chunk)
            return
        batch = replace(chunk.batch, owner=None)
        delay = live.settings.delivery_delay if chunk.delay is None else chunk.delay
        due, due_monotonic = root.due_after(delay)
        if delay:
            move, state = Move.HIDE, State.DELAYED
            target = layout.hidden(queue, batch, due, None)
        else:
            move, state = Move.PUBLISH, State.READY
            target = layout.ready(queue, batch)
        # Nobody may have been in it: then its names are listed when somebody wants them. If not, before
        # it moves: what has moved and can't be listed nobody would know.
        folder = self._listed(source, chunk) if delay or not is_whole else None
        if not root.folders.move(move, State.SENT, source, state, target, is_folder=True):
            if root.folders.is_there(source):
                self._delete(source, chunk)  # The queue has just ended.
            return
        root.statistics.count(queue, "publish", batch.count)
        root.index.queues[queue].entered += batch.count if folder is None else len(folder.names)
        if folder is None:
            if not root.index.queues[queue].knows_batch(batch.id):
                root.index.queues[queue].ready.add_unlisted(batch)
            return
        if not folder.names:
            root.drop_after_sync(target)
        elif delay:
            hidden = Hidden(folder, due=due, due_monotonic=due_monotonic, token=None)
            root.index.hide(queue, hidden)
        else:
            root.index.queues[queue].ready.add_folder(folder)

    def _listed(self, path: str, chunk: Chunk) -> BatchFolder:
        names = []
        for found in self._root.folders.scan(path):
            try:
                if parse_entry(found.name).is_tagged:
                    names.append(found.name)
            except NotAName:
                continue
        return BatchFolder(replace(chunk.batch, owner=None), names, sum(map(length_of, names)))

    def _live(self, queue: str, manifest: Manifest) -> Live | None:
        """The queue, if it is the one that the messages were published to."""
        live = self._catalog.queues.get(queue)
        if self._root.is_shared and live is not None and not self._catalog.is_current(live):
            self._catalog.refresh()
            live = self._catalog.queues.get(queue)
        if live is None or queue in self._catalog.doomed or queue not in manifest.queues:
            return None
        created_at, version = manifest.queues[queue]
        is_same = live.created_at == created_at and live.version >= version
        is_same |= queue in self._catalog.reset
        return live if is_same and queue in self._root.index.queues else None

    def _delete(self, source: str, chunk: Chunk) -> None:
        batch = replace(chunk.batch, owner=None)
        target = layout.removed(chunk.queue, batch)
        log.info("%s: the queue %s has ended, and they with it", source, chunk.queue)
        self._root.folders.move(Move.DELETE, State.SENT, source, State.REMOVED, target, is_folder=True)

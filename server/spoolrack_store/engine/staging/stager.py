"""Stages and aborts: messages are stored where nobody sees them, chunk by chunk.

A chunk is written as one batch folder, all of it or nothing, and acknowledged when it is durable. One
that is there already is acknowledged again and not stored twice, so that a retry does no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ...files import layout
from ...model import content
from ...model.clock import Millis, span_text
from ...model.errors import DiskError, DiskFull, InvalidMessage, InvalidRequest, StoreError
from ...model.names import Batch, name_of_new
from ...model.operations import Outgoing
from ...model.settings import MAX_DELAY
from ...model.stage_names import Chunk, is_stage_name
from ...model.staging import (
    MAX_CHUNK,
    MAX_TIME_TO_LIVE,
    MIN_TIME_TO_LIVE,
    Abort,
    Stage,
    Staged,
    StageInfo,
)
from ..catalog import Catalog
from ..live import Live
from ..root import Root, path_in
from ..sender import RESERVED_BYTES, RESERVED_FILES
from .stages import Held, Stages

log = logging.getLogger(__name__)

_LOOKS: Final = 5
"""So often a stage may be published or dropped, and made again, while we look for it."""


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The messages of a chunk, all of them valid."""

    parts: Sequence[tuple[bytes, bytes]]
    """Body and trailer of each."""
    delay: Millis | None

    @property
    def bytes(self) -> int:
        return sum(len(body) + len(trailer) for body, trailer in self.parts)


class Stager:
    """Not thread-safe."""

    def __init__(
        self, root: Root, catalog: Catalog, stages: Stages, undo_claims: Callable[[str], None]
    ) -> None:
        """`undo_claims` brings back a stage that somebody claimed and died before publishing."""
        self._root = root
        self._catalog = catalog
        self._stages = stages
        self._undo_claims = undo_claims

    def stage(self, request: Stage) -> Staged:
        """Store a chunk, or find it there; the answer holds once the commit is synced."""
        _check(request)
        for _ in range(_LOOKS):
            held = self._stages.find([request.stage]).get(request.stage)
            if held is None:
                held = self._find_or_make(request)
            try:
                with self._root.folders.held(held.path):
                    if self._root.folders.is_contended:
                        held = self._stages.read(held.folder)
                    return self._stage(held, request)
            except FileNotFoundError:
                continue  # Somebody has just published or dropped it.
        raise DiskError(detail=f"the stage {request.stage} is published and made again all the time")

    def _find_or_make(self, request: Stage) -> Held:
        """Two must not make a stage at once, nor one while another's claim may come back."""
        self._prepare(request)
        with self._root.folders.held(layout.PUBLISHED):
            self._undo_claims(request.stage)
            held = self._stages.find([request.stage]).get(request.stage)
            if held is None:
                held = self._stages.make(request.stage, request.time_to_live)
                if self._root.folders.is_contended:
                    # That the last stage of this name is gone may not be durable.
                    self._root.everything_changed()
            return held

    def _stage(self, held: Held, request: Stage) -> Staged:
        self._stages.settle(held, request.chunk)
        there = held.chunks.get(request.chunk)
        if there is None:
            self._write(held, request)
        elif self._root.folders.is_contended or held.is_unsynced:
            # Whoever wrote it may not have made it durable, and now it is promised.
            self._root.everything_changed()
        return Staged(
            messages=len(request.messages) if there is None else there.batch.count,
            is_repeated=there is not None,
            expires_at=held.folder.due,
        )

    def _prepare(self, request: Stage) -> tuple[Live, _Prepared]:
        """Raises what the queue or one of the messages deserves."""
        live = self._catalog.require_open(request.queue)
        if not request.messages:
            raise InvalidRequest(what="messages", value=[], rule="must be at least one")
        delay = request.messages[0].delay
        if delay is not None and not 0 <= delay <= MAX_DELAY:
            raise InvalidMessage(
                why=f"its delay of {span_text(delay)} is not from 0 s to {span_text(MAX_DELAY)}"
            )
        parts = []
        for at, message in enumerate(request.messages):
            try:
                parts.append((message.body, _trailer(live, message, delay)))
            except StoreError as error:
                why = str(error) if len(request.messages) == 1 else f"number {at}: {error}"
                raise InvalidMessage(why=why) from error
        return live, _Prepared(parts, delay)

    def _write(self, held: Held, request: Stage) -> None:
        root = self._root
        try:
            _, prepared = self._prepare(request)
            self._require_room(prepared)
            batch = Batch(id=root.ids.make(), count=len(prepared.parts), owner=root.owner)
            chunk = Chunk(number=request.chunk, queue=request.queue, batch=batch, delay=prepared.delay)
            self._write_files(held, chunk, prepared)
        except StoreError:
            if not held.chunks:
                self._drop_empty(held)
            raise
        held.chunks[chunk.number] = chunk
        held.is_unsynced = True
        root.after_sync.append(partial(self._written, held, chunk))

    def _write_files(self, held: Held, chunk: Chunk, prepared: _Prepared) -> None:
        folders, ids = self._root.folders, self._root.ids
        path = layout.chunk_in(held.path, chunk)
        written: list[str] = []
        folders.make(path)
        try:
            for body, trailer in prepared.parts:
                crc = content.checksum(body, trailer)
                target = path_in(path, name_of_new(ids.make(), len(body), crc, len(trailer)))
                folders.write(target, [body, trailer], sync=False)
                written.append(target)
        except StoreError:
            try:
                for target in written:
                    folders.drop(target)
                folders.drop_folder(path)
            except StoreError as error:
                # It isn't whole, so it is never published.
                log.warning("an unfinished chunk stays in %s for now: %s", path, error)
                held.unsure.append(chunk)
            raise

    def _written(self, held: Held, chunk: Chunk) -> None:
        """The chunk is durable, and says so by its name: whoever starts needn't read it."""
        done = replace(chunk, batch=replace(chunk.batch, owner=None))
        source, target = layout.chunk_in(held.path, chunk), layout.chunk_in(held.path, done)
        moved = False
        try:
            # Whoever lists the stage at this moment might find neither name.
            with self._root.folders.held(held.path):
                moved = self._root.folders.shift(source, target)
        except FileNotFoundError:
            log.debug("%a was published or dropped in the meantime", source)
        except StoreError as error:
            log.warning("%a is whole, and keeps its owner for now: %s", source, error)
        if moved and held.chunks.get(chunk.number) is chunk:
            held.chunks[chunk.number] = done
        held.is_unsynced = False

    def _require_room(self, prepared: _Prepared) -> None:
        space = self._root.folders.space()
        files = len(prepared.parts) + 2
        if space.bytes - prepared.bytes < RESERVED_BYTES or (
            not space.unlimited and space.files - files < RESERVED_FILES
        ):
            raise DiskFull(detail=f"{space.bytes} bytes and {space.files} files are left")

    def _drop_empty(self, held: Held) -> None:
        """A stage without a chunk is none."""
        if held.unsure:
            return
        try:
            self._root.folders.drop_folder(held.path)
        except StoreError as error:
            log.warning("the empty %s stays for now: %s", held.path, error)
            return
        self._stages.leave(held)

    def abort(self, request: Abort) -> int:
        """Drop a stage; how many messages it had."""
        if not is_stage_name(request.stage):
            raise _invalid_stage(request.stage)
        folders = self._root.folders
        with folders.held(layout.PUBLISHED):
            self._undo_claims(request.stage)
            held = self._stages.find([request.stage]).get(request.stage)
            count = 0
            if held is not None:
                try:
                    with folders.held(held.path):
                        if folders.is_contended:
                            held = self._stages.read(held.folder)
                        self._stages.settle(held)
                        if held.is_within(request.allowed):
                            count = held.messages if self._stages.drop(held) else 0
                except FileNotFoundError:
                    log.debug("the stage %s has just been dropped by somebody else", request.stage)
            if folders.is_contended:
                # Whoever has dropped it, it stays dropped from now on.
                self._root.everything_changed()
        return count

    def listed(self, after: str, limit: int) -> list[StageInfo]:
        """Up to `limit` stages whose names stand above `after`, in order."""
        infos: list[StageInfo] = []
        for held in self._stages.every():
            if held.folder.stage <= after or len(infos) == limit:
                continue
            messages: dict[str, int] = {}
            for chunk in held.chunks.values():
                messages[chunk.queue] = messages.get(chunk.queue, 0) + chunk.batch.count
            infos.append(
                StageInfo(
                    name=held.folder.stage,
                    chunks=len(held.chunks),
                    messages=messages,
                    expires_at=held.folder.due,
                )
            )
        return infos


def _check(request: Stage) -> None:
    if not is_stage_name(request.stage):
        raise _invalid_stage(request.stage)
    if not 0 <= request.chunk <= MAX_CHUNK:
        rule = f"must be from 0 to {MAX_CHUNK}"
        raise InvalidRequest(what="chunk", value=request.chunk, rule=rule)
    if not MIN_TIME_TO_LIVE <= request.time_to_live <= MAX_TIME_TO_LIVE:
        rule = f"must be from {span_text(MIN_TIME_TO_LIVE)} to {span_text(MAX_TIME_TO_LIVE)}"
        value = span_text(request.time_to_live)
        raise InvalidRequest(what="time_to_live", value=value, rule=rule)


def _trailer(live: Live, message: Outgoing, delay: Millis | None) -> bytes:
    content.check(live.name, message.body, message.attributes, live.settings.max_message_size)
    if message.delay != delay:
        raise InvalidMessage(why="its delay is not that of the first message of its chunk")
    if message.deduplication_id:
        raise InvalidMessage(why="it has a deduplication id, and in a stage none can have one")
    return content.trailer_of(message.attributes)


def _invalid_stage(stage: str) -> InvalidRequest:
    return InvalidRequest(
        what="stage", value=stage, rule="must be 1 to 64 letters, digits, '_' and '-'"
    )

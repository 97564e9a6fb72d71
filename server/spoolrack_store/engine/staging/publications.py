"""Publications: stages are claimed, and one manifest makes all of them appear, in one queue or several.

The manifest is the commit point once it is durable, and the memory of the writer's epoch. What follows
is redone as often as it takes, by whoever finds it undone: each batch moves to its queue as it is, so
that ten thousand messages cost what their batches cost. A claim without a manifest is nobody's, and is
undone.

With others there all of it happens under the lock on `published/`, from the look to the manifest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ...files import layout
from ...model.clock import Millis, span_text
from ...model.errors import (
    DiskError,
    EpochDiffers,
    InvalidRequest,
    QueueFull,
    StageNotFound,
    StoreError,
)
from ...model.manifest import Manifest
from ...model.names import length_of
from ...model.stage_names import (
    Claim,
    Publication,
    is_stage_name,
    is_writer_name,
)
from ...model.staging import MAX_EPOCH, MAX_MEMORY, MAX_STAGES, MIN_MEMORY, Publish, Published
from ..catalog import Catalog
from ..live import Live
from ..root import Root
from .manifests import Manifests
from .postman import Postman
from .stages import Held, Stages

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Load:
    """What a publication brings to a queue."""

    live: Live
    messages: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Draft:
    """A publication whose manifest isn't written."""

    name: Publication
    claimed: list[Held] = field(default_factory=list)
    loads: dict[str, _Load] = field(default_factory=dict)


class Publications:
    """Not thread-safe."""

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        stages: Stages,
        postman: Postman,
        look_into: Callable[[str], None],
    ) -> None:
        """`look_into` lets all messages of a queue be known by name."""
        self._root = root
        self._catalog = catalog
        self._stages = stages
        self._postman = postman
        self._look_into = look_into
        self.manifests = Manifests(root)
        self._forget_at: dict[Publication, Millis] = {}
        """All that are remembered, and until when, in Unix time."""
        self._digests: dict[Publication, str] = {}
        """Of all that are remembered."""
        self._last: dict[str, int] = {}
        """The last epoch of each writer."""
        self._is_known = False
        """Whether these are all that there are."""
        self._strays: dict[Claim, None] = {}
        """Claims without a manifest that could not be undone."""

    def forget(self) -> None:
        """Others may come: what is known may soon be wrong."""
        self._is_known = False

    # A publication.

    def publish(self, request: Publish) -> Published:
        """Make all of the stages appear, or none; the answer holds once the commit is synced."""
        _check(request)
        with self._root.folders.held(layout.PUBLISHED):
            if self._root.folders.is_contended:
                self._catalog.refresh()
            self._look()
            self._retry_strays()
            last = self._last.get(request.writer)
            if last is not None and request.epoch <= last:
                if request.epoch == last:
                    self._refuse_others(request)
                if self._root.folders.is_contended:
                    # Somebody else may have published it, and now it is promised.
                    self._root.everything_changed()
                return Published(messages=0, is_already=True, last_epoch=last)
            return self._publish(request)

    def _refuse_others(self, request: Publish) -> None:
        """Raise `EpochDiffers` for an epoch that was published with other messages."""
        digest = self._digests.get(Publication(writer=request.writer, epoch=request.epoch))
        if digest and request.digest and digest != request.digest:
            raise EpochDiffers(writer=request.writer, epoch=request.epoch)

    def _publish(self, request: Publish) -> Published:
        names = list(dict.fromkeys(request.stages))
        draft = _Draft(Publication(writer=request.writer, epoch=request.epoch))
        held = self._stages.find(names)
        for name in names:
            # What is in it, only who holds its lock can tell.
            if name not in held:
                self._require_no_stray(name)
                raise StageNotFound(stage=name)
        try:
            must_sync = self._root.folders.is_contended
            # A queue may have been made a moment ago.
            must_sync |= self._root.syncer.has_changed(layout.CONFIG)
            for name in names:
                must_sync |= self._claim(draft, held[name], request.allowed)
            self._require_room(draft)
            if must_sync:
                # Otherwise a crash could keep the manifest, and not all that it says is published.
                self._root.everything_changed()
                self._root.syncer.begin().sync()
            manifest = self._manifest(draft, request)
            self.manifests.write(draft.name, manifest)
        except StoreError:
            self._undo(draft)
            raise
        self._remember(draft.name, manifest)
        weights = {queue: (load.messages, load.bytes) for queue, load in draft.loads.items()}
        self._postman.expect(draft.name, weights)
        self._root.after_sync.append(partial(self._deliver, draft.name, manifest))
        return Published(messages=manifest.messages, is_already=False, last_epoch=request.epoch)

    def _claim(self, draft: _Draft, held: Held, allowed: Callable[[str], bool] | None) -> bool:
        """Take the stage; whether something in it may not be durable."""
        folders = self._root.folders
        name = held.folder.stage
        try:
            with folders.held(held.path):
                if folders.is_contended:
                    held = self._stages.read(held.folder)
                self._stages.settle(held)
                if not held.chunks or not held.is_within(allowed):
                    raise StageNotFound(stage=name)
                for chunk in held.chunks.values():
                    load = draft.loads.get(chunk.queue)
                    if load is None:
                        live = self._catalog.require_open(chunk.queue)
                        load = draft.loads[chunk.queue] = _Load(live)
                    load.messages += chunk.batch.count
                    if load.live.settings.max_bytes:
                        inside = folders.scan(layout.chunk_in(held.path, chunk))
                        load.bytes += sum(length_of(found.name) for found in inside)
                claim = Claim(by=draft.name, folder=held.folder)
                if not folders.shift(held.path, layout.published(claim)):
                    raise StageNotFound(stage=name)
        except FileNotFoundError as error:
            raise StageNotFound(stage=name) from error
        self._stages.leave(held)
        draft.claimed.append(held)
        return held.is_unsynced

    def _require_room(self, draft: _Draft) -> None:
        """All of it must find room in its queues."""
        for queue, load in draft.loads.items():
            settings = load.live.settings
            if not settings.max_messages and not settings.max_bytes:
                continue
            self._look_into(queue)
            index = self._root.index.queues[queue]
            messages, bytes = self._postman.expected(queue)
            held, held_bytes = len(index) + messages, index.bytes + bytes
            if settings.max_messages and held + load.messages > settings.max_messages:
                raise QueueFull(queue=queue, held=held, limit=settings.max_messages, unit="messages")
            if settings.max_bytes and held_bytes + load.bytes > settings.max_bytes:
                raise QueueFull(queue=queue, held=held_bytes, limit=settings.max_bytes, unit="bytes")

    def _manifest(self, draft: _Draft, request: Publish) -> Manifest:
        return Manifest(
            stages={str(held.folder): held.first for held in draft.claimed},
            queues={
                queue: (load.live.created_at, load.live.version) for queue, load in draft.loads.items()
            },
            messages=sum(held.messages for held in draft.claimed),
            digest=request.digest,
            published_at=self._root.clock.wall(),
            memory=request.memory,
        )

    def _undo(self, draft: _Draft) -> None:
        for held in reversed(draft.claimed):
            if self._unclaim(Claim(by=draft.name, folder=held.folder)):
                self._stages.take_in(held)

    def _unclaim(self, claim: Claim) -> bool:
        """Give a stage back; whether it is in `staged/` now."""
        source, target = layout.published(claim), layout.staged(claim.folder)
        try:
            there = self._root.folders.shift(source, target)
        except StoreError as error:
            log.warning("%a was not published, and can't be given back for now: %s", source, error)
            self._strays[claim] = None
            return False
        self._strays.pop(claim, None)
        return there

    def _deliver(self, name: Publication, manifest: Manifest) -> None:
        """The manifest is durable: the messages appear, and what it supersedes may go."""
        if not self._postman.deliver(name, manifest):
            return
        last = self._last.get(name.writer, -1)
        older = [
            each
            for each in self._forget_at
            if each.writer == name.writer and each.epoch < last and not self._is_open(each)
        ]
        if older:
            self._drop_after_sync(older)

    def _drop_after_sync(self, names: Sequence[Publication]) -> None:
        """Unlink manifests once all that they made appear has durably left its claims: a claim that a
        crash brings back must find its manifest."""
        if self._root.is_shared:
            self._root.everything_changed()
        self._root.after_sync.append(partial(self._drop_all, names))

    def _drop_all(self, names: Sequence[Publication]) -> None:
        left: set[Publication] = set()
        if self._root.is_shared:
            try:
                left = {claim.by for claim in self.manifests.listed()[1]}
            except StoreError as error:
                log.warning("memories of publications stay for now: %s", error)
                return
        for name in names:
            if name not in left and not self._is_open(name) and name in self._forget_at:
                self._drop(name)

    def _is_open(self, name: Publication) -> bool:
        return self._postman.is_open(name)

    def _drop(self, name: Publication) -> None:
        try:
            self.manifests.drop(name)
        except StoreError as error:
            log.warning("the memory of %s stays for now: %s", name, error)
            return
        del self._forget_at[name]
        del self._digests[name]
        if self._last.get(name.writer) == name.epoch:
            del self._last[name.writer]

    def _remember(self, name: Publication, manifest: Manifest) -> None:
        self._keep(name, manifest)
        self._last[name.writer] = max(name.epoch, self._last.get(name.writer, -1))

    def _keep(self, name: Publication, manifest: Manifest) -> None:
        self._forget_at[name] = manifest.forget_at
        self._digests[name] = manifest.digest

    # What is to be done without being asked.

    def retry(self) -> None:
        """Go on with what could not be moved."""
        self._retry_strays()
        for name, manifest in self._postman.retry():
            self._root.after_sync.append(partial(self._deliver, name, manifest))

    def _retry_strays(self) -> None:
        for claim in list(self._strays):
            if self._unclaim(claim):
                self._stages.take_in(self._stages.read(claim.folder))

    def tend(self) -> None:
        """Take over what the dead have left, and forget what is old enough."""
        with self._root.folders.held(layout.PUBLISHED):
            self._look()
        now = self._root.clock.wall()
        old = [
            name
            for name, forget_at in self._forget_at.items()
            if forget_at <= now and not self._is_open(name)
        ]
        if old:
            self._drop_after_sync(old)

    def undo_claims(self, stage: str) -> None:
        """Bring back what was claimed and not published, of the dead, too. With the lock held.

        Raises `DiskError` if the stage can't be brought back for now.
        """
        if self._root.folders.is_contended:
            self._look()
        self._retry_strays()
        self._require_no_stray(stage)

    def _require_no_stray(self, stage: str) -> None:
        for claim in self._strays:
            if claim.folder.stage == stage:
                raise DiskError(detail=f"{layout.published(claim)} can't be given back for now")

    def _look(self) -> None:
        """Know what is published, and mend what others have left. With the lock held."""
        contended = self._root.folders.is_contended
        if self._is_known and not contended:
            return
        manifests, claims = self.manifests.listed()
        for name in self._forget_at.keys() - set(manifests):
            del self._forget_at[name]
            del self._digests[name]
        for name in manifests:
            if name not in self._forget_at and (manifest := self.manifests.read(name)) is not None:
                self._keep(name, manifest)
        self._last = {}
        for name in self._forget_at:
            self._last[name.writer] = max(name.epoch, self._last.get(name.writer, -1))
        self._is_known = not contended
        redone: dict[Publication, Manifest | None] = {}
        for claim in claims:
            if claim.by not in redone:
                is_known = claim.by in self._forget_at
                redone[claim.by] = self.manifests.read(claim.by) if is_known else None
            manifest = redone[claim.by]
            if manifest is None or str(claim.folder) not in manifest.stages:
                self._unclaim(claim)
        self.redo({name: manifest for name, manifest in redone.items() if manifest is not None})

    def redo(self, manifests: dict[Publication, Manifest]) -> None:
        """Move what these publications have left unmoved, whoever made them, after the next sync."""
        if not manifests:
            return
        # The manifest may not be durable, and the moves out of its claims neither.
        self._root.everything_changed()
        for name, manifest in manifests.items():
            self._postman.distrust(name)
            self._root.after_sync.append(partial(self._deliver, name, manifest))

    def start(self, manifests: dict[Publication, Manifest]) -> None:
        """These are all manifests that there are, and nobody else is there."""
        for name, manifest in manifests.items():
            self._remember(name, manifest)
        self._is_known = True


def _check(request: Publish) -> None:
    if not is_writer_name(request.writer):
        rule = "must be 1 to 80 letters, digits, '_' and '-'"
        raise InvalidRequest(what="writer", value=request.writer, rule=rule)
    if not 0 <= request.epoch <= MAX_EPOCH:
        rule = f"must be from 0 to {MAX_EPOCH}"
        raise InvalidRequest(what="epoch", value=request.epoch, rule=rule)
    if not MIN_MEMORY <= request.memory <= MAX_MEMORY:
        rule = f"must be from {span_text(MIN_MEMORY)} to {span_text(MAX_MEMORY)}"
        raise InvalidRequest(what="memory", value=span_text(request.memory), rule=rule)
    if request.digest and not is_stage_name(request.digest):
        rule = "must be 1 to 64 letters, digits, '_' and '-'"
        raise InvalidRequest(what="digest", value=request.digest, rule=rule)
    _check_stages(request.stages)


def _check_stages(stages: Sequence[str]) -> None:
    if len(stages) > MAX_STAGES:
        rule = f"must be at most {MAX_STAGES}"
        raise InvalidRequest(what="stages", value=f"{len(stages)} stages", rule=rule)
    for stage in stages:
        if not is_stage_name(stage):
            rule = "must be 1 to 64 letters, digits, '_' and '-'"
            raise InvalidRequest(what="stages", value=stage, rule=rule)

"""What a start makes of the stages and publications that it finds.

A publication whose manifest is whole is finished, and a claim without one is undone. A chunk in whose
name there is an owner may not have been durable: whole, it is kept, for it may have been acknowledged;
else it never was, and is removed. Nobody else may be there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ...files import layout
from ...files.disk import Kind
from ...index.ready import BatchFolder
from ...model.clock import Millis
from ...model.errors import StoreError
from ...model.manifest import Manifest
from ...model.names import Batch, NotAName
from ...model.stage_names import (
    Claim,
    Publication,
    StageFolder,
    parse_chunk,
    parse_published,
    parse_stage_folder,
)
from ..root import Root, path_in
from .publications import Publications
from .stages import Held, Stages

log = logging.getLogger(__name__)

Left = Callable[[str, str, Batch], BatchFolder | None]
"""What counts of a batch that isn't in its queue yet, by path, queue and name: what is in a later state
elsewhere is dropped. None if nothing of it does, and it goes with the next sync."""


class StageRecovery:
    def __init__(self, root: Root, stages: Stages, publications: Publications, left_of: Left) -> None:
        self._root = root
        self._stages = stages
        self._publications = publications
        self._left_of = left_of
        self._moving: set[str] = set()
        """Claims' paths."""

    def run(self) -> None:
        self._put_aside_strangers()
        names, claims = self._publications.manifests.listed()
        manifests: dict[Publication, Manifest] = {}
        for name in names:
            manifest = self._publications.manifests.read(name)
            if manifest is not None:
                manifests[name] = manifest
        self._publications.start(manifests)
        unfinished = self._unfinished(claims, manifests)
        for folder in self._folders():
            by = self._publication_of(folder, manifests)
            if by is not None:
                # Its claim wasn't durable, and the manifest was.
                claim = layout.published(Claim(by=by, folder=folder))
                self._root.folders.shift(layout.staged(folder), claim)
                unfinished[by] = manifests[by]
                self._moving.add(claim)
        for claim_path in sorted(self._moving):
            self._leave_what_counts(claim_path)
        self._publications.redo(unfinished)
        self._go_on_dropping()
        self._read_staged()

    def _put_aside_strangers(self) -> None:
        for found in self._root.folders.scan(layout.PUBLISHED):
            path = path_in(layout.PUBLISHED, found.name)
            try:
                is_claim = isinstance(parse_published(found.name), Claim)
            except NotAName:
                self._quarantine(path)
                continue
            if found.kind is not (Kind.FOLDER if is_claim else Kind.FILE):
                self._quarantine(path)
            elif is_claim:
                self._put_aside_in(path)
        for found in self._root.folders.scan(layout.STAGED):
            path = path_in(layout.STAGED, found.name)
            try:
                parse_stage_folder(found.name)
            except NotAName:
                self._quarantine(path)
                continue
            if found.kind is not Kind.FOLDER:
                self._quarantine(path)
            else:
                self._put_aside_in(path)

    def _put_aside_in(self, folder: str) -> None:
        for found in self._root.folders.scan(folder):
            path = path_in(folder, found.name)
            try:
                chunk = parse_chunk(found.name)
            except NotAName:
                self._quarantine(path)
                continue
            self._root.ids.rise_above(chunk.batch.id)
            if found.kind is not Kind.FOLDER:
                self._quarantine(path)

    def _unfinished(
        self, claims: list[Claim], manifests: dict[Publication, Manifest]
    ) -> dict[Publication, Manifest]:
        """The publications of which something is claimed; other claims are undone."""
        unfinished: dict[Publication, Manifest] = {}
        for claim in claims:
            manifest, path = manifests.get(claim.by), layout.published(claim)
            if manifest is not None and str(claim.folder) in manifest.stages:
                unfinished[claim.by] = manifest
                self._moving.add(path)
                continue
            folder = claim.folder
            # Who made another stage of this name relied on a publication that wasn't durable.
            while self._root.folders.is_there(layout.staged(folder)):
                folder = replace(folder, due=Millis(folder.due + 1))
            try:
                self._root.folders.shift(path, layout.staged(folder))
            except StoreError as error:
                log.error("%a was never published, and can't be given back: %s", path, error)
        return unfinished

    def _publication_of(
        self, folder: StageFolder, manifests: dict[Publication, Manifest]
    ) -> Publication | None:
        """The publication that names this very stage."""
        held = self._stages.read(folder)
        ids = [chunk.batch.id for chunk in (*held.chunks.values(), *held.unsure)]
        for name, manifest in manifests.items():
            if ids and manifest.stages.get(str(folder)) == min(ids):
                return name
        return None

    def _leave_what_counts(self, claim: str) -> None:
        for found in self._root.folders.scan(claim):
            try:
                chunk = parse_chunk(found.name)
            except NotAName:
                continue
            if chunk.queue in self._root.index.queues:
                self._left_of(path_in(claim, found.name), chunk.queue, chunk.batch)

    def _read_staged(self) -> None:
        stages: dict[str, list[Held]] = {}
        for folder in self._folders():
            held = self._stages.read(folder)
            try:
                self._settle(held)
            except StoreError as error:
                log.error("%a can't be read, and is as it was: %s", held.path, error)
                continue
            if held.chunks:
                stages.setdefault(folder.stage, []).append(held)
            else:
                self._root.drop_after_sync(held.path)
        for same in stages.values():
            # Who made the newer one relied on the older one's being gone, and that wasn't durable: so
            # nobody was told of anything in it.
            _, *newer = sorted(same, key=lambda held: held.first)
            for held in newer:
                self._stages.drop(held)

    def _settle(self, held: Held) -> None:
        owned = list(held.unsure)
        self._stages.settle(held)
        for chunk in owned:
            if held.chunks.get(chunk.number) is chunk:
                done = replace(chunk, batch=replace(chunk.batch, owner=None))
                source = layout.chunk_in(held.path, chunk)
                # Only once what was read is durable: the crash may have come before the sync.
                self._root.after_sync.append(
                    partial(self._tell, source, layout.chunk_in(held.path, done))
                )

    def _tell(self, source: str, target: str) -> None:
        try:
            self._root.folders.shift(source, target)
        except StoreError as error:
            log.warning("%a is whole, and keeps its owner for now: %s", source, error)

    def _folders(self) -> list[StageFolder]:
        return [folder for folder in self._stages.listed() if not folder.is_dropped]

    def _go_on_dropping(self) -> None:
        for folder in self._stages.listed():
            if folder.is_dropped:
                self._root.after_sync.append(partial(self._stages.empty, layout.staged(folder)))

    def _quarantine(self, path: str) -> None:
        try:
            self._root.folders.quarantine(path, "not one of ours where it lies")
        except StoreError as error:
            log.error("%a is not ours, and can't be put aside: %s", path, error)

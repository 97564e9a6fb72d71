"""Checks what is staged and what was published. Reads only.

A server may be at work: what is gone when it is looked at has moved on, and what is being written is
unfinished and no damage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..files import layout
from ..files.disk import Disk, Found, Kind
from ..files.reader import Damaged, Forbidden, Gone
from ..model.errors import DiskError
from ..model.manifest import Manifest, decode
from ..model.names import Entry, NotAName, parse_entry
from ..model.sealed import NotWhole
from ..model.stage_names import (
    Chunk,
    Claim,
    Publication,
    parse_chunk,
    parse_published,
    parse_stage_folder,
)
from .findings import Remedy

_NOT_OURS = "its name is not one of ours"
_READS = 3
"""A manifest that isn't whole is read so often: a server may just be writing it."""


class Complain(Protocol):
    def __call__(self, path: str, why: str, remedy: Remedy = Remedy.QUARANTINE) -> None: ...


class StageInspector:
    """Looks at `staged/` and `published/`, once."""

    def __init__(
        self,
        disk: Disk,
        scan: Callable[[str], list[Found]],
        read: Callable[[str, Entry], None],
        complain: Complain,
        leave: Callable[[str, str], None],
    ) -> None:
        """`read` raises what is wrong with a message's file; `complain` and `leave` note a problem, and
        what is only unfinished."""
        self._disk = disk
        self._scan = scan
        self._read = read
        self._complain = complain
        self._leave = leave
        self.stages = 0
        self.publications = 0
        """Those that are remembered."""

    def run(self) -> None:
        for found in self._scan(layout.STAGED):
            path = f"{layout.STAGED}/{found.name}"
            try:
                folder = parse_stage_folder(found.name)
            except NotAName:
                self._complain(path, _NOT_OURS)
                continue
            if found.kind is not Kind.FOLDER:
                self._complain(path, "its name is a stage's, and it is no folder")
            elif folder.is_dropped:
                self._leave(path, "a stage that is dropped, and not emptied yet")
            else:
                self.stages += 1
                self._look_into(path)
        self._look_at_published()

    def _look_at_published(self) -> None:
        manifests: dict[Publication, Manifest] = {}
        claims: list[Claim] = []
        for found in self._scan(layout.PUBLISHED):
            path = f"{layout.PUBLISHED}/{found.name}"
            try:
                name = parse_published(found.name)
            except NotAName:
                self._complain(path, _NOT_OURS)
                continue
            if found.kind is not (Kind.FOLDER if isinstance(name, Claim) else Kind.FILE):
                self._complain(path, "it is not what its name says")
            elif isinstance(name, Claim):
                claims.append(name)
            elif (manifest := self._manifest(path)) is not None:
                manifests[name] = manifest
        self.publications = len(manifests)
        for claim in claims:
            manifest = manifests.get(claim.by)
            path = layout.published(claim)
            self._look_into(path)
            if manifest is not None and str(claim.folder) in manifest.stages:
                self._leave(path, "published, and not all in its queues yet")
            else:
                self._leave(path, "claimed, and not published: it is staged again with the next start")

    def _manifest(self, path: str) -> Manifest | None:
        why = ""
        for _ in range(_READS):
            try:
                return decode(self._disk.read(path))
            except FileNotFoundError:
                return None  # A newer one has taken its place.
            except OSError as error:
                self._complain(path, f"it can't be read: {error.strerror}", Remedy.HAND)
                return None
            except NotWhole as error:
                why = str(error)
        self._complain(path, f"no manifest: {why}")
        return None

    def _look_into(self, stage: str) -> None:
        for found in self._scan(stage):
            path = f"{stage}/{found.name}"
            try:
                chunk = parse_chunk(found.name)
            except NotAName:
                self._complain(path, _NOT_OURS)
                continue
            if found.kind is not Kind.FOLDER:
                self._complain(path, "its name is a chunk's, and it is no folder")
            else:
                self._look_at(path, chunk)

    def _look_at(self, path: str, chunk: Chunk) -> None:
        inside = self._scan(path)
        if len(inside) < chunk.batch.count:
            why = f"{len(inside)} of its {chunk.batch.count} messages are there"
            self._leave(path, why if chunk.batch.owner is None else f"{why}: it was never staged")
        for found in inside:
            self._look_at_message(f"{path}/{found.name}", found, chunk)

    def _look_at_message(self, path: str, found: Found, chunk: Chunk) -> None:
        try:
            entry = parse_entry(found.name)
        except NotAName:
            self._complain(path, _NOT_OURS)
            return
        if found.kind is not Kind.FILE or not entry.is_tagged:
            self._complain(path, "it is not what a message's file is in a stage")
            return
        try:
            self._read(path, entry)
        except Gone:
            return  # It has moved on.
        except Damaged as error:
            if error.torn and chunk.batch.owner is not None:
                self._leave(path, f"{error}: it was never staged")
            else:
                self._complain(path, str(error))
        except Forbidden as error:
            self._complain(path, f"it may not be read: {error}", Remedy.HAND)
        except DiskError as error:
            self._complain(path, str(error), Remedy.HAND)

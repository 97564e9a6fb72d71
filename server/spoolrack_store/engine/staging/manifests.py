"""The manifests in `published/`, each created once and never changed, and the claims beside them."""

from __future__ import annotations

from ...files import layout
from ...files.disk import Kind
from ...files.folders import explained
from ...files.syncer import SyncFailed
from ...model.errors import StoreError
from ...model.manifest import Manifest, decode, encode
from ...model.names import NotAName
from ...model.sealed import NotWhole
from ...model.stage_names import Claim, Publication, parse_published
from ..root import Root


class Manifests:
    """Not thread-safe. With others there, whoever reads or writes one holds the lock."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def listed(self) -> tuple[list[Publication], list[Claim]]:
        """The manifests and the claims that there are."""
        manifests: list[Publication] = []
        claims: list[Claim] = []
        for found in self._root.folders.scan(layout.PUBLISHED):
            try:
                name = parse_published(found.name)
            except NotAName:
                continue
            if isinstance(name, Publication) and found.kind is Kind.FILE:
                manifests.append(name)
            elif isinstance(name, Claim) and found.kind is Kind.FOLDER:
                claims.append(name)
        return manifests, claims

    def read(self, name: Publication) -> Manifest | None:
        """A manifest; None if it isn't there, or isn't whole: then it is put aside.

        Nobody may be writing it. Its content is durable with the next sync of everything, if not at
        return: whoever wrote it may have died before that. Raises `DiskError` if it can't be told:
        without it, what was published could be published again.
        """
        path = layout.published(name)
        try:
            manifest = decode(self._root.disk.read(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise explained(error) from error
        except NotWhole as error:
            self._root.folders.quarantine(path, f"no manifest: {error}")
            return None
        if not self._root.disk.can_sync_all:
            try:
                self._root.disk.sync_file(path)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise SyncFailed(str(error)) from error
        return manifest

    def write(self, name: Publication, manifest: Manifest) -> None:
        """Create one; its name is durable with the next sync."""
        path = layout.published(name)
        try:
            # By itself: then the folders are all that is left to be synced.
            self._root.folders.write(path, [encode(manifest)], sync=True)
        except StoreError as error:
            # Whoever is told that nothing is published must never find it so.
            try:
                self._root.folders.drop(path)
            except StoreError as worse:
                raise SyncFailed(f"{path} is refused ({error}), and stays: {worse}") from worse
            raise

    def drop(self, name: Publication) -> None:
        self._root.folders.drop(layout.published(name))

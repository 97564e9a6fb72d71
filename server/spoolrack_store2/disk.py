"""What the store asks of a disk beyond `spoolrack_store.files.disk`: hard links, and renames that
replace nothing."""

from __future__ import annotations

from typing import Protocol

from spoolrack_store.files import disk


class Disk(disk.Disk, Protocol):
    def link(self, source: str, target: str) -> None:
        """Give the file at `source` another name; `FileExistsError` if `target` is there."""

    def touch(self, path: str) -> None:
        """Wake the process that watches the file, if there is one; never fails."""

    def rename_new(self, source: str, target: str) -> None:
        """Move a file to a name that isn't there yet; `FileExistsError` if it is.

        renameat2(2) with RENAME_NOREPLACE: rename(2) does nothing, and succeeds, if both names are
        links of one file.
        """

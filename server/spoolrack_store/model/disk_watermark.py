"""The free room of the disk below which nothing is stored. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KEPT_BYTES: Final = 4 * 1024 * 1024
KEPT_FILES: Final = 256
"""Sends and chunks leave at least so much room, so that deletes work when the disk is full."""


@dataclass(frozen=True, slots=True)
class DiskWatermark:
    """Bytes and files that sends and chunks leave free. Receives and deletes go on below them."""

    bytes: int = KEPT_BYTES
    files: int = KEPT_FILES

    def is_reached(self, free_bytes: int, free_files: int | None, size: int = 0) -> bool:
        """Return whether a file of `size` bytes is refused; no number of files is no limit."""
        has_files = free_files is None or free_files >= max(self.files, KEPT_FILES)
        return not has_files or free_bytes < size + max(self.bytes, KEPT_BYTES)

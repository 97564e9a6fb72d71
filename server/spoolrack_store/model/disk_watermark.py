"""The disk's free space below which nothing is stored. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KEPT_BYTES: Final = 4 * 1024 * 1024
KEPT_FILES: Final = 256
"""Sends and chunks leave at least so much room, so that deletes work when the disk is full."""


@dataclass(frozen=True, slots=True)
class DiskWatermark:
    """Bytes and files that sends and chunks leave free. Receives and deletes continue below them."""

    bytes: int = KEPT_BYTES
    files: int = KEPT_FILES

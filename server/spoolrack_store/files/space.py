"""What room a file system has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    bytes: int
    files: int
    """How many files more can be made; file systems without a limit say 0 of 0: see `unlimited`."""
    unlimited: bool
    all_bytes: int = 0
    """How large it is; 0 where nobody knows."""
    all_files: int = 0

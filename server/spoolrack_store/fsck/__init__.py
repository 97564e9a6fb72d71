"""Inspects a root of format 4, and repairs it if asked to, without a server."""

from __future__ import annotations

from ..model.errors import NotRestorable
from .commands import check, receipts_of, repair, restore
from .findings import Progress

__all__ = ["NotRestorable", "Progress", "check", "receipts_of", "repair", "restore"]

"""Inspects a root of format 3, and repairs it if asked to, without a server."""

from __future__ import annotations

from ..model.errors import NotRestorable
from .commands import check, repair, restore
from .findings import Progress
from .lease_receipts import receipts_of

__all__ = ["NotRestorable", "Progress", "check", "receipts_of", "repair", "restore"]

"""A root looked at, and mended if asked to, without a server."""

from __future__ import annotations

from .commands import NotRestorable, Progress, check, repair, restore

__all__ = ["NotRestorable", "Progress", "check", "repair", "restore"]

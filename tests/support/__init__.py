"""Constants that tests of several folders share."""

from __future__ import annotations

from typing import Final

MIB: Final = 1 << 20
STUCK: Final = 240.0
"""Seconds after which something is stuck: only a defect takes so long. pytest ends a test after 300."""

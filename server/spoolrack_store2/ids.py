"""Ids of files: UUIDs of version 7 (RFC 9562) whose low 12 bits are 0, made in order.

A batch's messages have the ids that follow its own, so a maker's next id is above all of them.
"""

from __future__ import annotations

import random

from spoolrack_store.model.clock import Clock
from spoolrack_store.model.ids import IdMaker

from .names import batch_of


class FileIds:
    """Makes ids that strictly rise, each above all messages of the file before. Not thread-safe."""

    def __init__(self, clock: Clock, random: random.Random) -> None:
        self._maker = IdMaker(clock, random)
        self._last = ""

    def make(self) -> str:
        id = batch_of(self._maker.make())
        while id <= self._last:
            id = batch_of(self._maker.make())
        self._last = id
        return id

    def rise_above(self, id: str) -> None:
        """Make only ids above `id`, if its time is plausible: see `IdMaker.rise_above`."""
        self._maker.rise_above(id[:-3] + "fff")

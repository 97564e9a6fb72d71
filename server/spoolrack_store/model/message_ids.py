"""Message ids: UUIDs of version 7 (RFC 9562), lower case and hyphenated, made in order.

An id carries the time of its send and decides the message's place in its queue, so ids made by one
maker strictly rise: within one millisecond, and also when the wall clock steps back.

`PooledRandom` draws the system's random numbers many at a time. To ask the system for each id and each
token lets another thread take the interpreter's lock each time: that took a fifth of the committer's
time.
"""

from __future__ import annotations

import os
import random
import re
from typing import Final

from .clock import DAY, LAST_MOMENT, Clock, Millis

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
"""Any UUID in the canonical form. Names compare as text exactly as their ids compare as numbers."""

PLAUSIBLE_LEAD = DAY
"""An id further than this ahead of the clock is a mistake: the maker doesn't follow it."""

_VERSION = 7
_VARIANT = 0b10
_LOW_BITS = 62
_LOW_MASK = (1 << _LOW_BITS) - 1
_RANDOM_BITS = 74
_RANDOM_END = 1 << _RANDOM_BITS
_START_BITS = _RANDOM_BITS - 1
_STEP_BITS = 32


def is_id(text: str) -> bool:
    return UUID.fullmatch(text) is not None


def sent_at(id: str) -> Millis:
    """Return the Unix time at which a version 7 `id` was made; of any other UUID, its first 48 bits.

    Never above `LAST_MOMENT`: a foreign id may say the year 10889, which no calendar of a client knows.
    """
    return min(Millis(int(id[:8] + id[9:13], 16)), LAST_MOMENT)


def first_id_of(moment: Millis) -> str:
    """Return the smallest id that can be made at Unix time `moment`."""
    return _format(max(moment, 0), 0)


class IdMaker:
    """A maker of strictly rising ids. Not thread-safe."""

    def __init__(self, clock: Clock, random: random.Random) -> None:
        self._clock = clock
        self._random = random
        self._millis = 0
        self._fraction = 0
        self._highest = ""
        """The highest id that later ones must exceed."""

    def make(self) -> str:
        now = self._clock.wall()
        if now > self._millis:
            self._millis = now
            # The top bit stays free, so that the steps below hardly ever run over.
            self._fraction = self._random.getrandbits(_START_BITS)
        else:
            self._fraction += 1 + self._random.getrandbits(_STEP_BITS)
            if self._fraction >= _RANDOM_END:
                self._millis += 1
                self._fraction = self._random.getrandbits(_START_BITS)
        return _format(self._millis, self._fraction)

    def rise_above(self, id: str) -> bool:
        """Make only ids above `id` from now on, if its time is plausible; return whether it is.

        Called with what a restart finds on disk: a clock that went back while the process was away
        must not put new messages before old ones.
        """
        if id <= self._highest:
            return True
        millis = sent_at(id)
        if millis > self._clock.wall() + PLAUSIBLE_LEAD:
            return False
        self._highest = id
        digits = id.replace("-", "")
        version, high = int(digits[12], 16), int(digits[13:16], 16)
        variant, low = divmod(int(digits[16:], 16), 1 << _LOW_BITS)
        # An id of another kind may stand above all of ours with the same time, or the same beginning.
        if version > _VERSION:
            high, low = (1 << 12) - 1, _LOW_MASK
        elif variant > _VARIANT:
            low = _LOW_MASK
        fraction = (high << _LOW_BITS) | low
        if (millis, fraction) > (self._millis, self._fraction):
            self._millis, self._fraction = millis, fraction
        return True


class FileIds:
    """A maker of strictly rising ids, each above all messages of the file before. Not thread-safe."""

    def __init__(self, clock: Clock, random: random.Random) -> None:
        self._maker = IdMaker(clock, random)
        self._last = ""

    def make(self) -> str:
        id = batch_of(self._maker.make())
        while id <= self._last:
            id = batch_of(self._maker.make())
        self._last = id
        return id

    def rise_above(self, id: str) -> bool:
        """Make only ids above `id`, if its time is plausible: see `IdMaker.rise_above`."""
        return self._maker.rise_above(id[:-3] + "fff")


def _format(millis: int, fraction: int) -> str:
    high = fraction >> _LOW_BITS
    low = (_VARIANT << _LOW_BITS) | (fraction & _LOW_MASK)
    text = f"{millis:012x}{_VERSION:x}{high:03x}{low:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_POOL_BYTES: Final = 4_096


class PooledRandom(random.SystemRandom):
    """Random numbers of the system, from a pool. As unpredictable as `random.SystemRandom`, and can't
    be seeded. Not thread-safe."""

    def __init__(self) -> None:
        self._pool = b""
        self._used = 0
        self._process = 0
        super().__init__()

    def getrandbits(self, k: int, /) -> int:
        if k < 0:
            raise ValueError("number of bits must be non-negative")
        count = (k + 7) // 8
        end = self._used + count
        # A process that was forked off must not draw what its parent draws.
        if end > len(self._pool) or self._process != os.getpid():
            self._pool, self._used, end = os.urandom(max(count, _POOL_BYTES)), 0, count
            self._process = os.getpid()
        drawn = int.from_bytes(self._pool[self._used : end], "big")
        self._used = end
        return drawn >> (count * 8 - k)


ID_LENGTH: Final = 36
INDEX_DIGITS: Final = 3
"""Hexadecimal digits of an id that are a message's index."""


def batch_of(id: str) -> str:
    """Return the id of the batch that a message with this `id` would be in."""
    return id[:-INDEX_DIGITS] + "0" * INDEX_DIGITS


def index_of(id: str) -> int:
    """Return the index that a message with this `id` would have in its batch."""
    return int(id[-INDEX_DIGITS:], 16)

"""Random numbers of the system's, drawn many at a time.

To ask the system for each id and each token lets another thread take the interpreter's lock each time,
and that took a fifth of the committer's time.
"""

from __future__ import annotations

import os
import random
from typing import Final

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

"""Garbage collection of a server's process: each object that lives long is looked at once.

Python's collector looks at all old objects whenever their number has grown by a quarter, and the event
loop stands still meanwhile: for 0.2 s with 4,000 waiting receives. No library code may use this:
whether a process collects garbage is for its program to say.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from spoolrack_store.model.settings import MIB

EVERY: Final = 0.1
"""Seconds between two looks at the memory."""
STEP: Final = 8 * MIB
"""Growth of the memory after which new objects are looked at: for some 20 ms, if they are calls."""
WHOLE: Final = 256 * MIB
"""Growth of the memory after which all objects are looked at once more, if it has doubled as well."""
_NEVER: Final = 1 << 30


@contextmanager
def frozen_afterwards() -> Iterator[None]:
    """Run a start without garbage collections, and keep what it made out of all later ones.

    The names of a backlog live as long as their messages. Each collection of the oldest generation
    would look at all of them, in the event loop. For a process of its own only: garbage in cycles that
    was there before stays, too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class GrowthCollector:
    """Collects what lives long each time that the memory has grown by `STEP`.

    What is alive then is kept out of later collections. Most of it is freed without one. Garbage in
    cycles that comes of it later stays until the memory has doubled, and grown by `WHOLE`: so it takes
    no more than that.
    """

    def __init__(self, measure: Callable[[], int | None]) -> None:
        """`measure` returns bytes; None: the system doesn't tell, and the collector stays as it is."""
        self._measure = measure
        self._before = gc.get_threshold()
        self._least = measure()
        self._whole = self._least or 0
        if self._least is not None:
            gc.set_threshold(*self._before[:2], _NEVER)

    async def look(self, every: float = EVERY) -> None:
        """Collect once, after a pause, if the memory has grown."""
        await asyncio.sleep(every)
        least = self._least
        if least is None:
            return
        used = self._measure() or least
        if used >= least + STEP:
            if used >= self._whole + max(self._whole, WHOLE):
                gc.unfreeze()
                self._whole = used
            gc.collect()
            gc.freeze()
            least = used
        self._least, self._whole = min(least, used), min(self._whole, used)

    def end(self) -> None:
        """Leave collections to Python again."""
        gc.set_threshold(*self._before)

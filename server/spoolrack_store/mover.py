"""The mover: a thread that does what time brings about, and sleeps until the next thing is due.

Leases that end, delays that are over, messages that are too old or were put into `new/` by hand. The
queue works without it: a receive first brings back everything that is due.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .engine.adoption import LOOK_EVERY
from .model.clock import Clock, Millis


class Mover:
    """Calls `tick` when something is due; `tick` returns the monotonic time of the next thing."""

    def __init__(self, clock: Clock, tick: Callable[[], Millis | None]) -> None:
        self._clock = clock
        self._tick = tick
        self._changed = threading.Condition()
        self._earliest: Millis | None = None
        """What `due_at` told since the last look."""
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="spoolrack-mover", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def due_at(self, moment: Millis) -> None:
        """Something is due at `moment`, monotonic: earlier than was known, perhaps."""
        with self._changed:
            if self._earliest is None or moment < self._earliest:
                self._earliest = moment
                self._changed.notify_all()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopped():
            look = Millis(self._clock.monotonic() + LOOK_EVERY)
            next_due = self._tick()
            self._sleep(look if next_due is None else min(look, next_due))

    def _is_stopped(self) -> bool:
        with self._changed:
            return self._stopped

    def _sleep(self, wake: Millis) -> None:
        """Until `wake`, or what became known to be due earlier, or the end."""
        with self._changed:
            while not self._stopped:
                until = wake if self._earliest is None else min(wake, self._earliest)
                if self._clock.monotonic() >= until:
                    self._earliest = None
                    return
                self._clock.wait(self._changed, until)

"""The listener: a thread that waits until others have done something in the root, and says so.

The committer takes it in, as it takes in everything. Receives that wait are answered sooner for it; no
promise rests on it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from .engine.peers import Watch

_MOMENT: Final = 0.02
"""Seconds. Short beside what the kernel remembers, and beside what anybody notices."""


class Ear(Watch, Protocol):
    """A watch that can be waited for."""

    def wait(self) -> None:
        """Return once there may be something to tell, or `wake` was called."""

    def wake(self) -> None: ...

    def close(self) -> None: ...


class Listener:
    """Calls `tell` whenever there is news; `tell` returns once it has been taken in.

    It answers whether anybody waits for more. If not, news may gather for a moment: whoever asks for
    something meanwhile takes it in first.
    """

    def __init__(self, ear: Ear, tell: Callable[[], bool]) -> None:
        self._ear = ear
        self._tell = tell
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spoolrack-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._ear.wake()
        self._thread.join()
        self._ear.close()

    def _run(self) -> None:
        while True:
            self._ear.wait()
            if self._stopped.is_set():
                return
            if not self._tell():
                self._stopped.wait(_MOMENT)

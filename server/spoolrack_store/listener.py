"""The listener: a thread that waits for changes of other processes while receives wait.

A process that commits a change touches the files of the other owners, if one of them listens. No
promise rests on it: the committer looks every second, too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from .engine.sharing import Sharing
from .files.local_disk import TouchWatch
from .model.clock import Clock, Millis

log = logging.getLogger(__name__)

SPAN: Final = Millis(3_000)
"""So long it listens after it was last asked to."""


class Listener:
    """The thread that listens. `listen` is called under one lock, the other methods once."""

    def __init__(self, watch: TouchWatch, sharing: Sharing, clock: Clock) -> None:
        self._watch = watch
        self._sharing = sharing
        self._clock = clock
        self._until = Millis(0)
        self._is_wanted = threading.Event()
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def start(self, tell: Callable[[], None]) -> None:
        """Start the thread, which calls `tell` when other processes have changed something."""
        self._thread = threading.Thread(
            target=self._run, args=(tell,), name="spoolrack-listener", daemon=True
        )
        self._thread.start()

    def listen(self) -> None:
        """Listen for some time from now. The caller checks for changes after that."""
        now = self._clock.monotonic()
        if self._until - now < SPAN // 2:
            self._until = Millis(now + SPAN)
            self._sharing.listen(self._until)
            self._is_wanted.set()

    def stop(self) -> None:
        self._is_stopped = True
        self._watch.wake()
        self._is_wanted.set()
        if self._thread is not None:
            self._thread.join()
        self._watch.close()

    def _run(self, tell: Callable[[], None]) -> None:
        is_told = False
        while not self._is_stopped:
            self._is_wanted.wait()
            self._is_wanted.clear()
            try:
                while self._clock.monotonic() < self._until and not self._is_stopped:
                    self._watch.wait(SPAN)
                    if self._sharing.has_news:
                        tell()
            except Exception:
                # Waiting receives are late by up to a second. The thread goes on when it is wanted.
                if not is_told:
                    log.exception("changes of other processes are found by looking, each second")
                is_told = True

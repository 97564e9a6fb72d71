"""Counts calls of Python functions: the processor's work for an operation, on a machine of any speed.

It knows no function. The caller says which count, and under what name.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from types import FrameType


class FunctionCalls:
    """Counts in this thread, and in each that starts while it counts. Use as a context manager.

    A property, a comprehension and a generator are functions. A generator or a coroutine that goes on
    is called once more, and so is each that awaits it.
    """

    def __init__(self, name_of: Callable[[FrameType], str | None]) -> None:
        """`name_of` returns the name under which a call counts, None for one that doesn't."""
        self._name_of = name_of
        self._is_on = False
        # Each thread writes its own counts only, so that no call is lost between two of them.
        self._by_thread: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def __enter__(self) -> FunctionCalls:
        self._before = sys.getprofile(), threading.getprofile()
        self._is_on = True
        threading.setprofile(self._on_call)
        sys.setprofile(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        here, in_new_threads = self._before
        sys.setprofile(here)
        threading.setprofile(in_new_threads)
        self._is_on = False  # For threads that have started meanwhile.

    def _on_call(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and self._is_on and (name := self._name_of(frame)) is not None:
            self._by_thread[threading.get_ident()][name] += 1

    def counts(self, thread: int | None = None) -> Counter[str]:
        """Return the calls so far of a thread, by its `get_ident`; None: of all threads."""
        if thread is not None:
            return self._by_thread[thread].copy()
        total: Counter[str] = Counter()
        for each in list(self._by_thread.values()):
            total.update(each.copy())
        return total

    def during(self, call: Callable[[], object], thread: int | None = None) -> Counter[str]:
        """Return the calls while `call` runs, of a thread or of all."""
        before = self.counts(thread)
        call()
        return self.counts(thread) - before

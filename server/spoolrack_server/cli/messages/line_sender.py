"""Sends lines in batches, with several calls in flight if requested, and tracks acknowledged lines.

A line that a full queue or disk refuses is retried until the user interrupts; a line that can never be
sent is noted, and the rest goes on.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final

from spoolrack import Outgoing, Queue, SpoolrackError

from ..kit.exit_codes import line_of
from .line_reader import TOO_LONG, Lines

Refusals = list[tuple[int, str]]

_PAUSE: Final = 0.5
"""Seconds before a refused message is tried again, if the server doesn't say."""


class Ranges:
    """A set of line numbers: exact, and small for any number of lines."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    def add(self, numbers: Iterable[int]) -> None:
        """Add `numbers`, which ascend and aren't in it."""
        run: list[int] = []
        for number in numbers:
            if run and number == run[1] + 1:
                run[1] = number
                continue
            if run:
                self._add_run(*run)
            run = [number, number]
        if run:
            self._add_run(*run)

    def _add_run(self, first: int, last: int) -> None:
        at = bisect_left(self._firsts, first)
        if at < len(self._firsts) and self._firsts[at] == last + 1:
            last = self._lasts.pop(at)
            self._firsts.pop(at)
        if at and self._lasts[at - 1] == first - 1:
            self._lasts[at - 1] = last
        else:
            self._firsts.insert(at, first)
            self._lasts.insert(at, last)

    def missing(self) -> list[tuple[int, int | None]]:
        """Return the ranges from 1 on that are not in it, in order; the last one has no end."""
        gaps: list[tuple[int, int | None]] = []
        next = 1
        for first, last in zip(self._firsts, self._lasts, strict=True):
            if next < first:
                gaps.append((next, first - 1))
            next = last + 1
        return [*gaps, (next, None)]


class LineSender:
    def __init__(
        self,
        queue: Queue,
        like: Outgoing,
        *,
        in_flight: int,
        retry_timeout: float,
        advance: Lines.Advance,
    ) -> None:
        """Every line becomes a message `like` that one. `advance` is called with acknowledged lines and
        bytes."""
        self._queue = queue
        self._like = like
        self._in_flight = in_flight
        self._retry_timeout = retry_timeout
        self._advance = advance
        self._calls: deque[tuple[int, int, Future[int]]] = deque()
        """Lines, bytes and result of each call, in the order of the lines."""
        self._noting = threading.Lock()
        self.acknowledged = 0
        """Messages that are on stable media."""
        self.done_lines = Ranges()
        """The lines that are acknowledged, and those that are among the refused."""
        self.refusals: Refusals = []
        """Lines that can never be sent, with the reason."""

    def send(self, lines: Lines) -> None:
        """Send all lines. Raise the error that ends it early, after the calls in flight have ended."""
        pool = ThreadPoolExecutor(self._in_flight, "spoolrack-send")
        try:
            for chunk in lines.chunks():
                if chunk.is_too_long:
                    self._note([], [(chunk.first, TOO_LONG)])
                    continue
                while len(self._calls) >= self._in_flight:
                    self._finish_first()
                count, size = len(chunk.lines), sum(map(len, chunk.lines))
                sent = pool.submit(self._send, chunk.first, chunk.lines)
                self._calls.append((count, size + count, sent))
            while self._calls:
                self._finish_first()
        except BaseException:
            # Calls in flight can't be called back, and their results are worth knowing. A second Ctrl-C
            # ends that.
            self._finish_rest()
            raise
        finally:
            pool.shutdown(wait=False)

    def _finish_first(self) -> None:
        _, _, future = self._calls[0]
        future.exception()  # Waits. Interrupted here, the call is still the first.
        lines, size, future = self._calls.popleft()
        self._count(lines, size, future)

    def _finish_rest(self) -> None:
        while self._calls:
            try:
                self._finish_first()
            except SpoolrackError:
                continue  # The first failure is the one to report.

    def _count(self, lines: int, size: int, future: Future[int]) -> None:
        refused = future.result()
        self._advance(lines - refused, size)

    def _send(self, first: int, lines: list[bytes]) -> int:
        """Send lines, of which the `first` has that number; answers how many can never be sent."""
        refused = 0
        unsent = [(first + at, line) for at, line in enumerate(lines)]
        end = time.monotonic() + self._retry_timeout
        while True:
            messages = [replace(self._like, body=line) for _, line in unsent]
            later: list[tuple[int, bytes]] = []
            pause = _PAUSE
            error: SpoolrackError | None = None
            stored: list[int] = []
            never: Refusals = []
            for numbered, result in zip(unsent, self._queue.send_many(messages), strict=True):
                if result.error is None:
                    stored.append(numbered[0])
                elif not result.error.retryable:
                    never.append((numbered[0], line_of(result.error)))
                else:
                    later.append(numbered)
                    error = result.error
                    if error.retry_delay is not None:
                        pause = error.retry_delay.total_seconds()
            self._note(stored, never)
            refused += len(never)
            if error is None:
                return refused
            now = time.monotonic()
            if len(later) < len(unsent):
                end = now + self._retry_timeout
            if now + pause > end:
                raise error
            time.sleep(pause)
            unsent = later

    def _note(self, stored: Sequence[int], refusals: Refusals) -> None:
        """Take down at once what has become of some lines of a call, whatever becomes of the others."""
        with self._noting:
            self.acknowledged += len(stored)
            self.refusals += refusals
            self.done_lines.add(sorted([*stored, *(number for number, _ in refusals)]))

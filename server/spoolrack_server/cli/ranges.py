"""Ranges of finished lines: exact, and small for any number of lines. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable


class Ranges:
    """A set of line numbers."""

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

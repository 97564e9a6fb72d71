"""The cost of work, counted as lines of the store that run, or as what each commit does of it; not as
time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any, Final

MOST_COMMITS: Final = 200


def steps_of(call: Callable[[], object]) -> int:
    """Return how many lines of the store `call` runs."""
    count = 0

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return on_line

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        return on_line if "spoolrack_store" in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def slices_of(count: Callable[[], int], commit: Callable[[], object], end: int = 0) -> list[int]:
    """Commit until `count` is at its end; return by how much each commit has changed it."""
    counts = [count()]
    while counts[-1] != end:
        commit()
        counts.append(count())
        assert len(counts) < MOST_COMMITS, f"it doesn't end: {counts}"
    return [abs(after - before) for before, after in pairwise(counts)]

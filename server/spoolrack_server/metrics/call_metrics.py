"""Metrics of calls and requests: duration, result, and the open ones.

A call costs one lookup in a dict and one addition. Lives in one event loop; a reader in another thread
may see counts of a moment ago.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from spoolrack_store.model.statistics import SECONDS, Histogram

from .metrics import Row, histogram_row


class CallMetrics:
    """The metrics of calls to one server, since its start."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, str], Histogram] = {}
        self._open: dict[str, int] = {}
        self._ended: dict[tuple[str, str], int] = {}

    def ended(self, operation: str, code: str, seconds: float) -> None:
        histogram = self._spans.get((operation, code))
        if histogram is None:
            histogram = self._spans[operation, code] = Histogram(SECONDS)
        histogram.observe(seconds)

    @contextmanager
    def stream(self, operation: str) -> Iterator[None]:
        """Count a stream while it is open. Its duration is no metric."""
        self._open[operation] = self._open.get(operation, 0) + 1
        try:
            yield
        finally:
            self._open[operation] -= 1

    def stream_ended(self, operation: str, code: str) -> None:
        self._ended[operation, code] = self._ended.get((operation, code), 0) + 1

    def rows(self) -> Iterator[Row]:
        for key, histogram in list(self._spans.items()):
            yield histogram_row("spoolrack_operation_duration_seconds", key, histogram)
        for operation, count in list(self._open.items()):
            yield "spoolrack_streams", [operation], count
        for key, count in list(self._ended.items()):
            yield "spoolrack_streams_ended", key, count

"""A few requests in flight at once, each retried until it is answered.

The window is the backpressure: a caller waits while it is full. What can fail: a request that can't
succeed, or not in time; the others may have taken place all the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from ._light_client import LightClient, repeated

DEPTH: Final = 4


class RequestWindow(AbstractContextManager["RequestWindow"]):
    """Requests of one method. For one thread. Leaving it without an error waits for all answers."""

    def __init__(
        self, caller: LightClient, method: str, take: Callable[[Any, Any], Any | None]
    ) -> None:
        """`take` is given each request with its answer, in order, and may answer with a request for
        what is left, or raise."""
        self._caller = caller
        self._method = method
        self._take = take
        self._in_flight: deque[tuple[Any, Any]] = deque()

    def put(self, request: Any) -> None:
        """Begin it, once there is room."""
        while len(self._in_flight) >= DEPTH:
            self._finish_first()
        self._in_flight.append((request, self._caller.begin(self._method, request)))

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            while kind is None and self._in_flight:
                self._finish_first()
        finally:
            for _, call in self._in_flight:
                call.cancel()

    def _finish_first(self) -> None:
        request, call = self._in_flight.popleft()
        tries = [call]

        def once() -> Any:
            # The call in flight is the first attempt.
            if tries:
                response = self._caller.finished(tries.pop())
            else:
                response = self._caller.once(self._method, sent[0])
            left = self._take(sent[0], response)
            if left is not None:
                sent[0], error = left
                raise error

        sent = [request]
        repeated(once, self._caller.budget, self._method)

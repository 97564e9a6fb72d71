"""Extension of a running query's reservations, however long its batch or its pause is.

A thread of the process that plans the query extends them several times within the visibility timeout,
and once more when the query stops. It ends with that process: then the reservations expire, unless the
query is started again in time. What can fail: an extension; the next call of the query itself reports
it.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Final, NamedTuple

from .._runtime import ThreadSignal, run
from .._threads import start_thread
from .._transports.grpc_values import duration
from ..errors import SpoolrackError
from ..v1 import reservation_service_pb2 as reserved
from ._light_client import LightClient, may_repeat, of_each
from ._offsets import Offset

OFTEN: Final = 4
"""Extensions within one hold: that many less one may fail."""
MOST: Final = 10.0
"""Seconds after which an extension is given up."""
COMMITTED: Final = "RESERVATION_COMMITTED"

log = logging.getLogger("spoolrack.spark")


class _Reserved(NamedTuple):
    offset: Offset
    caller: LightClient
    queue: str


class ReservationExtender:
    """Extends the reservations of streams until they are committed. `keep` and `drop` of a stream from
    one thread."""

    def __init__(self, hold_seconds: float) -> None:
        self._span = duration(hold_seconds)
        self._pause = hold_seconds / OFTEN
        self._lock = threading.Lock()
        self._reservations: dict[tuple[str, int], _Reserved] = {}
        """By stream and sequence number."""
        self._stopping = ThreadSignal()
        self._thread: threading.Thread | None = None

    def keep(self, offset: Offset, caller: LightClient, queue: str = "") -> None:
        """Extend this one from now on. `caller` is of its server, and `queue` is its own, if it is
        known."""
        with self._lock:
            self._reservations[offset.gen, offset.sequence_number] = _Reserved(offset, caller, queue)
            if self._thread is None:
                self._thread = start_thread(self._run, "spoolrack-keeper")

    def drop(self, last: Offset) -> None:
        """Stop extending this one, and those before it in its stream."""
        with self._lock:
            for stream, number in [*self._reservations]:
                if stream == last.gen and number <= last.sequence_number:
                    del self._reservations[stream, number]

    def stop(self) -> None:
        """End the thread, and extend the reservations once more, by a whole hold."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(min(self._pause, MOST))
        self.extend_all()

    def _run(self) -> None:
        while not run(self._stopping.wait(self._pause)):
            self.extend_all()

    def extend_all(self) -> None:
        """Extend the reservations now; go on with those of which another extension may succeed."""
        with self._lock:
            reservations = dict(self._reservations)
        may_go_on = of_each(reservations, lambda key: self._extend(reservations[key]))
        with self._lock:
            for key, reservation in reservations.items():
                if not may_go_on[key] and self._reservations.get(key) is reservation:
                    del self._reservations[key]

    def _extend(self, reservation: _Reserved) -> bool:
        """Extend one reservation; return whether another extension may succeed."""
        offset = reservation.offset
        request: Any = reserved.ExtendReservationRequest(
            stream=offset.gen,
            sequence_number=offset.sequence_number,
            visibility_timeout=self._span,
            queue=reservation.queue,
        )
        try:
            caller = reservation.caller.to(offset.root)
            caller.once("ExtendReservation", request, timeout=min(self._pause, MOST))
        except SpoolrackError as error:
            if error.reason == COMMITTED:
                # The query's own commit was there first.
                return False
            log.warning(
                "reservation %s of %s was not extended: %s", offset.sequence_number, offset.gen, error
            )
            return may_repeat(error)
        return True

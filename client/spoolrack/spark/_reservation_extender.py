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
from ._light_client import LightClient, may_repeat
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
    """Extends at most one reservation of each stream. `keep` and `drop` of a stream from one thread."""

    def __init__(self, hold_seconds: float) -> None:
        self._span = duration(hold_seconds)
        self._pause = hold_seconds / OFTEN
        self._lock = threading.Lock()
        self._reservations: dict[str, _Reserved] = {}
        """By stream."""
        self._stopping = ThreadSignal()
        self._thread: threading.Thread | None = None

    def keep(self, offset: Offset, caller: LightClient, queue: str = "") -> None:
        """Keep this one, which was just reserved or extended, and no other of its stream. `caller` is
        of its server, and `queue` is its own, if it is known."""
        with self._lock:
            self._reservations[offset.gen] = _Reserved(offset, caller, queue)
            if self._thread is None:
                self._thread = start_thread(self._run, "spoolrack-keeper")

    def drop(self, stream: str) -> None:
        with self._lock:
            self._reservations.pop(stream, None)

    def stop(self) -> None:
        """End the thread, and extend the reservations once more, by a whole hold."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(min(self._pause, MOST))
        for reservation in tuple(self._reservations.values()):
            self._extend(reservation)

    def _run(self) -> None:
        while not run(self._stopping.wait(self._pause)):
            with self._lock:
                reservations = tuple(self._reservations.values())
            for reservation in reservations:
                if self._extend(reservation):
                    continue
                stream = reservation.offset.gen
                with self._lock:
                    if self._reservations.get(stream) is reservation:
                        del self._reservations[stream]

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

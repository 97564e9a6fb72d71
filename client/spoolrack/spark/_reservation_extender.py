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

from .._transports.grpc_values import duration
from ..errors import SpoolrackError
from ..v1 import reservation_service_pb2 as reserved
from ._light_client import LightClient, may_repeat
from ._offsets import Offset

OFTEN: Final = 4
"""Confirmations within one hold: that many less one may fail."""
MOST: Final = 10.0
"""Seconds after which an extension is given up."""
COMMITTED: Final = "RESERVATION_COMMITTED"

log = logging.getLogger("spoolrack.spark")


class _Held(NamedTuple):
    offset: Offset
    caller: LightClient
    queue: str


class ReservationExtender:
    """Holds at most one reservation of each stream. `keep` and `drop` of a stream from one thread."""

    def __init__(self, hold_seconds: float) -> None:
        self._span = duration(hold_seconds)
        self._pause = hold_seconds / OFTEN
        self._changed = threading.Condition()
        self._held: dict[str, _Held] = {}
        self._is_over = False
        self._thread: threading.Thread | None = None

    def keep(self, offset: Offset, caller: LightClient, queue: str = "") -> None:
        """Keep this one, which was just reserved or confirmed, and no other of its stream. `caller` is
        of its server, and `queue` is its own, if it is known."""
        with self._changed:
            self._held[offset.gen] = _Held(offset, caller, queue)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="spoolrack-keeper", daemon=True)
                self._thread.start()

    def drop(self, stream: str) -> None:
        with self._changed:
            self._held.pop(stream, None)

    def stop(self) -> None:
        """End the thread, and extend the reservations once more, by a whole hold."""
        with self._changed:
            if self._is_over:
                return
            self._is_over = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(min(self._pause, MOST))
        for held in self._held.values():
            self._extend(held)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over, self._pause)
                if self._is_over:
                    return
                all_held = tuple(self._held.values())
            for held in all_held:
                if self._extend(held):
                    continue
                with self._changed:
                    if self._held.get(held.offset.gen) is held:
                        del self._held[held.offset.gen]

    def _extend(self, held: _Held) -> bool:
        """Extend one reservation; return whether another extension may succeed."""
        offset = held.offset
        request: Any = reserved.ExtendReservationRequest(
            stream=offset.gen,
            sequence_number=offset.sequence_number,
            visibility_timeout=self._span,
            queue=held.queue,
        )
        try:
            caller = held.caller.to(offset.root)
            caller.once("ExtendReservation", request, timeout=min(self._pause, MOST))
        except SpoolrackError as error:
            if error.reason == COMMITTED:
                # The query's own commit was there first.
                return False
            log.warning(
                "reservation %s of %s was not confirmed: %s", offset.sequence_number, offset.gen, error
            )
            return may_repeat(error)
        return True

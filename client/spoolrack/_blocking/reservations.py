"""Reservations, for threads: messages that are leased under a name, to be read again."""

from __future__ import annotations

from collections.abc import Iterator

from .._message_base import MessageFacts
from .._reservation_values import CommitResult, Reservation
from .._runtime import run
from .._values import Seconds
from ..aio import _reservations as aio_reservations
from .iteration import blocking_iterator, closing_iterator


class Reservations:
    """The reservations of a server; `client.reservations` is one."""

    def __init__(self, core: aio_reservations.Reservations) -> None:
        self._core = core

    def extend(
        self,
        stream: str,
        sequence_number: int,
        visibility_timeout: Seconds | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> Reservation:
        """Let a reservation end so long after now, or as long as at first; raises `ReservationLost`
        if it has ended."""
        return run(self._core.extend(stream, sequence_number, visibility_timeout, timeout=timeout))

    def read(
        self,
        stream: str,
        sequence_number: int,
        begin_index: int = 0,
        end_index: int | None = None,
        *,
        timeout: Seconds | None = None,
    ) -> Iterator[MessageFacts]:
        """Return the messages of a reservation in order, as often as asked: all, or those from
        `begin_index` to before `end_index`.

        They have no receipts and no queue. Messages that were deleted since the reservation are left
        out. A read goes on by itself after broken connections; `timeout` is for each part of it.
        Raises `ReservationLost`, `ReservationCommitted` or `ReservationNotFound`, also in the middle.
        """
        return closing_iterator(
            self._core.read(stream, sequence_number, begin_index, end_index, timeout=timeout)
        )

    def commit(
        self, stream: str, last_sequence_number: int, *, timeout: Seconds | None = None
    ) -> CommitResult:
        """Delete the messages of all reservations of a stream up to a number, for good.

        The answer names the reservations that were lost before: of those nothing was deleted. May be
        repeated.
        """
        return run(self._core.commit(stream, last_sequence_number, timeout=timeout))

    def release(self, stream: str, sequence_number: int, *, timeout: Seconds | None = None) -> None:
        """End a reservation: its messages are ready again, and later calls for it raise
        `ReservationLost`. May be repeated."""
        run(self._core.release(stream, sequence_number, timeout=timeout))

    def list(
        self, queue: str = "", stream: str = "", *, timeout: Seconds | None = None
    ) -> Iterator[Reservation]:
        """Return the reservations of a queue, of a stream, or all, by stream and number. `timeout` is
        for each page of them."""
        return blocking_iterator(self._core.list(queue, stream, timeout=timeout))

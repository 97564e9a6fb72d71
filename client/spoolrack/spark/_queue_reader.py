"""Streaming reads of one queue, without Spark: reserve, read, commit.

A batch is a reservation. It is deleted when the query asks for the next one, because only then Spark
has written down that it is done; Spark's own word for it comes one batch late. With
`deleteDelaySeconds` it is deleted later (`_queues_reader`). What can fail: a
reservation whose messages other consumers have leased (`BatchLost`), one that was deleted long ago
(`CheckpointTooOld`), one that no task has read, because the sink has skipped the batch (`BatchUnread`),
one of another root than the server has (`OtherServer`), and each call that fails longer than
`retrySeconds`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from .._transports.grpc_values import duration
from ..errors import RootDiffers, SpoolrackError
from ..v1 import reservation_service_pb2 as reserved
from ._light_client import CALL_TIMEOUT, LightClient
from ._offsets import NOTHING_YET, Offset
from ._options import MAX_MESSAGES, ReadOptions
from ._reservation_extender import COMMITTED, ReservationExtender

LOST: Final = "RESERVATION_LOST"
NOT_FOUND: Final = "RESERVATION_NOT_FOUND"
GONE: Final = frozenset({LOST, NOT_FOUND})
REMIND: Final = 86_400.0
"""Seconds after which an idle query repeats its last commit: the server remembers one for 30 days."""

log = logging.getLogger("spoolrack.spark")


class BatchLost(SpoolrackError):
    """The messages of a batch are with others again: its hold is over."""

    reason = LOST


class BatchUnread(SpoolrackError):
    """A batch is done for Spark, and no task has read it: the sink has skipped it."""

    reason = "RESERVATION_UNREAD"


class ServerTooOld(SpoolrackError):
    """The server is older than the query needs."""


class CheckpointTooOld(SpoolrackError):
    """The query's checkpoint is older than the query's last batch: it was restored from a copy."""

    reason = "RESERVATION_COMMITTED"


class OtherServer(RootDiffers):
    """The checkpoint is of another root than the server has: its batches are there, and not here."""


class StreamReading:
    """One query's reading of one queue. Not thread-safe."""

    def __init__(
        self, queue: str, options: ReadOptions, caller: LightClient, extender: ReservationExtender
    ) -> None:
        self._queue = queue
        self._options = options
        self._caller = caller
        self._extender = extender
        self._committed: Offset | None = None
        self._committed_at = 0.0
        """Monotonic."""
        self._messages_left: int | None = None
        """How many messages may yet come; None: all."""
        self._reserved_until: int | None = NOTHING_YET
        """The last sequence number that is held since before this run; None: the server is to be
        asked."""

    def limit(self, ready_count: int) -> None:
        """Limit the next batches to the messages that are ready now."""
        self._messages_left = ready_count
        self._reserved_until = None

    def latest(self, start: Offset, *, max_messages: int, max_bytes: int) -> Offset:
        """Reserve the next batch; `start` if there is none."""
        wait = self._options.wait_seconds
        is_counted = False
        if self._messages_left is not None:
            wait = 0.0
            is_counted = not self._is_reserved(start)
            if is_counted:
                max_messages = min(max_messages, self._messages_left)
                if max_messages == 0:
                    return start
        request = reserved.ReserveRequest(
            queue=self._queue,
            stream=start.gen,
            sequence_number=start.sequence_number + 1,
            max_messages=min(max(1, max_messages), MAX_MESSAGES),
            max_bytes=max_bytes,
            visibility_timeout=duration(self._options.hold_seconds),
            wait=duration(wait),
        )
        answer = self._reserve(start, request)
        if not answer.HasField("reservation"):
            return start
        count = answer.reservation.message_count
        if self._messages_left is not None and is_counted:
            self._messages_left = max(0, self._messages_left - count)
        end = Offset(
            gen=start.gen,
            sequence_number=request.sequence_number,
            n=count,
            root=answer.reservation.root_id or start.root,
        )
        self._extender.keep(end, self._caller, self._named(end))
        return end

    def _named(self, of: Offset) -> str:
        """Return the queue of an offset for a call about its reservation. Empty: a checkpoint of
        before, which names no root, may be of another queue."""
        return self._queue if of.root else ""

    def _call(self, of: Offset, method: str, request: Any, *, timeout: float = CALL_TIMEOUT) -> Any:
        """Make a call about the stream of an offset, at the root that has it."""
        try:
            return self._caller.to(of.root)(method, request, timeout=timeout)
        except SpoolrackError as error:
            if error.reason != OtherServer.reason:
                raise
            raise _other_server(of, self._caller.address, error) from error

    def _reserve(self, start: Offset, request: Any) -> Any:
        while True:
            try:
                timeout = CALL_TIMEOUT + self._options.wait_seconds
                return self._call(start, "Reserve", request, timeout=timeout)
            except SpoolrackError as error:
                if error.reason == COMMITTED:
                    self._refuse_old(request.stream, request.sequence_number, error)
                    committed = error.metadata.get("committed", request.sequence_number)
                    request.sequence_number = int(committed) + 1
                    continue
                if error.reason != LOST:
                    raise
                # Reserved by a run whose word isn't in this checkpoint. Its messages come again.
                self._give_back(replace(start, sequence_number=request.sequence_number))
                request.sequence_number += 1

    def _is_reserved(self, start: Offset) -> bool:
        """Return whether an earlier run left a reservation that isn't in this checkpoint: its messages
        were not ready when they were counted. Asks the server once."""
        if self._reserved_until is None:
            held = (number for number, is_held in self._listed(start).items() if is_held)
            self._reserved_until = max(held, default=NOTHING_YET)
        return start.sequence_number < self._reserved_until

    def _listed(self, of: Offset) -> dict[int, bool]:
        """Return the sequence numbers of the stream's reservations, and whether each is held."""
        request = reserved.ListReservationsRequest(queue=self._queue, stream=of.gen, page_size=1_000)
        listed = {}
        while True:
            page = self._call(of, "ListReservations", request)
            for one in page.reservations:
                listed[one.sequence_number] = one.state == reserved.RESERVATION_STATE_HELD
            if not page.next_page_token:
                return listed
            request.page_token = page.next_page_token

    def keep_finished(self, done: Offset) -> bool:
        """Extend the reservations up to this one, which an earlier run has finished and not deleted.
        Return False if the hold of one is over: its messages are ready."""
        listed = {
            number: is_held
            for number, is_held in self._listed(done).items()
            if number <= done.sequence_number
        }
        if not all(listed.values()):
            return False
        for number in listed:
            offset = replace(done, sequence_number=number)
            self._extender.keep(offset, self._caller, self._named(done))
        return True

    def extend(self, end: Offset) -> Any:
        """Extend a batch's hold; return the `Reservation`, or an empty one for a lost batch."""
        request = reserved.ExtendReservationRequest(
            stream=end.gen,
            sequence_number=end.sequence_number,
            visibility_timeout=duration(self._options.hold_seconds),
            queue=self._named(end),
        )
        try:
            answer = self._call(end, "ExtendReservation", request)
        except SpoolrackError as error:
            if error.reason == COMMITTED:
                self._refuse_old(end.gen, end.sequence_number, error)
                return reserved.Reservation()
            if error.reason not in GONE:
                raise
            self._lost(end, "can't be read any more", error)
            if self._options.on_lost != "delete":
                # The batch is empty now: its commit must delete nothing.
                self._give_back(end)
            return reserved.Reservation()
        self._extender.keep(end, self._caller, self._named(end))
        return answer.reservation

    def _refuse_old(self, stream: str, sequence_number: int, error: SpoolrackError) -> None:
        """Raise `CheckpointTooOld`, unless what was done before is to be passed over."""
        if not self._options.skips_done:
            raise _too_old(stream, sequence_number, error) from error
        log.warning("Batch %s of the stream %s is passed over: %s", sequence_number, stream, error)

    def _give_back(self, lost: Offset) -> None:
        """Keep a commit from deleting what is ready again of a lost reservation."""
        request = reserved.ReleaseReservationRequest(
            stream=lost.gen, sequence_number=lost.sequence_number, queue=self._named(lost)
        )
        try:
            self._call(lost, "ReleaseReservation", request)
        except SpoolrackError as error:
            if error.reason != NOT_FOUND:
                raise

    def is_committed(self, done: Offset) -> bool:
        """Return whether a commit of this batch is no call: it was made lately, or there is none."""
        is_late = self._caller.monotonic() >= self._committed_at + REMIND
        return done.is_initial or (done.is_at(self._committed) and not is_late)

    def commit(self, done: Offset) -> None:
        """Delete the messages of all batches up to this one, which Spark knows to be done."""
        if self.is_committed(done):
            return
        now = self._caller.monotonic()
        request = reserved.CommitReservationsRequest(
            stream=done.gen,
            last_sequence_number=done.sequence_number,
            only_read=not self._options.deletes_unread,
            queue=self._named(done),
        )
        try:
            answer = self._call(done, "CommitReservations", request)
        except SpoolrackError as error:
            if error.reason == NOT_FOUND:
                # Made by another server, in a root that was put back since, or over for 30 days.
                self._extender.drop(done)
                self._lost(done, "was done, and isn't known to the server", error)
                answer = reserved.CommitReservationsResponse()
            elif error.reason == BatchUnread.reason:
                raise _unread(done, error) from error
            elif error.reason == COMMITTED:
                # An old checkpoint: the read of the batch after this one is refused, with what to do.
                answer = reserved.CommitReservationsResponse()
            else:
                raise
        self._committed, self._committed_at = done, now
        self._extender.drop(done)
        if done.sequence_number in answer.lost_sequence_numbers:
            self._lost(done, "was done, but could not be deleted", None)

    def _lost(self, offset: Offset, what: str, why: SpoolrackError | None) -> None:
        text = (
            f"Batch {offset.sequence_number} of the stream {offset.gen} ({offset.n} messages of "
            f"{self._queue}) {what}: its hold of {self._options.hold_seconds:g} s was "
            "over, it was released, or its queue was deleted. Those that stay in the queue come again"
        )
        if self._options.on_lost != "fail":
            log.warning("%s, in a later batch (onLostReservation=%s).", text, self._options.on_lost)
            return
        raise BatchLost(
            f"{text}: work that this batch has already done with them is done twice. To go on, start "
            "the query once with .option('onLostReservation', 'redeliver'); or with 'delete' if the "
            "batch's rows are in the output, which deletes those that no other reader has leased "
            "since. To be away for longer, set holdSeconds."
        ) from why


def read_slice(
    caller: LightClient, stream: str, sequence_number: int, part: range, *, queue: str = ""
) -> Iterator[Sequence[Any]]:
    """Yield the messages of a slice, in lists of runs; resume where a broken connection ended. `queue`:
    of the reservation, if it is known."""
    begin = part.start

    def rest() -> reserved.ReadReservationRequest | None:
        if begin >= part.stop:
            return None
        return reserved.ReadReservationRequest(
            stream=stream,
            sequence_number=sequence_number,
            begin_index=begin,
            end_index=part.stop,
            mark_read=True,
            by_column=True,
            queue=queue,
        )

    for frame in caller.frames("ReadReservation", rest):
        if not frame.next_index:
            raise ServerTooOld(
                "The server doesn't return messages by column: update it before the queries."
            )
        begin = frame.next_index
        yield frame.runs


def _too_old(stream: str, sequence_number: int, why: SpoolrackError) -> CheckpointTooOld:
    return CheckpointTooOld(
        f"The checkpoint asks for batch {sequence_number} of the stream {stream}, which was "
        "done and deleted: the checkpoint is older than what the query has done, as after a "
        "restore. Nothing is lost: the messages stay in the queue. Start the query with a new "
        "checkpointLocation and a new output path: a file sink skips the batch numbers that its "
        "folder has already. With asyncProgressTrackingEnabled the checkpoint of a run that died is "
        f"older, too: set onOldCheckpoint to 'skip', and what is done is passed over. ({why})"
    )


def _other_server(of: Offset, address: str, why: SpoolrackError) -> OtherServer:
    return OtherServer(
        f"The checkpoint is of the root {of.root}, and the server at {address} has the root "
        f"{why.metadata.get('found', 'another')}: nothing was read, and nothing was deleted. Give the "
        "query the endpoint of the server that it began with. To read from this one, start it with a "
        "new checkpointLocation and a new output path; the other server keeps its messages."
    )


def _unread(done: Offset, why: SpoolrackError) -> BatchUnread:
    sequence_number = why.metadata.get("sequence_number", done.sequence_number)
    return BatchUnread(
        f"Batch {sequence_number} of the stream {done.gen} is done for Spark, and no task has "
        "read its messages: the sink has skipped it, as a file sink does whose folder has a batch "
        "of this number from another checkpoint. Nothing of it was deleted. Start the query with "
        "a new checkpointLocation and a new output path. The messages come again after "
        "holdSeconds, or at once after 'spoolrack reservations release "
        f"{done.gen} {sequence_number}'. If the query leaves batches unread on purpose, set "
        "onUnreadBatch to 'delete'."
    )

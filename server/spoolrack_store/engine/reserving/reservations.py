"""Reservations: sets of leases under a name, which their reader may read again until it commits them.

A set is made by leasing its messages, all under one token and until one moment, and by a manifest
in `reserved/` that says which they are; both become durable together, before anybody is told. Its
leases end like others'. Before one of them is brought back the set is noted as lost, so that a message
which others may have is never shown as held. A commit is a marker in `reserved/`, durable before the
first message goes to `remove/`: whoever finds it finishes what it began. Without it nothing is deleted.

With others there, each request keeps them out of `reserved/` while it looks and writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ...model.clock import Millis, span_text
from ...model.errors import (
    InvalidRequest,
    ReservationCommitted,
    ReservationLost,
    ReservationNotFound,
    ReservationUnread,
    StoreError,
)
from ...model.holds import HoldName, Manifest, Marker, is_stream
from ...model.names import id_of, length_of
from ...model.reservations import (
    MAX_RESERVED_MESSAGES,
    MAX_SEQ,
    MIN_HOLD,
    CommitReservations,
    Committed,
    Confirm,
    MarkRead,
    PutAside,
    Release,
    Reservation,
    Reserve,
    Unreserve,
)
from ...model.settings import MAX_VISIBILITY
from ..catalog import Catalog
from ..leaser import Leaser
from ..live import Live
from ..order import Turn
from ..peers import Peers
from ..remover import Remover
from ..requeuer import Requeuer
from ..root import Root
from ..views import Sight, Views
from .holdings import HeldSet, Holdings
from .set_leases import SetLeases
from .upkeep import Upkeep

log = logging.getLogger(__name__)


class Reservations:
    """Not thread-safe."""

    def __init__(
        self,
        root: Root,
        catalog: Catalog,
        leaser: Leaser,
        remover: Remover,
        requeuer: Requeuer,
        peers: Peers,
        views: Views,
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._leaser = leaser
        self._leases = leases = SetLeases(root, catalog, leaser, remover, requeuer, peers, views)
        self._holdings = Holdings(root)
        self.upkeep = Upkeep(root, self._holdings, leases, peers)
        self.turns = (
            Turn(Unreserve, self._unreserve),
            Turn(PutAside, self._put_aside),
            Turn(MarkRead, self._mark_read),
            Turn(Release, self._release),
            Turn(Confirm, self._confirm),
            Turn(CommitReservations, self._commit),
        )
        """But for `reserve`, which comes with the receives."""

    # The requests.

    def reserve(self, request: Reserve) -> Reservation | None:
        """Lease what is ready under a name, or find it there; None if nothing is ready."""
        stream, seq = request.stream, request.seq
        _check_name(stream, seq)
        _check("max_messages", request.max_messages, 1, MAX_RESERVED_MESSAGES)
        _check("max_bytes", request.max_bytes, 1, None)
        if request.hold is not None:
            _check_hold(request.hold)
        with self.upkeep.inside(stream):
            self._refuse_committed(stream, seq)
            if (stream, seq) in self._holdings.sets:
                held = self._require(stream, seq)
                held.is_told = True
                return held.shown(self._root.clock.monotonic())
            return self._make(self._catalog.require(request.queue), request)

    def _make(self, live: Live, request: Reserve) -> Reservation | None:
        root = self._root
        hold = request.hold
        if hold is None:
            hold = max(MIN_HOLD, live.settings.visibility_timeout)
        terms = self._leaser.terms(hold)
        assert terms.token is not None
        leases = self._leaser.lease_set(live, request.max_messages, request.max_bytes, terms)
        names = [name for hidden in leases for name in hidden.names]
        if not names:
            return None
        manifest = Manifest(
            queue=live.name,
            token=terms.token,
            hold=hold,
            made_at=root.clock.wall(),
            size=sum(map(length_of, names)),
            ids=tuple(sorted(map(id_of, names))),
        )
        name = HoldName(stream=request.stream, seq=request.seq, due=terms.due)
        try:
            held = self._holdings.add(name, manifest, terms.due_monotonic)
        except StoreError:
            self._leases.give_back(manifest, undo=True)
            # The error says that nothing has happened: a crash must not undo half of that.
            root.commit_soon()
            raise
        return held.shown(root.clock.monotonic(), is_new=True)

    def _confirm(self, request: Confirm) -> Reservation:
        _check_name(request.stream, request.seq)
        if request.hold is not None:
            _check_hold(request.hold)
        with self.upkeep.inside(request.stream):
            held = self._require(request.stream, request.seq)
            _check_allowed(held, request.allowed)
            hold = held.manifest.hold if request.hold is None else request.hold
            due, ends = self._root.due_after(hold)
            # Whoever dies in between must not leave a manifest that outlasts a lease.
            if due < held.due:
                self._shorten(held, due, ends)
            else:
                self._leases.end_at(held.manifest, due, ends)
                self._end_at(held, due, ends)
            return held.shown(self._root.clock.monotonic())

    def _shorten(self, held: HeldSet, due: Millis, ends: Millis) -> None:
        self._end_at(held, due, ends)
        try:
            self._leases.end_at(held.manifest, due, ends)
        except StoreError as error:
            # The hold ends as it was asked to; only its messages are hidden for longer.
            log.warning("%s ends sooner, and not all leases with it: %s", held.name, error)

    def _end_at(self, held: HeldSet, due: Millis, ends: Millis) -> None:
        if not self._holdings.end_at(held, due, ends):
            raise ReservationNotFound(stream=held.key[0], seq=held.key[1])

    def _release(self, request: Release) -> None:
        stream, seq = request.stream, request.seq
        _check_name(stream, seq)
        with self.upkeep.inside(stream):
            self._refuse_committed(stream, seq)
            held = self._holdings.sets.get((stream, seq))
            if held is None:
                raise ReservationNotFound(stream=stream, seq=seq)
            _check_allowed(held, request.allowed)
            self.upkeep.release(held)

    def _commit(self, request: CommitReservations) -> Committed:
        stream, up_to = request.stream, request.up_to
        _check_name(stream, up_to)
        holdings = self._holdings
        with self.upkeep.inside(stream):
            before = holdings.committed(stream)
            mine = [held for held in holdings.sets.values() if held.key[0] == stream]
            mine = sorted((held for held in mine if held.key[1] <= up_to), key=lambda held: held.key)
            if request.allowed is not None:
                # Nor may who is bounded end a stream that is none of his, far ahead of its sets.
                if up_to > before and (stream, up_to) not in holdings.sets:
                    raise ReservationNotFound(stream=stream, seq=up_to)
                for held in mine:
                    _check_allowed(held, request.allowed)
            lost = [held for held in mine if self._is_lost(held)]
            if up_to <= before:
                # What was told before is told again: nobody knows whether it was heard.
                done = [held for held in mine if holdings.is_doomed(held)]
            else:
                done = [held for held in mine if held not in lost]
                if request.only_read:
                    _refuse_unread(done)
                told = [held for held in lost if held.key[1] <= before]
                lost = [held for held in lost if held.key[1] > before]
                older = list(holdings.markers.get(stream, ()))
                seqs = tuple(held.key[1] for held in done)
                holdings.mark(stream, up_to, Marker(sets=seqs, made_at=self._root.clock.wall()))
                self.upkeep.forget_after_sync(stream, older, told)
            messages = sum(self._leases.count(held.manifest) for held in done)
            self.upkeep.finish_after_sync(done)
            return Committed(messages=messages, lost=[held.key[1] for held in lost])

    def _is_lost(self, held: HeldSet) -> bool:
        if self._holdings.is_doomed(held):
            return False
        now = self._root.clock.monotonic()
        return held.is_over(now) or self._leases.have_slipped(held.manifest)

    def _mark_read(self, request: MarkRead) -> None:
        _check_name(request.stream, request.seq)
        with self.upkeep.inside(request.stream):
            held = self._require(request.stream, request.seq)
            _check_allowed(held, request.allowed)
            if not held.name.is_read and not self._holdings.mark_read(held):
                raise ReservationNotFound(stream=request.stream, seq=request.seq)

    def _unreserve(self, request: Unreserve) -> None:
        holdings = self._holdings
        with self.upkeep.inside(request.stream):
            held = holdings.sets.get((request.stream, request.seq))
            # Beside others nobody can know who was told; whoever asks for it again will find it.
            if held is None or held.is_told or self._root.folders.is_contended:
                return
            if held.is_over(self._root.clock.monotonic()) or holdings.is_doomed(held):
                return
            self.upkeep.undo(held)

    def _put_aside(self, request: PutAside) -> None:
        held = self._holdings.sets.get((request.stream, request.seq))
        if held is not None:
            self._leases.put_aside(held.manifest, request.id, request.why)

    # Questions.

    def shown(self, queue: str, stream: str, after: tuple[str, int], limit: int) -> list[Reservation]:
        """Up to `limit` sets above `after`, by stream and number, that aren't committed."""
        self.upkeep.look()
        now, holdings = self._root.clock.monotonic(), self._holdings
        keys = sorted(
            key
            for key, held in holdings.sets.items()
            if key > after
            and key[1] > holdings.committed(key[0])
            and (not stream or key[0] == stream)
            and (not queue or held.manifest.queue == queue)
        )
        return [holdings.sets[key].shown(now) for key in keys[:limit]]

    def count(self) -> tuple[int, int]:
        """How many sets are held, and how many are lost, as far as it is known without looking."""
        now, holdings = self._root.clock.monotonic(), self._holdings
        over = [
            held.is_over(now)
            for held in holdings.sets.values()
            if held.key[1] > holdings.committed(held.key[0])
        ]
        return len(over) - sum(over), sum(over)

    def begin_reading(
        self, stream: str, seq: int, *, from_start: bool, allowed: Callable[[str], bool] | None = None
    ) -> int:
        """How many messages the set was made of; raises what a read of it must be told."""
        _check_name(stream, seq)
        self.upkeep.look(stream)
        held = self._require(stream, seq)
        _check_allowed(held, allowed)
        held.reads += from_start
        held.is_told = True
        return len(held.manifest.ids)

    def sights(self, stream: str, seq: int, begin: int, end: int) -> list[Sight]:
        """Where the messages at the places from `begin` to before `end` are; without those deleted."""
        self.upkeep.look(stream)
        held = self._find_held(stream, seq)
        ids = held.manifest.ids[begin:end]
        if self._leases.have_slipped(held.manifest, ids):
            raise ReservationLost(stream=stream, seq=seq)
        return self._leases.sights(held.manifest, ids)

    def sight(self, stream: str, seq: int, id: str) -> Sight | None:
        """Where a message of the set is now; None if it was deleted."""
        self.upkeep.look(stream)
        held = self._find_held(stream, seq)
        if self._leases.have_slipped(held.manifest, [id]):
            raise ReservationLost(stream=stream, seq=seq)
        return self._leases.sight(held.manifest, id)

    # What all of them need.

    def _find_held(self, stream: str, seq: int) -> HeldSet:
        """The set, as long as its hold lasts; raises what a caller must be told otherwise."""
        self._refuse_committed(stream, seq)
        held = self._holdings.sets.get((stream, seq))
        if held is None:
            raise ReservationNotFound(stream=stream, seq=seq)
        if held.is_over(self._root.clock.monotonic()):
            raise ReservationLost(stream=stream, seq=seq)
        return held

    def _require(self, stream: str, seq: int) -> HeldSet:
        """The same, once it is known that all of it is held."""
        held = self._find_held(stream, seq)
        if self._leases.have_slipped(held.manifest):
            raise ReservationLost(stream=stream, seq=seq)
        return held

    def _refuse_committed(self, stream: str, seq: int) -> None:
        committed = self._holdings.committed(stream)
        if seq <= committed:
            raise ReservationCommitted(stream=stream, seq=seq, committed=committed)


def _check_name(stream: str, seq: int) -> None:
    if not is_stream(stream):
        rule = "must be 1 to 80 letters, digits, '_' and '-'"
        raise InvalidRequest(what="stream", value=stream, rule=rule)
    _check("seq", seq, 0, MAX_SEQ)


def _check_hold(hold: Millis) -> None:
    if not MIN_HOLD <= hold <= MAX_VISIBILITY:
        rule = f"must be from {span_text(MIN_HOLD)} to {span_text(MAX_VISIBILITY)}"
        raise InvalidRequest(what="hold", value=span_text(hold), rule=rule)


def _check_allowed(held: HeldSet, allowed: Callable[[str], bool] | None) -> None:
    if allowed is not None and not allowed(held.manifest.queue):
        raise ReservationNotFound(stream=held.key[0], seq=held.key[1])


def _refuse_unread(sets: Sequence[HeldSet]) -> None:
    for held in sets:
        if not held.name.is_read:
            raise ReservationUnread(stream=held.key[0], seq=held.key[1])


def _check(what: str, value: int, least: int, most: int | None) -> None:
    if value < least or (most is not None and value > most):
        rule = f"must be at least {least}" if most is None else f"must be from {least} to {most}"
        raise InvalidRequest(what=what, value=value, rule=rule)

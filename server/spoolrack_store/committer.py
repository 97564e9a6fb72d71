"""The committer: runs the engine for all callers, one commit after the other.

It takes all requests that wait, does them, syncs once for all of them, and answers. While it syncs, the
next ones gather: a lone request waits for nothing, and a burst shares one sync. Receives that find
nothing wait here, and are tried again when a commit has made something ready. Commits also do timed
work: the driver wakes the committer when it is due.

While another process holds the lock, nothing is lost: the commit is tried again.

`Parking` holds the receives and reserves that wait: first come, first served.

A plain request that comes while nothing else is at work is done in its caller's thread, without a
future, a hand-over or a wake-up: `try_now`. What such commits leave for later, as the names of what was
sent, waits a little for the next caller.

Two locks. `changing` guards the engine and its index, and the parking with it: the holder alone reads
or changes them, be it a commit, a question of another thread, or the driver that looks for work.
`_guard` guards the queue of requests, for moments only. A thread that holds `_guard` never waits for
`changing`.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from .engine.engine import Engine, NotEntered, Work
from .engine.part import RETRY
from .engine.short_way import PLAIN
from .files.changes import Poisoned
from .files.disk import SyncFailed
from .files.lock_wait import LockWait, describe_holder
from .listener import Listener
from .model.clock import Clock, Millis, SystemClock
from .model.errors import DiskError, Draining, OutcomeUnknown, StoreError, StoreFailed
from .model.operations import UNFINISHED, Delete, Outcome, Receive, Request, Send, are_short
from .model.reservation_requests import undo_of
from .parking import Parking, QueuedRequest, Waiting

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Cycle = Generator[Work, None, None]
"""A commit: it yields the work to be synced, and a failure of the sync is thrown in."""

MOMENT: Final = 0.0003
"""Seconds that a request in its caller's thread waits for the index. After an answer the driver looks
for more work: a caller that gave up then would leave its next request to the driver, too, and so on."""
LOOK_EVERY: Final = Millis(1_000)
"""Interval of the search for dead processes and for expired messages."""
LISTEN_EVERY: Final = Millis(20)
"""Interval of the search for changes of other processes, while receives wait, where it can't listen."""
LISTENING_EVERY: Final = Millis(1_000)
"""And so often if it can."""
SHORT_SECONDS: Final = 0.005
"""So long the disk may take for a commit that counts as short."""
ENDED_WAITS: Final = 100
"""Waits that one commit ends, so that their callers are not all woken together: the next ends more."""
LINGER: Final = Millis(20)
"""So long the engine's own work waits for the next caller that does its commit itself."""
NEWS_EVERY: Final = Millis(5)
"""It takes in what it hears of no more often than this, so that others get the lock, too."""


class Driver(Protocol):
    """The thread or event loop that runs the commits.

    It never ends in silence: what it raises itself goes to `Committer.fail`.
    """

    def start(self, committer: Committer) -> None: ...

    def wake(self) -> None:
        """Run a commit soon. Called from any thread, with the committer's lock held."""

    def stop(self) -> None:
        """Return once the committer `is_over`."""


class Stall(NamedTuple):
    """Commits that stand still."""

    seconds: float
    why: str


_REQUEST_OF: Final = attrgetter("request")


@dataclass(slots=True)
class _SyncedCommit:
    """A commit that is synced, and can't be finished while another process holds the lock."""

    work: Work
    waiters: Sequence[QueuedRequest[Any]]
    requests: Sequence[Request[Any]]
    """Theirs."""
    began: float
    """When its first change was made, by the watch of the statistics."""


class Committer:
    """Commits of all callers' requests. `submit`, `drain` and `stop` may be called from any thread."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        changing: threading.RLock,
        driver: Driver,
        *,
        ticks: bool = True,
        listener: Listener | None = None,
    ) -> None:
        """`changing` is held while the engine or its index is read or changed, and not while the disk
        syncs.

        Without `ticks` only requests make it look what time has brought about.
        """
        self._driver = driver
        self._engine = engine
        self._clock = clock
        self.changing: Final = changing
        self._parking = Parking(engine.index.changed_queues)
        engine.expiry.is_awaited = self._parking.is_awaited
        self._guard = threading.RLock()
        """Guards what follows."""
        self._wakened = threading.Condition(self._guard)
        """Only our driver waits on it; to notify all is for callers that Ctrl-C interrupts in a
        notification, and that leave behind a waiter which swallows the next one."""
        self._queued_requests: list[QueuedRequest[Any]] = []
        self._cancelled_places: deque[tuple[str, int]] = deque()
        """Queues and places of receives whose callers have cancelled them while they waited."""
        self._busy_since: float | None = None
        """When the commit under way began, by the watch of the statistics; None: there is none."""
        self._syncing: Sequence[QueuedRequest[Any]] = ()
        """Requests of the commit that is synced just now."""
        self._synced_commit: _SyncedCommit | None = None
        self._ticks = ticks
        self._next_tick = clock.monotonic()
        self._next_listen = self._last_news = Millis(0)
        self._linger_until = Millis(0)
        """The engine's own work waits until then."""
        self._looks_at: Millis | None = None
        """When the driver looks for work again, unless it is woken; None: then only."""
        self._listener = listener
        self._listen_every = LISTEN_EVERY if listener is None else LISTENING_EVERY
        self._true_clock = SystemClock()
        """For waits for the lock: its holder lives in no other time, whatever `clock` says."""
        self._lock_wait = LockWait(
            lambda: engine.sharing.holder, several_hosts=engine.moves.disk.several_hosts
        )
        self._rest_until = Millis(0)
        """The engine's own work is tried again then: it didn't get on."""
        self._in_vain = 0
        """Commits in a row, of the engine's own work, that have changed nothing."""
        self._draining = False
        self._stopped = False
        self._failure: StoreFailed | None = None
        self._on_failure: list[Callable[[StoreError], None]] = []

    def start(self) -> None:
        if self._listener is not None:
            self._listener.start(self._hear)
        self._driver.start(self)

    def submit(self, request: Request[Answer]) -> Future[Answer]:
        """Return the answer to `request`, or its `StoreError`, once it is durable.

        A `Receive` or a `Reserve` can be cancelled as long as it has leased nothing; anything else
        until it begins.
        """
        future: Future[Answer] = Future()
        with self._guard:
            refusal = self._refusal(request)
            if refusal is None:
                self._queued_requests.append(QueuedRequest(request, future, self._clock.monotonic()))
                self._wake()
        if refusal is not None:
            future.set_exception(refusal)
        return future

    def try_now(self, request: Request[Answer], within: float) -> Answer | None:
        """Do a plain request in the calling thread; return the answer, which is durable. None: it isn't
        plain, something else is at work, or the disk took longer than `within` seconds of late for a
        lone message; then nothing was done. Raise `OutcomeUnknown`.

        Not for a thread in which a signal's handler may raise: half a commit is a fault.
        """
        if not isinstance(request, PLAIN) or not self.changing.acquire(timeout=MOMENT):
            return None
        try:
            if not self._is_free_for(request, within):
                return None
            answer: Answer | None = self._do_now(request)
            return answer
        finally:
            self.changing.release()

    def _is_free_for(self, request: Send | Receive | Delete, within: float) -> bool:
        """Return whether nothing else is at work, and the disk is quick; `changing` is held."""
        if self._busy_since is not None or self._is_asked() or self._refusal(request) is not None:
            return False
        if self._draining or self._lock_wait.next_try is not None:
            return False
        if self._engine.moves.syncer.lone_seconds > within:
            return False
        if self._parking.is_awaited(request.queue) and not isinstance(request, Delete):
            return False  # What becomes ready is for those that wait.
        return self._clock.monotonic() < self._next_tick

    def _do_now(self, request: Send | Receive | Delete) -> Any:
        """Do a plain request and sync it; `changing` is held up to the answer, so that no other commit
        begins meanwhile."""
        engine, statistics = self._engine, self._engine.moves.statistics
        began = self._busy_since = statistics.watch()
        try:
            work = engine.apply_alone(request)
            if work is None:
                return None
            if work.barrier is not None:
                work.barrier.sync()
            engine.finish(work)
            statistics.commit((request,), work.outcomes, began)
            parking, queue = self._parking, request.queue
            if parking.waiting and parking.is_awaited(queue) and engine.ready(queue) != 0:
                self.wake()  # A delete frees a credit, or the group of the next message.
            else:
                self._leave_the_rest()
            return work.outcomes[0]
        except BaseException as error:
            if isinstance(error, SyncFailed):
                self._fail(str(error), (), OutcomeUnknown)
            else:
                self.fail(error)
            raise OutcomeUnknown(detail=str(error)) from error
        finally:
            self._busy_since = None

    def _leave_the_rest(self) -> None:
        """Let the driver do what is left of a request that was done in its caller's thread, unless a
        caller comes soon who does it along."""
        until = self._linger_until = Millis(self._clock.monotonic() + LINGER)
        looks_at = self._looks_at
        if looks_at is None or looks_at > until:
            due = self._engine.left_until(until)
            if due is not None and (looks_at is None or due < looks_at):
                self.wake()

    def wake(self) -> None:
        """Look for work: a waiting receive has credits that no commit has given back."""
        with self._guard:
            self._wake()

    def drain(self) -> None:
        """Lease nothing more: receives, those that wait too, raise `Draining`."""
        with self._guard:
            self._draining = True
            self._wake()

    def stop(self) -> None:
        """Finish the submitted requests, and accept no more."""
        with self._guard:
            self._draining = True
            self._stopped = True
            self._wake()
        self._driver.stop()

    @property
    def waiting(self) -> int:
        """Number of receives and reserves that wait for a message."""
        return self._parking.waiting

    @property
    def failure(self) -> StoreError | None:
        """Why the store has failed; None if it hasn't."""
        return self._failure

    def stall(self) -> Stall | None:
        """Return for how long commits have stood still, and why; None: they go on. In any thread."""
        since, began = self._lock_wait.since, self._busy_since
        if since is not None:
            holder = f"{describe_holder(*self._engine.sharing.holder)} holds the lock of the root"
            seconds = (self._true_clock.monotonic() - since) / 1_000
            return Stall(seconds, self._lock_wait.why or holder)
        if began is None:
            return None
        seconds = self._engine.moves.statistics.watch() - began
        return Stall(seconds, "a commit waits for the disk")

    def on_failure(self, callback: Callable[[StoreError], None]) -> None:
        """Call `callback` once, from the committer's thread, if the store fails; at once if it has."""
        with self._guard:
            if self._failure is None:
                self._on_failure.append(callback)
                return
            failure = self._failure
        callback(failure)

    def _refusal(self, request: Request[Any]) -> StoreError | None:
        if self._failure is not None:
            return self._failure
        if self._stopped or (self._draining and isinstance(request, Waiting)):
            return Draining()
        return None

    def _hear(self) -> None:
        """Other processes have changed something."""
        with self._guard:
            if self._listens:
                self._listen_soon()
                self._wake()

    def _listen_soon(self) -> None:
        self._next_listen = min(self._next_listen, Millis(self._last_news + NEWS_EVERY))

    def _wake(self) -> None:
        self._wakened.notify_all()
        self._driver.wake()

    # Calls of the driver.

    def wait_for_work(self) -> bool:
        """Return True when there is work; False when there will be none."""
        while True:
            self.changing.acquire()
            with self._guard:  # From the look to the wait, so that no wake-up is lost in between.
                try:
                    has_work, later = self.poll_work()
                finally:
                    self.changing.release()
                if has_work:
                    return True
                if self.is_over:
                    return False
                clock = self._clock if self._lock_wait.next_try is None else self._true_clock
                clock.wait(self._wakened, later)

    def poll_work(self) -> tuple[bool, Millis | None]:
        """Return whether there is work, and else the monotonic time of the next work, if any."""
        with self.changing, self._guard:
            found = self._poll()
            self._looks_at = Millis(0) if found[0] else found[1]
            return found

    def _poll(self) -> tuple[bool, Millis | None]:
        next_try = self._lock_wait.next_try
        if next_try is not None:
            # The work that wanted the lock is still to be done.
            return self._true_clock.monotonic() >= next_try, next_try
        if self._queued_requests and not self._draining:
            asked = self._queued_requests[0].request
            if isinstance(asked, Receive) and asked.wait != 0:
                self._park_idle()
        if self._is_asked():
            return True, None
        if self._stopped or self._failure is not None:
            return False, None
        return self._next_own_work(self._clock.monotonic())

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for the next commit; else it is for background work."""
        with self.changing, self._guard:
            return self._is_asked() or bool(self._parking.worth_a_try(self._engine.ready))

    @property
    def is_over(self) -> bool:
        """Whether there will be no more work."""
        with self._guard:
            return self._stopped and not self._is_asked()

    def _is_asked(self) -> bool:
        return bool(
            self._queued_requests
            or self._synced_commit
            or self._cancelled_places
            or (self._draining and self._parking.waiting)
        )

    def is_short(self) -> bool:
        """Return whether the next commit takes the disk and the processor for a moment only, by its
        requests and by what a file took of late."""
        with self.changing, self._guard:
            if self._draining or self._synced_commit or self._clock.monotonic() >= self._next_tick:
                return False
            requests = list(map(_REQUEST_OF, self._queued_requests))
            if not are_short(requests):
                return False
            tried = self._parking.worth_a_try(self._engine.ready, requests)
            together = chain(requests, map(_REQUEST_OF, tried))
            return self._engine.seconds_of(together) <= SHORT_SECONDS

    def _next_own_work(self, now: Millis) -> tuple[bool, Millis | None]:
        """Return whether the engine or a parked receive has work now, and else when."""
        waits, due = self._engine.next_work(now)
        times: list[Millis] = []
        if waits:
            times.append(max(self._rest_until, self._linger_until))
        if self._ticks:
            times.append(self._next_tick)
        if due is not None and (self._ticks or self._parking.waiting):
            times.append(due)
        if self._parking.waiting:
            if self._parking.worth_a_try(self._engine.ready):
                return True, None
            deadline = self._parking.next_deadline()
            if deadline is not None:
                times.append(deadline)
            if self._listens:
                if self._hears_news(now):
                    return True, None
                times.append(self._next_listen)
        if not times:
            return False, None
        first = min(times)
        return first <= now, first

    def _park_idle(self) -> None:
        """Park the receives that wait for a commit, if it would do nothing but that."""
        for each in self._queued_requests:
            request = each.request
            if not isinstance(request, Receive) or request.wait == 0:
                return
            if not self._engine.has_nothing_for(request):
                return
        waiting, self._queued_requests = self._queued_requests, []
        for each in waiting:
            self._park(each)

    def _hears_news(self, now: Millis) -> bool:
        """Return whether it is time to take in what other processes have changed, and they have."""
        if self._listener is not None:
            self._listener.listen()
        if now < self._next_listen:
            return False
        self._next_listen = Millis(now + self._listen_every)
        if self._engine.sharing.has_news:
            self._last_news = now
            return True
        return False

    @property
    def _listens(self) -> bool:
        return self._parking.waiting > 0 and (
            self._listener is not None or self._engine.sharing.is_shared
        )

    # A commit.

    def cycle(self) -> Cycle:
        """Run one commit with all waiting requests.

        No two at a time. Between two steps of it another thread may go on.
        """
        self._linger_until = Millis(0)
        with self._guard:
            waiting, self._queued_requests = self._queued_requests, []
            draining = self._draining
        synced, self._synced_commit = self._synced_commit, None
        waiters: Sequence[QueuedRequest[Any]] = waiting if synced is None else synced.waiters
        over: list[QueuedRequest[Any]] = []
        try:
            if synced is not None:
                with self._guard:
                    self._queued_requests[:0] = waiting
                self._finish(synced)
                return
            if self._failure is not None:
                for waiter in waiting:
                    _answer(waiter.future, self._failure)
                return
            if waiting or self._parking.waiting or self._cancelled_places:
                with self.changing:
                    waiters = self._begin(waiting, draining, over)
            for waiter in over:
                nothing: object = [] if isinstance(waiter.request, Receive) else None
                _answer(waiter.future, Draining() if draining else nothing)
            requests: list[Request[Any]] = list(map(_REQUEST_OF, waiters))
            with self.changing:
                # Not before: a request in its caller's thread, which holds it, says at its end that it
                # is busy no more.
                began = self._busy_since = self._engine.moves.statistics.watch()
                work = self._apply(requests)
            if work is None:
                with self._guard:
                    self._queued_requests[:0] = [each for each in waiters if each.place is None]
                return
            if work.barrier is not None:
                self._syncing = waiters
                yield work
                self._syncing = ()
            elif not requests:
                return  # Nothing waits for its end.
            self._finish(_SyncedCommit(work, waiters, requests, began))
        except GeneratorExit:
            raise  # No driver drives it to its end: all is over.
        except NotEntered as error:
            self._refuse(DiskError(detail=str(error)), waiters)
        except Poisoned as error:
            kind = StoreFailed if synced is None else OutcomeUnknown
            self._fail(str(error), [*waiters, *over], kind)
        except SyncFailed as error:
            self._fail(str(error), [*waiters, *over], OutcomeUnknown)
        except BaseException as error:
            # Or Ctrl-C, where the thread isn't ours alone.
            self.fail(error, [*waiters, *over])
            if not isinstance(error, Exception):
                raise
        finally:
            self._busy_since = None

    def _apply(self, requests: Sequence[Request[Any]]) -> Work | None:
        """Do what is asked, and what time has brought about; None if another process holds the lock."""
        now, engine = self._clock.monotonic(), self._engine
        tick = now >= self._next_tick
        work = engine.apply(requests, tick=tick)
        if work is None:
            self._lock_wait.in_vain(self._true_clock.monotonic())
            return None
        if self._lock_wait.next_try is not None:
            self._lock_wait.over()
        if tick:
            self._next_tick = Millis(now + LOOK_EVERY)
        if requests or work.changed or work.barrier is None:
            self._in_vain, self._rest_until = 0, Millis(0)
        else:
            self._in_vain += 1
            if self._in_vain > 1:
                self._rest_until = Millis(now + RETRY)
        return work

    def _finish(self, synced: _SyncedCommit) -> None:
        """Answer the requests of a durable commit."""
        answers: list[tuple[QueuedRequest[Any], Outcome]] = []
        unfinished: list[QueuedRequest[Any]] = []
        with self.changing:
            outcomes = self._engine.finish(synced.work)
            if outcomes is None:
                self._synced_commit = synced
                self._lock_wait.in_vain(self._true_clock.monotonic())
                return
            if self._lock_wait.next_try is not None:
                self._lock_wait.over()
            reservations, sharing = self._engine.reservations, self._engine.sharing
            if any(reservations.pending) and reservations.is_in_slices and sharing.is_shared:
                self._lock_wait.leave_to_others(self._true_clock.monotonic())
            if not outcomes:
                return
            self._engine.moves.statistics.commit(synced.requests, outcomes, synced.began)
            for waiter, outcome in zip(synced.waiters, outcomes, strict=True):
                if waiter.place is not None:
                    if not outcome:
                        continue
                    self._parking.leave(waiter.request.queue, waiter.place)
                if outcome is UNFINISHED:
                    unfinished.append(self._going_on(waiter))
                elif isinstance(waiter.request, Waiting) and not outcome and waiter.request.wait != 0:
                    self._park(waiter)
                else:
                    answers.append((waiter, outcome))
        # Not before: what a caller does with its answer must not happen under the lock.
        for waiter, outcome in answers:
            if not _answer(waiter.future, outcome) and not isinstance(outcome, StoreError):
                self._undo(outcome)
        if unfinished:
            with self._guard:
                self._queued_requests[:0] = unfinished  # Before what came meanwhile, to the same queue.

    def _refuse(self, error: StoreError, waiters: Sequence[QueuedRequest[Any]]) -> None:
        """Fail the requests of a commit that couldn't begin. Receives that wait go on waiting, and the
        engine's own work is tried again."""
        self._lock_wait.refused(self._true_clock.monotonic(), error)
        for waiter in waiters:
            if waiter.place is None:
                _answer(waiter.future, error)

    def _begin(
        self,
        waiting: Sequence[QueuedRequest[Any]],
        draining: bool,
        over: list[QueuedRequest[Any]],
    ) -> Sequence[QueuedRequest[Any]]:
        """Return the requests of this commit; add to `over` those whose wait is over without it.
        Receives whose messages are on their way back are left to the next one, each once."""
        while self._cancelled_places:
            self._parking.leave(*self._cancelled_places.popleft())
        if draining:
            over += self._parking.pop_all()
        if self._parking.waiting:
            over += islice(self._parking.pop_late(self._clock.monotonic()), ENDED_WAITS)
        begun: list[QueuedRequest[Any]] = []
        early: list[QueuedRequest[Any]] = []
        for waiter in waiting:
            request, future = waiter.request, waiter.future
            if waiter.has_begun:
                begun.append(waiter)
            elif not isinstance(request, Waiting):
                if future.set_running_or_notify_cancel():
                    waiter.has_begun = True
                    begun.append(waiter)
            elif draining:
                _answer(future, Draining())
            elif not waiter.has_waited and self._engine.is_coming_back(request.queue):
                waiter.has_waited = True
                early.append(waiter)
            # A receive may still be cancelled while it waits, so it isn't running before it has leased.
            elif not future.cancelled():
                begun.append(waiter)
        if early:
            with self._guard:
                self._queued_requests[:0] = early
        # This commit may make messages ready: receives that wait come before those that begin now.
        tried = self._parking.worth_a_try(self._engine.ready, list(map(_REQUEST_OF, begun)))
        return [*tried, *begun] if tried else begun

    def _undo(self, outcome: Outcome) -> None:
        """Take back what was leased for a caller that has cancelled in the meantime."""
        undo = undo_of(outcome)
        if undo is not None:
            with self._guard:
                self._queued_requests.append(QueuedRequest(undo, Future(), self._clock.monotonic()))

    def _going_on(self, waiter: QueuedRequest[Any]) -> QueuedRequest[Any]:
        """Return a request of which the next commit does more. It is done to its end; if its caller is
        gone, it is undone then."""
        if not waiter.has_begun and not waiter.future.set_running_or_notify_cancel():
            waiter.future = Future()
            waiter.future.cancel()
        waiter.has_begun = waiter.has_waited = True
        return waiter

    def _park(self, waiter: QueuedRequest[Waiting]) -> None:
        """Let a request wait; `changing` is held."""
        left = waiter.request.queue, self._parking.park(waiter)
        self._listen_soon()  # Changes since the commit woke no receive.
        # Not woken for it: the next commit is soon enough.
        waiter.future.add_done_callback(
            lambda done: self._cancelled_places.append(left) if done.cancelled() else None
        )

    def fail(self, error: BaseException, begun: Sequence[QueuedRequest[Any]] = ()) -> None:
        """End all after a fault of ours: disk and memory may differ now, and no caller may wait for
        ever. For drivers: they call it for what isn't told by a commit itself."""
        log.critical("the store has a fault and stops", exc_info=error)
        what = f"a fault of ours, {type(error).__name__}; the log has it"
        self._fail(what, begun, OutcomeUnknown)

    def _fail(
        self,
        detail: str,
        begun: Sequence[QueuedRequest[Any]],
        kind: type[OutcomeUnknown | StoreFailed],
    ) -> None:
        """Promise nothing more, and stop the other processes: only a restart can tell what is
        durable."""
        log.critical("nothing is promised until a restart: %s", detail)
        with self.changing:
            try:
                self._engine.sharing.poison()
            except Exception:
                log.exception("other processes of the root aren't told that this one has failed")
            failure = StoreFailed(detail=detail)
            with self._guard:
                self._failure = failure
                self._lock_wait.over()
                waiting, self._queued_requests = self._queued_requests, []
                synced, self._synced_commit = self._synced_commit, None
                syncing, self._syncing = self._syncing, ()
                callbacks, self._on_failure = self._on_failure, []
            waiting += self._parking.pop_all()
        # Before any caller is told: a caller that then asks how the store is hears the same.
        for callback in callbacks:
            try:
                callback(failure)
            except Exception:
                log.exception("a part of this process isn't told that the store has failed")
        unknown = kind(detail=detail)
        for waiter in begun:
            _answer(waiter.future, unknown)
        for waiter in [*syncing, *(() if synced is None else synced.waiters)]:
            _answer(waiter.future, OutcomeUnknown(detail=detail))
        for waiter in waiting:
            _answer(waiter.future, failure)


def _answer(future: Future[Any], outcome: object) -> bool:
    """Answer, unless the caller has cancelled or has an answer; return whether the caller hears it."""
    if future.done() or (not future.running() and not future.set_running_or_notify_cancel()):
        return False
    if isinstance(outcome, StoreError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return True

"""The committer: runs the engine for all callers, one commit after the other.

It takes all requests that wait, does them, syncs once for all of them, and answers. While it syncs, the
next ones gather: a lone request waits for nothing, and a burst shares one sync. Receives that find
nothing wait here, and are tried again when a commit has made something ready. Commits also do timed
work: the driver wakes the committer when it is due.

While another process holds the lock, nothing is lost: the commit is tried again.

`Parking` holds the receives and reserves that wait: first come, first served.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol, TypeVar

from .engine.engine import Engine, Work
from .engine.moves import RETRY
from .files.changes import LockHolder, LockWait, Poisoned
from .files.disk import SyncFailed
from .listener import Listener
from .model.clock import Clock, Millis, SystemClock
from .model.errors import Draining, OutcomeUnknown, StoreError, StoreFailed
from .model.operations import (
    UNFINISHED,
    ChangeVisibility,
    Delete,
    Delivery,
    GiveBack,
    Outcome,
    Receive,
    ReleaseMessages,
    Request,
    Send,
)
from .model.reservation_requests import Reserve, undo_of

Waiting = Receive | Reserve
"""Requests that may wait until something is ready, and that can be cancelled as long as they do."""


@dataclass(slots=True, eq=False)
class Parked:
    """A request that waits. It keeps its place after a try without a result."""

    request: Waiting
    future: Future[Any]
    deadline: Millis | None
    """Monotonic; None waits for ever."""
    place: int = 0

    @property
    def has_credit(self) -> bool:
        credits = self.request.credits if isinstance(self.request, Receive) else None
        return credits is None or credits.free > 0

    @property
    def nothing(self) -> list[Delivery] | None:
        """The answer when its wait is over."""
        return [] if isinstance(self.request, Receive) else None


class Parking:
    """The waiting receives and reserves. Not thread-safe.

    A look costs what has changed since the last one, however many wait on other queues.
    """

    def __init__(self, changed: set[str]) -> None:
        """`changed` are the queues that may have become able to give something: the index adds them,
        and each look takes them out."""
        self._changed = changed
        self._queues: dict[str, dict[int, Parked]] = {}
        """By queue and place; places rise."""
        self._hopeful: dict[str, None] = {}
        """Queues with waiting requests that could give something at the last look."""
        self._deadlines: list[tuple[Millis, int, str]] = []
        """A heap of deadlines, places and queues; some of those wait no more."""
        self._place = count()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def is_awaited(self, queue: str) -> bool:
        return queue in self._queues

    def park(self, parked: Parked) -> None:
        queue = parked.request.queue
        parked.place = next(self._place)
        self._queues.setdefault(queue, {})[parked.place] = parked
        self._changed.add(queue)
        self._count += 1
        if parked.deadline is not None:
            heapq.heappush(self._deadlines, (parked.deadline, parked.place, queue))
            if len(self._deadlines) > 2 * self._count + _FEW:
                self._deadlines = [each for each in self._deadlines if self._waits(*each)]
                heapq.heapify(self._deadlines)

    def leave(self, parked: Parked) -> None:
        """Remove `parked` from the waiting receives."""
        queue = parked.request.queue
        waiting = self._queues.get(queue, {})
        if waiting.pop(parked.place, None) is not None:
            self._count -= 1
        if not waiting:
            self._queues.pop(queue, None)
            self._hopeful.pop(queue, None)

    def worth_a_try(
        self, ready: Callable[[str], int | None], asked: Iterable[Request[Any]] = ()
    ) -> list[Parked]:
        """Return the requests that can perhaps be answered now, in their order; they keep their places.

        `ready` says how many messages a queue could give; None if there is no such queue any more,
        which all that wait for it must be told. The same commit does the `asked` requests after them:
        for as many messages as these ask for, those that wait are tried before, and they may be given
        at once what is sent.
        """
        if not self._queues:
            self._changed.clear()
            return []
        sent: Counter[str] = Counter()
        wanted: Counter[str] = Counter()
        for request in asked:
            if isinstance(request, Waiting):
                wanted[request.queue] += request.max_messages
            elif isinstance(request, Send):
                sent[request.queue] += len(request.bodies)
        while self._changed:
            # Not an iteration: another thread may add to it.
            self._hopeful[self._changed.pop()] = None
        chosen: list[Parked] = []
        for queue in [*self._hopeful, *(wanted.keys() | sent.keys()) - self._hopeful.keys()]:
            waiting = self._queues.get(queue)
            most = None if waiting is None else ready(queue)
            if waiting is None or (most is not None and most <= 0):
                self._hopeful.pop(queue, None)
            if waiting is not None:
                chosen += _first_of(waiting, most, sent[queue], wanted[queue])
        return chosen

    def next_deadline(self) -> Millis | None:
        """Return the monotonic time at which the first wait is over."""
        while self._deadlines:
            if self._waits(*self._deadlines[0]):
                return self._deadlines[0][0]
            heapq.heappop(self._deadlines)
        return None

    def _waits(self, _: Millis, place: int, queue: str) -> bool:
        return place in self._queues.get(queue, ())

    def pop_late(self, now: Millis) -> Iterator[Parked]:
        """Remove and return the requests whose wait is over."""
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, place, queue = heapq.heappop(self._deadlines)
            parked = self._queues[queue][place]
            self.leave(parked)
            yield parked

    def pop_all(self) -> list[Parked]:
        """Remove and return all requests."""
        parked_all = [parked for waiting in self._queues.values() for parked in waiting.values()]
        self._queues.clear()
        self._hopeful.clear()
        self._deadlines.clear()
        self._count = 0
        return parked_all


_FEW: Final = 64


def _first_of(
    waiting: Mapping[int, Parked], ready: int | None, sent: int, wanted: int
) -> Iterator[Parked]:
    """Yield those of one queue that can perhaps be answered: as many as there are messages `ready`;
    after them receives with room for what is `sent`, and any with room for what is `wanted`."""
    if ready is None:
        yield from waiting.values()
        return
    for parked in waiting.values():
        if ready <= 0 and sent <= 0 and wanted <= 0:
            return
        if not parked.has_credit:
            continue
        if ready > 0 or wanted > 0 or isinstance(parked.request, Receive):
            yield parked
        if ready <= 0:
            sent -= parked.request.max_messages
            wanted -= parked.request.max_messages
        ready -= 1


log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Cycle = Generator[Work, None, None]
"""A commit: it yields the work to be synced, and a failure of the sync is thrown in."""

LOOK_EVERY: Final = Millis(1_000)
"""So often it looks for processes that have died, and for what is too old."""
LISTEN_EVERY: Final = Millis(20)
"""While receives wait, it looks so often whether other processes have changed something, if it can't
listen."""
LISTENING_EVERY: Final = Millis(1_000)
"""And so often if it can."""
NEWS_EVERY: Final = Millis(5)
"""It takes in what it hears of no more often than this, so that others get the lock, too."""
SHORT_BYTES: Final = 2 * 1024 * 1024
"""Of bodies to be written: requests with more keep the thread that does them."""
SHORT_MESSAGES: Final = 4_000


class Driver(Protocol):
    """The thread or event loop that runs the commits."""

    def start(self, committer: Committer) -> None: ...

    def wake(self) -> None:
        """Run a commit soon. Called from any thread, with the committer's lock held."""

    def stop(self) -> None:
        """Return once the committer `is_over`."""


@dataclass(slots=True)
class _QueuedRequest:
    request: Request[Any]
    future: Future[Any]
    since: Millis
    """Monotonic."""
    has_begun: bool = False
    """Whether it can't be cancelled any more."""
    has_waited: bool = False
    """Whether it was left to the next commit once: messages were on their way back."""


@dataclass(slots=True)
class _Held:
    """A commit that is synced, and can't be finished while another process holds the lock."""

    work: Work
    tried: list[Parked]
    begun: list[_QueuedRequest]
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
        """`changing` is held while folders and index change together, and not while the disk syncs.

        Without `ticks` only requests make it look what time has brought about.
        """
        self._driver = driver
        self._engine = engine
        self._clock = clock
        self._changing = changing
        self._parking = Parking(engine.index.changed)
        engine.expiry.is_awaited = self._parking.is_awaited
        self._wakened = threading.Condition()
        """Guards what follows. Only our driver waits on it; to notify all is for callers that Ctrl-C
        interrupts in a notification, and that leave behind a waiter which swallows the next one."""
        self._waiting: list[_QueuedRequest] = []
        self._left: deque[Parked] = deque()
        """Receives whose callers have cancelled them while they waited."""
        self._held: _Held | None = None
        self._ticks = ticks
        self._next_tick = clock.monotonic()
        self._next_listen = self._last_news = Millis(0)
        self._listener = listener
        self._listen_every = LISTEN_EVERY if listener is None else LISTENING_EVERY
        self._true_clock = SystemClock()
        """For waits for the lock: its holder lives in no other time, whatever `clock` says."""
        self._lock_wait = LockWait(lambda: engine.sharing.holder)
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
        with self._wakened:
            refusal = self._refusal(request)
            if refusal is None:
                self._waiting.append(_QueuedRequest(request, future, self._clock.monotonic()))
                self._wake()
        if refusal is not None:
            future.set_exception(refusal)
        return future

    def wake(self) -> None:
        """Look for work: a waiting receive has credits that no commit has given back."""
        with self._wakened:
            self._wake()

    def drain(self) -> None:
        """Lease nothing more: receives, those that wait too, raise `Draining`."""
        with self._wakened:
            self._draining = True
            self._wake()

    def stop(self) -> None:
        """Finish the submitted requests, and accept no more."""
        with self._wakened:
            self._draining = True
            self._stopped = True
            self._wake()
        self._driver.stop()

    @property
    def waiting(self) -> int:
        """Number of receives and reserves that wait for a message."""
        return len(self._parking)

    @property
    def failure(self) -> StoreError | None:
        """Why the store has failed; None if it hasn't."""
        return self._failure

    @property
    def lock_holder(self) -> LockHolder | None:
        """The process that has kept this one from committing for a second or more."""
        return self._lock_wait.holder(self._true_clock.monotonic())

    def on_failure(self, callback: Callable[[StoreError], None]) -> None:
        """Call `callback` once, from the committer's thread, if the store fails; at once if it has."""
        with self._wakened:
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
        with self._wakened:
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
        with self._wakened:
            while not self._has_work():
                if self._is_over():
                    return False
                clock = self._clock if self._lock_wait.next_try is None else self._true_clock
                clock.wait(self._wakened, self._wake_time())
            return True

    def poll_work(self) -> tuple[bool, Millis | None]:
        """Return whether there is work, and else the monotonic time of the next work, if any."""
        with self._wakened:
            return (True, None) if self._has_work() else (False, self._wake_time())

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for the next commit; else it is for background work."""
        with self._wakened:
            return self._is_asked() or bool(self._parking.worth_a_try(self._engine.ready))

    @property
    def is_over(self) -> bool:
        """Whether there will be no more work."""
        with self._wakened:
            return self._is_over()

    def _is_over(self) -> bool:
        return self._stopped and not self._is_asked()

    def _is_asked(self) -> bool:
        return bool(
            self._waiting or self._held or self._left or (self._draining and len(self._parking))
        )

    def is_short(self) -> bool:
        """Return whether the next commit takes only a few system calls."""
        with self._wakened:
            if self._draining or self._held or self._clock.monotonic() >= self._next_tick:
                return False
            return are_short(each.request for each in self._waiting)

    def _has_work(self) -> bool:
        if self._lock_wait.next_try is not None:
            # The work that wanted the lock is still to be done.
            return self._true_clock.monotonic() >= self._lock_wait.next_try
        now = self._clock.monotonic()
        if self._is_asked():
            return True
        if self._stopped or self._failure is not None:
            return False
        if self._engine.wants_commit and now >= self._rest_until:
            return True
        if self._parking.worth_a_try(self._engine.ready):
            return True
        if self._listens:
            if self._listener is not None:
                self._listener.listen()
            if now >= self._next_listen:
                self._next_listen = Millis(now + self._listen_every)
                if self._engine.sharing.has_news:
                    self._last_news = now
                    return True
        until = self._own_time()
        return until is not None and until <= now

    @property
    def _listens(self) -> bool:
        return bool(self._parking) and (self._listener is not None or self._engine.sharing.is_shared)

    def _own_time(self) -> Millis | None:
        """Return when something is to be done that nothing but time brings about."""
        times: list[Millis | None] = [self._parking.next_deadline()]
        if self._ticks:
            times.append(self._next_tick)
        if self._ticks or self._parking:
            times.append(self._engine.next_due())
        return min((time for time in times if time is not None), default=None)

    def _wake_time(self) -> Millis | None:
        if self._lock_wait.next_try is not None:
            return self._lock_wait.next_try
        if self._failure is not None:
            return None
        times = [self._own_time()]
        if self._listens:
            times.append(self._next_listen)
        if self._engine.wants_commit:
            times.append(self._rest_until)
        return min((time for time in times if time is not None), default=None)

    # A commit.

    def cycle(self) -> Cycle:
        """Run one commit with all waiting requests.

        No two at a time. Between two steps of it another thread may go on.
        """
        with self._wakened:
            waiting, self._waiting = self._waiting, []
            draining = self._draining
        held, self._held = self._held, None
        tried: list[Parked] = [] if held is None else held.tried
        begun: list[_QueuedRequest] = [] if held is None else held.begun
        try:
            if held is not None:
                with self._wakened:
                    self._waiting[:0] = waiting
                waiting = []
                self._finish(held)
                return
            if self._failure is not None:
                return
            while self._left:
                self._parking.leave(self._left.popleft())
            if draining:
                for parked in self._parking.pop_all():
                    _fail(parked.future, Draining())
            for parked in self._parking.pop_late(self._clock.monotonic()):
                _answer(parked.future, parked.nothing)
            begun = [each for each in waiting if self._begins(each, draining)]
            begun = self._without_early(begun)
            waiting = begun
            asked = [each.request for each in begun]
            # This commit may make messages ready: receives that wait come before those that begin now.
            tried = self._parking.worth_a_try(self._engine.ready, asked)
            began = self._engine.moves.statistics.watch()
            work = self._apply([*[parked.request for parked in tried], *asked])
            if work is None:
                with self._wakened:
                    self._waiting[:0] = begun
                return
            if work.commit is not None:
                yield work
            self._finish(_Held(work, tried, begun, began))
        except GeneratorExit:
            raise  # No driver drives it to its end: all is over.
        except SyncFailed as error:
            self._fail(str(error), [*tried, *begun], OutcomeUnknown)
        except Poisoned:
            detail = "a sync of another process that has the root open failed, or that process broke"
            self._fail(
                detail, [*tried, *(begun or waiting)], StoreFailed if held is None else OutcomeUnknown
            )
        except BaseException as error:
            # A fault of ours: disk and memory may differ now. Or Ctrl-C, where
            # the thread isn't ours alone. No caller may wait for ever.
            log.exception("the store has a fault and stops")
            what = f"a fault of ours, {type(error).__name__}; the log has it"
            self._fail(what, [*tried, *(begun or waiting)], OutcomeUnknown)
            if not isinstance(error, Exception):
                raise

    def _apply(self, requests: Sequence[Request[Any]]) -> Work | None:
        """Do what is asked, and what time has brought about; None if another process holds the lock."""
        now, engine = self._clock.monotonic(), self._engine
        tick = now >= self._next_tick
        with self._changing:
            work = engine.apply(requests, tick=tick)
        if work is None:
            self._lock_wait.in_vain(self._true_clock.monotonic())
            return None
        self._lock_wait.over()
        if tick:
            self._next_tick = Millis(now + LOOK_EVERY)
        if requests or work.changed or not engine.wants_commit:
            self._in_vain, self._rest_until = 0, Millis(0)
        else:
            self._in_vain += 1
            if self._in_vain > 1:
                self._rest_until = Millis(now + RETRY)
        return work

    def _finish(self, held: _Held) -> None:
        """Answer the requests of a durable commit."""
        with self._changing:
            outcomes = self._engine.finish(held.work)
        if outcomes is None:
            self._held = held
            self._lock_wait.in_vain(self._true_clock.monotonic())
            return
        self._lock_wait.over()
        if self._engine.sharing.is_shared and self._engine.reservations.is_in_slices:
            self._lock_wait.leave_to_others(self._true_clock.monotonic())
        requests: list[Request[Any]] = [
            *(parked.request for parked in held.tried),
            *(each.request for each in held.begun),
        ]
        self._engine.moves.statistics.commit(requests, outcomes, held.began)
        for parked, outcome in zip(held.tried, outcomes, strict=False):
            if outcome:
                self._parking.leave(parked)
                since = self._clock.monotonic()
                self._resolve(_QueuedRequest(parked.request, parked.future, since), outcome)
        for each, outcome in zip(held.begun, outcomes[len(held.tried) :], strict=True):
            self._resolve(each, outcome)

    def _without_early(self, begun: list[_QueuedRequest]) -> list[_QueuedRequest]:
        """Leave receives to the next commit whose messages are on their way back, each once."""
        early = [each for each in begun if not each.has_waited and self._is_early(each.request)]
        if not early:
            return begun
        for each in early:
            each.has_waited = True
        with self._wakened:
            self._waiting[:0] = early
        return [each for each in begun if each not in early]

    def _is_early(self, request: Request[Any]) -> bool:
        return isinstance(request, Waiting) and self._engine.is_coming_back(request.queue)

    def _begins(self, each: _QueuedRequest, draining: bool) -> bool:
        if each.has_begun:
            return True
        if not isinstance(each.request, Waiting):
            each.has_begun = each.future.set_running_or_notify_cancel()
            return each.has_begun
        if draining:
            _fail(each.future, Draining())
            return False
        # A receive may still be cancelled while it waits, so it isn't running before it has leased.
        return not each.future.cancelled()

    def _resolve(self, each: _QueuedRequest, outcome: Outcome) -> None:
        request, future = each.request, each.future
        if outcome is UNFINISHED:
            self._continue(each)
        elif isinstance(request, Waiting):
            if outcome or request.wait == 0:
                self._answer_receive(request, future, outcome)
            else:
                self._park(request, future, each.since)
        elif isinstance(outcome, StoreError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def _continue(self, each: _QueuedRequest) -> None:
        """Let the next commit do more of a request. It is done to its end; if its caller is gone, it is
        undone then."""
        if not each.has_begun and not each.future.set_running_or_notify_cancel():
            each.future = Future()
            each.future.cancel()
        each.has_begun = each.has_waited = True
        with self._wakened:
            self._waiting.append(each)

    def _park(self, request: Waiting, future: Future[Any], since: Millis) -> None:
        deadline = None if request.wait is None else Millis(since + request.wait)
        parked = Parked(request, future, deadline)
        self._parking.park(parked)
        self._listen_soon()  # Changes since the commit woke no receive.
        # Not woken for it: the next commit is soon enough.
        future.add_done_callback(lambda done: self._left.append(parked) if done.cancelled() else None)

    def _answer_receive(self, request: Waiting, future: Future[Any], outcome: Outcome) -> None:
        if isinstance(outcome, StoreError):
            _fail(future, outcome)
        elif not _answer(future, outcome):
            # Cancelled in the meantime: no consumer will ever see these leases.
            undo = undo_of(outcome)
            if undo is not None:
                with self._wakened:
                    self._waiting.append(_QueuedRequest(undo, Future(), self._clock.monotonic()))

    def _fail(
        self,
        detail: str,
        begun: Sequence[Parked | _QueuedRequest],
        kind: type[OutcomeUnknown | StoreFailed],
    ) -> None:
        """Promise nothing more, and stop the other processes: only a restart can tell what is
        durable."""
        log.critical("nothing is promised until a restart: %s", detail)
        self._engine.sharing.poison()
        failure = StoreFailed(detail=detail)
        with self._wakened:
            self._failure = failure
            self._lock_wait.over()
            waiting, self._waiting = self._waiting, []
            callbacks, self._on_failure = self._on_failure, []
        # Before any caller is told: a caller that then asks how the store is hears the same.
        for callback in callbacks:
            callback(failure)
        unknown = kind(detail=detail)
        for future in [each.future for each in begun]:
            _fail(future, unknown)
        for each in waiting:
            _fail(each.future, failure)
        for parked in self._parking.pop_all():
            _fail(parked.future, failure)


def _answer(future: Future[Any], outcome: object) -> bool:
    """Answer, unless the caller has cancelled; return whether the caller hears it."""
    if not future.running() and not future.set_running_or_notify_cancel():
        return False
    future.set_result(outcome)
    return True


def _fail(future: Future[Any], error: StoreError) -> None:
    if future.done() or (not future.running() and not future.set_running_or_notify_cancel()):
        return
    future.set_exception(error)


class ThreadDriver:
    """A thread that runs the committer."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    def start(self, committer: Committer) -> None:
        self._thread = threading.Thread(
            target=_run, args=(committer,), name="spoolrack-committer", daemon=True
        )
        self._thread.start()

    def wake(self) -> None:
        """Do nothing: the thread waits on the committer's own condition."""

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.join()


def _run(committer: Committer) -> None:
    while committer.wait_for_work():
        run_whole(committer)


def step(cycle: Cycle, error: BaseException | None) -> Work | None:
    """Run a commit to its next sync; return the objects to sync, if any."""
    try:
        return next(cycle) if error is None else cycle.throw(error)
    except StopIteration:
        return None


def error_of(work: Work) -> Exception | None:
    """Return the error of the commit's sync."""
    assert work.commit is not None
    try:
        work.commit.sync()
    except Exception as error:  # noqa: BLE001  # the committer judges it
        return error
    return None


def run_whole(committer: Committer) -> None:
    """Run a commit from its beginning to its end."""
    cycle, error = committer.cycle(), None
    while (work := step(cycle, error)) is not None:
        error = error_of(work)


def are_short(requests: Iterable[Request[Any]]) -> bool:
    """Return whether `requests` together take only milliseconds, by their sizes."""
    messages, size = 0, 0
    for request in requests:
        if isinstance(request, Send):
            messages += len(request.bodies)
            size += sum(map(len, request.bodies))
        elif isinstance(request, Receive):
            messages += request.max_messages
        elif isinstance(request, Delete):
            messages += len(request.receipts) + len(request.ids)
        elif isinstance(request, ChangeVisibility | ReleaseMessages | GiveBack):
            messages += len(request.receipts)
        else:
            return False
    return messages <= SHORT_MESSAGES and size <= SHORT_BYTES

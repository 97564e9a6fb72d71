"""The committer: runs the engine for everybody, one commit after the other.

It takes all requests that wait, does them, syncs once for all of them, and answers. While it syncs, the
next ones gather: a lone request waits for nothing, and a burst shares one sync. Receives that find
nothing are parked here and tried again whenever a commit has made something ready.

What thread it runs in is its driver's matter.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .effort import are_short
from .engine.engine import Engine
from .engine.order import Outcome, Work
from .files.syncer import SyncFailed
from .model.clock import Clock, Millis
from .model.errors import Draining, OutcomeUnknown, StoreError, StoreFailed
from .model.operations import Request
from .parking import Parked, Parking, Waiting, undo_of

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

Cycle = Generator[Work, None, None]
"""A commit: what is to be synced is yielded, and a failure of the sync thrown in."""


class Driver(Protocol):
    """Runs the commits."""

    def start(self, committer: Committer) -> None: ...

    def wake(self) -> None:
        """There is something to do. Called from any thread, with the committer's lock held."""

    def stop(self) -> None:
        """Return once the committer `is_over`."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: Request[Any]
    future: Future[Any]
    since: Millis
    """Monotonic."""


class Committer:
    """`submit`, `tick`, `drain` and `stop` may be called from any thread."""

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        changing: threading.RLock,
        tell_due: Callable[[Millis], None],
        driver: Driver,
    ) -> None:
        """`changing` is held while folders and index change together, and not while the disk syncs.

        `tell_due` is called after each commit with the monotonic time of what is due next.
        """
        self._driver = driver
        self._engine = engine
        self._clock = clock
        self._changing = changing
        self._tell_due = tell_due
        self._parking = Parking()
        self._statistics = engine.statistics
        self._wakened = threading.Condition()
        """Guards what follows. Only our driver waits on it; to notify all is for callers that Ctrl-C
        interrupts in a notification, and that leave behind a waiter which swallows the next one."""
        self._waiting: list[_Waiting] = []
        self._ticks: list[Future[Millis | None]] = []
        self._news: list[Future[bool]] = []
        self._left: deque[Parked] = deque()
        """Parked receives whose callers have cancelled them."""
        self._draining = False
        self._stopped = False
        self._failure: StoreFailed | None = None
        self._on_failure: list[Callable[[StoreError], None]] = []

    def start(self) -> None:
        self._driver.start(self)

    def submit(self, request: Request[Answer]) -> Future[Answer]:
        """The answer to `request`, or its `StoreError`, when the promise about it is kept.

        A `Receive` or a `Reserve` can be cancelled as long as it has leased nothing; anything else
        until it begins.
        """
        future: Future[Answer] = Future()
        with self._wakened:
            refusal = self._refusal(request)
            if refusal is None:
                self._waiting.append(_Waiting(request, future, self._clock.monotonic()))
                self._wake()
        if refusal is not None:
            future.set_exception(refusal)
        return future

    def tick(self) -> Future[Millis | None]:
        """Do what time has brought about; answers when the next thing is due, monotonic."""
        future: Future[Millis | None] = Future()
        with self._wakened:
            if self._stopped or self._failure is not None:
                future.set_result(None)
            else:
                self._ticks.append(future)
                self._wake()
        return future

    def heed(self) -> Future[bool]:
        """Take in what others have done; answers when that is done, whether anybody waits for more."""
        future: Future[bool] = Future()
        with self._wakened:
            if self._stopped or self._failure is not None:
                future.set_result(False)
            else:
                self._news.append(future)
                self._wake()
        return future

    def drain(self) -> None:
        """Lease nothing any more: receives, those that wait too, are told `Draining`."""
        with self._wakened:
            self._draining = True
            self._wake()

    def stop(self) -> None:
        """Return once what was submitted is done, and nothing more ever will be."""
        with self._wakened:
            self._draining = True
            self._stopped = True
            self._wake()
        self._driver.stop()

    @property
    def waiting(self) -> int:
        """Receives and reserves that wait for a message."""
        return len(self._parking)

    @property
    def failure(self) -> StoreError | None:
        """Why the store takes nothing any more; None while all is well."""
        return self._failure

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

    def _wake(self) -> None:
        self._wakened.notify_all()
        self._driver.wake()

    # What the driver asks.

    def wait_for_work(self) -> bool:
        """Return when there is something to do; False when there never will be."""
        with self._wakened:
            while not self._has_work():
                if self._stopped:
                    return False
                self._clock.wait(self._wakened, self._wake_time())
            return True

    def look_for_work(self) -> tuple[bool, Millis | None]:
        """Whether there is something to do, and otherwise from what monotonic time on, if any."""
        with self._wakened:
            return self._has_work(), self._wake_time()

    @property
    def is_over(self) -> bool:
        """Whether there never will be anything to do again."""
        with self._wakened:
            return self._stopped and not self._has_work()

    def is_short(self) -> bool:
        """Whether the next commit will take no longer than a few calls into the kernel."""
        with self._wakened:
            if self._ticks or self._draining or self._engine.redriving.is_due:
                return False
            return are_short(each.request for each in self._waiting)

    def sync(self, work: Work) -> None:
        """Return once what a cycle yielded is on stable media; raises `SyncFailed`. In any thread."""
        self._engine.sync(work)

    def _has_work(self) -> bool:
        if self._waiting or self._ticks or self._news or self._left:
            return True
        if self._draining and self._parking:
            return True
        if self._stopped:
            return False
        if self._failure is None and (
            self._engine.wants_commit or self._parking.worth_a_try(self._engine.ready)
        ):
            return True
        until = self._wake_time()
        return until is not None and until <= self._clock.monotonic()

    def _wake_time(self) -> Millis | None:
        """When a parked receive must be answered, or may be."""
        if not self._parking:
            return None
        times = [self._parking.next_deadline(), self._engine.next_due()]
        return min((time for time in times if time is not None), default=None)

    def cycle(self) -> Cycle:
        """One commit with everything that waits.

        No two at a time. Between two steps of it another thread may go on.
        """
        with self._wakened:
            waiting, self._waiting = self._waiting, []
            ticks, self._ticks = self._ticks, []
            news, self._news = self._news, []
            draining = self._draining
        try:
            yield from self._do(waiting, ticks, news, draining)
        except GeneratorExit:
            raise  # Nobody drives it to its end: all is over.
        except BaseException as error:
            # A fault of ours; or Ctrl-C, where the thread isn't ours alone. Nobody may wait for ever.
            log.exception("the store has a fault and stops")
            what = f"a fault of ours, {type(error).__name__}; the log has it"
            self._fail(what, waiting, ticks, news)
            if not isinstance(error, Exception):
                raise

    def _do(
        self,
        waiting: Sequence[_Waiting],
        ticks: Sequence[Future[Millis | None]],
        news: Sequence[Future[bool]],
        draining: bool,
    ) -> Cycle:
        # Before it is decided whose receives are worth a try.
        if news:
            with self._changing:
                self._engine.heed()
            for heard in news:
                heard.set_result(bool(self._parking))
        while self._left:
            self._parking.leave(self._left.popleft())
        if draining:
            for parked in self._parking.take_all():
                _fail(parked.future, Draining())
        for parked in self._parking.take_late(self._clock.monotonic()):
            _answer(parked.future, parked.nothing)
        begun = [each for each in waiting if self._begins(each, draining)]
        # This commit itself may make something ready: who has waited comes before who asks now.
        asked = [each.request for each in begun]
        tried = self._parking.worth_a_try(self._engine.ready, asked)
        requests: list[Request[Any]] = [*[parked.request for parked in tried], *asked]
        began = self._statistics.watch()
        try:
            outcomes = yield from self._commit(requests, bool(ticks))
        except SyncFailed as error:
            self._fail(str(error), [*tried, *begun], ticks)
            return
        except Exception as error:
            # A fault of ours: what is on disk and what is in memory may differ now.
            log.exception("the store has a fault and stops")
            what = f"a fault of ours, {type(error).__name__}; the log has it"
            self._fail(what, [*tried, *begun], ticks)
            return
        next_due = self._engine.next_due()
        if next_due is not None:
            self._tell_due(next_due)
        for tick in ticks:
            tick.set_result(next_due)
        self._statistics.commit(requests, outcomes, began)
        for parked, outcome in zip(tried, outcomes, strict=False):
            if outcome:
                self._parking.leave(parked)
                self._answer_receive(parked.request, parked.future, outcome)
        for each, outcome in zip(begun, outcomes[len(tried) :], strict=True):
            self._tell(each, outcome)

    def _commit(
        self, requests: Sequence[Request[Any]], tick: bool
    ) -> Generator[Work, None, list[Outcome]]:
        engine = self._engine
        with self._changing:
            if tick:
                engine.tick()
            work: Work = engine.apply(requests)
        if work.commit is not None:
            yield work
        with self._changing:
            return engine.finish(work)

    def _begins(self, each: _Waiting, draining: bool) -> bool:
        if not isinstance(each.request, Waiting):
            return each.future.set_running_or_notify_cancel()
        if draining:
            _fail(each.future, Draining())
            return False
        # A receive may still be cancelled while it waits, so it isn't running before it has leased.
        return not each.future.cancelled()

    def _tell(self, each: _Waiting, outcome: Outcome) -> None:
        request, future = each.request, each.future
        if isinstance(request, Waiting):
            if outcome or request.wait == 0:
                self._answer_receive(request, future, outcome)
            else:
                self._park(request, future, each.since)
        elif isinstance(outcome, StoreError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    def _park(self, request: Waiting, future: Future[Any], since: Millis) -> None:
        deadline = None if request.wait is None else Millis(since + request.wait)
        parked = Parked(request, future, deadline)
        self._parking.park(parked)
        # Not woken for it: the next commit, or the mover's next look, is soon enough.
        future.add_done_callback(lambda done: self._left.append(parked) if done.cancelled() else None)

    def _answer_receive(self, request: Waiting, future: Future[Any], outcome: Outcome) -> None:
        if isinstance(outcome, StoreError):
            _fail(future, outcome)
        elif not _answer(future, outcome):
            # Cancelled in the meantime: nobody will ever see these leases.
            undo = undo_of(request, outcome)
            if undo is not None:
                with self._wakened:
                    self._waiting.append(_Waiting(undo, Future(), self._clock.monotonic()))

    def _fail(
        self,
        detail: str,
        begun: Sequence[Parked | _Waiting],
        ticks: Sequence[Future[Millis | None]],
        news: Sequence[Future[bool]] = (),
    ) -> None:
        """Promise nothing more: only a restart can tell what is durable."""
        log.critical("nothing is promised until a restart: %s", detail)
        failure = StoreFailed(detail=detail)
        with self._wakened:
            self._failure = failure
            waiting, self._waiting = self._waiting, []
            later, self._ticks = self._ticks, []
            more, self._news = self._news, []
            callbacks, self._on_failure = self._on_failure, []
        # Before anybody is told: whoever then asks how the server is hears the same.
        for callback in callbacks:
            callback(failure)
        for each in begun:
            _fail(each.future, OutcomeUnknown(detail=detail))
        for one in waiting:
            _fail(one.future, failure)
        for parked in self._parking.take_all():
            _fail(parked.future, failure)
        for tick in [*ticks, *later]:
            if not tick.done():
                tick.set_result(None)
        for heard in [*news, *more]:
            if not heard.done():
                heard.set_result(False)


def _answer(future: Future[Any], result: object) -> bool:
    """Tell the result; False if the caller has cancelled."""
    if not future.running() and not future.set_running_or_notify_cancel():
        return False
    future.set_result(result)
    return True


def _fail(future: Future[Any], error: StoreError) -> None:
    """Tell the error, unless the caller has heard an answer or has cancelled."""
    if future.done() or (not future.running() and not future.set_running_or_notify_cancel()):
        return
    future.set_exception(error)

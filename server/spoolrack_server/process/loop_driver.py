"""Runs the store's commits in the thread of an event loop.

Beside an event loop, a thread of its own costs the committer a fifth of the processor's time: the two
take the interpreter's lock from each other for every call and every answer. So a short commit is done
in the loop's own thread, and its sync waits elsewhere, unless the disk is as quick as a hand-over. A
commit that may take longer is done in another thread altogether, and the loop goes on. So it does while
a question of another thread holds the index: the loop tries that lock and never waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import Context
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from spoolrack_store.committer import Committer
from spoolrack_store.model.clock import LONGEST_WAIT, Clock
from spoolrack_store.thread_driver import error_of, run_whole, step

from ..app.store_access import QUICK

LINGER: Final = 0.002
"""Seconds that work of the store's own waits for a request whose commit does it along. Answers go first
meanwhile."""

_Job = tuple[Callable[[Any], Exception | None], Any, Callable[[BaseException | None], None]]
"""A function, its argument, and the callback of the loop that gets its error."""


class LoopDriver:
    """A driver of the committer in the thread of the event loop that runs when it is made.

    `stop` is for another thread, and needs the loop to go on.
    """

    def __init__(self, clock: Clock) -> None:
        """`clock` is the committer's; it must go as the loop's does."""
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        """For the other thread, one at a time; None ends it."""
        # An executor's futures cost a lone message more than its sync does.
        self._beside = threading.Thread(target=self._run_jobs, name="spoolrack-committer", daemon=True)
        # Start it now: without it, a commit would wait for ever.
        self._beside.start()
        self._is_woken = False
        self._is_at_work = False
        self._timer: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._ended = threading.Event()
        self._no_request = Context()

    def start(self, committer: Committer) -> None:
        self._committer = committer
        self._loop.call_soon_threadsafe(self._start_commit)

    def wake(self) -> None:
        if self._is_woken:
            return
        self._is_woken = True
        # A commit is for many requests: its log lines must not bear the id of the one that woke it.
        try:
            if threading.get_ident() == self._loop_thread:
                self._loop.call_soon(self._start_commit, context=self._no_request)
            else:
                self._loop.call_soon_threadsafe(self._start_commit, context=self._no_request)
        except RuntimeError:
            self._jobs.put((_nothing, None, self._end))  # The loop has ended: the other thread says so.

    def stop(self) -> None:
        self._ended.wait()
        self._jobs.put(None)
        self._beside.join()

    def _start_commit(self) -> None:
        """Begin a commit, if there is something to do."""
        self._is_woken = False
        if self._is_at_work:
            return
        if not self._committer.changing.acquire(blocking=False):
            self._work_beside(_run_if_asked, self._committer)
            return
        try:
            has_work, later = self._committer.poll_work()
            if has_work and self._committer.is_awaited:
                self._begin()
            elif has_work:
                if self._linger is None:
                    self._linger = self._loop.call_later(LINGER, self._begin)
            elif self._committer.is_over:
                # A request's commit may have done along what was to be begun.
                self._cancel_linger()
                self._ended.set()
            elif later is not None:
                # The clock rounds down, and to wake before the moment is to spin.
                left = min(later - self._clock.monotonic() + 1, LONGEST_WAIT)
                when = self._loop.time() + left / 1_000
                if self._timer is not None and self._timer.when() > when:
                    self._timer.cancel()
                    self._timer = None
                if self._timer is None:  # One that fires early looks again.
                    self._timer = self._loop.call_at(when, self._on_timer)
        except BaseException as error:  # noqa: BLE001 - it ends all, and is told
            self._fail(error)
        finally:
            self._committer.changing.release()

    def _on_timer(self) -> None:
        self._timer = None
        self._start_commit()

    def _begin(self) -> None:
        if self._committer.is_short():
            self._cancel_linger()
            self._is_at_work = True
            self._cycle = self._committer.cycle()
            self._continue(None)
        else:
            self._work_beside(run_whole, self._committer)

    def _work_beside(self, run: Callable[[Any], Exception | None], of: Any) -> None:
        """Let the other thread run a commit to its end."""
        self._cancel_linger()
        self._is_at_work = True
        self._jobs.put((run, of, self._end))

    def _cancel_linger(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def _continue(self, error: BaseException | None) -> None:
        """Run the commit to its next sync, which the other thread does, or to its end."""
        if not self._committer.changing.acquire(blocking=False):
            self._work_beside(partial(run_whole, self._committer, self._cycle), error)
            return
        try:
            work = step(self._cycle, error)
            while work is not None and work.barrier is not None and work.barrier.seconds <= QUICK:
                work = step(self._cycle, error_of(work))
        except BaseException as found:  # noqa: BLE001 - it ends all, and is told
            self._end(found)
            return
        finally:
            self._committer.changing.release()
        if work is None:
            self._end(None)
        else:
            self._jobs.put((error_of, work, self._continue))

    def _end(self, error: BaseException | None) -> None:
        self._is_at_work = False
        # After what the loop has to do first: more may have come.
        self._loop.call_soon(self._start_commit)
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Fail the store with an error that no commit has judged."""
        if self._committer.failure is None:
            self._committer.fail(error)
        if not isinstance(error, Exception):
            # Ctrl-C: the program that runs the loop gets it, and may run the loop again to close the
            # store.
            raise error

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            run, of, then = job
            try:
                error: BaseException | None = run(of)
            except BaseException as found:  # noqa: BLE001 - the committer judges it, in the loop
                error = found
            try:
                self._loop.call_soon_threadsafe(then, error)
            except RuntimeError as closed:
                self._committer.fail(closed)  # The loop has ended, and drives nothing any more.
                self._ended.set()


def _run_if_asked(committer: Committer) -> None:
    """Wait until no question holds the index, and run a commit if there is something to do."""
    if committer.poll_work()[0]:
        run_whole(committer)


def _nothing(_: None) -> None:
    """Do nothing."""

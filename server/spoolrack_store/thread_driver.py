"""The thread that runs the commits of a store without an event loop, and the steps of a commit that
every driver takes."""

from __future__ import annotations

import threading

from .committer import Committer, Cycle
from .engine.engine import Work


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
    try:
        while committer.wait_for_work():
            run_whole(committer)
    except Exception as error:  # noqa: BLE001 - it ends all, and is told
        committer.fail(error)


def step(cycle: Cycle, error: BaseException | None) -> Work | None:
    """Run a commit to its next sync; return the objects to sync, if any."""
    try:
        return next(cycle) if error is None else cycle.throw(error)
    except StopIteration:
        return None


def error_of(work: Work) -> Exception | None:
    """Return the error of the commit's sync."""
    assert work.barrier is not None
    try:
        work.barrier.sync()
    except Exception as error:  # noqa: BLE001  # the committer judges it
        return error
    return None


def run_whole(
    committer: Committer, cycle: Cycle | None = None, error: BaseException | None = None
) -> None:
    """Run a commit to its end: from its beginning, or a `cycle` from where it stands."""
    cycle = committer.cycle() if cycle is None else cycle
    while (work := step(cycle, error)) is not None:
        error = error_of(work)

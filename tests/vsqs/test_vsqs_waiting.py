"""Waiting costs nothing, and an operation costs the same however many messages wait."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import spoolrack.vsqs._folder
from spoolrack.vsqs import Queue
from spoolrack.vsqs import _watched_folder as watching
from spoolrack.vsqs._watcher import Inotify, Watcher

from tests.support import STUCK
from tests.support.waiting import until
from tests.vsqs.vsqs_rig import Beside

FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
"""Python 3.12 and newer advise against what these tests show to work."""


@pytest.fixture(autouse=True)
def _told_or_never(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiter finds by a second listing a change that an event should have reported."""
    monkeypatch.setattr(spoolrack.vsqs._folder, "LONGEST_WAIT", 10 * STUCK)


class Hesitant(Watcher):
    """Goes to sleep only when it is allowed to."""

    comes: threading.Event
    may_sleep: threading.Event

    def wait(self, seconds: float | None = None) -> None:
        self.comes.set()
        assert self.may_sleep.wait(STUCK)
        super().wait(seconds)


@pytest.fixture
def queue(folder: Path) -> Iterator[Queue]:
    with Queue(folder) as queue:
        yield queue


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How often a folder was listed so far."""
    count = 0
    scandir = os.scandir

    def counting(path: str) -> object:
        nonlocal count
        count += 1
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counting)
    return lambda: count


def test_a_folder_is_listed_once_and_then_heard(
    queue: Queue, folder: Path, listings: Callable[[], int]
) -> None:
    with Queue(folder) as other:
        for number in range(50):
            other.publish(b"%d" % number)
            id, body = queue.receive(timeout=STUCK)
            assert body == b"%d" % number
            other.delete(str(id))
        assert queue.size() == 0
    assert listings() <= 2


def test_a_waiting_receive_sleeps(queue: Queue, listings: Callable[[], int]) -> None:
    queue.publish(b"foo")
    queue.receive(visibility_timeout=3600)
    queue.capacity = 1
    waiting = [Beside(queue.receive) for _ in range(3)]
    publishing = [Beside(lambda: queue.publish(b"x")) for _ in range(3)]
    assert not waiting[0].is_done(0.2)
    before = resource.getrusage(resource.RUSAGE_SELF)
    assert not waiting[0].is_done(0.5)
    after = resource.getrusage(resource.RUSAGE_SELF)
    # A thread that wakes up costs a switch: six that poll every 10 ms would have 300 of them.
    assert after.ru_nvcsw - before.ru_nvcsw < 60
    assert listings() == 1
    queue.close()
    for work in (*waiting, *publishing):
        assert work.is_done(STUCK)


def test_an_event_read_by_one_thread_wakes_another_that_goes_to_sleep(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Hesitant.comes, Hesitant.may_sleep = threading.Event(), threading.Event()
    with Queue(folder) as other:
        monkeypatch.setattr(watching, "Watcher", Hesitant)
        with Queue(folder) as queue:
            waiting = Beside(queue.receive)
            assert Hesitant.comes.wait(STUCK)
            id = other.publish(b"foo")
            assert queue.size() == 1
            Hesitant.may_sleep.set()
            assert waiting.result() == (id, b"foo")


def test_a_leaving_listener_lets_another_listen(queue: Queue, folder: Path) -> None:
    with Queue(folder) as other:
        listener = Beside(lambda: queue.receive(timeout=0.3))
        # It may be over on a busy machine before this thread looks.
        until(lambda: queue._folder._watched._has_listener or listener.is_done())
        waiting = [Beside(lambda: queue.receive(timeout=STUCK)) for _ in range(2)]
        assert listener.result() == (None, None)
        ids = {other.publish(b"foo"), other.publish(b"bar")}
        assert {work.result()[0] for work in waiting} == ids  # type: ignore[index]


@FORKS
def test_a_child_steals_nothing_that_its_parent_should_hear(queue: Queue) -> None:
    queue.size()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            queue.publish(b"from the child")
            status = queue.size() - 1
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert queue.receive(timeout=0)[1] == b"from the child"


@FORKS
def test_a_fork_may_happen_at_any_time(queue: Queue, folder: Path) -> None:
    """Both processes go on with the queue that one of them opened."""
    queue.publish(b"for the child")
    waiting = Beside(lambda: queue.receive(visibility_timeout=3600))
    assert waiting.result() != (None, None)
    waiting = Beside(lambda: queue.receive(timeout=STUCK))
    assert not waiting.is_done(0.05)
    its_turn, give_turn = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            queue.publish(b"from the child")
            os.read(its_turn, 1)
            status = 0 if queue.receive(timeout=STUCK)[1] == b"from the parent" else 2
        finally:
            os._exit(status)
    assert waiting.result()[1] == b"from the child"  # type: ignore[index]
    os.write(give_turn, b"\0")
    queue.publish(b"from the parent")
    assert os.waitpid(child, 0)[1] == 0
    os.close(its_turn)
    os.close(give_turn)


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "max_user_watches"),
        (errno.EMFILE, "max_user_instances"),
        (errno.ENOSYS, "found by listing"),
    ],
)
def test_a_folder_that_the_kernel_does_not_watch_is_logged_with_what_to_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int, advice: str
) -> None:
    def refuse() -> Inotify:
        raise OSError(code, os.strerror(code))

    Watcher(str(tmp_path), kernel=refuse).close()
    (told,) = caplog.messages
    assert all(words in told for words in (str(tmp_path), os.strerror(code), advice))

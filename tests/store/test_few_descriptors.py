"""A process that lacks descriptors fails its own calls, or waits. It stops neither itself nor another
process of the root, whichever call of the disk meets the lack."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from spoolrack_store.files import changes
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.errors import StoreError
from spoolrack_store.model.operations import CreateQueue, Delete, MessageFilter, Receive, Request, Send
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.store.front_rig import GIVE_UP
from tests.support.faulty_disk import Fault, FaultyDisk

CALLS = (
    *(("lock", "owners/"), ("lock", "LOCK"), ("scan", ""), ("read", ""), ("open", ""), ("create", "")),
    *(("rename_new", ""), ("link", ""), ("unlink", "")),
)
"""What opens a file, or takes memory of the system, with a part of its path. `facts` opens nothing."""


class Process:
    """A store that reads each message from its file, with a disk that refuses and a clock that is
    moved."""

    def __init__(self, root: Path) -> None:
        self.disk, self.clock = FaultyDisk(root), ManualClock()
        self.store = Store.open(root, clock=self.clock, disk=self.disk)
        self.store._engine.reader._cache_bytes = 0

    def answer(self, request: Request[Any]) -> Any:
        """Return the answer, or the error that is it."""
        future: Future[Any] = self.store.submit(request)
        return future.exception(GIVE_UP) or future.result()

    def tick(self) -> None:
        """Look at what time has brought about."""
        self.clock.advance(Millis(5_000))
        self.answer(Send(queue="q", bodies=[]))

    def works(self) -> bool:
        """Whether a message that is sent is received."""
        sent = self.answer(Send(queue="q", bodies=[b"x"]))
        found = self.answer(Receive(queue="q", max_messages=100))
        return not isinstance(sent, StoreError) and bool(found) and self.store.failure is None


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    process = Process(tmp_path)
    with process.store:
        process.answer(CreateQueue(name="q", settings=QueueSettings()))
        yield process


@pytest.fixture
def other(process: Process, tmp_path: Path) -> Iterator[Process]:
    other = Process(tmp_path)
    with other.store:
        yield other


def _go_through(process: Process) -> None:
    """Make calls of all kinds; each is answered, with a `StoreError` if with an error."""
    stored = process.answer(Send(queue="q", bodies=[b"x"]))
    sent = [] if isinstance(stored, StoreError) else stored.results
    for request in (
        Delete(queue="q", ids=[each for each in sent if isinstance(each, str)]),
        Send(queue="q", bodies=[b"x"] * 3),
        Receive(queue="q"),
        Reserve(queue="q", stream="s", sequence_number=1, max_messages=1),
        Receive(queue="q", wait=Millis(0)),
        CreateQueue(name="late", settings=QueueSettings()),
    ):
        found = process.answer(request)
        assert not isinstance(found, BaseException) or isinstance(found, StoreError), found
        process.tick()
    try:
        process.store.page("q", MessageFilter())
        process.store.queue("q")
    except StoreError:
        pass


def _until_met(fault: Fault) -> None:
    """Return when a call has met a fault: a thread unlinks what was deleted, a moment later."""
    pause = threading.Event()
    for _ in range(1_000):
        if fault.met:
            return
        pause.wait(GIVE_UP / 1_000)
    raise AssertionError(f"no call meets {fault}")


@pytest.mark.parametrize(("call", "path"), CALLS[1:])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_a_process_alone_goes_on_once_it_has_descriptors(
    process: Process, call: str, path: str, code: int
) -> None:
    fault = process.disk.fail(code, call, path=path)
    _go_through(process)
    _until_met(fault)
    process.disk.heal()
    process.tick()
    assert process.works()


@pytest.mark.parametrize(("call", "path"), CALLS)
def test_a_process_without_descriptors_stops_no_other_process(
    process: Process, other: Process, call: str, path: str
) -> None:
    fault = process.disk.fail(errno.EMFILE, call, path=path)
    _go_through(process)
    _until_met(fault)
    assert other.works()
    process.disk.heal()
    process.tick()
    assert process.works()
    assert other.works()


@pytest.mark.parametrize(("call", "path"), CALLS[:-2])
@pytest.mark.parametrize("skip", [0, 2, 5])
def test_a_relisting_that_lacks_descriptors_is_done_again(
    process: Process,
    other: Process,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    path: str,
    skip: int,
) -> None:
    monkeypatch.setattr(changes, "RING", 4_000)
    with process.store._changing:  # It commits nothing meanwhile, and so is overtaken.
        sent = sum(
            not isinstance(other.answer(Send(queue="q", bodies=[b"x"])), StoreError) for _ in range(40)
        )
        fault = process.disk.fail(errno.EMFILE, call, path=path, skip=skip, times=1)
    _go_through(process)
    assert fault.met
    process.disk.heal()
    process.tick()
    assert process.works()
    assert other.works()
    assert sent == 40
    counts = other.store.queue("q").counts
    assert process.store.queue("q").counts == counts

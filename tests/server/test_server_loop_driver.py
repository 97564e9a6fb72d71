"""The store's commits run in the event loop's thread, which waits for nothing long."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from spoolrack_server.app.store_access import answer
from spoolrack_server.process import loop_driver
from spoolrack_server.process.loop_driver import LoopDriver
from spoolrack_store.engine.engine import Engine
from spoolrack_store.model.background_work import BackgroundWork
from spoolrack_store.model.clock import Millis, SystemClock
from spoolrack_store.model.errors import Draining, OutcomeUnknown, StoreFailed
from spoolrack_store.model.operations import (
    SHORT_MESSAGES,
    CreateQueue,
    Delete,
    GiveBack,
    Purge,
    Receive,
    Request,
    Send,
    are_short,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.support.faulty_disk import FaultyDisk

PATIENCE: Final = 20.0
"""Seconds: only a defect takes longer."""


class WatchedDisk(FaultyDisk):
    """Remembers which threads change files and which sync."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.changing: set[int] = set()
        self.syncing: set[int] = set()

        self.interruption: BaseException | None = None
        """Comes in the midst of the next file that is made."""

    def create(self, path: str, parts: Sequence[bytes], *, sync: bool) -> None:
        interruption, self.interruption = self.interruption, None
        if interruption is not None:
            raise interruption
        self.changing.add(threading.get_ident())
        super().create(path, parts, sync=sync)

    def rename_new(self, source: str, target: str) -> None:
        self.changing.add(threading.get_ident())
        super().rename_new(source, target)

    def sync_file(self, path: str) -> None:
        self.syncing.add(threading.get_ident())
        super().sync_file(path)

    def sync_folder(self, path: str) -> None:
        self.syncing.add(threading.get_ident())
        super().sync_folder(path)

    def sync_all(self) -> None:
        self.syncing.add(threading.get_ident())
        super().sync_all()


@asynccontextmanager
async def opened(root: Path) -> AsyncIterator[tuple[Store, WatchedDisk]]:
    clock, disk = SystemClock(), WatchedDisk(root)
    driver = LoopDriver(clock)
    store = await asyncio.to_thread(Store.open, root, clock=clock, disk=disk, driver=driver)
    try:
        await answer(store.submit(CreateQueue(name="q", settings=QueueSettings())))
        disk.changing.clear()
        disk.syncing.clear()
        yield store, disk
    finally:
        await asyncio.to_thread(store.close)


def sending(*bodies: bytes) -> Send:
    return Send(queue="q", bodies=bodies)


async def test_a_short_commit_is_done_by_the_loop_and_synced_by_another_thread(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, disk):
        await answer(store.submit(sending(b"one", b"two")))
        found = messages_of(await answer(store.submit(Receive(queue="q", max_messages=10))))
        assert [message.body for message in found] == [b"one", b"two"]
        assert disk.changing == {threading.get_ident()}
        assert disk.syncing
        assert threading.get_ident() not in disk.syncing


@pytest.mark.parametrize("per_file", [0, 1, 1_000])
async def test_a_request_for_nothing_is_answered(tmp_path: Path, per_file: int) -> None:
    """A send is left without messages where each is refused before: it has no files to be counted."""
    async with opened(tmp_path) as (store, _):
        settings = QueueSettings(messages_per_file=per_file)
        await answer(store.submit(CreateQueue(name="none", settings=settings)))
        for queue in ("none", "q"):
            assert (await answer(store.submit(Send(queue=queue, bodies=[])))).results == []
            assert await answer(store.submit(Receive(queue=queue, max_messages=1))) == []
            assert await answer(store.submit(Delete(queue=queue, ids=[], receipts=[]))) == []
        assert store.failure is None


async def test_long_work_is_done_by_another_thread(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, disk):
        await answer(store.submit(sending(b"one")))
        disk.changing.clear()
        more = [store.submit(sending(bytes(1024 * 1024))) for _ in range(3)]
        await asyncio.gather(*map(answer, more))
        assert disk.changing
        assert threading.get_ident() not in disk.changing


async def test_commits_on_a_slow_disk_are_done_by_another_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop does what is short by measurement: the files of a commit, times what a file took."""
    async with opened(tmp_path) as (store, disk):
        # A watch that stands still, but for the calls of the disk: each file takes so long.
        now, seconds = 0.0, 0.004
        monkeypatch.setattr(store._engine.moves.statistics, "watch", lambda: now)

        def slow(name: str) -> None:
            honest = getattr(disk, name)

            def call(*of: Any, **named: Any) -> Any:
                nonlocal now
                now += seconds
                return honest(*of, **named)

            monkeypatch.setattr(disk, name, call)

        for name in ("create", "rename_new", "link", "unlink"):
            slow(name)
        for _ in range(20):
            await answer(store.submit(sending(b"one")))
        disk.changing.clear()
        await asyncio.gather(*(answer(store.submit(sending(b"two"))) for _ in range(3)))
        assert disk.changing
        assert threading.get_ident() not in disk.changing
        seconds = 0.0001  # The disk is quick again.
        for _ in range(60):
            await answer(store.submit(sending(b"one")))
        disk.changing.clear()
        await answer(store.submit(sending(b"three")))
        assert threading.get_ident() in disk.changing


async def test_the_loop_goes_on_during_a_sync_and_what_gathers_shares_the_next(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, disk):
        reached, advance = disk.hold("sync_file")
        first = store.submit(sending(b"first"))
        await asyncio.to_thread(reached.wait)
        disk.forget()
        more = [store.submit(sending(b"more")) for _ in range(20)]
        await asyncio.sleep(0)
        assert not first.done()
        assert not disk.called("create")
        advance.set()
        await asyncio.gather(*map(answer, [first, *more]))
        assert len(disk.called("create")) == 1


async def test_a_failed_sync_is_told_and_ends_all(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, disk):
        disk.fail(errno.EIO, "sync_file", "sync_folder", "sync_all")
        with pytest.raises(OutcomeUnknown):
            await answer(store.submit(sending(b"one")))
        assert store.failure is not None


def test_ctrl_c_during_a_commit_ends_the_store_and_all_waiting_calls(tmp_path: Path) -> None:
    async def interrupted() -> None:
        disk.interruption = KeyboardInterrupt()
        sent.append(store.submit(sending(b"one")))
        sent.append(store.submit(sending(b"two")))
        await answer(sent[0])

    async def submit_more() -> BaseException | None:
        return await asyncio.to_thread(store.submit(sending(b"three")).exception, PATIENCE)

    async def close() -> None:
        async with asyncio.timeout(PATIENCE):
            await asyncio.to_thread(store.close)

    sent: list[Future[Any]] = []
    clock, disk = SystemClock(), WatchedDisk(tmp_path)
    # By a loop of our own: `asyncio.run` would turn a first Ctrl-C into a cancelled task.
    loop = asyncio.new_event_loop()
    driver = loop.run_until_complete(made(clock))
    store = loop.run_until_complete(
        asyncio.to_thread(Store.open, tmp_path, clock=clock, disk=disk, driver=driver)
    )
    loop.run_until_complete(answer(store.submit(CreateQueue(name="q", settings=QueueSettings()))))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(interrupted())
    assert isinstance(loop.run_until_complete(submit_more()), StoreFailed)
    loop.run_until_complete(close())
    assert [type(each.exception(PATIENCE)) for each in sent] == [OutcomeUnknown] * 2
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def made(clock: SystemClock) -> LoopDriver:
    return LoopDriver(clock)


async def test_an_interrupted_sync_ends_the_store_and_all_waiting_calls(tmp_path: Path) -> None:
    class BreaksOff(BaseException):
        pass

    class BreakingDisk(WatchedDisk):
        def sync_file(self, path: str) -> None:
            if self.breaks:
                raise BreaksOff
            super().sync_file(path)

        def sync_folder(self, path: str) -> None:
            if self.breaks:
                raise BreaksOff
            super().sync_folder(path)

        def sync_all(self) -> None:
            if self.breaks:
                raise BreaksOff
            super().sync_all()

        breaks = False

    clock, disk = SystemClock(), BreakingDisk(tmp_path)
    driver = LoopDriver(clock)
    store = await asyncio.to_thread(Store.open, tmp_path, clock=clock, disk=disk, driver=driver)
    await answer(store.submit(CreateQueue(name="q", settings=QueueSettings())))
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: told.append(what["exception"]))
    disk.breaks = True
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(OutcomeUnknown):
            await answer(store.submit(sending(b"one", b"two")))
        await asyncio.to_thread(store.close)
    assert [type(each) for each in told] == [BreaksOff]


async def test_a_receive_that_waits_is_answered_in_time_and_by_a_send(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, _):
        assert await answer(store.submit(Receive(queue="q", wait=Millis(20)))) == []
        waiting = store.submit(Receive(queue="q", wait=None))
        await asyncio.sleep(0)
        await answer(store.submit(sending(b"one")))
        (message,) = messages_of(await answer(waiting))
        assert message.body == b"one"


async def test_a_receive_that_waits_is_answered_in_time_also_where_nothing_else_wakes_the_store(
    tmp_path: Path,
) -> None:
    clock = SystemClock()
    driver = LoopDriver(clock)
    store = await asyncio.to_thread(
        Store.open, tmp_path, clock=clock, background=BackgroundWork(ticks=False), driver=driver
    )
    async with asyncio.timeout(PATIENCE):
        await answer(store.submit(CreateQueue(name="q", settings=QueueSettings())))
        assert await answer(store.submit(Receive(queue="q", wait=Millis(20)))) == []
        await asyncio.to_thread(store.close)


async def test_other_threads_are_served_as_well(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, _):
        sent = await asyncio.to_thread(lambda: store.submit(sending(b"one")).result())
        assert len(sent.results) == 1


async def test_a_close_comes_after_all_that_was_submitted(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, _):
        waiting = store.submit(Receive(queue="q", wait=None))
        await asyncio.sleep(0)
        sent = [store.submit(sending(b"last")) for _ in range(5)]
    assert all(future.done() for future in sent)
    assert [len(future.result().results) for future in sent] == [1] * 5
    assert waiting.done()
    if not waiting.exception():
        assert len(waiting.result()) == 1
    else:
        assert isinstance(waiting.exception(), Draining)


@pytest.mark.parametrize(
    ("requests", "short"),
    [
        ([], True),
        ([sending(*[b"x"] * 100)] * (SHORT_MESSAGES // 100), True),
        ([sending(*[b"x"] * 100)] * (SHORT_MESSAGES // 100 + 1), False),
        ([sending(bytes(1024 * 1024))] * 3, False),
        ([Receive(queue="q", max_messages=SHORT_MESSAGES)], True),
        ([Receive(queue="q", max_messages=1), Purge(queue="q")], False),
        ([GiveBack(queue="q", receipts=["x"])], True),
        ([Delete(queue="q", ids=["x"])], True),
    ],
)
def test_only_what_is_known_to_be_short_counts_as_that(
    requests: Sequence[Request[object]], short: bool
) -> None:
    assert are_short(requests) is short


def test_a_loop_that_ends_fails_the_store_of_its_commits(tmp_path: Path) -> None:
    """The driver's other thread has no loop to give a commit back to."""

    async def begin() -> tuple[Store, Future[Any], threading.Event]:
        clock, disk = SystemClock(), WatchedDisk(tmp_path)
        driver = LoopDriver(clock)
        store = await asyncio.to_thread(Store.open, tmp_path, clock=clock, disk=disk, driver=driver)
        await answer(store.submit(CreateQueue(name="q", settings=QueueSettings())))
        reached, advance = disk.hold("sync_file")
        sent = store.submit(sending(b"one"))
        await asyncio.to_thread(reached.wait, PATIENCE)
        return store, sent, advance

    store, sent, advance = asyncio.run(begin())
    advance.set()
    assert isinstance(sent.exception(PATIENCE), OutcomeUnknown | StoreFailed)
    assert store.failure is not None
    store.close()


async def test_a_fault_in_the_look_for_work_fails_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(*_: object) -> None:
        raise KeyError

    async with opened(tmp_path) as (store, _):
        waiting = store.submit(Receive(queue="q", wait=None))
        monkeypatch.setattr(Engine, "next_work", raising)
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(StoreFailed, match="KeyError"):
                await answer(waiting)
            with pytest.raises(StoreFailed):
                await answer(store.submit(sending(b"one")))


async def test_the_loop_goes_on_while_a_question_holds_the_index(tmp_path: Path) -> None:
    async with opened(tmp_path) as (store, disk):
        holds, release = threading.Event(), threading.Event()

        def hold() -> None:
            holds.set()
            assert release.wait(PATIENCE)

        question = asyncio.create_task(asyncio.to_thread(store._questions.up_to_date, hold))
        await asyncio.to_thread(holds.wait)
        sent = store.submit(sending(b"one"))
        waiting = store.submit(Receive(queue="q", wait=None))
        for _ in range(10):
            await asyncio.sleep(0)  # Each of them would hang if the loop waited for the question.
        assert not sent.done()
        release.set()
        async with asyncio.timeout(PATIENCE):
            await question
            assert len((await answer(sent)).results) == 1
            (message,) = messages_of(await answer(waiting))
        assert message.body == b"one"
        assert disk.changing


class Ending:
    """A committer whose own work is done when the store ends."""

    is_awaited = False

    def __init__(self) -> None:
        self.is_over = False
        self.begun = 0
        self.changing = threading.RLock()

    def poll_work(self) -> tuple[bool, Millis | None]:
        return not self.is_over, None

    def is_short(self) -> bool:
        self.begun += 1
        return False


async def test_nothing_is_begun_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_driver, "LINGER", 0.0)
    driver, committer = LoopDriver(SystemClock()), Ending()
    ending: Any = committer
    driver.start(ending)
    driver._start_commit()  # Its own work may wait for a request's commit.
    committer.is_over = True
    driver._start_commit()
    await asyncio.to_thread(driver.stop)
    for _ in range(10):
        await asyncio.sleep(0)
    assert committer.begun == 0

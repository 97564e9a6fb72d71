"""A check beside a running store raises no false alarm, whatever moves under its eyes."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from fsck_rig import batch, make_root, single
from spoolrack_store import fsck
from spoolrack_store.files.disk import Found
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.fsck.inspection import Inspector
from spoolrack_store.model.operations import (
    ByReceipt,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Outgoing,
    Purge,
    Receive,
    Send,
    VisibilityChange,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.model.transitions import State
from spoolrack_store.store import Store

TOKEN = "r1,f1700000000000@9999999999999~0123456789abc"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path / "root")


class RestlessDisk(LocalDisk):
    """Somebody else moves a file or folder each time that it is about to be looked at."""

    def __init__(self, root: Path, moves: list[tuple[Path, Path]]) -> None:
        super().__init__(root)
        self._at = root
        self._moves = moves

    def facts(self, path: str) -> Any:
        self._move(path)
        return super().facts(path)

    def scan(self, path: str) -> list[Found]:
        self._move(path)
        return super().scan(path)

    def _move(self, path: str) -> None:
        if self._moves and self._at / path == self._moves[0][0]:
            source, target = self._moves.pop(0)
            source.rename(target)


@pytest.mark.parametrize("times", [1, 2])
def test_a_message_that_moves_on_is_looked_for_and_counted_once(root: Path, times: int) -> None:
    path = single(root)
    away = root / "delay" / f"q:{path.name},{TOKEN}"
    moves = [(path, away), (away, path)][:times]
    report = Inspector(RestlessDisk(root, moves)).run()
    assert report.is_clean
    assert report.unchecked == 0
    counts = report.queues["q"].counts
    assert counts[State.READY] + counts[State.LEASED] == 7


def test_a_batch_that_moves_on_is_looked_for_and_counted_once(root: Path) -> None:
    path = batch(root)
    away = root / "delay" / f"q:{path.name},{TOKEN}"
    report = Inspector(RestlessDisk(root, [(path, away)])).run()
    assert report.is_clean
    assert report.unchecked == 0
    assert report.queues["q"].counts[State.LEASED] == 6


def test_what_never_rests_is_told_as_unchecked(root: Path) -> None:
    path = single(root)
    away = root / "delay" / f"q:{path.name},{TOKEN}"
    report = Inspector(RestlessDisk(root, [(path, away), (away, path)] * 10)).run()
    assert report.is_clean
    assert report.unchecked == 1


def test_a_check_of_a_root_under_load_finds_no_problem(root: Path) -> None:
    done = threading.Event()

    def work(store: Store, number: int) -> None:
        queue = f"busy{number}"
        for round in range(100_000):
            if done.is_set():
                return
            store.submit(CreateQueue(name=queue, settings=QueueSettings())).result()
            for size in (1, 20):
                messages = [Outgoing(body=b"x" * 100)] * size
                store.submit(Send(queue=queue, messages=messages)).result()
            leases = store.submit(Receive(queue=queue, max_messages=15)).result()
            receipts = [str(message.receipt) for message in leases]
            store.submit(
                ChangeVisibility(
                    queue=queue,
                    changes=[VisibilityChange(receipt, 0) for receipt in receipts[:5]],  # type: ignore[arg-type]
                )
            ).result()
            store.submit(
                Delete(queue=queue, targets=[ByReceipt(receipt) for receipt in receipts[5:]])
            ).result()
            if round % 3 == 1:
                store.submit(Purge(queue=queue)).result()

    with Store.open(root) as store:
        workers = [threading.Thread(target=work, args=(store, number)) for number in range(3)]
        for worker in workers:
            worker.start()
        try:
            reports = [fsck.check(root) for _ in range(15)]
        finally:
            done.set()
            for worker in workers:
                worker.join()
        store.submit(DeleteQueue(name="busy0")).result()
    assert [problem for report in reports for problem in report.problems] == []
    assert fsck.check(root).is_clean

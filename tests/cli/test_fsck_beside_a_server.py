"""A check beside a store under load raises no false alarm, and a root that a store leaves is clean."""

from __future__ import annotations

import threading
from pathlib import Path

from spoolrack_store import fsck
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Purge,
    Receive,
    Send,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.support.root_rig import make_root


def test_a_check_of_a_root_under_load_finds_no_problem(tmp_path: Path) -> None:
    root = make_root(tmp_path / "root")
    done = threading.Event()

    def work(store: Store, number: int) -> None:
        queue = f"busy{number}"
        for round in range(100_000):
            if done.is_set():
                return
            store.submit(CreateQueue(name=queue, settings=QueueSettings())).result()
            for size in (1, 20):
                store.submit(Send(queue=queue, bodies=[b"x" * 100] * size)).result()
            leases = messages_of(store.submit(Receive(queue=queue, max_messages=15)).result())
            receipts = [str(message.receipt) for message in leases]
            release = ChangeVisibility(queue=queue, receipts=receipts[:5], visibility=Millis(0))
            store.submit(release).result()
            store.submit(Delete(queue=queue, receipts=receipts[5:])).result()
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
    assert not fsck.check(root).problems


def test_the_store_leaves_nothing_to_find_after_queues_come_and_go(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for name in ("one", "two"):
            store.submit(CreateQueue(name=name, settings=QueueSettings())).result()
            store.submit(Send(queue=name, bodies=[b"x"] * 10)).result()
        store.submit(Purge(queue="one")).result()
        store.submit(DeleteQueue(name="two")).result()
    report = fsck.check(tmp_path)
    assert not report.problems
    assert report.queues["one"].messages == 0


def test_deduplication_ids_of_deleted_messages_are_no_problem(tmp_path: Path) -> None:
    root = make_root(tmp_path / "root")
    with Store.open(root) as store:
        ids = {0: "a", 1: "b", 2: "c"}
        sent = store.submit(Send(queue="q", bodies=[b"x"] * 3, deduplication_ids=ids)).result()
        store.submit(Delete(queue="q", ids=[str(each) for each in sent.results])).result()
    report = fsck.check(root)
    assert (report.problems, report.leftovers) == ([], [])
    fsck.repair(root)
    with Store.open(root) as store:
        again = store.submit(Send(queue="q", bodies=[b"x"] * 3, deduplication_ids=ids)).result()
    assert again.duplicates == {0, 1, 2}
    assert again.results == sent.results

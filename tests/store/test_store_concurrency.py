"""Many threads on one real folder, and a checker that counts every message."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest
from spoolrack_store.model.clock import Millis
from spoolrack_store.model.credits import Credits
from spoolrack_store.model.operations import (
    ByReceipt,
    ChangeVisibility,
    Delete,
    Outgoing,
    Receive,
    Send,
    VisibilityChange,
)
from store_rig import GIVE_UP, StoreRig, opened

SENDERS, CALLS, MOST = 6, 25, 5


class Checker:
    """Who sent what, who got what, and who holds what now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: list[str] = []
        self.deleted: Counter[str] = Counter()
        self.held: set[str] = set()
        self.faults: list[str] = []

    def got(self, ids: list[str]) -> None:
        with self._lock:
            self.faults += [f"{id} is held twice" for id in ids if id in self.held]
            self.faults += [f"{id} came after its delete" for id in ids if self.deleted[id]]
            self.held.update(ids)

    def lets_go(self, ids: list[str]) -> None:
        with self._lock:
            self.held.difference_update(ids)

    def has_deleted(self, ids: list[str]) -> None:
        with self._lock:
            self.deleted.update(ids)


def send(rig: StoreRig, checker: Checker, number: int) -> None:
    for call in range(CALLS):
        ids = rig.send(*[f"{number}/{call}/{at}".encode() for at in range(1 + call % MOST)])
        checker.sent.extend(ids)


def consume(rig: StoreRig, checker: Checker, number: int, all_sent: threading.Event) -> None:
    credits = Credits(20, lambda: None)
    round = 0
    while True:
        finished = all_sent.is_set()
        request = Receive(queue="q", max_messages=1 + (number + round) % 9, credits=credits)
        messages = rig.ask(request)
        if not messages:
            if finished:
                return
            continue
        round += 1
        ids = [message.id for message in messages]
        checker.got(ids)
        keep = len(ids) if round % 3 else len(ids) // 2
        gone, back = messages[:keep], messages[keep:]
        # Before the request: once it is under way somebody else may hold the message.
        checker.lets_go([message.id for message in back])
        if back:
            changes = [VisibilityChange(m.receipt or "", Millis(0)) for m in back]
            assert rig.ask(ChangeVisibility(queue="q", changes=changes)) == [None] * len(back)
        if gone:
            targets = [ByReceipt(message.receipt or "") for message in gone]
            assert rig.ask(Delete(queue="q", targets=targets)) == [None] * len(gone)
            checker.has_deleted([message.id for message in gone])
            checker.lets_go([message.id for message in gone])
        assert credits.in_flight == 0


@pytest.mark.parametrize("consumers", [1, 6])
def test_every_message_is_delivered_and_none_to_two_at_once(tmp_path: Path, consumers: int) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        checker, all_sent = Checker(), threading.Event()
        failures: list[BaseException] = []

        def guarded(work: object, *arguments: object) -> None:
            try:
                work(*arguments)  # type: ignore[operator]
            except BaseException as error:
                failures.append(error)
                raise

        senders = [
            threading.Thread(target=guarded, args=(send, rig, checker, n)) for n in range(SENDERS)
        ]
        takers = [
            threading.Thread(target=guarded, args=(consume, rig, checker, n, all_sent))
            for n in range(consumers)
        ]
        for thread in [*senders, *takers]:
            thread.start()
        for thread in senders:
            thread.join(GIVE_UP)
        all_sent.set()
        for thread in takers:
            thread.join(GIVE_UP)
        assert not failures
        # A consumer may have left while another still gave some back.
        consume(rig, checker, 0, all_sent)
        assert checker.faults == []
        assert checker.deleted == Counter(checker.sent)
        counts = rig.store.queue("q").counts
        assert (counts.ready, counts.leased, counts.bytes) == (0, 0, 0)
    with opened(tmp_path / "root") as rig:
        assert rig.store.queue("q").counts.ready == 0
        assert rig.store.quarantined == 0


def test_sends_of_many_threads_share_syncs(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as rig:
        rig.create()
        reached, go_on = rig.disk.hold("rename", "new/")
        first = rig.store.submit(Send(queue="q", messages=[Outgoing(body=b"x")]))
        assert reached.wait(GIVE_UP)
        rig.disk.forget()
        others = [rig.store.submit(Send(queue="q", messages=[Outgoing(body=b"x")])) for _ in range(50)]
        go_on.set()
        for future in [first, *others]:
            future.result(GIVE_UP)
        assert len(rig.disk.called("sync_all", "sync_folder")) == 1

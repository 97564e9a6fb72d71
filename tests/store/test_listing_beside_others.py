"""No process waits while another one lists the root: at its start, or as it is overtaken."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack_store.engine import recovery
from spoolrack_store.files import changes
from spoolrack_store.files.disk import FolderEntry
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.model.operations import CreateQueue, Receive, Send, SendResults, messages_of
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

COUNT = 40
BODIES = [b"%d" % number for number in range(COUNT)]


class ListedDisk(LocalDisk):
    """A folder that lets another process send whenever this one lists messages without the lock."""

    def __init__(self, root: Path, other: Store) -> None:
        super().__init__(root)
        self.other = other
        self.listed: set[str] = set()
        """The folders that were listed without the lock."""
        self.sent: list[str] = []

    def scan(self, path: str) -> list[FolderEntry]:
        if self._lock_file is None or not self._lock_file._is_locked:
            self.listed.add(path)
            if path in ("queues/q", "delay", "remove"):
                self.sent.append(_sent(self.other, b"beside"))
        return super().scan(path)


def _sent(store: Store, body: bytes) -> str:
    answer = store.submit(Send(queue="q", bodies=[body])).result(timeout=30)
    assert isinstance(answer, SendResults)
    (id,) = answer.results
    assert isinstance(id, str)
    return id


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """A process that has the root open, with lone messages in a queue."""
    with Store.open(tmp_path) as store:
        store.submit(CreateQueue(name="q", settings=QueueSettings())).result(timeout=30)
        for body in BODIES:
            _sent(store, body)
        yield store


def test_others_send_while_a_process_that_joins_lists_the_root(other: Store, tmp_path: Path) -> None:
    disk = ListedDisk(tmp_path, other)
    with Store.open(tmp_path, disk=disk) as store:
        assert {"queues/q", "delay", "remove"} <= disk.listed
        assert len(disk.sent) >= 3
        assert store.queue("q").counts.ready_count == COUNT + len(disk.sent)
        got = store.submit(Receive(queue="q", max_messages=1000)).result(timeout=30)
        ids = [message.id for message in messages_of(got)]
        assert ids[COUNT:] == disk.sent


def test_others_send_while_an_overtaken_process_lists_the_root(
    other: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "RING", 4_000)
    disk = ListedDisk(tmp_path, other)
    with Store.open(tmp_path, disk=disk) as store:
        before = len(disk.sent)
        disk.listed.clear()
        with store._changing:  # It commits nothing meanwhile.
            for body in BODIES:
                _sent(other, body)
        assert store.queue("q").counts.ready_count == 2 * COUNT + len(disk.sent)
        assert len(disk.sent) > before
        assert {"queues/q", "delay", "remove"} <= disk.listed


def test_a_start_logs_how_many_names_it_has_read(
    other: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(recovery, "FOLLOWED", 5)
    monkeypatch.setattr(recovery, "TOLD", 20)
    with caplog.at_level(logging.INFO), Store.open(tmp_path):
        pass
    assert [record.getMessage() for record in caplog.records if "are read" in record.getMessage()] == [
        "20 names of the root are read",
        "40 names of the root are read",
    ]

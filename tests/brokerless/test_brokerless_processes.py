"""Processes that share a root, with no server among them or beside one."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import spoolrack
from spoolrack import Queue
from spoolrack.testing import running_server
from spoolrack_store.files.disk import FolderEntry
from spoolrack_store.files.local_disk import LocalDisk
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.operations import CreateQueue, Receive, messages_of
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store

from tests.brokerless.actor import Actor
from tests.store.front_rig import taken_lock
from tests.support import STUCK


def test_leases_of_a_killed_process_return_to_the_others(
    jobs: Queue, actor: Callable[[], Actor]
) -> None:
    jobs.send_many(["a", "b"])
    other = actor()
    assert other.does("[m.text for m in jobs.receive(2)]") == "['a', 'b']"
    assert jobs.receive(2) == []
    other.kill()

    again = [message for _ in range(2) for message in jobs.receive(1, wait=STUCK)]
    assert [(message.text, message.receive_count) for message in again] == [("a", 2), ("b", 2)]


def test_a_message_is_deleted_released_and_extended_by_another_process(
    jobs: Queue, actor: Callable[[], Actor]
) -> None:
    jobs.send_many(["a", "b", "c"])
    a, b, c = jobs.receive(3, visibility_timeout=600)
    other = actor()
    assert other.does(f"jobs.delete({a.receipt!r})") == "None"
    assert other.does(f"jobs.release({b.receipt!r})") == "None"
    assert other.does(f"jobs.extend({c.receipt!r}, 900) is None") == "False"
    assert [message.text for message in jobs.receive(3, wait=STUCK)] == ["b"]
    c.delete()
    assert other.does(f"jobs.get({c.id!r})") == "MessageNotFound"


def test_a_stream_and_a_receive_that_wait_are_woken_by_what_another_process_sends(
    jobs: Queue, actor: Callable[[], Actor]
) -> None:
    other = actor()
    other.begin("[m.text for m in jobs.receive(wait=3600)]")
    jobs.send("a")
    assert other.answer() == "['a']"

    with jobs.messages(max_in_flight=1) as stream:
        other.begin("jobs.send('b') and None")
        assert next(stream).text == "b"


class CountingDisk(LocalDisk):
    """Remembers which folders were listed."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listed: list[str] = []

    def scan(self, path: str) -> list[FolderEntry]:
        self.listed.append(path)
        return super().scan(path)


@contextmanager
def counted(root: Path, clock: ManualClock) -> Iterator[tuple[Store, CountingDisk]]:
    disk = CountingDisk(root)
    with Store.open(root, clock=clock, disk=disk) as store:
        yield store, disk


def test_a_receive_that_waits_lists_no_messages_and_is_woken_by_the_kernel_alone(
    root: Path, actor: Callable[[], Actor]
) -> None:
    other = actor()
    assert other.does("client.create_queue('jobs').name") == "'jobs'"
    clock = ManualClock()
    with counted(root, clock) as (store, disk):
        request = CreateQueue(name="jobs", settings=QueueSettings())

        def let_pass(seconds: int) -> None:
            for _ in range(seconds):
                clock.advance(1_000)
                store.submit(request).result(STUCK)

        waiting = store.submit(Receive(queue="jobs", wait=None))
        let_pass(1)
        disk.listed.clear()
        let_pass(600)
        assert not {folder for folder in disk.listed if folder.startswith(("queues", "delay"))}
        # Time stands still from here on: nothing but the news can wake it.
        assert other.does("jobs.send('a') != ''") == "True"
        assert [message.body for message in messages_of(waiting.result(STUCK))] == [b"a"]


def test_a_client_works_beside_a_running_server_and_both_see_all(root: Path, url: str) -> None:
    with running_server(root) as server, server.client() as there, spoolrack.connect(url) as here:
        there.create_queue("jobs")
        here.queue("jobs").send("from here")
        (message,) = there.queue("jobs").receive(wait=STUCK)
        assert message.text == "from here"
        here.queue("jobs").delete(message.receipt)

        there.queue("jobs").send("from there")
        (message,) = here.queue("jobs").receive(wait=STUCK)
        assert message.text == "from there"
        there.queue("jobs").release(message.receipt)
        with here.queue("jobs").messages() as stream, next(stream) as again:
            assert again.id == message.id
        here.update_queue("jobs", visibility_timeout=7)
        assert there.create_queue("jobs", visibility_timeout=7).info().settings.visibility_timeout == 7
        here.delete_queue("jobs")
        there.create_queue("jobs")
        assert here.queue("jobs").receive() == []


def test_a_stream_over_a_server_is_woken_by_what_is_sent_without_it(root: Path, url: str) -> None:
    with running_server(root) as server, server.client() as there, spoolrack.connect(url) as here:
        here.create_queue("jobs")
        got: list[str] = []
        with there.queue("jobs").messages() as stream:
            reader = threading.Thread(target=lambda: got.append(next(stream).text))
            reader.start()
            here.queue("jobs").send("a")
            reader.join(STUCK)
            assert got == ["a"]


def test_a_forked_child_does_not_keep_its_parent_alive(
    jobs: Queue, root: Path, actor: Callable[[], Actor]
) -> None:
    """The child has its parent's open files, the lock that says that the parent lives among them."""
    parent = actor()
    assert parent.does("jobs.send('a') != ''") == "True"
    child = int(parent.does("os.fork() or act()"))
    try:
        parent.kill()
        assert [message.text for message in jobs.receive(wait=STUCK)] == ["a"]
        # A process that opens the root unlinks the files of the dead.
        assert actor().does("jobs.send('b') != ''") == "True"
        assert len(list((root / "owners").iterdir())) == 2, "the parent is believed to live"
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_connects_anew(
    jobs: Queue, root: Path, url: str, actor: Callable[[], Actor]
) -> None:
    parent = actor()
    assert parent.does("jobs.send('a') != ''") == "True"
    child = int(parent.does("os.fork() or act()"))
    try:
        # Which of the two reads a line is the system's to say: the parent must not.
        parent.stop(root)
        assert parent.does("jobs.receive()") == "ForkedClient"
        assert parent.does("client.close()") == "None"
        anew = f"spoolrack.connect({url!r}).queue('jobs').receive()[0].text"
        assert parent.does(anew) == "'a'"
    finally:
        os.kill(child, signal.SIGKILL)


def test_an_error_names_the_process_that_holds_the_lock(root: Path, jobs: Queue) -> None:
    """A process that was stopped while it held the lock stops all others: an error says which one."""
    named = rf"process {os.getpid()} \(\w+\) since \S+ holds its lock: if it is stopped, let it go on"
    lock = taken_lock(root)
    try:
        with pytest.raises(spoolrack.errors.Timeout, match=named):
            jobs.send("x", timeout=0.2)
    finally:
        lock.release()

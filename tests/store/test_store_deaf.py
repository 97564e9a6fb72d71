"""Stores on one root of which the kernel tells nothing, as on a network file system: they list."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
from spoolrack_store.files.disk import LocalDisk
from spoolrack_store.files.watcher import LOOK_AGAIN, Inotify, Watcher
from spoolrack_store.model.clock import SECOND, Millis
from spoolrack_store.model.errors import QueueNotFound
from spoolrack_store.model.operations import (
    ById,
    ByReceipt,
    ChangeVisibility,
    CreateQueue,
    Delete,
    DeleteQueue,
    Message,
    Outgoing,
    Purge,
    Receive,
    Request,
    Send,
    UpdateQueue,
    VisibilityChange,
)
from spoolrack_store.model.settings import QueueSettings
from spoolrack_store.store import Store
from store_rig import GIVE_UP, until

Answer = TypeVar("Answer")
SOON = Millis(10)
NO_TIME = Millis(0)


def no_inotify() -> Inotify:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), "inotify")


def opened(root: Path) -> Store:
    root.mkdir(exist_ok=True)
    ear = Watcher(root, look_again=SOON, kernel=no_inotify)
    return Store.open(root, disk=LocalDisk(root), ear=ear)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    with ExitStack() as stack:
        one, other = (stack.enter_context(opened(tmp_path / "root")) for _ in range(2))
        ask(one, CreateQueue(name="q", settings=QueueSettings()))
        until(lambda: [queue.name for queue in other.queues()] == ["q"])
        ask(other, CreateQueue(name="met", settings=QueueSettings()))
        until(lambda: len(one.queues()) == 2)
        yield one, other


def ask(store: Store, request: Request[Answer]) -> Answer:
    return store.submit(request).result(GIVE_UP)


def send(store: Store, *bodies: bytes, queue: str = "q") -> None:
    ask(store, Send(queue=queue, messages=[Outgoing(body=body) for body in bodies]))


def receive(store: Store, *, wait: Millis | None = NO_TIME, queue: str = "q") -> list[Message]:
    return ask(store, Receive(queue=queue, max_messages=10, wait=wait))


def test_the_stated_time_is_a_second() -> None:
    assert LOOK_AGAIN == SECOND


def test_who_waits_is_woken_by_what_another_sends_and_releases(two: tuple[Store, Store]) -> None:
    one, other = two
    waiting = other.submit(Receive(queue="q", max_messages=10, wait=None))
    send(one, b"a", b"b", b"c")
    found = waiting.result(GIVE_UP)
    assert [message.body for message in found] == [b"a", b"b", b"c"]
    assert receive(one) == [], "what another has leased is in nobody else's hands"
    release = VisibilityChange(receipt=str(found[1].receipt), visibility=NO_TIME)
    ask(other, ChangeVisibility(queue="q", changes=[release]))
    assert [(message.body, message.receives) for message in receive(one, wait=None)] == [(b"b", 2)]
    assert ask(one, Delete(queue="q", targets=[ByReceipt(str(found[0].receipt))])) == [None]
    until(lambda: other.queue("q").counts.leased == 2)


def test_what_a_visitor_has_left_is_found_though_he_was_never_met(tmp_path: Path) -> None:
    with opened(tmp_path / "root") as one:
        ask(one, CreateQueue(name="q", settings=QueueSettings()))
        for n in range(5):
            with opened(tmp_path / "root") as visitor:
                send(visitor, b"%d" % n)
            assert [message.body for message in receive(one, wait=None)] == [b"%d" % n]


def test_what_is_named_is_looked_for_at_once(two: tuple[Store, Store]) -> None:
    one, other = two
    for n in range(20):
        name = f"new{n}"
        ask(one, CreateQueue(name=name, settings=QueueSettings()))
        send(other, b"a", queue=name)
        (listed,) = other.messages(name)
        assert ask(one, Delete(queue=name, targets=[ById(listed.id)])) == [None]
        assert receive(other, queue=name) == []


def test_what_one_purges_sets_and_deletes_holds_for_the_other(two: tuple[Store, Store]) -> None:
    one, other = two
    send(one, b"a", b"b")
    until(lambda: other.queue("q").counts.ready == 2)
    ask(other, UpdateQueue(name="q", changes={"visibility_timeout": 5_000}))
    assert ask(other, Purge(queue="q")) == 2
    assert receive(one) == []
    until(lambda: one.queue("q").settings.visibility_timeout == 5_000)
    until(lambda: one.queue("q").counts.bytes == 0)
    ask(other, DeleteQueue(name="q"))
    until(lambda: [queue.name for queue in one.queues()] == ["met"])
    with pytest.raises(QueueNotFound):
        receive(one)

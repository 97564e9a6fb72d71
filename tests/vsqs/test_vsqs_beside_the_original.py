"""In one folder with real vsqs 0.3 processes: both ways, at one time, and where the original can't."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import STUCK
from tests.vsqs.vsqs_rig import Beside, files

USER = Path(__file__).with_name("user.py")
EACH = 40
"""Messages of each publisher."""


class User:
    """A process that does what it is told, over "original" or "ours"."""

    def __init__(self, kind: str, folder: Path, *part: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(USER), kind, str(folder.parent), folder.name, *part],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def call(self, name: str, *arguments: object, **keywords: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, arguments, keywords]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=STUCK)

    def said(self) -> list[tuple[str, str]]:
        """Return all that it did, once it has ended by itself."""
        words, _ = self._process.communicate(timeout=STUCK)
        assert self._process.returncode == 0
        return [(id, body) for id, body in map(json.loads, words.splitlines())]


Start = Callable[..., User]


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    folder.mkdir()
    users: list[User] = []

    def start_one(kind: str, *part: str) -> User:
        users.append(User(kind, folder, *(part or ("obey",))))
        return users[-1]

    yield start_one
    for user in users:
        user.kill()


BOTH_WAYS = pytest.mark.parametrize(
    ("one", "other"), [("original", "ours"), ("ours", "original")], ids=["theirs first", "ours first"]
)


@BOTH_WAYS
def test_messages_of_one_client_are_received_in_order_and_deleted_by_the_other(
    start: Start, folder: Path, one: str, other: str
) -> None:
    publisher, consumer = start(one), start(other)
    ids = [publisher.call("publish", f"{number}") for number in range(10)]
    assert consumer.call("size") == 10
    for number, id in enumerate(ids):
        assert consumer.call("receive") == [id, f"{number}"]
        consumer.call("delete", id)
    assert publisher.call("size") == 0
    assert files(folder) == {}


@BOTH_WAYS
def test_a_publish_of_one_wakes_the_other(start: Start, one: str, other: str) -> None:
    publisher, consumer = start(one), start(other)
    waiting = Beside(lambda: consumer.call("receive"))
    publisher.call("size")
    assert not waiting.is_done(0.1)
    id = publisher.call("publish", "foo")
    assert waiting.result() == [id, "foo"]


@BOTH_WAYS
def test_a_leased_message_is_hidden_from_the_other_until_the_lease_expires(
    start: Start, one: str, other: str
) -> None:
    first, second = start(one), start(other)
    hidden = first.call("publish", "hidden")
    assert first.call("receive", visibility_timeout=3600) == [hidden, "hidden"]
    assert second.call("receive", timeout=0.1) == [None, None]
    id = first.call("publish", "foo")
    assert first.call("receive", visibility_timeout=1) == [id, "foo"]
    first.kill()
    received = [None, None]
    give_up = time.monotonic() + STUCK
    while received == [None, None] and time.monotonic() < give_up:
        received = second.call("receive", visibility_timeout=3600, timeout=0.1)
    assert received == [id, "foo"]


@BOTH_WAYS
def test_a_deletion_of_one_makes_room_for_the_other(start: Start, one: str, other: str) -> None:
    publisher, consumer = start(one), start(other)
    publisher.call("capacity", 1)
    first = publisher.call("publish", "foo")
    assert publisher.call("publish", "bar", timeout=0.1) == {"error": "QueueFullException"}
    waiting = Beside(lambda: publisher.call("publish", "bar"))
    assert consumer.call("receive")[0] == first
    assert not waiting.is_done(0.1)
    consumer.call("delete", first)
    second = waiting.result()
    assert consumer.call("receive") == [second, "bar"]


def test_the_original_can_not_delete_what_another_process_received_and_ours_can(
    start: Start, folder: Path
) -> None:
    original, another, ours = start("original"), start("original"), start("ours")
    id = original.call("publish", "foo")
    original.call("receive", visibility_timeout=3600)
    another.call("delete", id)
    assert len(files(folder)) == 1, "the original has learnt it: the documentation must be changed"
    ours.call("delete", id)
    assert files(folder) == {}
    assert original.call("size") == 0


def test_a_message_that_the_original_overlooks_for_ever_comes_back(start: Start) -> None:
    original, ours = start("original"), start("ours")
    id = original.call("publish", "foo")
    original.call("receive", visibility_timeout=0.5)
    assert original.call("size") == 0
    assert ours.call("size") == 1
    assert ours.call("receive", timeout=STUCK) == [id, "foo"]


@BOTH_WAYS
def test_two_that_see_the_same_microsecond_choose_two_names(
    start: Start, folder: Path, one: str, other: str
) -> None:
    first, second = start(one), start(other)
    for user in (first, second):
        user.call("clock", *[5] * 8, *range(6, 20))
    assert first.call("publish", "foo") == "5"
    id = second.call("publish", "bar")
    assert id == "6"
    assert files(folder) == {"5": b"foo", id: b"bar"}


def test_a_crowd_of_both_kinds_loses_nothing_and_receives_nothing_twice(
    start: Start, folder: Path, tmp_path: Path
) -> None:
    stop = tmp_path / "stop"
    kinds = ("original", "ours")
    consumers = [start(kind, "consume", str(stop)) for kind in kinds * 2]
    publishers = [
        start(kind, "produce", f"{kind}{number}", str(EACH)) for kind in kinds for number in range(2)
    ]
    sent = [message for publisher in publishers for message in publisher.said()]
    stop.touch()
    received = [consumer.said() for consumer in consumers]
    assert len({id for id, _ in sent}) == len(sent) == 4 * EACH
    everything = [message for part in received for message in part]
    assert len(everything) == len(sent), "lost, or received twice"
    assert sorted(everything) == sorted(sent)
    assert files(folder) == {}

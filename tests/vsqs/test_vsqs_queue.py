"""A queue in vsqs's format keeps vsqs's promises, and those that it adds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import spoolrack.vsqs.queue
from spoolrack import vsqs
from spoolrack.vsqs import Queue, QueueException, QueueFullException, QueueManager

from tests.support import STUCK
from tests.vsqs.vsqs_rig import Beside, Micros, files, received

Opener = Callable[..., Queue]


# The states of a message are the names of its file.


def test_a_published_message_is_a_file_whose_name_is_the_time_in_microseconds(
    queue: Queue, folder: Path, micros: Micros
) -> None:
    assert files(folder) == {}
    assert queue.publish(b"foo") == "1000000"
    micros.advance(1)
    assert queue.publish(b"") == "2000000"
    assert files(folder) == {"1000000": b"foo", "2000000": b""}


def test_a_received_message_has_the_end_of_its_lease_for_an_extension(
    queue: Queue, folder: Path, micros: Micros
) -> None:
    queue.publish(b"foo")
    assert queue.receive(visibility_timeout=10) == ("1000000", b"foo")
    assert files(folder) == {"1000000.11000000": b"foo"}
    queue.publish(b"bar")
    assert queue.receive(visibility_timeout=0.25) == ("1000001", b"bar")
    assert files(folder) == {"1000000.11000000": b"foo", "1000001.1250000": b"bar"}


def test_a_deleted_message_is_no_file(queue: Queue, folder: Path, micros: Micros) -> None:
    ready, leased = queue.publish(b"foo"), queue.publish(b"bar")
    queue.receive()
    queue.delete(leased)
    queue.delete(int(ready))
    assert files(folder) == {}
    micros.advance(60)
    assert received(queue) == []


def test_a_message_that_is_being_written_is_not_there_yet(
    queue: Queue, folder: Path, micros: Micros
) -> None:
    (folder / "5.new").write_bytes(b"half")
    assert queue.size() == 0
    assert received(queue) == []
    queue.delete("5")
    assert files(folder) == {"5.new": b"half"}


# Order.


def test_messages_come_in_the_order_of_their_numbers(queue: Queue, folder: Path) -> None:
    for name in ("100", "99", "1415776871123", "0"):
        (folder / name).write_text(name)
    last = queue.publish(b"last")
    assert received(queue) == ["0", "99", "100", "1415776871123", "last"]
    queue.delete(last)
    assert queue.size() == 4


def test_an_expired_message_comes_before_younger_ones(queue: Queue, micros: Micros) -> None:
    for content in (b"a", b"b", b"c"):
        queue.publish(content)
    queue.receive(visibility_timeout=5)
    queue.receive(visibility_timeout=3600)
    micros.advance(5)
    assert received(queue) == ["a", "c"]


def test_a_clock_that_is_set_back_does_not_change_the_order(queue: Queue, micros: Micros) -> None:
    queue.publish(b"a")
    micros.advance(-0.5)
    queue.publish(b"b")
    micros.now = 0
    queue.publish(b"c")
    assert received(queue) == ["a", "b", "c"]


# Numbers.


@pytest.mark.parametrize("there", ["1000000", "1000000.new", "1000000.9000000"])
def test_two_messages_never_have_the_same_number(
    queue: Queue, folder: Path, micros: Micros, there: str
) -> None:
    (folder / there).write_bytes(b"theirs")
    id = queue.publish(b"ours")
    assert id == "1000001"
    assert files(folder) == {there: b"theirs", id: b"ours"}


def test_publishers_with_one_clock_lose_nothing(opened: Opener, micros: Micros) -> None:
    queues = [opened() for _ in range(4)]

    def publish(queue: Queue, name: int) -> None:
        for number in range(25):
            queue.publish(b"%d/%d" % (name, number))

    threads = [
        threading.Thread(target=publish, args=(queue, name)) for name, queue in enumerate(queues)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STUCK)
    contents = received(queues[0], visibility_timeout=3600)
    assert sorted(contents) == sorted(f"{name}/{number}" for name in range(4) for number in range(25))


# Leases.


def test_a_message_whose_lease_is_over_is_put_back(queue: Queue, folder: Path, micros: Micros) -> None:
    queue.publish(b"foo")
    queue.receive(visibility_timeout=1)
    micros.advance(0.999_999)
    assert queue.receive(timeout=0) == (None, None)
    micros.advance(0.000_001)
    assert queue.receive(visibility_timeout=1) == ("1000000", b"foo")
    assert files(folder) == {"1000000.3000000": b"foo"}


def test_all_that_is_over_is_put_back_before_the_next_message_is_taken(
    queue: Queue, folder: Path, micros: Micros
) -> None:
    for number in (1, 2, 3):
        (folder / f"{number}.900000").write_bytes(b"over")
    (folder / "4").write_bytes(b"ready")
    assert queue.receive(visibility_timeout=1) == ("1", b"over")
    assert set(files(folder)) == {"1.2000000", "2", "3", "4"}


def test_a_lease_that_ends_wakes_a_waiting_receive(queue: Queue) -> None:
    id = queue.publish(b"foo")
    queue.receive(visibility_timeout=0.2)
    assert queue.receive(timeout=STUCK) == (id, b"foo")


@pytest.mark.parametrize(
    ("over", "left"),
    [
        ("7.1000000", "7.1000001"),
        ("1415776871123.1415776879654", "1415776871123.4102444800000"),
        ("7.999999.5", "7.1000001.0"),
    ],
    ids=["microseconds", "milliseconds", "a fraction, by vsqs's mistake"],
)
def test_leases_in_every_unit_that_vsqs_writes_are_read(
    queue: Queue, folder: Path, micros: Micros, over: str, left: str
) -> None:
    if over.startswith("14"):
        micros.now = 1_500_000_000_000_000
    (folder / left).write_bytes(b"left")
    assert queue.size() == 1
    assert received(queue) == []
    (folder / left).rename(folder / over)
    assert received(queue) == ["left"]
    queue.delete(over.split(".")[0])
    assert files(folder) == {}


def test_a_lease_of_a_number_that_is_ready_too_replaces_nothing(
    queue: Queue, folder: Path, micros: Micros
) -> None:
    (folder / "7").write_bytes(b"one")
    (folder / "7.900000").write_bytes(b"other")
    assert queue.receive(visibility_timeout=10) == ("7", b"one")
    assert sorted(files(folder).values()) == [b"one", b"other"]
    (folder / "7.11000000").unlink()
    micros.advance(2)
    assert received(queue) == ["other"]


def test_a_message_is_read_by_one_of_many_consumers(opened: Opener) -> None:
    queues = [opened() for _ in range(4)]
    for number in range(100):
        queues[0].publish(b"%d" % number)
    work = [Beside(lambda queue=queue: received(queue, 3600)) for queue in queues]  # type: ignore[misc]
    seen = [content for part in work for content in part.result()]  # type: ignore[attr-defined]
    assert sorted(map(int, seen)) == list(range(100))


# Deletion.


def test_a_message_that_was_put_back_meanwhile_can_be_deleted(
    opened: Opener, folder: Path, micros: Micros
) -> None:
    one, other = opened(), opened()
    id = one.publish(b"foo")
    one.receive(visibility_timeout=1)
    micros.advance(2)
    assert other.receive(visibility_timeout=100) == (id, b"foo")
    one.delete(id)
    assert files(folder) == {}


@pytest.mark.parametrize("id", ["7", "70", "", "x", "7.", "\u0667", "-7", "7.new"])
def test_a_deletion_of_what_is_not_there_touches_nothing(queue: Queue, folder: Path, id: str) -> None:
    there = {"71": b"", "7.new": b"", "note": b"", "x": b""}
    for name, content in there.items():
        (folder / name).write_bytes(content)
    queue.delete(id)
    assert files(folder) == there


# Waiting.


def test_many_threads_wait_at_one_queue(queue: Queue) -> None:
    waiting = [Beside(lambda: queue.receive(timeout=STUCK)) for _ in range(5)]
    ids = {queue.publish(b"%d" % number) for number in range(5)}
    assert {work.result()[0] for work in waiting} == ids  # type: ignore[index]


def test_a_receive_waits_no_longer_than_its_timeout(queue: Queue) -> None:
    assert queue.receive(timeout=0.05) == (None, None)
    queue.publish(b"foo")
    assert queue.receive(timeout=0)[1] == b"foo"


def test_a_full_queue_lets_publishers_wait_for_a_deletion(opened: Opener) -> None:
    publisher, consumer = opened(capacity=1), opened()
    publisher.publish(b"foo")
    with pytest.raises(QueueFullException) as full:
        publisher.publish(b"bar", timeout=0.05)
    assert full.value.args == (1,)
    assert isinstance(full.value, QueueException)
    waiting = Beside(lambda: publisher.publish(b"bar"))
    id, _ = consumer.receive(visibility_timeout=3600)
    assert id is not None
    assert not waiting.is_done(0.05), "a leased message takes its place"
    consumer.delete(id)
    assert consumer.receive() == (waiting.result(), b"bar")


def test_a_publisher_that_waits_leaves_no_file(opened: Opener, folder: Path) -> None:
    publisher = opened(capacity=1)
    id = publisher.publish(b"foo")
    with pytest.raises(QueueFullException):
        publisher.publish(b"bar", timeout=0)
    assert files(folder) == {id: b"foo"}


def test_a_capacity_holds_for_many_threads(queue: Queue) -> None:
    queue.capacity = 5
    results = [Beside(lambda: queue.publish(b"x", timeout=0.05)) for _ in range(20)]
    full = 0
    for work in results:
        try:
            work.result()
        except QueueFullException:
            full += 1
    assert (queue.size(), full) == (5, 15)


def test_a_closed_queue_wakes_its_waiters(queue: Queue) -> None:
    queue.capacity = 1
    queue.publish(b"foo")
    queue.receive(visibility_timeout=3600)
    waiting = [Beside(queue.receive), Beside(queue.receive)]
    publishing = Beside(lambda: queue.publish(b"bar"))
    queue.close()
    queue.close()
    assert [work.result() for work in waiting] == [(None, None), (None, None)]
    with pytest.raises(QueueFullException):
        publishing.result()


def test_a_closed_queue_can_still_be_looked_at(queue: Queue) -> None:
    id = queue.publish(b"foo")
    queue.close()
    assert queue.size() == 1
    assert queue.receive() == (id, b"foo")
    assert queue.receive() == (None, None)
    queue.delete(id)
    assert queue.size() == 0


# The names that vsqs has.


def test_the_clock_of_either_module_can_be_replaced(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spoolrack.vsqs.queue, "micros", lambda: 5)
    assert queue.publish(b"") == "5"
    monkeypatch.setattr(vsqs, "micros", lambda: 7)
    assert queue.publish(b"") == "7"
    monkeypatch.undo()
    assert int(queue.publish(b"")) > 1_700_000_000_000_000


def test_a_manager_makes_the_folders_of_its_queues(tmp_path: Path) -> None:
    manager = QueueManager(str(tmp_path / "queues"))
    queue = manager.get_queue("a", capacity=3)
    assert (queue.path, queue.capacity) == (str(tmp_path / "queues" / "a"), 3)
    manager.get_queue("a").publish(b"foo")
    assert queue.receive()[1] == b"foo"
    queue.close()
    manager.close()
    assert QueueManager().get_queue(str(tmp_path / "b")).path == str(tmp_path / "b")


def test_both_modules_have_the_names() -> None:
    names: Sequence[str] = ("Queue", "QueueManager", "QueueException", "QueueFullException", "micros")
    for name in names:
        assert getattr(vsqs, name) is getattr(spoolrack.vsqs.queue, name)

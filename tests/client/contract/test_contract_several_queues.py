"""Several queues as one stream, or as one worker's: their order, their credits, and patterns."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from collections.abc import Sequence

import pytest
import spoolrack
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack import Client, Message, MessageStream
from spoolrack._core import several_queues
from spoolrack._core.several_queues import shares
from spoolrack._shards import QueuePattern
from spoolrack.errors import InvalidRequest, QueueNotFound

from tests.support.waiting import until

pytestmark = pytest.mark.needs("several queues", "streams")

NAMES = ("jobs-0", "jobs-1", "mail")


@pytest.fixture
def queues(client: Client) -> dict[str, spoolrack.Queue]:
    return {name: client.create_queue(name) for name in NAMES}


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several_queues, "LOOK_EVERY", 0.05)


def taken(stream: MessageStream, count: int) -> list[Message]:
    return [next(stream) for _ in range(count)]


def all_there(stream: MessageStream, count: int) -> list[Message]:
    """Return the messages that come while none ends, of which there are `count`."""
    found = taken(stream, count)
    assert stream.receive(1, wait=0.3) == []
    return found


def texts(messages: Sequence[Message]) -> list[str]:
    return sorted(message.text for message in messages)


def has_arrived(stream: MessageStream, names: Sequence[str], count: int = 1) -> None:
    """Return once messages of each queue wait in the stream."""
    members = {member.queue.name: member for member in stream._core._members}  # type: ignore[union-attr]
    until(lambda: all(members[name].stream.waiting >= count for name in names))


def test_messages_of_several_queues_come_as_one_stream(
    client: Client, queues: dict[str, spoolrack.Queue]
) -> None:
    for name, queue in queues.items():
        queue.send_many([f"{name} {number}" for number in range(20)])
    with client.messages(["jobs-0", queues["jobs-1"], "mail"]) as stream:
        for _ in range(60):
            with next(stream) as message:
                assert message.text.split()[0] == message.queue_name == message.queue.name
    for queue in queues.values():
        counts = queue.info().counts
        assert (counts.ready_count, counts.leased_count) == (0, 0)


def test_what_was_not_handed_out_is_released_at_the_end(
    client: Client, queues: dict[str, spoolrack.Queue]
) -> None:
    for queue in queues.values():
        queue.send_many(["a"] * 10)
    with client.messages(NAMES) as stream:
        for message in taken(stream, 5):
            stream.ack(message)
    counts = [queue.info().counts for queue in queues.values()]
    assert sum(each.ready_count for each in counts) == 25
    assert sum(each.leased_count for each in counts) == 0


@pytest.mark.parametrize("count", [1, 3])
def test_a_stream_that_is_dropped_without_a_close_releases_what_it_has_not_handed_out(
    client: Client, queues: dict[str, spoolrack.Queue], count: int
) -> None:
    for queue in queues.values():
        queue.send_many(["a"] * 3)
    streams = [queues[NAMES[0]].messages() if count == 1 else client.messages(NAMES[:count])]
    message = next(streams[0])
    streams.clear()
    gc.collect()
    until(lambda: sum(queue.info().counts.leased_count for queue in queues.values()) == 1)
    message.delete()


def test_fair_order_takes_a_message_of_each_queue_in_turn(
    client: Client, queues: dict[str, spoolrack.Queue]
) -> None:
    with client.messages(NAMES) as stream:
        assert stream.receive(1, wait=0) == []
        queues["jobs-0"].send_many(["a"] * 50)
        next(stream).delete()
        has_arrived(stream, ["jobs-0"], 5)
        for name in ("jobs-1", "mail"):
            queues[name].send("b")
        has_arrived(stream, NAMES)
        found = Counter(message.queue_name for message in taken(stream, 3))
    assert found["jobs-1"] == found["mail"] == 1


def test_strict_order_takes_messages_of_the_first_queue_that_has_some(
    client: Client, queues: dict[str, spoolrack.Queue]
) -> None:
    with client.messages(["mail", "jobs-0", "jobs-1"], order="strict") as stream:
        assert stream.receive(1, wait=0) == []
        for name in NAMES:
            queues[name].send_many([name] * 3)
        has_arrived(stream, NAMES)
        found = taken(stream, 1)
        has_arrived(stream, ["mail"], 2)
        found += taken(stream, 3)
        assert [message.text for message in found] == ["mail", "mail", "mail", "jobs-0"]


def test_all_queues_share_one_budget_of_credits(
    client: Client, queues: dict[str, spoolrack.Queue]
) -> None:
    for queue in queues.values():
        queue.send_many(["a"] * 20)
    with client.messages(NAMES, max_in_flight=6) as stream:
        for _ in range(2):
            found = taken(stream, 6)
            # While a share passes to another queue there may be a few more.
            while more := stream.receive(1, wait=0.3):
                found += more
            assert {message.queue_name for message in found} == set(NAMES)
            assert 6 <= len(found) <= 9
            for message in found:
                message.delete()


def test_all_queues_share_one_budget_of_bytes(
    client: Client, queues: dict[str, spoolrack.Queue]
) -> None:
    body = 20 * "a"
    queues["jobs-0"].send_many([body] * 20)
    with client.messages(NAMES, max_bytes_in_flight=120) as stream:
        alone = all_there(stream, 6)
        for queue in queues.values():
            queue.send_many([body] * 20)
        for message in alone:
            message.delete()
        found = taken(stream, 6)
        # While a share passes to another queue there may be a few more.
        while more := stream.receive(1, wait=0.3):
            found += more
        assert {message.queue_name for message in found} == set(NAMES)
        assert 6 <= len(found) <= 9


def test_a_queue_beside_idle_ones_has_their_credits_but_one_of_each(
    client: Client, queues: dict[str, spoolrack.Queue]
) -> None:
    queues["jobs-0"].send_many(["a"] * 20)
    with client.messages(NAMES, max_in_flight=6) as stream:
        assert len(all_there(stream, 4)) == 4
        queues["mail"].send("b")
        assert next(stream).text == "b"


def test_credits_pass_to_another_queue_when_messages_end(
    client: Client, queues: dict[str, spoolrack.Queue]
) -> None:
    queues["jobs-0"].send_many(["a"] * 4)
    with client.messages(NAMES, max_in_flight=6) as stream:
        first = all_there(stream, 4)
        queues["mail"].send_many(["b"] * 20)
        (one,) = taken(stream, 1)
        assert one.queue_name == "mail"
        queues["jobs-0"].delete_many(first[:2])
        for message in first[2:]:
            message.delete()
        one.delete()
        assert len(taken(stream, 4)) == 4


def test_a_missing_queue_is_an_error(client: Client, queues: dict[str, spoolrack.Queue]) -> None:
    with client.messages(["jobs-0", "nowhere"]) as stream, pytest.raises(QueueNotFound):
        next(stream)


@pytest.mark.usefixtures("often")
def test_a_pattern_finds_queues_that_are_made_later_and_leaves_out_deleted_ones(
    client: Client, queues: dict[str, spoolrack.Queue]
) -> None:
    client.create_queue("jobs-0--dead")
    for name in ("jobs-0", "jobs-0--dead", "mail"):
        client.queue(name).send(name)
    with client.messages("jobs-*") as stream:
        next(stream).delete()
        for name in ("jobs-new", "jobs-1", "jobs-0"):
            client.create_queue(name).send(name)
        found = taken(stream, 3)
        assert texts(found) == ["jobs-0", "jobs-1", "jobs-new"]
        client.delete_queue("jobs-new")
        members = lambda: {member.queue.name for member in stream._core._members}  # type: ignore[union-attr]  # noqa: E731
        until(lambda: members() == {"jobs-0", "jobs-1"})
        client.create_queue("jobs-new").send("again")
        assert next(stream).text == "again"


@pytest.mark.needs("answers within 50 ms")
@pytest.mark.usefixtures("often")
def test_a_stream_may_wait_for_its_first_queue(client: Client) -> None:
    with client.messages(["jobs-*"]) as stream:
        assert stream.receive(1, wait=0) == []
        client.create_queue("jobs-0").send("a")
        assert next(stream).text == "a"


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_worker_handles_the_messages_of_several_queues(
    client: Client, queues: dict[str, spoolrack.Queue], concurrency: int
) -> None:
    for queue in queues.values():
        queue.send_many(["a"] * 10)
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def handler(message: Message) -> None:
        with lock:
            seen[message.queue_name] += 1
            if seen.total() == 30:
                worker.stop()

    worker = client.worker(["jobs-*", "mail"], handler, concurrency=concurrency)
    worker.run()
    assert seen == dict.fromkeys(NAMES, 10)
    for queue in queues.values():
        counts = queue.info().counts
        assert (counts.ready_count, counts.leased_count) == (0, 0)


def test_a_closed_client_ends_the_stream(client: Client, queues: dict[str, spoolrack.Queue]) -> None:
    stream = client.messages(NAMES)
    assert stream.receive(1, wait=0) == []
    ended: list[list[Message]] = []
    waiting = threading.Thread(target=lambda: ended.append(stream.receive(1)))
    waiting.start()
    client.close()
    waiting.join(20)
    assert ended == [[]]


def test_what_names_no_queues_is_refused(client: Client) -> None:
    for wrong in ([], [7], 7):
        with pytest.raises(InvalidRequest):
            client.messages(wrong)  # type: ignore[arg-type]


def test_an_unknown_order_is_refused(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="'fair' or 'strict'"):
        client.messages(["jobs"], order="random")  # type: ignore[arg-type]


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=1), st.integers(1, 200))
@example([(0, False), (0, True), (0, True), (4, True)], 7)  # The last credit was given twice.
def test_credits_are_no_more_than_the_budget_and_every_queue_has_one(
    queues: list[tuple[int, bool]], budget: int
) -> None:
    held, busy = [count for count, _ in queues], [is_busy for _, is_busy in queues]
    found = shares(budget, held, busy)
    assert all(each >= 1 for each in found)
    assert all(each == 1 for each, is_busy in zip(found, busy, strict=True) if not is_busy)
    kept = [max(each, has) for each, has in zip(found, held, strict=True)]
    assert sum(kept) <= max(budget, sum(max(1, has) for has in held))


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("jobs-*", ["jobs-0", "jobs-a-b"], ["jobs", "xjobs-0", "jobs-0--dead", "jobs--dead"]),
        ("*--dead", ["jobs--dead"], ["jobs", "dead"]),
        ("jobs-[01]", ["jobs-0", "jobs-1"], ["jobs-2", "jobs-01"]),
        ("j?bs", ["jobs"], ["jbs"]),
    ],
)
def test_a_pattern_is_a_glob(pattern: str, names: list[str], others: list[str]) -> None:
    made = QueuePattern(pattern)
    assert [name for name in names + others if made.matches(name)] == names

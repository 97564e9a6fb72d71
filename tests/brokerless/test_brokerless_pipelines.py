"""Stages, reservations and deduplication ids between processes that share a root, with no server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from spoolrack import Client, Queue
from spoolrack.errors import ReservationLost, StageNotFound
from spoolrack.testing import running_server

from tests.brokerless.actor import Actor
from tests.support import STUCK


def staged_by(other: Actor, messages: int) -> str:
    """Return the stage of a batch that `other` has staged."""
    return other.does(f"staged(jobs.batch(publish=False), {messages})").strip("'")


def test_another_process_publishes_a_stage(
    client: Client, jobs: Queue, actor: Callable[[], Actor]
) -> None:
    other, third = actor(), actor()
    stages = [staged_by(other, 1_500), staged_by(third, 2)]
    other.kill()
    assert jobs.receive() == []
    assert sorted(stage.name for stage in client.staging.list()) == sorted(stages)
    published = client.staging.publish("driver", 0, stages)
    assert (published.message_count, published.duplicate) == (1_502, False)
    assert third.does(f"client.staging.publish('driver', 0, {stages!r}).duplicate") == "True"
    assert len(list(jobs.peek())) == 1_502


def test_a_process_that_is_killed_in_mid_batch_has_sent_nothing(
    client: Client, jobs: Queue, actor: Callable[[], Actor]
) -> None:
    other = actor()
    stage = staged_by(other, 5)
    assert other.does("filled(jobs.batch(), 2_500)") == "None"
    other.kill()
    assert jobs.receive() == []
    for left in list(client.staging.list()):
        client.staging.abort(left.name)
    assert list(client.staging.list()) == []
    with pytest.raises(StageNotFound):
        client.staging.publish("me", 0, [stage])
    assert jobs.receive() == []


def test_of_two_processes_that_publish_an_epoch_one_does(
    client: Client, jobs: Queue, actor: Callable[[], Actor]
) -> None:
    others = [actor(), actor()]
    for epoch in range(5):
        stages = [staged_by(other, 10) for other in others]
        for other, stage in zip(others, stages, strict=True):
            other.begin(f"client.staging.publish('driver', {epoch}, [{stage!r}]).duplicate")
        assert sorted(other.answer() for other in others) == ["False", "True"]
    # One process hears of what another did a moment later.
    with jobs.messages(visibility_timeout=600) as stream:
        found = [next(stream).text for _ in range(50)]
    assert sorted(found) == sorted(str(number) for number in range(10) for _ in range(5))
    assert len(list(client.staging.list())) == 5
    assert client.queue("jobs").info().counts.ready_count == 0


def test_a_reservation_of_a_killed_process_is_read_confirmed_and_committed_by_another(
    client: Client, jobs: Queue, actor: Callable[[], Actor]
) -> None:
    jobs.send_many(["a", "b", "c"])
    other = actor()
    assert (
        other.does("jobs.reserve('s', 0, max_messages=2, visibility_timeout=600).message_count") == "2"
    )
    other.kill()
    assert [message.text for message in client.reservations.read("s", 0)] == ["a", "b"]
    third = actor()
    assert third.does("client.reservations.extend('s', 0, 900).state.value") == "'held'"
    assert third.does("jobs.reserve('s', 0).message_count") == "2"
    assert third.does("client.reservations.commit('s', 0).deleted_count") == "2"
    assert third.does("client.reservations.extend('s', 0)") == "ReservationCommitted"
    assert [message.text for message in jobs.receive(10)] == ["c"]


def test_an_expired_reservation_of_a_killed_process_comes_back(
    client: Client, jobs: Queue, actor: Callable[[], Actor]
) -> None:
    jobs.send_many(["a", "b"])
    other = actor()
    assert other.does("jobs.reserve('s', 0, visibility_timeout=1).message_count") == "2"
    other.kill()
    again = [message.text for _ in range(2) for message in jobs.receive(1, wait=STUCK)]
    assert again == ["a", "b"]
    with pytest.raises(ReservationLost):
        client.reservations.extend("s", 0)


def test_a_reserve_that_waits_is_woken_by_another_process(
    jobs: Queue, actor: Callable[[], Actor]
) -> None:
    other = actor()
    other.begin("jobs.reserve('s', 0, wait=3_600).message_count")
    jobs.send("a")
    assert other.answer() == "1"


def test_processes_know_each_other_s_deduplication_ids(
    client: Client, jobs: Queue, actor: Callable[[], Actor]
) -> None:
    others = [actor() for _ in range(3)]
    first = [other.does("jobs.send('a', deduplication_id='1')") for other in others]
    assert set(first) == {repr(jobs.send("a", deduplication_id="1"))}
    for other in others:
        other.begin("[jobs.send('x', deduplication_id=f'd{n}') for n in range(50)]")
    assert len({other.answer() for other in others}) == 1
    with jobs.messages(visibility_timeout=600) as stream:
        assert len({next(stream).id for _ in range(51)}) == 51
    for other in others:
        other.kill()
    assert repr(jobs.send("a", deduplication_id="1")) == first[0]
    assert client.queue("jobs").info().counts.ready_count == 0


def test_a_server_and_processes_share_stages_reservations_and_ids(
    client: Client, jobs: Queue, actor: Callable[[], Actor], root: Path
) -> None:
    with running_server(root) as server, server.client() as served:
        other = actor()
        stage = staged_by(other, 3)
        assert served.staging.publish("driver", 0, [stage]).message_count == 3
        assert other.does("client.staging.publish('driver', 0, []).duplicate") == "True"
        reservation = served.queue("jobs").reserve("s", 0, visibility_timeout=600)
        assert reservation is not None
        assert other.does("[m.text for m in client.reservations.read('s', 0)]") == "['0', '1', '2']"
        assert served.reservations.commit("s", 0).deleted_count == 3
        assert other.does("jobs.reserve('s', 0)") == "ReservationCommitted"
        first = served.queue("jobs").send("a", deduplication_id="1")
        assert other.does("jobs.send('a', deduplication_id='1')") == repr(first)


def test_threads_of_one_process_share_a_client_for_batches(client: Client, jobs: Queue) -> None:
    def work(name: str) -> None:
        with jobs.batch(writer=name, epoch=0) as batch:
            for number in range(1_200):
                batch.send(f"{name} {number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(STUCK)
    found = [message.text for message in jobs.peek()]
    for name in "abcd":
        mine = [text for text in found if text.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(1_200)]

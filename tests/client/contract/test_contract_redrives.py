"""Promises of every transport about dead letters: they tell how they died, and can go back."""

from __future__ import annotations

import threading

import pytest
import spoolrack
from spoolrack import Client, Redrive, RedriveState
from spoolrack.errors import InvalidRequest, QueueNotFound, RedriveNotFound, RedriveRunning

from tests.client.client_rig import LOOKS
from tests.client.contract.conftest import World
from tests.support.waiting import until

pytestmark = pytest.mark.needs("dead letters")

NOWHERE = "01890a5d-ac96-774b-bcce-b302099a8057"
"""An id that nothing has."""


def die(world: World, client: Client, *bodies: str, queue: str = "jobs") -> list[str]:
    """Send messages, and receive each until it is a dead letter in "jobs--dead"."""
    client.create_queue("jobs--dead")
    client.create_queue(queue, max_receives=1, dead_letter_queue="jobs--dead", visibility_timeout=1)
    before = ready(client, "jobs--dead")
    ids = [result.id or "" for result in client.queue(queue).send_many(bodies)]
    assert len(client.queue(queue).receive(len(bodies))) == len(bodies)
    world.advance(1)
    assert client.queue(queue).receive(len(bodies)) == []
    until(lambda: ready(client, "jobs--dead") == before + len(bodies))
    return ids


def ready(client: Client, queue: str) -> int:
    return client.queue(queue).info().counts.ready_count


def ended(client: Client, redrive: Redrive) -> Redrive:
    """Return the redrive once it has ended, which it does in the background."""
    until(lambda: client.redrives.get(redrive.id).state is not RedriveState.RUNNING)
    found = client.redrives.get(redrive.id)
    assert found.ended_at is not None
    return found


def texts(client: Client, queue: str) -> list[str]:
    return [message.text for message in client.queue(queue).peek()]


def test_a_dead_letter_tells_how_it_died(world: World, client: Client) -> None:
    (id,) = die(world, client, "poison")
    dead = client.queue("jobs--dead")
    for message in (dead.get(id), next(iter(dead.peek())), next(iter(dead.peek(max_body_bytes=0)))):
        (death,) = message.dead_letter_records
        assert (death.source_queue, death.reason, death.receive_count) == ("jobs", "max_receives", 1)
        assert death.first_received_at is not None
        assert (death.dead_lettered_at - death.first_received_at).total_seconds() == 1
        assert message.receive_count == 0
    (message,) = dead.receive()
    assert message.dead_letter_records == (), "a receive reads no history"


def test_other_messages_have_not_died(client: Client, jobs: spoolrack.Queue) -> None:
    id = jobs.send("alive")
    assert list(jobs.get(id).dead_letter_records) == []
    assert [list(message.dead_letter_records) for message in jobs.peek()] == [[]]


def test_dead_letters_go_back_to_where_they_came_from(world: World, client: Client) -> None:
    die(world, client, "a", "b", queue="jobs")
    die(world, client, "c", queue="jobs--mail")
    begun = client.queue("jobs--dead").redrive()
    assert (begun.queue, begun.destination, begun.source_queue) == ("jobs--dead", "", "")
    assert (begun.max_messages_per_second, begun.ended_at) == (0, None)
    redrive = ended(client, begun)
    assert redrive.state is RedriveState.DONE
    assert (redrive.id, redrive.started_at) == (begun.id, begun.started_at)
    assert (
        redrive.moved_count,
        redrive.failed_count,
        redrive.last_failure,
        redrive.remaining_count,
    ) == (3, 0, "", 0)
    assert texts(client, "jobs") == ["a", "b"]
    assert texts(client, "jobs--mail") == ["c"]
    assert texts(client, "jobs--dead") == []
    assert [ready(client, queue) for queue in ("jobs", "jobs--mail", "jobs--dead")] == [2, 1, 0]
    (message,) = client.queue("jobs--mail").receive()
    assert (message.text, message.receive_count) == ("c", 1)


def test_dead_letters_go_to_another_queue(world: World, client: Client) -> None:
    ids = die(world, client, "a", "b")
    client.create_queue("jobs--second")
    redrive = ended(client, client.queue("jobs--dead").redrive(destination="jobs--second"))
    assert (redrive.moved_count, redrive.destination) == (2, "jobs--second")
    assert [message.id for message in client.queue("jobs--second").peek()] == ids
    assert (texts(client, "jobs"), texts(client, "jobs--dead")) == ([], [])


def test_only_what_is_selected_goes_back(world: World, client: Client) -> None:
    a, _, c = die(world, client, "a", "b", "c")
    die(world, client, "m", queue="jobs--mail")
    dead = client.queue("jobs--dead")
    redrive = ended(client, dead.redrive(message_ids=[a, c.upper()]))
    assert redrive.moved_count == 2
    assert texts(client, "jobs") == ["a", "c"]
    redrive = ended(client, dead.redrive(source_queue="jobs--mail"))
    assert (redrive.moved_count, redrive.source_queue) == (1, "jobs--mail")
    assert (texts(client, "jobs--mail"), texts(client, "jobs--dead")) == (["m"], ["b"])


def test_an_empty_selection_is_not_all(world: World, client: Client) -> None:
    die(world, client, "a")
    for ids in ([], [NOWHERE] * 1_001):
        with pytest.raises(InvalidRequest, match="message_ids"):
            client.queue("jobs--dead").redrive(message_ids=ids)
    assert texts(client, "jobs--dead") == ["a"]
    assert list(client.redrives.list()) == []


def test_a_redrive_keeps_to_its_rate(world: World, client: Client) -> None:
    die(world, client, *map(str, range(12)))
    redrive = client.queue("jobs--dead").redrive(max_messages_per_second=4)
    assert redrive.max_messages_per_second == 4
    pause = threading.Event()
    for step in range(LOOKS):
        pause.wait(0.002)  # The store has a disk to wait for, whatever the clock says.
        found = client.redrives.get(redrive.id)
        assert found.moved_count <= 4 * (step * 0.05 + 1)
        assert 12 - 1 <= found.moved_count + found.remaining_count <= 12, "one may be on its way"
        if found.ended_at is not None:
            break
        world.advance(0.05)
    assert found.state is RedriveState.DONE
    assert found.ended_at is not None
    assert (found.ended_at - found.started_at).total_seconds() >= 2
    assert len(texts(client, "jobs")) == 12


def test_a_redrive_can_be_cancelled(world: World, client: Client) -> None:
    die(world, client, *map(str, range(10)))
    redrive = client.queue("jobs--dead").redrive(max_messages_per_second=1)
    cancelled = redrive.cancel()
    assert cancelled.state is RedriveState.CANCELLED
    assert cancelled.ended_at is not None
    world.advance(60)
    found = redrive.get()
    assert (found.state, found.moved_count) == (RedriveState.CANCELLED, cancelled.moved_count)
    assert len(texts(client, "jobs")) == cancelled.moved_count < 10
    assert len(texts(client, "jobs--dead")) == 10 - cancelled.moved_count
    assert client.redrives.cancel(redrive.id).state is RedriveState.CANCELLED
    # The rest can be redriven anew, and what has ended stays as it ended.
    again = ended(client, client.queue("jobs--dead").redrive())
    assert client.redrives.cancel(again.id).state is RedriveState.DONE
    assert texts(client, "jobs--dead") == []


def test_a_queue_has_one_redrive_at_a_time(
    world: World, client: Client, other: spoolrack.Client
) -> None:
    die(world, client, "a", "b", "c")
    running = client.queue("jobs--dead").redrive(max_messages_per_second=1)
    with pytest.raises(RedriveRunning) as caught:
        other.queue("jobs--dead").redrive()
    assert caught.value.metadata["redrive"] == running.id
    other.redrives.cancel(running.id)
    assert ended(client, other.queue("jobs--dead").redrive()).state is RedriveState.DONE


def test_a_dead_letter_that_cannot_be_redriven_stays_and_is_counted(
    world: World, client: Client
) -> None:
    die(world, client, "a")
    die(world, client, "m", queue="jobs--mail")
    client.delete_queue("jobs--mail")
    client.queue("jobs--dead").send("never died")
    redrive = ended(client, client.queue("jobs--dead").redrive())
    assert (redrive.state, redrive.moved_count, redrive.failed_count) == (RedriveState.DONE, 1, 2)
    assert redrive.last_failure
    assert sorted(texts(client, "jobs--dead")) == ["m", "never died"]
    redrive = ended(client, client.queue("jobs--dead").redrive(destination="jobs"))
    assert (redrive.moved_count, redrive.failed_count) == (2, 0)


def test_a_message_dead_lettered_twice_has_both_records(world: World, client: Client) -> None:
    (id,) = die(world, client, "a")
    world.advance(1)  # A redrive is told as later than the death, also in the same millisecond.
    redrive = ended(client, client.queue("jobs--dead").redrive())
    jobs = client.queue("jobs")
    (death,) = jobs.get(id).dead_letter_records
    assert (death.redrive_queue, death.redriven_at) == ("jobs", redrive.ended_at)
    assert [message.id for message in jobs.receive()] == [id]
    world.advance(1)
    assert jobs.receive() == []
    until(lambda: ready(client, "jobs--dead") == 1)
    first, second = client.queue("jobs--dead").get(id).dead_letter_records
    assert first.source_queue == second.source_queue == "jobs"
    assert (first.redrive_queue, second.redrive_queue, second.redriven_at) == ("jobs", "", None)
    assert first.dead_lettered_at < second.dead_lettered_at


def test_redrives_are_listed_by_queue_the_oldest_first(world: World, client: Client) -> None:
    die(world, client, "a")
    client.create_queue("jobs--other")
    made = []
    for queue in ("jobs--dead", "jobs--other", "jobs--dead"):
        world.advance(1)
        made.append(ended(client, client.queue(queue).redrive(destination="jobs")).id)
    assert [redrive.id for redrive in client.redrives.list()] == made
    assert [redrive.id for redrive in client.redrives.list("jobs--dead")] == [made[0], made[2]]
    assert list(client.redrives.list("jobs")) == []


def test_a_missing_resource_is_not_found(client: Client) -> None:
    client.create_queue("jobs--dead")
    for call in (client.redrives.get, client.redrives.cancel):
        with pytest.raises(RedriveNotFound):
            call(NOWHERE)
    with pytest.raises(QueueNotFound):
        client.queue("nowhere").redrive()
    with pytest.raises(QueueNotFound):
        client.queue("jobs--dead").redrive(destination="jobs--nowhere")
    assert list(client.redrives.list()) == []


@pytest.mark.needs("validation")
def test_impossible_arguments_are_refused(client: Client) -> None:
    client.create_queue("jobs--dead")
    dead = client.queue("jobs--dead")
    for wrong in (
        {"message_ids": ["../x"]},
        {"destination": "../x"},
        {"destination": "jobs--dead"},
        {"source_queue": "a/b"},
        {"max_messages_per_second": -1},
        {"max_messages_per_second": 100_001},
    ):
        with pytest.raises(InvalidRequest):
            dead.redrive(**wrong)  # type: ignore[arg-type]
    for call in (client.redrives.get, client.redrives.cancel):
        with pytest.raises(InvalidRequest):
            call("../x")
    assert list(client.redrives.list()) == []

"""Promises of every transport about reservations: the same messages, as often as asked."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
import spoolrack
from spoolrack import Queue, Reservation, ReservationState, aio
from spoolrack.errors import (
    InvalidRequest,
    NameTaken,
    ReservationCommitted,
    ReservationLost,
    ReservationNotFound,
    SpoolrackError,
)

from tests.client.contract.conftest import World

pytestmark = pytest.mark.needs("reservations")


@pytest.fixture
def five(jobs: Queue) -> Queue:
    """A queue with five messages."""
    jobs.send_many(["a", "b", "c", "d", "e"])
    return jobs


def texts(
    client: spoolrack.Client, sequence_number: int, begin: int = 0, end: int | None = None
) -> str:
    return "".join(m.text for m in client.reservations.read("s", sequence_number, begin, end))


def made(reservation: Reservation | None) -> Reservation:
    assert reservation is not None
    return reservation


def test_reserved_messages_can_be_read_again_and_again(
    client: spoolrack.Client, other: spoolrack.Client, five: Queue
) -> None:
    reservation = made(five.reserve("s", 0, max_messages=3))
    assert (reservation.queue, reservation.stream, reservation.sequence_number) == ("jobs", "s", 0)
    assert (reservation.message_count, reservation.byte_count) == (3, 3)
    assert reservation.state is ReservationState.HELD
    assert [texts(client, 0), texts(other, 0), texts(client, 0)] == ["abc"] * 3
    assert [message.text for message in five.receive(10)] == ["d", "e"]


def test_a_reservation_is_read_extended_and_committed_by_its_handle(
    client: spoolrack.Client, five: Queue
) -> None:
    reservation = five.reserve("s", 0, max_messages=3)
    assert reservation is not None
    assert "".join(message.text for message in reservation.read(1)) == "bc"
    assert reservation.extend(300).expires_at > reservation.expires_at
    (listed,) = client.reservations.list()
    assert listed.commit().deleted_count == 3
    second = five.reserve("s", 1)
    assert second is not None
    second.release()
    assert [message.text for message in five.receive(10)] == ["d", "e"]


def test_a_read_tells_all_of_a_message_but_a_receipt(client: spoolrack.Client, jobs: Queue) -> None:
    id = jobs.send("a", attributes={"colour": "red", "raw": b"\xff"})
    jobs.reserve("s", 0)
    for _ in range(2):
        (message,) = client.reservations.read("s", 0)
        assert (message.id, message.body, message.body_size) == (id, b"a", 1)
        assert message.attributes == {"colour": "red", "raw": b"\xff"}
        assert (message.receipt, message.receive_count) == ("", 1)


def test_the_same_name_gives_the_same_messages(client: spoolrack.Client, five: Queue) -> None:
    first = made(five.reserve("s", 0, max_messages=2))
    again = made(five.reserve("s", 0, max_messages=5, visibility_timeout=100))
    assert (again.message_count, again.expires_at) == (2, first.expires_at)
    assert texts(client, 0) == "ab"
    assert made(five.reserve("s", 1)).message_count == 3
    assert texts(client, 1) == "cde"


def test_a_slice_is_read_without_the_rest(client: spoolrack.Client, five: Queue) -> None:
    five.reserve("s", 0)
    assert texts(client, 0, 1, 3) == "bc"
    assert texts(client, 0, 3) == "de"
    assert texts(client, 0, 2, 2) == ""
    assert texts(client, 0, 0, 0) == ""
    assert texts(client, 0, 5) == ""
    assert texts(client, 0, 4, 100) == "e"


def test_bytes_bound_a_reservation(client: spoolrack.Client, jobs: Queue) -> None:
    jobs.send_many([b"x" * 100] * 5)
    assert made(jobs.reserve("s", 0, max_bytes=250)).message_count == 2
    assert made(jobs.reserve("s", 1, max_bytes=1)).message_count == 1


def test_nothing_is_reserved_where_nothing_is(client: spoolrack.Client, jobs: Queue) -> None:
    assert jobs.reserve("s", 0) is None
    assert list(client.reservations.list()) == []
    jobs.send("a")
    assert made(jobs.reserve("s", 0)).message_count == 1


def test_a_reserve_waits_for_the_first_message(jobs: Queue) -> None:
    found: list[Reservation | None] = []
    waiting = threading.Thread(target=lambda: found.append(jobs.reserve("s", 0, wait=3_000)))
    waiting.start()
    jobs.send("a")
    waiting.join(60)
    assert [made(each).message_count for each in found] == [1]


def test_a_reserve_that_waits_ends_with_its_client(world: World, jobs: Queue) -> None:
    errors: list[SpoolrackError] = []
    with world.connect() as other:
        begun = threading.Event()

        def wait() -> None:
            begun.set()
            try:
                other.queue("jobs").reserve("s", 0, wait=3_000)
            except SpoolrackError as error:
                errors.append(error)

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert begun.wait(60)
    waiting.join(60)
    assert not waiting.is_alive()
    assert len(errors) == 1


def test_the_hold_is_the_queue_s_visibility_timeout_or_what_is_said(
    client: spoolrack.Client, five: Queue, world: World
) -> None:
    first = made(five.reserve("s", 0, max_messages=1))
    second = made(five.reserve("s", 1, max_messages=1, visibility_timeout=90))
    assert (second.expires_at - first.expires_at).total_seconds() == 60
    world.advance(29)
    assert texts(client, 0) == "a"
    world.advance(2)
    with pytest.raises(ReservationLost):
        texts(client, 0)
    assert texts(client, 1) == "b"


def test_a_lost_set_is_told_as_lost_and_its_messages_come_again(
    client: spoolrack.Client, five: Queue, world: World
) -> None:
    five.reserve("s", 0, max_messages=2)
    world.advance(31)
    for again in (
        lambda: five.reserve("s", 0),
        lambda: client.reservations.extend("s", 0),
        lambda: texts(client, 0),
    ):
        with pytest.raises(ReservationLost):
            again()
    assert [message.text for message in five.receive(10)] == ["a", "b", "c", "d", "e"]
    committed = client.reservations.commit("s", 0)
    assert (committed.deleted_count, committed.lost_sequence_numbers) == (0, (0,))


def test_an_extension_lengthens_the_hold(client: spoolrack.Client, five: Queue, world: World) -> None:
    first = made(five.reserve("s", 0, visibility_timeout=10))
    world.advance(8)
    confirmed = client.reservations.extend("s", 0)
    assert (confirmed.expires_at - first.expires_at).total_seconds() == 8
    world.advance(8)
    assert (
        client.reservations.extend("s", 0, 100).expires_at - first.expires_at
    ).total_seconds() == 106
    world.advance(90)
    assert texts(client, 0) == "abcde"
    world.advance(11)
    with pytest.raises(ReservationLost):
        client.reservations.extend("s", 0)


def test_a_commit_deletes_all_sets_up_to_a_number(
    client: spoolrack.Client, five: Queue, world: World
) -> None:
    for sequence_number in range(3):
        five.reserve("s", sequence_number, max_messages=1)
    committed = client.reservations.commit("s", 1)
    assert (committed.deleted_count, committed.lost_sequence_numbers) == (2, ())
    again = client.reservations.commit("s", 1)
    assert (again.deleted_count, again.lost_sequence_numbers) == (0, ())
    assert texts(client, 2) == "c"
    for sequence_number in (0, 1):
        for ask in (
            lambda sequence_number=sequence_number: five.reserve("s", sequence_number),  # type: ignore[misc]
            lambda sequence_number=sequence_number: texts(client, sequence_number),  # type: ignore[misc]
            lambda sequence_number=sequence_number: client.reservations.extend("s", sequence_number),  # type: ignore[misc]
        ):
            with pytest.raises(ReservationCommitted):
                ask()
    world.advance(31)
    assert [message.text for message in five.receive(10)] == ["c", "d", "e"]


def test_streams_are_apart(client: spoolrack.Client, five: Queue) -> None:
    five.reserve("s", 0, max_messages=1)
    assert made(five.reserve("t", 0, max_messages=1)).message_count == 1
    client.reservations.commit("t", 0)
    assert texts(client, 0) == "a"


def test_a_commit_of_what_was_never_reserved_is_no_success(
    client: spoolrack.Client, five: Queue
) -> None:
    five.reserve("s", 0, max_messages=1)
    for stream, number in (("s", 1), ("nobody", 0)):
        with pytest.raises(ReservationNotFound):
            client.reservations.commit(stream, number)
    assert client.reservations.commit("s", 0).deleted_count == 1


def test_a_message_deleted_meanwhile_is_left_out(client: spoolrack.Client, five: Queue) -> None:
    five.reserve("s", 0)
    (second,) = [message for message in five.peek() if message.text == "b"]
    five.delete_by_id(second.id)
    assert texts(client, 0) == "acde"
    assert texts(client, 0, 2) == "cde"
    (listed,) = client.reservations.list()
    assert listed.message_count == 5
    assert client.reservations.get("s", 0) == listed
    assert client.reservations.commit("s", 0).deleted_count == 4
    for number in (0, 1):
        with pytest.raises(ReservationNotFound):
            client.reservations.get("s", number)


def test_a_release_gives_the_messages_back(client: spoolrack.Client, five: Queue) -> None:
    five.reserve("s", 0, max_messages=2)
    client.reservations.release("s", 0)
    client.reservations.release("s", 0)
    with pytest.raises(ReservationLost):
        texts(client, 0)
    assert [message.text for message in five.receive(10)] == ["a", "b", "c", "d", "e"]


def test_an_unknown_reservation_is_not_found(client: spoolrack.Client, jobs: Queue) -> None:
    with pytest.raises(ReservationNotFound):
        client.reservations.extend("s", 0)
    with pytest.raises(ReservationNotFound):
        list(client.reservations.read("s", 0))
    with pytest.raises(ReservationNotFound):
        client.reservations.release("s", 0)


def test_a_reservation_of_one_queue_is_no_answer_for_another(
    client: spoolrack.Client, five: Queue
) -> None:
    five.reserve("s", 0, max_messages=2)
    client.create_queue("jobs--mail")
    client.queue("jobs--mail").send("m")
    with pytest.raises(NameTaken):
        client.queue("jobs--mail").reserve("s", 0)
    assert texts(client, 0) == "ab"


def test_the_reservations_are_listed(client: spoolrack.Client, five: Queue) -> None:
    client.create_queue("mail")
    client.queue("mail").send("m")
    client.queue("mail").reserve("t", 7, visibility_timeout=60)
    for sequence_number in (2, 10):
        five.reserve("s", sequence_number, max_messages=1)
    for _ in range(2):
        texts(client, 10)
    texts(client, 10, 1)
    client.reservations.release("s", 2)
    found = list(client.reservations.list())
    assert [(each.stream, each.sequence_number, each.queue) for each in found] == [
        ("s", 2, "jobs"),
        ("s", 10, "jobs"),
        ("t", 7, "mail"),
    ]
    assert [each.state for each in found] == [
        ReservationState.LOST,
        ReservationState.HELD,
        ReservationState.HELD,
    ]
    assert [each.read_count for each in found] == [0, 2, 0]
    assert [each.sequence_number for each in client.reservations.list(queue="mail")] == [7]
    assert [each.sequence_number for each in client.reservations.list(stream="s")] == [2, 10]


def test_many_reservations_are_listed_page_by_page(client: spoolrack.Client, jobs: Queue) -> None:
    jobs.send_many(["x"] * 130)
    for sequence_number in range(130):
        jobs.reserve("s", sequence_number, max_messages=1)
    assert [each.sequence_number for each in client.reservations.list()] == list(range(130))


@pytest.mark.needs("calls of many")
def test_a_large_set_is_read_whole(client: spoolrack.Client, jobs: Queue) -> None:
    sent = [str(number) * 50 for number in range(5_000)]
    jobs.send_many(sent)
    assert (
        made(jobs.reserve("s", 0, max_messages=100_000, visibility_timeout=600)).message_count == 5_000
    )
    assert [message.text for message in client.reservations.read("s", 0)] == sent
    assert [message.text for message in client.reservations.read("s", 0, 4_990)] == sent[4_990:]
    assert client.reservations.commit("s", 0).deleted_count == 5_000
    assert client.queue("jobs").info().counts.leased_count == 0


def test_a_read_may_be_left_in_the_middle(client: spoolrack.Client, five: Queue) -> None:
    five.reserve("s", 0)
    reading = client.reservations.read("s", 0)
    assert next(reading).text == "a"
    del reading
    assert texts(client, 0) == "abcde"


@pytest.mark.needs("cancelled calls")
async def test_a_cancelled_reserve_is_undone_or_found_again(
    aio_client: aio.Client, aio_jobs: aio.Queue
) -> None:
    for turns in range(30):
        await aio_jobs.send("a")
        asking = asyncio.create_task(aio_jobs.reserve("s", turns))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        # Its answer may have been on its way just then.
        assert made(await aio_jobs.reserve("s", turns, wait=60)).message_count == 1
        assert (await aio_client.reservations.commit("s", turns)).deleted_count == 1


@pytest.mark.needs("validation")
def test_a_name_that_can_be_no_stream_is_refused(client: spoolrack.Client, five: Queue) -> None:
    for ask in (
        lambda name: five.reserve(name, 0),
        lambda name: client.reservations.extend(name, 0),
        lambda name: list(client.reservations.read(name, 0)),
        lambda name: client.reservations.commit(name, 0),
        lambda name: client.reservations.release(name, 0),
    ):
        for name in ("", "a/b", "..", "ä", "x" * 81, "a.b", "a\0b"):
            with pytest.raises(InvalidRequest):
                ask(name)


@pytest.mark.needs("validation")
def test_numbers_and_holds_out_of_bounds_are_refused(client: spoolrack.Client, five: Queue) -> None:
    for ask in (
        lambda: five.reserve("s", -1),
        lambda: five.reserve("s", 0, max_messages=100_001),
        lambda: five.reserve("s", 0, max_messages=-1),
        lambda: five.reserve("s", 0, max_bytes=-1),
        lambda: five.reserve("s", 0, visibility_timeout=0.5),
        lambda: five.reserve("s", 0, visibility_timeout=13 * 3_600),
        lambda: five.reserve("s", 0, wait=3_601),
        lambda: client.reservations.extend("s", 0, 0.5),
        lambda: list(client.reservations.read("s", 0, -1)),
        lambda: client.reservations.commit("s", -1),
    ):
        with pytest.raises(InvalidRequest):
            ask()
    assert len(five.receive(10)) == 5


async def test_tasks_have_reservations_too(
    aio_client: aio.Client, aio_jobs: aio.Queue, world: World
) -> None:
    assert await aio_jobs.reserve("s", 0) is None
    await aio_jobs.send_many(["a", "b", "c"])
    first = made(await aio_jobs.reserve("s", 0, max_messages=2, visibility_timeout=10))
    read = [message.text async for message in aio_client.reservations.read("s", 0)]
    assert read == ["a", "b"]
    assert [m.text async for m in aio_client.reservations.read("s", 0, 1, 2)] == ["b"]
    async for _ in aio_client.reservations.read("s", 0):
        break
    assert (await aio_client.reservations.extend("s", 0, 20)).expires_at > first.expires_at
    assert [each.sequence_number async for each in aio_client.reservations.list(stream="s")] == [0]
    assert (await aio_client.reservations.commit("s", 0)).deleted_count == 2
    await aio_jobs.reserve("s", 1)
    await aio_client.reservations.release("s", 1)
    with pytest.raises(ReservationLost):
        await aio_jobs.reserve("s", 1)

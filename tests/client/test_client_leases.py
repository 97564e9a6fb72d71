"""Leases that are kept in the background, and messages that are handed out or given back."""

from __future__ import annotations

import threading
from random import Random

import pytest
import spoolrack
from hypothesis import given
from hypothesis import strategies as st
from spoolrack._core.client_context import ClientContext
from spoolrack._core.lease_extender import LeaseExtender, next_round
from spoolrack._runtime import Threads, run
from spoolrack.errors import Unreachable

from tests.client.lossy_root import LossyRoot, RootTime
from tests.support import STUCK
from tests.support.waiting import until


@given(visibility=st.floats(0.001, 43_200), seed=st.integers())
def test_a_lease_survives_one_round_of_extensions_that_fails(visibility: float, seed: int) -> None:
    random = Random(seed)
    assert next_round(visibility, random) + next_round(visibility, random) < visibility


@pytest.fixture
def stocked(root: LossyRoot) -> LossyRoot:
    """The root, with three messages."""
    with root.client() as client:
        client.create_queue("jobs")
        client.queue("jobs").send_many(str(number) for number in range(3))
    return root


def leases_of(root: LossyRoot) -> LeaseExtender:
    runtime = Threads()
    # A visibility timeout that never comes near: the test makes the rounds itself.
    return LeaseExtender(ClientContext(root.transport(runtime), runtime), "jobs", 3_600.0)


def test_all_leases_are_extended_in_one_call(stocked: LossyRoot) -> None:
    leases = leases_of(stocked)
    leases.add(stocked.lease("jobs", 3, 30))
    stocked.advance(29_000)
    run(leases.extend_all(30.0))
    leases.stop()
    assert stocked.calls[-1] == ("extend", 3)
    stocked.advance(29_000)
    assert stocked.lease("jobs", 3, 30) == []


def test_a_lease_that_was_dropped_is_extended_no_more(stocked: LossyRoot) -> None:
    leases = leases_of(stocked)
    held = stocked.lease("jobs", 3, 30)
    leases.add(held)
    leases.drop(held[1].receipt)
    run(leases.extend_all(60.0))
    leases.stop()
    stocked.advance(30_000)
    assert [envelope.id for envelope in stocked.lease("jobs", 3, 30)] == [held[1].id]


def test_leases_that_end_with_the_last_one_leave_no_thread(stocked: LossyRoot) -> None:
    leases = leases_of(stocked)
    first, second, _ = stocked.lease("jobs", 3, 30)
    leases.add([first, second])
    leases.stop_when_empty()
    leases.drop(first.receipt)
    assert leases._keeper is not None
    assert not run(leases._keeper.join(0.0))
    leases.drop(second.receipt)
    assert run(leases._keeper.join(STUCK))


def test_a_lease_that_was_lost_is_known_and_not_tried_again(stocked: LossyRoot) -> None:
    leases = leases_of(stocked)
    (lost,) = stocked.lease("jobs", 1, 10)
    (kept,) = stocked.lease("jobs", 1, 30)
    leases.add([lost, kept])
    stocked.advance(10_000)
    run(leases.extend_all(30.0))
    run(leases.extend_all(30.0))
    leases.stop()
    assert stocked.calls[-1] == ("extend", 1)
    assert leases.hand_out([lost, kept], keep=True) == [kept]
    assert leases.hand_out([kept], keep=False) == [kept]


def test_a_round_that_fails_loses_no_lease(
    stocked: LossyRoot, caplog: pytest.LogCaptureFixture
) -> None:
    leases = leases_of(stocked)
    leases.add(stocked.lease("jobs", 3, 30))
    stocked.failures.extend(Unreachable() for _ in range(100_000))
    run(leases.extend_all(0.01))
    assert "3 leases of jobs could not be extended" in caplog.text
    stocked.failures.clear()
    run(leases.extend_all(60.0))
    leases.stop()
    stocked.advance(59_000)
    assert stocked.lease("jobs", 3, 30) == []


def test_leases_whose_queue_does_not_say_how_long_they_last_are_reported(
    stocked: LossyRoot, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Threads()
    leases = LeaseExtender(ClientContext(stocked.transport(runtime), runtime), "gone", None)
    leases.add(stocked.lease("jobs", 1, 30))
    assert leases._keeper is not None
    assert run(leases._keeper.join(STUCK))
    assert "the leases of gone are not extended: There is no queue gone" in caplog.text


def test_a_prefetched_message_whose_lease_has_expired_is_not_handed_out(root: LossyRoot) -> None:
    with root.client(runtime=RootTime(root)) as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        jobs.send_many(["a", "b"])
        with jobs.messages(max_in_flight=2, visibility_timeout=30) as stream:
            next(stream)
            # No round of extensions has failed: there was none.
            root.advance(30_000)
            seen = [next(stream), next(stream)]
            assert [(message.text, message.receive_count) for message in seen] == [("a", 2), ("b", 2)]


def test_an_extended_lease_holds_for_as_long_as_a_new_one(stocked: LossyRoot) -> None:
    runtime = RootTime(stocked)
    leases = LeaseExtender(ClientContext(stocked.transport(runtime), runtime), "jobs", 30.0)
    (held,) = stocked.lease("jobs", 1, 30)
    leases.add([held])
    stocked.advance(20_000)
    run(leases.extend_all(30.0))
    leases.stop()
    stocked.advance(29_000)
    assert leases.hand_out([held], keep=True) == [held]
    stocked.advance(1_000)
    assert leases.hand_out([held], keep=True) == []
    assert leases.hand_out([held], keep=True) == [held], "it is forgotten"


def test_a_worker_keeps_the_lease_of_a_message_for_as_long_as_its_handler_runs(root: LossyRoot) -> None:
    with root.client(runtime=RootTime(root)) as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        jobs.send("a")
        done: list[int] = []

        def work_on(message: spoolrack.Message) -> None:
            for step in range(4):
                if step == 2:
                    worker.stop()
                    until(worker._core._stream._closing.is_set)
                # An extension since the last step: two may have come before it.
                before = extensions()
                until(lambda before=before: extensions() > before)
                root.advance(40)
            done.append(message.receive_count)

        def extensions() -> int:
            return root.answers.count("extend")

        worker = jobs.worker(work_on, concurrency=1, visibility_timeout=0.05)
        worker.run()
        assert done == [1]
        assert list(jobs.peek()) == []


def test_a_worker_whose_client_is_closed_before_its_delete_logs_no_error(
    root: LossyRoot, caplog: pytest.LogCaptureFixture
) -> None:
    root.fail("delete", *[spoolrack.errors.ClientClosed("it was closed") for _ in range(2)])
    failed: list[Exception] = []
    with root.client() as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        sent = jobs.send("a")
        worker = jobs.worker(
            lambda message: worker.stop(), on_error=lambda _, error: failed.append(error)
        )
        worker.run()

    (warning,) = [record for record in caplog.records if sent in record.getMessage()]
    assert "comes back when its lease ends: it was closed" in warning.getMessage()
    assert (warning.levelname, warning.exc_info, failed) == ("WARNING", None, [])


def test_a_message_that_its_block_or_its_handler_acks_is_deleted_once(root: LossyRoot) -> None:
    with root.client() as client:
        jobs = client.create_queue("jobs")
        jobs.send_many(["a", "b"])
        with jobs.messages(max_in_flight=1) as stream, next(stream) as message:
            stream.ack(message)

        def handle(message: spoolrack.Message) -> None:
            message.ack()
            worker.stop()

        worker = jobs.worker(handle)
        worker.run()
        assert list(jobs.peek()) == []
    assert sum(items for name, items in root.calls if name == "delete") == 2


def test_a_nack_does_not_wait_for_its_answer(root: LossyRoot) -> None:
    with root.client() as client:
        jobs = client.create_queue("jobs")
        jobs.send("a")
        (message,) = jobs.receive()
        may_answer = threading.Event()

        async def release() -> None:
            assert may_answer.wait(STUCK)

        root.hooks["release"] = release
        message.nack()
        assert jobs.info().counts.leased_count == 1
        may_answer.set()
        until(lambda: jobs.info().counts.ready_count == 1)


def test_a_message_that_no_handler_finished_is_ready_again_at_the_same_moment(root: LossyRoot) -> None:
    with root.client() as client:
        jobs = client.create_queue("jobs", backoff_initial=60)
        jobs.send_many(["handled", "waiting"])

        def handle(message: spoolrack.Message) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            jobs.work(handle, concurrency=1, prefetch=1)
        # The root's clock stands still: a delay of any length would be seen.
        found = [(each.text, each.state, each.receive_count) for each in jobs.peek()]
        assert found == [("handled", "ready", 1), ("waiting", "ready", 0)]


def test_a_broken_connection_breaks_no_stream(root: LossyRoot) -> None:
    with root.client() as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        with jobs.messages() as stream:
            for number in range(5):
                jobs.send(str(number))
                assert next(stream).text == str(number)
                root.break_connections()


def test_a_stream_that_has_failed_hands_out_what_it_holds_and_then_says_why(root: LossyRoot) -> None:
    with root.client() as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        jobs.send_many(["a", "b"])
        stream = jobs.messages()
        assert next(stream).text == "a"
        root.break_connections(spoolrack.errors.InternalError("broken for good"))
        until(lambda: stream._core._buffer._closed)
        assert next(stream).text == "b"
        for _ in range(2):
            with pytest.raises(spoolrack.errors.InternalError):
                next(stream)


class Suspended(RootTime):
    """The machine is suspended for so long: only the clock that counts it goes on."""

    slept = 0.0

    def elapsed(self) -> float:  # type: ignore[override]
        return self.monotonic() + self.slept


def test_a_message_whose_lease_ended_while_the_machine_was_suspended_is_not_handed_out(
    stocked: LossyRoot,
) -> None:
    runtime = Suspended(stocked)
    leases = LeaseExtender(ClientContext(stocked.transport(runtime), runtime), "jobs", 30.0)
    (envelope,) = stocked.lease("jobs", 1, 30)
    leases.add([envelope])
    runtime.slept = 29.0
    assert leases.hand_out([envelope], keep=True) == [envelope]
    runtime.slept = 30.0
    assert leases.hand_out([envelope], keep=True) == []
    leases.stop()

"""When calls are repeated: the rule itself, and that the client keeps it."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spoolrack import Backoff, RetryPolicy
from spoolrack._core.client_context import ClientContext
from spoolrack._runtime import Tasks
from spoolrack.errors import (
    _BY_REASON,
    DiskFull,
    Draining,
    InvalidMessage,
    MessageNotFound,
    OutcomeUnknown,
    QueueFull,
    QueueNotFound,
    SpoolrackError,
    StaleReceipt,
    Timeout,
    Unreachable,
)

from tests.client.lossy_root import LossyRoot, LossyTransport

POLICY = RetryPolicy()
GONE = "01890a5d-ac96-774b-bcce-000000000000"
SOON = timedelta(milliseconds=200)


@given(failed=st.integers(1, 10_000), seed=st.integers())
def test_a_pause_is_never_longer_than_its_bound(failed: int, seed: int) -> None:
    pause = POLICY.pause(Unreachable(), failed=failed, left=1e9, random=Random(seed))
    assert pause is not None
    assert 0.0 <= pause <= min(POLICY.maximum, POLICY.initial * 2.0 ** min(failed - 1, 64))


@given(seed=st.integers(), millis=st.integers(0, 60_000))
def test_no_call_is_repeated_before_the_server_said(seed: int, millis: int) -> None:
    error = QueueFull(retry_delay=timedelta(milliseconds=millis))
    pause = POLICY.pause(error, failed=1, left=1e9, random=Random(seed))
    assert pause is not None
    assert pause >= millis / 1_000


@given(count=st.integers(0, 10_000), jitter=st.integers(0, 100), seed=st.integers())
def test_a_backoff_stays_between_its_bounds(count: int, jitter: int, seed: int) -> None:
    backoff = Backoff(initial=2.0, factor=3.0, maximum=timedelta(seconds=100), jitter=jitter)
    bound = min(100.0, 2.0 * 3.0 ** min(max(count - 1, 0), 64))
    delay = backoff.delay(count, Random(seed))
    assert bound * (1.0 - jitter / 100) * (1 - 1e-9) <= delay <= bound * (1 + 1e-9)


def test_a_jitter_is_a_percentage_and_a_fraction_is_still_understood() -> None:
    with pytest.warns(DeprecationWarning, match="write jitter=20 in place of 0.2"):
        assert Backoff(jitter=0.2) == Backoff(jitter=20)
    with pytest.warns(DeprecationWarning, match="write jitter=100 in place of 1"):
        assert Backoff(jitter=1.0) == Backoff(jitter=100)
    assert Backoff(jitter=1).delay(1, Random(1)) > 0.99


@given(count=st.integers(0, 10_000), seed=st.integers())
def test_the_default_backoff_never_retries_at_once(count: int, seed: int) -> None:
    assert 0.5 <= Backoff().delay(count, Random(seed)) <= 300.0


def test_no_call_is_repeated_after_the_timeout() -> None:
    error = DiskFull(retry_delay=timedelta(seconds=5))
    assert POLICY.pause(error, failed=1, left=5.0, random=Random(1)) is None
    assert POLICY.pause(error, failed=1, left=6.0, random=Random(1)) is not None


@pytest.mark.parametrize("kind", sorted(_BY_REASON.values(), key=lambda kind: kind.reason))
def test_only_what_is_retryable_is_repeated(kind: type[SpoolrackError]) -> None:
    always = kind in (Unreachable, Draining)
    plain = POLICY.pause(kind(), failed=1, left=1e9, random=Random(1))
    assert (plain is not None) == always
    delayed = POLICY.pause(kind(retry_delay=SOON), failed=1, left=1e9, random=Random(1))
    assert (delayed is not None) == (kind is not OutcomeUnknown)


def test_attempts_are_counted() -> None:
    policy = RetryPolicy(attempts=2)
    assert policy.pause(Unreachable(), failed=1, left=1e9, random=Random(1)) is not None
    assert policy.pause(Unreachable(), failed=2, left=1e9, random=Random(1)) is None


@pytest.mark.parametrize("error", [Unreachable(), Draining(), QueueFull(retry_delay=timedelta(0))])
def test_a_call_succeeds_when_the_trouble_passes(root: LossyRoot, error: SpoolrackError) -> None:
    with root.client() as client:
        client.create_queue("jobs")
        root.failures.extend([error, error])
        assert client.queue("jobs").send("a")
        assert root.calls[1:] == [("send", 1)] * 3


@pytest.mark.parametrize("error", [OutcomeUnknown(), InvalidMessage(), Timeout(), StaleReceipt()])
def test_a_call_that_can_not_be_helped_is_made_once(root: LossyRoot, error: SpoolrackError) -> None:
    with root.client() as client:
        client.create_queue("jobs")
        root.failures.append(error)
        with pytest.raises(type(error)):
            client.queue("jobs").send("a")
        assert root.calls[1:] == [("send", 1)]


def test_an_error_of_a_later_call_is_the_result_of_all_messages_from_there_on(root: LossyRoot) -> None:
    async def refuse_the_second() -> None:
        if "send" in root.answers:
            root.fail("send", InvalidMessage())

    with root.client() as client:
        client.create_queue("jobs")
        root.hooks["send"] = refuse_the_second
        results = client.queue("jobs").send_many(["a"] * 2_500)
        assert root.calls[1:] == [("send", 1_000)] * 2
    assert [type(each.error) for each in results] == [type(None)] * 1_000 + [InvalidMessage] * 1_500


def test_the_error_that_outlasts_the_timeout_is_raised_itself(root: LossyRoot) -> None:
    with root.client() as client:
        client.create_queue("jobs", max_messages=1)
        jobs = client.queue("jobs")
        jobs.send("a")
        # The pause that the error asks for is no shorter: nothing is sent again.
        with pytest.raises(QueueFull):
            jobs.send("b", timeout=1)


async def test_the_error_is_raised_itself_if_the_pause_after_it_outlasts_the_timeout() -> None:
    class Busy(Tasks):
        now = 0.0

        def monotonic(self) -> float:
            return self.now

        async def sleep(self, seconds: float) -> None:
            self.now += seconds + 5.0

    async def call(timeout: float) -> None:
        raise Unreachable("The name of queues can't be resolved")

    context = ClientContext(LossyTransport(None, None), Busy(), timeout=5.0)  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match="can't be resolved"):
        await context.call(call, None)


def test_a_repeated_deletion_that_finds_nothing_has_succeeded(root: LossyRoot) -> None:
    """The first one may have taken place before its connection broke."""
    with root.client() as client:
        client.create_queue("jobs")
        jobs = client.queue("jobs")
        with pytest.raises(MessageNotFound):
            jobs.delete_by_id(GONE)
        root.failures.append(Unreachable())
        jobs.delete_by_id(GONE)
        with pytest.raises(QueueNotFound):
            client.delete_queue("other")
        root.failures.append(Unreachable())
        client.delete_queue("other")

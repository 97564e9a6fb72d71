"""The light client: calls over one channel to each server, in each process, with retries.

A channel is made at the first call and belongs to the process that made it: Spark's daemon forks its
workers, and a channel doesn't survive a fork. All calls but a plain `Send` may be repeated as they are,
because the contract makes them idempotent by name. What can fail: a call that still fails after
`retry_seconds`, with the server's reason.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeVar

import grpc

from .._credentials import NONE, Credentials
from .._retry import RetryPolicy
from .._transports.grpc_calls import OPTIONS, error_from
from .._transports.grpc_channels import thread_channel, with_metadata
from .._transports.grpc_stubs import Stubs
from ..errors import OutcomeUnknown, SpoolrackError, Timeout, Unreachable

log = logging.getLogger("spoolrack.spark")

Answer = TypeVar("Answer")

CALL_TIMEOUT: Final = 60.0
"""Seconds after which one try is given up."""
POLICY: Final = RetryPolicy(initial=0.1, maximum=5.0)

_lock = threading.Lock()
_channels: dict[tuple[int, str, Credentials], tuple[grpc.Channel, Stubs]] = {}
# Those of a process that this one was forked off stay in the table, so that none of them is ended here.


def _after_fork() -> None:
    # Another thread may have held it in the moment of the fork.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def stub_of(address: str, credentials: Credentials = NONE) -> Stubs:
    """Return the stubs of a server; the channel is this process's own."""
    key = (os.getpid(), address, credentials)
    with _lock:
        if key not in _channels:
            channel = thread_channel(address, credentials, OPTIONS)
            _channels[key] = (channel, Stubs(with_metadata(channel, credentials)))
        return _channels[key][1]


@dataclass(slots=True)
class RetryBudget:
    """Bound and pauses of a call's retries, with the clock that they use."""

    seconds: float
    sleep: Callable[[float], Any] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    random: Random = field(default_factory=Random)


def may_repeat(error: SpoolrackError) -> bool:
    """Return whether a call that is idempotent by name may succeed when it is repeated."""
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return False  # The query was given another CA: gRPC has no code of its own for that.
    return error.retryable or isinstance(error, Timeout | OutcomeUnknown)


def repeated(call: Callable[[], Answer], budget: RetryBudget, what: str) -> Answer:
    """Return the answer of an idempotent call, which is repeated with back-off until it is there or its
    time is up. Each repetition is logged as one of `what`."""
    deadline = budget.monotonic() + budget.seconds
    failed = 0
    while True:
        try:
            return call()
        except SpoolrackError as error:
            failed += 1
            pause = pause_after(error, failed, deadline - budget.monotonic(), budget.random)
            if pause is None:
                raise
            log_retry(what, error, pause, deadline - budget.monotonic())
        budget.sleep(pause)


def log_retry(what: str, error: SpoolrackError, pause: float, left: float) -> None:
    log.warning(
        "%s failed, and is repeated in %.1f s, for up to %.0f s more (retrySeconds): %s",
        what,
        pause,
        left,
        error,
    )


def pause_after(error: SpoolrackError, failed: int, left: float, random: Random) -> float | None:
    """Return the seconds to wait before the repetition of an idempotent call; None: give up."""
    if not may_repeat(error):
        return None
    if not error.retryable:
        # Retryable here, because the call is idempotent by name.
        error = Unreachable()
    return POLICY.pause(error, failed=failed, left=left, random=random)


@dataclass(frozen=True, slots=True)
class LightClient:
    """Calls to one server, with retries. `sleep` of the budget may raise, which ends a wait."""

    address: str
    budget: RetryBudget
    credentials: Credentials = NONE

    def __call__(self, method: str, request: Any, *, timeout: float = CALL_TIMEOUT) -> Any:
        return repeated(lambda: self.once(method, request, timeout=timeout), self.budget, method)

    def once(self, method: str, request: Any, *, timeout: float = CALL_TIMEOUT) -> Any:
        """Make one attempt; raise `SpoolrackError`."""
        try:
            stub = stub_of(self.address, self.credentials)
            return getattr(stub, method)(request, timeout=timeout)
        except grpc.RpcError as error:
            raise error_from(error, self.address, timeout, is_ours=False) from None

    def pages(self, method: str, request: Any) -> Iterator[Any]:
        """Yield the pages of a list, each retried. The request may be changed between two pages."""
        while True:
            page = self(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def begin(self, method: str, request: Any, *, timeout: float = CALL_TIMEOUT) -> Any:
        """Begin a call; `finished` waits for it."""
        stub = stub_of(self.address, self.credentials)
        return getattr(stub, method).future(request, timeout=timeout)

    def finished(self, under_way: Any) -> Any:
        """Return the answer of a call that was begun; raise `SpoolrackError`."""
        try:
            return under_way.result()
        except grpc.RpcError as error:
            raise error_from(error, self.address, CALL_TIMEOUT, is_ours=False) from None

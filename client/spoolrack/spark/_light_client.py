"""The light client: calls over one channel to each server, in each process, with retries.

The address of several shards is theirs with commas between them. `of` and `shards` return clients of
one shard each, and only they make calls. Each call says which shard its server is taken for.

The calls, their errors, credentials and keepalive are the client's. A channel is made at the first call
and belongs to the process that made it: Spark's daemon forks its workers, and a channel doesn't survive
a fork. All calls but a plain `Send` may be repeated as they are, because the contract makes them
idempotent by name. What can fail: a call that still fails after `retry_seconds`, with the server's
reason.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, TypeVar

import grpc

from .._credentials import NONE, Credentials
from .._retry import RetryPolicy
from .._runtime import beside, run
from .._shards import shard_of
from .._transports.grpc_calls import Frames, ThreadCalls
from .._transports.grpc_channels import Method
from .._transports.url import SHARD
from ..errors import OutcomeUnknown, SendingPaused, SpoolrackError, Timeout, Unreachable

log = logging.getLogger("spoolrack.spark")

Answer = TypeVar("Answer")
Key = TypeVar("Key")

CALL_TIMEOUT: Final = 60.0
"""Seconds after which one try is given up."""
POLICY: Final = RetryPolicy(initial=0.1, maximum=5.0)
ROOT_KEY: Final = "spoolrack-root"
"""The contract's metadata for the root that a call is for."""
IN_FLIGHT: Final = 4
"""Calls of `call_each` at once: its backpressure."""
AT_ONCE: Final = 16
"""Queues and shards that are asked at the same time."""

_UNVERIFIED: Final = "CERTIFICATE_VERIFY_FAILED"
_EXPIRED: Final = ("certificate has expired", "certificate is not yet valid")

_lock = threading.Lock()
_channels: dict[tuple[int, str, Credentials], ThreadCalls] = {}
# Those of a process that this one was forked off stay in the table, so that none of them is ended here.


def _after_fork() -> None:
    # Another thread may have held it in the moment of the fork.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def may_repeat(error: SpoolrackError) -> bool:
    """Return whether a call that is idempotent by name may succeed when it is repeated.

    A paused queue is waited for as a full one is. So is a certificate that has expired, because the
    server loads a renewed one; any other doubt about it is for the operator.
    """
    text = str(error)
    if _UNVERIFIED in text:  # gRPC has no code of its own for that.
        return any(f"{_UNVERIFIED}: {why}" in text for why in _EXPIRED)
    return error.retryable or isinstance(error, Timeout | OutcomeUnknown | SendingPaused)


@dataclass(frozen=True, slots=True)
class LightClient:
    """Calls to one server, with retries. For several threads. `sleep` may raise, which ends a wait."""

    address: str
    """`host:port`; of all shards, in order, with commas between them."""
    retry_seconds: float
    """How long a call that may succeed later is repeated, before it fails."""
    credentials: Credentials = NONE
    root: str = ""
    """The identity of the root that calls are for: a server with another one refuses them. Empty: any
    root."""
    shard: str = ""
    """The shard that the server is taken for, as `2/8`: any other refuses the calls. Empty: any server
    is taken."""
    sleep: Callable[[float], Any] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    random: Random = field(default_factory=Random)

    def to(self, root: str) -> LightClient:
        """Return a client of the same server, whose calls are for this root."""
        return replace(self, root=root)

    @property
    def shards(self) -> list[LightClient]:
        """Return a client of each shard, by number; of one server this client alone."""
        addresses = self.address.split(",")
        if len(addresses) == 1:
            return [self]
        return [
            replace(self, address=address, shard=f"{number}/{len(addresses)}")
            for number, address in enumerate(addresses)
        ]

    def of(self, queue: str) -> LightClient:
        """Return a client of the shard of a queue."""
        shards = self.shards
        return shards[shard_of(queue, len(shards))]

    def __call__(self, method: str, request: Any, *, timeout: float = CALL_TIMEOUT) -> Any:
        return self.repeated(method, lambda: self.once(method, request, timeout=timeout))

    def once(self, method: str, request: Any, *, timeout: float = CALL_TIMEOUT) -> Any:
        """Make one attempt; raise `SpoolrackError`."""
        return run(self._calls.unary(self._method(method), request, timeout))

    def repeated(self, what: str, attempt: Callable[[], Answer]) -> Answer:
        """Return the result of an idempotent `attempt`, which is repeated with backoff until it
        succeeds or the time is up. Each repetition is logged as one of `what`."""
        deadline = self.monotonic() + self.retry_seconds
        for failed in count(1):
            try:
                return attempt()
            except SpoolrackError as error:
                if not may_repeat(error):
                    raise
                # An outcome in doubt is retryable here, because the call is idempotent by name.
                cause = error if error.retryable else Unreachable()
                left = deadline - self.monotonic()
                pause = POLICY.pause(cause, failed=failed, left=left, random=self.random)
                if pause is None:
                    raise
                log.warning(
                    "%s failed, and is repeated in %.1f s, for up to %.0f s more (retrySeconds): %s",
                    *(what, pause, left, error),
                )
            self.sleep(pause)
        raise AssertionError

    def pages(self, method: str, request: Any) -> Iterator[Any]:
        """Yield the pages of a list, each retried. The request may be changed between two pages."""
        while True:
            page = self(method, request)
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def frames(self, method: str, rest: Callable[[], Any]) -> Iterator[Any]:
        """Yield the frames of a streaming call until its end, each retried.

        A call that breaks is made again with the request that `rest` returns then. None: it is done.
        """
        frames: Frames | None = None

        def next_frame() -> Any:
            nonlocal frames
            if frames is None:
                request = rest()
                if request is None:
                    return None
                frames = self._calls.frames(self._method(method), request)
            try:
                return run(frames.next_or_end())
            except SpoolrackError:
                frames = None
                raise

        while (frame := self.repeated(method, next_frame)) is not None:
            yield frame

    def call_each(
        self,
        method: str,
        requests: Iterable[Any],
        check: Callable[[Any, Any], None] = lambda request, answer: None,
    ) -> None:
        """Make a call for each request, a few at once, each retried until it is answered.

        `check` is given each request with its answer, in order. It may raise an error: then the request
        is repeated as it is by then. Once an error is raised, other requests may have taken place.
        """
        begin = partial(self._method(method).future, timeout=CALL_TIMEOUT)
        in_flight: deque[tuple[Any, Any]] = deque()

        def finish_first() -> None:
            request, first = in_flight.popleft()

            def attempt() -> None:
                nonlocal first
                call, first = first or begin(request), None
                check(request, self._result(call))

            self.repeated(method, attempt)

        try:
            for request in requests:
                if len(in_flight) == IN_FLIGHT:
                    finish_first()
                in_flight.append((request, begin(request)))
            while in_flight:
                finish_first()
        finally:
            for _, call in in_flight:
                call.cancel()

    def _method(self, name: str) -> Any:
        method = getattr(self._calls.stub, name)
        given = ((ROOT_KEY, self.root), (SHARD, self.shard))
        metadata = tuple((key, value) for key, value in given if value)
        return Method(method, metadata) if metadata else method

    @property
    def _calls(self) -> ThreadCalls:
        """The calls over this process's own channel to the server."""
        key = (os.getpid(), self.address, self.credentials)
        with _lock:
            if key not in _channels:
                _channels[key] = ThreadCalls(self.address, self.credentials)
            return _channels[key]

    def _result(self, call: Any) -> Any:
        """Return the answer of a call that was begun; raise `SpoolrackError`."""
        try:
            return call.result()
        except grpc.RpcError as error:
            calls = self._calls
            raise calls.error_of(error, calls.generation, CALL_TIMEOUT, is_ours=False) from None


def of_each(keys: Iterable[Key], call: Callable[[Key], Answer]) -> dict[Key, Answer]:
    """Return what a call answers for each key, a bounded number of them at once: a server makes them
    durable together, and shards work side by side. Raise the first error, when the calls that have
    begun are over."""
    listed_keys = [*keys]
    if len(listed_keys) < 2:
        return {key: call(key) for key in listed_keys}

    def call_each() -> dict[Key, Answer]:
        with ThreadPoolExecutor(min(AT_ONCE, len(listed_keys)), "spoolrack-queues") as pool:
            try:
                return dict(zip(listed_keys, pool.map(call, listed_keys), strict=True))
            finally:
                pool.shutdown(cancel_futures=True)

    return beside(call_each)

"""A real root in time that a test moves, whose clients lose calls and answers as on a network."""

from __future__ import annotations

import inspect
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, Final, cast

import spoolrack
from spoolrack import RetryPolicy, aio
from spoolrack._runtime import Runtime, Tasks, Threads, run
from spoolrack._transports import ClientTransport
from spoolrack._transports.url import open_transport
from spoolrack._values import Envelope
from spoolrack.errors import SpoolrackError, Unreachable
from spoolrack.testing import OpenRoot, manual_clock, open_root

QUICK: Final = RetryPolicy(initial=0.0, maximum=0.0)
"""Repeats at once."""
_SEEDS: Final = count(1)
"""Two clients must not choose the same names."""
_LONGEST: Final = 30.0


class LossyRoot:
    """The root, and what happens to the calls of its clients."""

    def __init__(self, opened: OpenRoot) -> None:
        self._url = opened.url
        self.clock = opened.clock
        self.calls: list[tuple[str, int]] = []
        """The calls, and the number of items of each."""
        self.answers: list[str] = []
        """The names of those that took place."""
        self.hooks: dict[str, Callable[[], Awaitable[None]]] = {}
        """Awaited by the calls of this name, before they do anything else."""
        self.failures: deque[Exception] = deque()
        """Each is raised by one call, in order, before it does anything."""
        self.readers: set[LossyReader] = set()
        self._failing: dict[str, deque[Exception]] = {}
        self._losing: dict[str, deque[Exception]] = {}

    def fail(self, name: str, *errors: Exception) -> None:
        """Let the next calls of this kind raise these errors, before they do anything."""
        self._failing[name] = deque(errors)

    def lose(self, name: str, *errors: Exception) -> None:
        """Let them raise these errors after they did all: their answers are lost."""
        self._losing[name] = deque(errors)

    def break_connections(self, error: SpoolrackError | None = None) -> None:
        """End every stream as a broken connection does."""
        for reader in list(self.readers):
            reader.fail(error or Unreachable("broken by the test"))

    def advance(self, millis: int) -> None:
        self.clock.advance(millis)

    def transport(self, runtime: Runtime) -> ClientTransport:
        return cast(ClientTransport, LossyTransport(self, open_transport(self._url, runtime)))

    def client(self, *, retry: RetryPolicy = QUICK, runtime: Threads | None = None) -> spoolrack.Client:
        runtime = Threads() if runtime is None else runtime
        random = Random(next(_SEEDS))
        return spoolrack.Client(self.transport(runtime), runtime, retry=retry, random=random)

    def aio_client(self) -> aio.Client:
        runtime = Tasks()
        random = Random(next(_SEEDS))
        return aio.Client(self.transport(runtime), runtime, retry=QUICK, random=random)

    def lease(self, queue: str, limit: int, visibility: float) -> Sequence[Envelope]:
        """Receive as another caller, whose calls always arrive."""
        received = open_transport(self._url, Threads()).receive(
            queue, max_messages=limit, wait=0.0, visibility_timeout=visibility, timeout=_LONGEST
        )
        return run(received)

    def called(self, name: str, items: int = 1) -> None:
        self.calls.append((name, items))
        for errors in (self.failures, self._failing.get(name)):
            if errors:
                raise errors.popleft()

    def answered(self, name: str) -> None:
        self.answers.append(name)
        if self._losing.get(name):
            raise self._losing[name].popleft()


@contextmanager
def lossy_root() -> Iterator[LossyRoot]:
    with open_root(clock=manual_clock()) as opened:
        yield LossyRoot(opened)


class RootTime(Threads):
    """Threads whose monotonic clock is the root's: it stands still until a test moves it."""

    def __init__(self, root: LossyRoot) -> None:
        self._root = root

    def monotonic(self) -> float:  # type: ignore[override]
        return float(self._root.clock.monotonic()) / 1_000

    elapsed = monotonic


class LossyTransport:
    def __init__(self, root: LossyRoot, inner: Any) -> None:
        self._root = root
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        root, inner = self._root, getattr(self._inner, name)
        if name in ("stream", "read"):
            return lambda *of, **more: LossyReader(root, name, inner(*of, **more))
        if name == "close" or not inspect.iscoroutinefunction(inner):
            return inner

        async def call(*of: Any, **more: Any) -> Any:
            told, parts = name, of
            if name == "call":
                told = re.sub("(?<=[a-z])(?=[A-Z])", "_", type(of[0]).__name__).lower()
                parts = tuple(vars(of[0]).values())
            lists = [each for each in parts if isinstance(each, Sequence) and not isinstance(each, str)]
            if told in root.hooks:
                await root.hooks[told]()
            root.called(told, len(lists[0]) if lists else 1)
            answer = await inner(*of, **more)
            root.answered(told)
            return answer

        return call


class LossyReader:
    """A stream of messages, or the read of a reservation by pages of one message."""

    def __init__(self, root: LossyRoot, name: str, inner: Any) -> None:
        self._root = root
        self._name = name
        self._inner = inner
        self._failure: Exception | None = None
        self._connected = False
        self._page: deque[Envelope] = deque()
        root.readers.add(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def fail(self, error: Exception) -> None:
        self._failure = error
        self._inner.cancel()

    async def next(self) -> Sequence[Envelope]:
        if not self._connected or self._name == "read":
            self._root.called(self._name)
            self._connected = True
        if self._failure is None and not self._page:
            try:
                self._page.extend(await self._inner.next())
            except SpoolrackError:
                if self._failure is None:
                    raise
        if self._failure is not None:
            raise self._failure
        if self._name == "read":
            return [self._page.popleft()] if self._page else []
        page = list(self._page)
        self._page.clear()
        return page

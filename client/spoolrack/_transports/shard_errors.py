"""Errors of a shard: they name it, and say how long it has been away.

So do those that are about its server and not about a queue. Knows nothing of routing.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Sequence
from inspect import isawaitable
from typing import Any, Final, TypeVar

from .._runtime import Runtime
from ..errors import (
    ClientClosed,
    DiskError,
    DiskFull,
    InternalError,
    MemoryLimit,
    PermissionDenied,
    SpoolrackError,
    StoreFailed,
    Timeout,
    Unauthenticated,
    Unreachable,
    WrongShard,
)

T = TypeVar("T")

_OF_THE_SERVER: Final = (
    Unauthenticated,
    PermissionDenied,
    WrongShard,
    DiskFull,
    DiskError,
    MemoryLimit,
    StoreFailed,
    InternalError,
)
"""Errors that an operator mends at one server, and whose text names none."""


def named_shard(transport: Any, number: int, count: int, runtime: Runtime) -> Any:
    """Return a shard's transport, with the shard's name in its errors, and as its text."""
    return _Named(transport, _ShardState(transport.target, number, count, runtime))


def joined(errors: Sequence[SpoolrackError]) -> SpoolrackError:
    """Return the first error, with the texts of all in lines."""
    return _with_text(errors[0], "\n".join(dict.fromkeys(map(str, errors))))


def _with_text(error: SpoolrackError, text: str) -> SpoolrackError:
    copied = copy.copy(error)
    copied.args = (text,)
    return copied


class _Named:
    """A shard's transport, or what it returns: streams and reads."""

    def __init__(self, wrapped: Any, shard: _ShardState) -> None:
        self._wrapped, self._shard = wrapped, shard

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            result = found(*arguments, **options)
            if isawaitable(result):
                return self._shard.noted(result, self._wrapped)
            return _Named(result, self._shard) if hasattr(result, "next") else result

        return call

    def __str__(self) -> str:
        return self._shard.name


class _ShardState:
    def __init__(self, target: str, number: int, count: int, runtime: Runtime) -> None:
        self.name, self._runtime = f"shard {number}/{count} at {target}", runtime
        self._facts = {"shard": str(number), "shards": str(count), "address": target}
        self._away_since: float | None = None

    async def noted(self, call: Awaitable[T], caller: Any) -> T:
        """Return the result of a call; let the error of a shard that is away say so. A `caller` that is
        a connected stream breaks only now."""
        try:
            result = await call
        except (Timeout, Unreachable) as error:
            now = self._runtime.monotonic()
            if self._away_since is None or (hasattr(caller, "connected") and caller.connected()):
                self._away_since = now
            away = f"{now - self._away_since:.0f}"
            facts = {**error.metadata, **self._facts, "away_seconds": away}
            raise self._named(error, f" has been away for {away} s", facts) from None
        except ClientClosed:
            raise
        except SpoolrackError as error:
            self._away_since = None  # It has answered.
            if not isinstance(error, _OF_THE_SERVER):
                raise
            # The shard of `WrongShard` is the right one.
            raise self._named(error, "", {**self._facts, **error.metadata}) from None
        self._away_since = None
        return result

    def _named(self, error: SpoolrackError, state: str, facts: dict[str, str]) -> SpoolrackError:
        """Return the error with the shard's name before its text, and these metadata."""
        named = _with_text(error, f"{self.name[:1].upper()}{self.name[1:]}{state}: {error}")
        named.metadata = facts
        return named

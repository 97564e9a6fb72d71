"""Routing by queue: a transport for each shard, or for each tag behind a proxy.

A call with a queue goes to the transport of that queue. A call by an id goes to the queue that it
names; without one, to the only shard that knows the id. Lists of all shards are merged in order. What
can fail: a shard. Calls on other shards don't wait for it. Its errors name it and how long it has been
away; so do those that are about the server and not about a queue.
"""

from __future__ import annotations

import contextlib
import copy
import heapq
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial, partialmethod
from typing import Any, Final, TypeVar

from .._runtime import Runtime
from .._shards import check_together, shard_of, tag_of
from .._stage_values import PublishResult, StageResult
from .._values import Envelope, Page
from ..errors import (
    ClientClosed,
    DiskError,
    DiskFull,
    InternalError,
    InvalidQueueName,
    InvalidRequest,
    MemoryLimit,
    PermissionDenied,
    RedriveNotFound,
    ReservationNotFound,
    SpoolrackError,
    StageNotFound,
    StoreFailed,
    Timeout,
    Unauthenticated,
    Unreachable,
    Unsupported,
    WrongShard,
)

T = TypeVar("T")

PATIENCE: Final = 5.0
"""Seconds that a list waits for a shard before it goes on with the others."""
KNOWN_STAGES: Final = 10_000
"""Stages whose queue a client remembers: as many as one publication has."""
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
_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


class ShardedTransport:
    """`ClientTransport` over one transport for each shard.

    An operation that isn't written here has a queue as its first argument.
    """

    def __init__(self, transports: Sequence[Any], runtime: Runtime) -> None:
        self._runtime = runtime
        count = len(transports)
        self._shards = [
            _ShardTransport(each, number, count, runtime) for number, each in enumerate(transports)
        ]
        self.staging, self.reservations = _RoutedStaging(self), _RoutedReservations(self)
        self.redrives, self.schedules = _RoutedRedrives(self), _RoutedSchedules(self)
        self.files = _ByQueue(self, "files")

    @property
    def target(self) -> str:
        return ",".join(each.target for each in self._shards)

    @property
    def all(self) -> Sequence[Any]:
        """All shards."""
        return self._shards

    def of(self, queue: str) -> Any:
        """Return the transport of a queue."""
        return self._shards[shard_of(queue, len(self._shards))]

    def home(self, queue: str) -> str:
        return str(self.of(queue))

    def __getattr__(self, operation: str) -> Any:
        if operation.startswith("_"):
            raise AttributeError(operation)
        return lambda queue, *arguments, **options: getattr(self.of(queue), operation)(
            queue, *arguments, **options
        )

    async def list_queues(self, *, prefix: str, token: str, timeout: float) -> Page[Any]:
        def fetch(shard: Any, token: str, left: float) -> Awaitable[Page[Any]]:
            page: Awaitable[Page[Any]] = shard.list_queues(prefix=prefix, token=token, timeout=left)
            return page

        return await self.merged(fetch, lambda queue: [queue.name], token, timeout)

    async def close(self) -> None:
        for each in self.all:
            await each.close()

    async def merged(
        self,
        fetch: Callable[[Any, str, float], Awaitable[Page[Any]]],
        key: Callable[[Any], list[Any]],
        token: str,
        timeout: float,
    ) -> Page[Any]:
        """Return a page of a list over all shards, in the order of `key`, which is that of each shard.

        The token holds each shard's place: its own token, the last key that was returned, and whether
        it didn't answer. Such a shard comes last: the others are listed before it fails the list, or
        before its own items, if it has come back.
        """
        shards = self.all
        places: list[Any] = json.loads(token) if token else [["", None, False] for _ in shards]
        late = not any(place and not place[2] for place in places)
        numbers = [number for number, place in enumerate(places) if place and place[2] is late]
        left = timeout if late else min(PATIENCE, timeout)
        pages = await _together(
            self._runtime, [partial(fetch, shards[each], places[each][0], left) for each in numbers]
        )
        failures = [page for page in pages if isinstance(page, SpoolrackError)]
        final = [each for each in failures if not isinstance(each, Timeout | Unreachable)]
        if final or (late and len(failures) == len(numbers)):
            raise _joined(final or failures)
        rows, bounds = {}, []
        for number, page in zip(numbers, pages, strict=True):
            if isinstance(page, SpoolrackError):
                places[number][2] = True
                continue
            after = places[number][1]
            found = [(key(item), item) for item in page.items]
            rows[number] = [row for row in found if after is None or row[0] > after]
            if page.next_token:
                bounds.append(found[-1][0] if found else after or [])
        bound = min(bounds, default=None)
        for number, page in zip(numbers, pages, strict=True):
            if number not in rows or isinstance(page, SpoolrackError):
                continue
            known = rows[number]
            rows[number] = [row for row in known if bound is None or row[0] <= bound]
            if len(rows[number]) < len(known):
                places[number][1] = bound
            elif page.next_token:
                places[number][:2] = page.next_token, known[-1][0] if known else places[number][1]
            else:
                places[number] = None
        merged = heapq.merge(*rows.values(), key=lambda row: row[0])
        return Page(
            items=[item for _, item in merged], next_token=json.dumps(places) if any(places) else ""
        )

    async def knowing(
        self, probe: Callable[[Any], Awaitable[object]], missing: type[SpoolrackError], what: str
    ) -> Any | None:
        """Return the only shard on which a probe finds something; None if it is `missing` on all."""
        answers = await self.together(probe)
        shards = [each for each, result in answers if not isinstance(result, SpoolrackError)]
        if len(shards) > 1:
            raise InvalidRequest(
                f"{what} is on {' and '.join(map(str, shards))}: name its queue (queue=)."
            )
        failed = [each for _, each in answers if isinstance(each, SpoolrackError)]
        failed = [each for each in failed if not isinstance(each, missing)]
        if not shards and failed:
            raise _joined(failed)
        return shards[0] if shards else None

    async def together(
        self, call: Callable[[Any], Awaitable[T]]
    ) -> list[tuple[Any, T | SpoolrackError]]:
        """Return each shard with what a call to it returned or raised; all are made at one time."""
        shards = self.all
        results = await _together(self._runtime, [partial(call, each) for each in shards])
        return list(zip(shards, results, strict=True))


class HeaderTransport(ShardedTransport):
    """`ClientTransport` through a proxy that routes by the metadata `x-spoolrack-queue`: a transport,
    with streams of its own, for each tag. All share the connection."""

    def __init__(self, open_tag: Callable[[str], Any], target: str, runtime: Runtime) -> None:
        super().__init__([], runtime)
        self._open_tag, self._target = open_tag, target
        self._lock = runtime.lock()
        self._by_tag: dict[str, Any] = {}

    @property
    def target(self) -> str:
        return self._target

    @property
    def all(self) -> Sequence[Any]:
        raise Unsupported(
            f"The proxy at {self._target} routes by queues. A call for all queues, or by an id alone, "
            "would reach any one shard: name the queue (queue=), or connect to the shards' addresses."
        )

    def of(self, queue: str) -> Any:
        tag = tag_of(queue)
        if not _TAG.fullmatch(tag):
            raise InvalidQueueName()
        with self._lock:
            found = self._by_tag.get(tag)
            if found is None:
                found = self._by_tag[tag] = self._open_tag(tag)
        return found

    def home(self, queue: str) -> str:
        return f"the shard of the tag {tag_of(queue)}"

    async def close(self) -> None:
        for each in list(self._by_tag.values()):
            await each.close()


class _ShardReader:
    """A stream or a read of a shard: its errors are the shard's."""

    def __init__(self, reader: Any, shard: _ShardTransport) -> None:
        self._reader, self._shard = reader, shard

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._reader, operation)

    async def next(self) -> Sequence[Envelope]:
        return await self._shard.noted(self._reader.next(), self._is_connected)

    def _is_connected(self) -> bool:
        connected = getattr(self._reader, "connected", None)
        return connected is not None and bool(connected())


class _ShardOperations:
    """Operations of a shard: their errors name it."""

    def __init__(self, operations: Any, shard: _ShardTransport) -> None:
        self._operations, self._shard = operations, shard

    def read(self, *arguments: Any, **options: Any) -> _ShardReader:
        return _ShardReader(self._operations.read(*arguments, **options), self._shard)

    def stream(self, *arguments: Any, **options: Any) -> _ShardReader:
        return _ShardReader(self._operations.stream(*arguments, **options), self._shard)

    def __getattr__(self, operation: str) -> Any:
        call = getattr(self._operations, operation)
        return lambda *arguments, **options: self._shard.noted(call(*arguments, **options))


class _ShardTransport(_ShardOperations):
    """A shard's transport."""

    def __init__(self, transport: Any, number: int, count: int, runtime: Runtime) -> None:
        super().__init__(transport, self)
        self._name, self._runtime = f"shard {number}/{count} at {transport.target}", runtime
        self._facts = {"shard": str(number), "shards": str(count), "address": transport.target}
        self._away_since: float | None = None
        self.target: str = transport.target
        self.staging = _ShardOperations(transport.staging, self)
        self.reservations = _ShardOperations(transport.reservations, self)
        self.redrives = _ShardOperations(transport.redrives, self)
        self.schedules = _ShardOperations(transport.schedules, self)
        self.files = _ShardOperations(transport.files, self)

    def __str__(self) -> str:
        return self._name

    async def noted(self, call: Awaitable[T], connected: Callable[[], bool] = lambda: False) -> T:
        """Return the result of a call; let the error of a shard that is away say so. A stream that was
        `connected` breaks only now."""
        try:
            result = await call
        except (Timeout, Unreachable) as error:
            now = self._runtime.monotonic()
            self._away_since = now if self._away_since is None or connected() else self._away_since
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
        named = copy.copy(error)
        named.args = (f"{self._name[:1].upper()}{self._name[1:]}{state}: {error}",)
        named.metadata = facts
        return named


class _ByQueue:
    """Operations whose first argument is a queue."""

    def __init__(self, whole: ShardedTransport, part: str) -> None:
        self._whole, self._part = whole, part

    def of(self, queue: str) -> Any:
        return getattr(self._whole.of(queue), self._part)

    def __getattr__(self, operation: str) -> Any:
        return lambda queue, *arguments, **options: getattr(self.of(queue), operation)(
            queue, *arguments, **options
        )

    async def by_id(
        self,
        operation: str,
        *which: object,
        missing: type[SpoolrackError],
        queue: str,
        **options: Any,
    ) -> Any:
        """Call the shard of a queue; without one all, and return the answer of the one that knows what
        is asked for."""
        if queue:
            return await getattr(self.of(queue), operation)(*which, queue=queue, **options)
        answers = await self._whole.together(
            lambda shard: getattr(getattr(shard, self._part), operation)(*which, queue="", **options)
        )
        return _only(answers, missing)

    async def listed(
        self, operation: str, key: Callable[[Any], list[Any]], token: str, timeout: float, **which: str
    ) -> Page[Any]:
        """Return a page of a list: of the queue that is named, or of all."""

        def fetch(shard: Any, token: str, left: float) -> Awaitable[Page[Any]]:
            call = getattr(getattr(shard, self._part), operation)
            page: Awaitable[Page[Any]] = call(token=token, timeout=left, **which)
            return page

        if which.get("queue"):
            return await fetch(self._whole.of(which["queue"]), token, timeout)
        return await self._whole.merged(fetch, key, token, timeout)


class _RoutedStaging(_ByQueue):
    def __init__(self, whole: ShardedTransport) -> None:
        super().__init__(whole, "staging")
        self._queues: dict[str, str] = {}
        """A queue of each stage that this client has begun."""

    async def stage(
        self, stage: str, chunk: int, queue: str, messages: Any, **options: Any
    ) -> StageResult:
        queue_of_stage = self._queues.get(stage, queue)
        if self._whole.home(queue_of_stage) != self._whole.home(queue):
            with contextlib.suppress(StageNotFound):  # It has expired: another one has its name now.
                await self.get(stage, queue="", timeout=options["timeout"])
                check_together(self._whole.home, queue_of_stage, queue)
        self._queues.setdefault(stage, queue)
        if len(self._queues) > KNOWN_STAGES:
            self._queues.pop(next(iter(self._queues)), None)
        staged: StageResult = await self.of(queue).stage(stage, chunk, queue, messages, **options)
        return staged

    async def publish(
        self, writer: str, epoch: int, stages: Sequence[str], *, queue: str, **options: Any
    ) -> PublishResult:
        queues = [self._queues[each] for each in stages if each in self._queues]
        if queues and not queue:
            queue = queues[0]
            for each in queues[1:]:
                check_together(self._whole.home, queue, each)
        shard = None if queue else await self._shard_of(stages, options["timeout"])
        if not queue and shard is None:
            # An epoch that was published has no stages any more, and is known where it was.
            return await self._published(writer, epoch, stages, options)
        staging = self.of(queue) if shard is None else shard.staging
        try:
            published: PublishResult = await staging.publish(
                writer, epoch, stages, queue=queue, **options
            )
        except StageNotFound:
            self._drop(stages)
            raise
        self._drop(stages)
        return published

    def _drop(self, stages: Sequence[str]) -> None:
        """Note that stages are gone: the next ones of their names may be of another shard."""
        for stage in stages:
            self._queues.pop(stage, None)

    async def _shard_of(self, stages: Sequence[str], timeout: float) -> Any | None:
        shards = {}
        for stage in stages:

            def probe(shard: Any, stage: str = stage) -> Awaitable[object]:
                shards: Awaitable[object] = shard.staging.get(stage, queue="", timeout=timeout)
                return shards

            shard = await self._whole.knowing(probe, StageNotFound, f"The stage {stage}")
            if shard is not None:
                shards[str(shard)] = shard
        if len(shards) > 1:
            raise InvalidRequest(
                f"The stages are on {' and '.join(shards)}: a publication is of one shard. Nothing was "
                "published."
            )
        return next(iter(shards.values()), None)

    async def _published(
        self, writer: str, epoch: int, stages: Sequence[str], options: dict[str, Any]
    ) -> PublishResult:
        answers = await self._whole.together(
            lambda shard: shard.staging.publish(writer, epoch, stages, queue="", **options)
        )
        _only(answers, StageNotFound)
        failed = [each for _, each in answers if isinstance(each, SpoolrackError) and not stages]
        if failed:
            raise _joined(failed)  # The epoch isn't remembered on all shards.
        results = [each for _, each in answers if isinstance(each, PublishResult)]
        return max(results, key=lambda result: (result.duplicate, result.last_epoch))

    async def abort(self, stage: str, *, queue: str, timeout: float) -> int:
        queue = queue or self._queues.get(stage, "")
        self._drop([stage])
        if queue:
            dropped: int = await self.of(queue).abort(stage, queue=queue, timeout=timeout)
            return dropped
        answers = await self._whole.together(
            lambda shard: shard.staging.abort(stage, queue="", timeout=timeout)
        )
        _only(answers, StageNotFound)
        return sum(each for _, each in answers if isinstance(each, int))

    async def get(self, stage: str, *, queue: str, timeout: float) -> Any:
        queue_of_stage = queue or self._queues.get(stage, "")
        try:
            return await self.by_id(
                "get", stage, missing=StageNotFound, queue=queue_of_stage, timeout=timeout
            )
        except StageNotFound:
            if not queue:
                self._drop([stage])
            raise

    async def list_stages(self, *, queue: str, token: str, timeout: float) -> Page[Any]:
        return await self.listed("list_stages", lambda stage: [stage.name], token, timeout, queue=queue)


class _RoutedReservations(_ByQueue):
    def __init__(self, whole: ShardedTransport) -> None:
        super().__init__(whole, "reservations")

    async def at(self, queue: str, stream: str, timeout: float) -> Any:
        """Return the operations of the shard of a queue, or of the only one that knows the stream."""
        if queue:
            return self.of(queue)

        async def probe(shard: Any) -> None:
            page = await shard.reservations.list_reservations(
                queue="", stream=stream, token="", timeout=timeout
            )
            if not page.items:
                raise ReservationNotFound

        known = await self._whole.knowing(probe, ReservationNotFound, f"The stream {stream}")
        return None if known is None else known.reservations

    async def _call(
        self, operation: str, stream: str, number: int, *, queue: str, timeout: float, **options: Any
    ) -> Any:
        at = await self.at(queue, stream, timeout)
        if at is None:  # Committed or lost: the shard that it was on may tell.
            call = partial(self.by_id, operation, missing=ReservationNotFound)
        else:
            call = getattr(at, operation)
        return await call(stream, number, queue=queue, timeout=timeout, **options)

    extend = partialmethod(_call, "extend")
    release = partialmethod(_call, "release")
    commit = partialmethod(_call, "commit")
    get = partialmethod(_call, "get")

    def read(self, stream: str, number: int, *, queue: str, begin: int, end: int) -> Any:
        if queue:
            return self.of(queue).read(stream, number, queue=queue, begin=begin, end=end)
        return _SoughtPages(self, stream, number, begin, end)

    async def list_reservations(
        self, *, queue: str, stream: str, token: str, timeout: float
    ) -> Page[Any]:
        return await self.listed(
            "list_reservations",
            lambda found: [found.stream, found.sequence_number],
            token,
            timeout,
            queue=queue,
            stream=stream,
        )


class _SoughtPages:
    """A read of a reservation whose shard is looked for first."""

    def __init__(
        self, reservations: _RoutedReservations, stream: str, number: int, begin: int, end: int
    ) -> None:
        self._reservations, self._which = reservations, (stream, number)
        self._range = {"begin": begin, "end": end}
        self._pages: Any = None

    async def next(self) -> Sequence[Envelope]:
        if self._pages is None:
            at = await self._reservations.at("", self._which[0], PATIENCE)
            if at is None:
                # Committed or lost: the shard that it was on may tell.
                found = await self._reservations._call("get", *self._which, queue="", timeout=PATIENCE)
                at = self._reservations.of(found.queue)
            self._pages = at.read(*self._which, queue="", **self._range)
        page: Sequence[Envelope] = await self._pages.next()
        return page

    def cancel(self) -> None:
        if self._pages is not None:
            self._pages.cancel()


class _RoutedRedrives(_ByQueue):
    def __init__(self, whole: ShardedTransport) -> None:
        super().__init__(whole, "redrives")

    get = partialmethod(_ByQueue.by_id, "get", missing=RedriveNotFound)
    cancel = partialmethod(_ByQueue.by_id, "cancel", missing=RedriveNotFound)

    async def list_redrives(self, *, queue: str, token: str, timeout: float) -> Page[Any]:
        return await self.listed("list_redrives", lambda each: [each.id], token, timeout, queue=queue)


class _RoutedSchedules(_ByQueue):
    def __init__(self, whole: ShardedTransport) -> None:
        super().__init__(whole, "schedules")

    async def list_schedules(self, *, queue: str, token: str, timeout: float) -> Page[Any]:
        return await self.listed(
            "list_schedules", lambda each: [each.queue, each.name], token, timeout, queue=queue
        )


def _only(answers: Sequence[tuple[Any, Any]], missing: type[SpoolrackError]) -> Any:
    """Return the answer of the shard that knows what was asked for; raise what keeps it from being
    known."""
    errors = [answer for _, answer in answers if isinstance(answer, SpoolrackError)]
    if len(errors) < len(answers):
        return next(answer for _, answer in answers if not isinstance(answer, SpoolrackError))
    raise _joined([each for each in errors if not isinstance(each, missing)] or errors[:1])


def _joined(errors: Sequence[SpoolrackError]) -> SpoolrackError:
    """Return the first error, with the texts of all in lines."""
    joined = copy.copy(errors[0])
    joined.args = ("\n".join(dict.fromkeys(map(str, errors))),)
    return joined


async def _together(
    runtime: Runtime, calls: Sequence[Callable[[], Awaitable[T]]]
) -> list[T | SpoolrackError]:
    """Return what each call returned or raised; all are made at one time."""
    results: dict[int, T | SpoolrackError] = {}
    defects: list[BaseException] = []

    async def run(number: int) -> None:
        try:
            results[number] = await calls[number]()
        except SpoolrackError as error:
            results[number] = error
        except Exception as error:  # noqa: BLE001  # raised below, by the caller
            defects.append(error)

    if len(calls) == 1:
        await run(0)
    else:
        started = [runtime.start(run(number), "spoolrack-shard") for number in range(len(calls))]
        try:
            for each in started:
                await each.join()
        finally:
            for each in started:
                each.cancel()
    if defects:
        raise defects[0]
    return [results[number] for number in range(len(calls))]

"""Routing by queue: a transport for each shard, or for each tag behind a proxy.

One rule for all operations. A list is merged from all shards. An operation with a queue as its first
argument goes to the shard of that queue. One by an id, with an option `queue`, goes to the shard of
that queue, or without one to the only shard that knows the id. What can fail: a shard. Calls on other
shards don't wait for it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from .._runtime import Runtime
from .._shards import check_together, shard_of, tag_of
from .._stage_values import StageResult
from .._values import Envelope, Page
from ..errors import (
    InvalidQueueName,
    InvalidRequest,
    RedriveNotFound,
    ReservationNotFound,
    SpoolrackError,
    StageNotFound,
    Timeout,
    Unreachable,
    Unsupported,
)
from .shard_errors import joined, named_shard

PATIENCE: Final = 5.0
"""Seconds that a list waits for a shard before it goes on with the others."""
OPEN_TAGS = 64
"""Tags whose streams of sends and deletes are kept. Of a client for threads each stream has a
thread."""
KNOWN_STAGES: Final = 10_000
"""Stages whose queue a client remembers: as many as one publication has."""
_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
_ORDERS: Final[Mapping[str, Callable[[Any], list[Any]]]] = {
    "list_queues": lambda queue: [queue.name],
    "list_stages": lambda stage: [stage.name],
    "list_reservations": lambda reservation: [reservation.stream, reservation.sequence_number],
    "list_redrives": lambda redrive: [redrive.id],
    "list_schedules": lambda schedule: [schedule.queue, schedule.name],
}
"""The lists, and the key by which each shard orders its items."""
_COMBINED: Final[Mapping[str, Callable[[list[Any]], Any]]] = {
    "abort": sum,
    # An epoch that was published has no stages any more, and is known where it was.
    "publish": lambda results: max(results, key=lambda each: (each.duplicate, each.last_epoch)),
}
"""The operations by an id that several shards may know, and how their answers become one."""


class _Operations:
    """The operations of all shards, or a part of them: each is routed by the rule of this module."""

    def __init__(
        self, whole: ShardedTransport, part: str, missing: type[SpoolrackError] = SpoolrackError
    ) -> None:
        """`missing`: the error of a shard that doesn't know an id."""
        self._whole, self._part, self._missing = whole, part, missing

    def _on(self, shard: Any) -> Any:
        """Return these operations of a shard."""
        return getattr(shard, self._part) if self._part else shard

    def _of(self, queue: str) -> Any:
        return self._on(self._whole.of(queue))

    def __getattr__(self, operation: str) -> Any:
        if operation.startswith("_"):
            raise AttributeError(operation)

        def call(*arguments: Any, **options: Any) -> Any:
            if operation in _ORDERS:
                return self._listed(operation, **options)
            if "queue" in options:
                return self._by_id(operation, *arguments, **options)
            return getattr(self._of(arguments[0]), operation)(*arguments, **options)

        return call

    async def _by_id(
        self, operation: str, *which: Any, queue: str, by_all: bool = False, **options: Any
    ) -> Any:
        """Call the shard of a queue; without one the only shard that knows the id, or all."""
        shard = await self._shard(operation, which, queue, options["timeout"])
        if shard is not None:
            return await getattr(self._on(shard), operation)(*which, queue=queue, **options)
        known = await self._known(operation, *which, queue="", by_all=by_all, **options)
        answers = list(known.values())
        return _COMBINED[operation](answers) if operation in _COMBINED else answers[0]

    async def _shard(self, operation: str, which: Any, queue: str, timeout: float) -> Any:
        """Return the shard to call. None: the answers tell which one it is, so that all are called."""
        return self._whole.of(queue) if queue else None

    async def _only(self, what: str, operation: str, *which: Any, **options: Any) -> Any | None:
        """Return the only shard that knows what is asked for, None if none does."""
        try:
            shards = list(await self._known(operation, *which, **options))
        except self._missing:
            return None
        if len(shards) > 1:
            raise InvalidRequest(
                f"{what} is on {' and '.join(map(str, shards))}: name its queue (queue=)."
            )
        return shards[0]

    async def _known(
        self, operation: str, *which: Any, by_all: bool = False, **options: Any
    ) -> dict[Any, Any]:
        """Call all shards; return the answers, by shard, of those that know what is asked for: an empty
        page knows nothing. Raise what keeps it from being known; with `by_all` any other error."""
        answers = await self._whole.together(
            lambda shard: getattr(self._on(shard), operation)(*which, **options)
        )
        known, errors, missing = {}, [], self._missing()
        for shard, answer in answers.items():
            if isinstance(answer, self._missing):
                missing = answer
            elif isinstance(answer, SpoolrackError):
                errors.append(answer)
            elif not isinstance(answer, Page) or answer.items:
                known[shard] = answer
        if not known or (by_all and errors):
            raise joined(errors or [missing])
        return known

    async def _listed(self, operation: str, *, token: str, timeout: float, **which: str) -> Any:
        """Return a page of a list: of the queue that is named, or of all shards, in the order of each.

        The token holds each shard's place, empty at its end: its own token, the last key that was
        returned, and whether it didn't answer. Such a shard comes last: the others are listed before it
        fails the list, or before its own items, if it has come back.
        """
        if which.get("queue"):
            of_queue = getattr(self._of(which["queue"]), operation)
            return await of_queue(token=token, timeout=timeout, **which)
        key, shards = _ORDERS[operation], self._whole.all
        places: list[Any] = json.loads(token) if token else [["", None, False] for _ in shards]
        late = not any(place and not place[2] for place in places)
        asked = {
            shard: place
            for shard, place in zip(shards, places, strict=True)
            if place and place[2] is late
        }
        left = timeout if late else min(PATIENCE, timeout)
        pages = await self._whole.together(
            lambda shard: getattr(self._on(shard), operation)(
                token=asked[shard][0], timeout=left, **which
            ),
            asked,
        )
        failures = [page for page in pages.values() if isinstance(page, SpoolrackError)]
        final = [each for each in failures if not isinstance(each, Timeout | Unreachable)]
        if final or (late and len(failures) == len(pages)):
            raise joined(final or failures)
        bounds = []
        for shard, page in pages.items():
            if isinstance(page, SpoolrackError):
                asked.pop(shard)[2] = True
            elif page.next_token:
                bounds.append(key(page.items[-1]) if page.items else asked[shard][1] or [])
        bound = min(bounds, default=None)
        merged: list[Any] = []
        for shard, place in asked.items():
            page, after = pages[shard], place[1]
            new = [item for item in page.items if after is None or key(item) > after]
            taken = [item for item in new if bound is None or key(item) <= bound]
            merged += taken
            if len(taken) < len(new):
                place[1] = bound
            elif page.next_token:
                place[:2] = page.next_token, key(taken[-1]) if taken else after
            else:
                place.clear()
        return Page(items=sorted(merged, key=key), next_token=json.dumps(places) if any(places) else "")


class ShardedTransport(_Operations):
    """`ClientTransport` over one transport for each shard."""

    def __init__(self, transports: Sequence[Any], runtime: Runtime) -> None:
        super().__init__(self, "")
        self._runtime = runtime
        count = len(transports)
        self._shards = [
            named_shard(each, number, count, runtime) for number, each in enumerate(transports)
        ]
        self.staging, self.reservations = _RoutedStaging(self), _RoutedReservations(self)
        self.redrives = _Operations(self, "redrives", RedriveNotFound)
        self.schedules, self.files = _Operations(self, "schedules"), _Operations(self, "files")

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

    def send_stream(self, queue: str) -> None:
        return None  # The errors of its calls would not name the shard.

    delete_stream = send_stream

    async def together(
        self, call: Callable[[Any], Awaitable[Any]], shards: Iterable[Any] | None = None
    ) -> dict[Any, Any]:
        """Return what a call to each shard, or each of `shards`, returned or raised. All are made at
        one time."""
        shards = tuple(self.all if shards is None else shards)
        results: dict[Any, Any] = {}

        async def run(shard: Any) -> None:
            try:
                results[shard] = await call(shard)
            except Exception as error:  # noqa: BLE001  # a defect is raised below, by the caller
                results[shard] = error

        started = [self._runtime.start(run(each), "spoolrack-shard") for each in shards]
        try:
            for each in started:
                await each.join()
        finally:
            for each in started:
                each.cancel()
        for result in results.values():
            if isinstance(result, Exception) and not isinstance(result, SpoolrackError):
                raise result
        return {each: results[each] for each in shards}

    async def close(self) -> None:
        for each in self.all:
            await each.close()


class HeaderTransport(ShardedTransport):
    """`ClientTransport` through a proxy that routes by the metadata `x-spoolrack-queue`: a transport,
    with streams of its own, for each of the tags that were used last. All share one channel."""

    def __init__(
        self,
        open_tag: Callable[[str], Any],
        close_channel: Callable[[], Awaitable[None]],
        target: str,
        runtime: Runtime,
    ) -> None:
        super().__init__([], runtime)
        self._open_tag, self._close_channel, self._target = open_tag, close_channel, target
        self._lock = runtime.lock()
        self._by_tag: dict[str, Any] = {}
        """The tag that was used last comes last."""

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
            raise InvalidQueueName(
                f"{queue!r} can't be a queue's name: use 1 to 80 letters, digits, '_', '.' and '-', "
                "the first a letter or a digit.",
                metadata={"name": queue},
            )
        dropped = None
        with self._lock:
            found = self._by_tag.pop(tag, None)
            if found is None:
                found = self._open_tag(tag)
                if len(self._by_tag) >= OPEN_TAGS:
                    dropped = self._by_tag.pop(next(iter(self._by_tag)))
            self._by_tag[tag] = found
        if dropped is not None:
            dropped.end_idle_streams()
        return found

    def home(self, queue: str) -> str:
        return f"the shard of the tag {tag_of(queue)}"

    async def close(self) -> None:
        for each in list(self._by_tag.values()):
            await each.close()
        await self._close_channel()


class _RoutedStaging(_Operations):
    def __init__(self, whole: ShardedTransport) -> None:
        super().__init__(whole, "staging", StageNotFound)
        self._queues: dict[str, str] = {}
        """A queue of each stage that this client has begun; the stage may be gone meanwhile."""

    async def stage(
        self, stage: str, chunk: int, queue: str, messages: Any, **options: Any
    ) -> StageResult:
        queue_of_stage = self._queues.setdefault(stage, queue)
        if self._whole.home(queue_of_stage) != self._whole.home(queue):
            with contextlib.suppress(StageNotFound):  # It has expired: another one has its name now.
                await self.get(stage, queue=queue_of_stage, timeout=options["timeout"])
                check_together(self._whole.home, queue_of_stage, queue)
            self._queues[stage] = queue
        if len(self._queues) > KNOWN_STAGES:
            self._queues.pop(next(iter(self._queues)), None)
        staged: StageResult = await self._of(queue).stage(stage, chunk, queue, messages, **options)
        return staged

    async def _by_id(
        self, operation: str, *which: Any, queue: str, by_all: bool = False, **options: Any
    ) -> Any:
        stages: Sequence[str] = which[2] if operation == "publish" else which[:1]
        queues = [queue] if queue else [self._queues[each] for each in stages if each in self._queues]
        for each in queues[1:]:
            check_together(self._whole.home, queues[0], each)
        options.update(queue=queues[0] if queues else "", by_all=not stages)
        try:
            answer = await super()._by_id(operation, *which, **options)
        except StageNotFound:
            if operation != "get" or not queue:
                self._drop(stages)
            raise
        if operation != "get":
            self._drop(stages)
        return answer

    def _drop(self, stages: Sequence[str]) -> None:
        """Note that stages are gone: the next ones of their names may be of another shard."""
        for stage in stages:
            self._queues.pop(stage, None)

    async def _shard(self, operation: str, which: Any, queue: str, timeout: float) -> Any:
        if queue or operation != "publish":
            return await super()._shard(operation, which, queue, timeout)
        shards = {
            await self._only(f"The stage {stage}", "get", stage, queue="", timeout=timeout): None
            for stage in which[2]
        }
        shards.pop(None, None)
        if len(shards) > 1:
            raise InvalidRequest(
                f"The stages are on {' and '.join(map(str, shards))}: a publication is of one shard. "
                "Nothing was published."
            )
        return next(iter(shards), None)


class _RoutedReservations(_Operations):
    def __init__(self, whole: ShardedTransport) -> None:
        super().__init__(whole, "reservations", ReservationNotFound)

    async def _shard(self, operation: str, which: Any, queue: str, timeout: float) -> Any:
        if queue:
            return self._whole.of(queue)
        # A commit must not delete on two shards. Of a stream that is committed or lost no reservation
        # is listed: the shard that it was on may tell.
        options = {"queue": "", "stream": which[0], "token": "", "timeout": timeout}
        return await self._only(f"The stream {which[0]}", "list_reservations", **options)

    async def on_shard(self, stream: str, number: int) -> Any:
        """Return these operations of the shard of a reservation."""
        shard = await self._shard("read", (stream, number), "", PATIENCE)
        if shard is None:
            found = await self._by_id("get", stream, number, queue="", timeout=PATIENCE)
            return self._of(found.queue)
        return self._on(shard)

    def read(self, stream: str, number: int, *, queue: str, begin: int, end: int) -> Any:
        if queue:
            return self._of(queue).read(stream, number, queue=queue, begin=begin, end=end)
        return _SoughtPages(self, stream, number, begin, end)


class _SoughtPages:
    """A read of a reservation whose shard is looked for first."""

    def __init__(self, reservations: Any, stream: str, number: int, begin: int, end: int) -> None:
        self._reservations, self._which = reservations, (stream, number)
        self._range = {"begin": begin, "end": end}
        self._pages: Any = None

    async def next(self) -> Sequence[Envelope]:
        if self._pages is None:
            on = await self._reservations.on_shard(*self._which)
            self._pages = on.read(*self._which, queue="", **self._range)
        page: Sequence[Envelope] = await self._pages.next()
        return page

    def cancel(self) -> None:
        if self._pages is not None:
            self._pages.cancel()

"""Routing by queue: a transport for each shard, or for each tag behind a proxy.

One rule for all calls. One that names a queue goes to the shard of that queue. Without one a list is
merged from all shards, and a call by an id goes to the only shard that knows the id. What can fail: a
shard. Calls on other shards don't wait for it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from .._call_values import (
    AbortStage,
    Answer,
    Call,
    GetReservation,
    GetStage,
    ListCall,
    ListQueues,
    ListRedrives,
    ListReservations,
    ListSchedules,
    ListStages,
    Publish,
    ReadReservation,
    Stage,
)
from .._runtime import Runtime
from .._shards import check_together, shard_of, tag_of
from .._stage_values import StageResult
from .._values import Envelope, Page
from ..errors import (
    InvalidQueueName,
    InvalidRequest,
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
_ORDERS: Final[Mapping[type[Call[Any]], Callable[[Any], list[Any]]]] = {
    ListQueues: lambda queue: [queue.name],
    ListStages: lambda stage: [stage.name],
    ListReservations: lambda reservation: [reservation.stream, reservation.sequence_number],
    ListRedrives: lambda redrive: [redrive.id],
    ListSchedules: lambda schedule: [schedule.queue, schedule.name],
}
"""The lists, and the key by which each shard orders its items."""
_COMBINED: Final[Mapping[type[Call[Any]], Callable[[list[Any]], Any]]] = {
    AbortStage: sum,
    # An epoch that was published has no stages any more, and is known where it was.
    Publish: lambda results: max(results, key=lambda each: (each.duplicate, each.last_epoch)),
}
"""The calls by an id that several shards may know, and how their answers become one."""
OfStages = Publish | AbortStage | GetStage


class ShardedTransport:
    """`ClientTransport` over one transport for each shard."""

    def __init__(self, transports: Sequence[Any], runtime: Runtime) -> None:
        self._runtime = runtime
        count = len(transports)
        self._shards = [
            named_shard(each, number, count, runtime) for number, each in enumerate(transports)
        ]
        self._queues: dict[str, str] = {}
        """A queue of each stage that this client has begun; the stage may be gone meanwhile."""

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

    def __getattr__(self, operation: str) -> Any:
        """Return an operation on the messages of a queue, which is its first argument."""
        if operation.startswith("_"):
            raise AttributeError(operation)
        return lambda queue, *arguments, **options: getattr(self.of(queue), operation)(
            queue, *arguments, **options
        )

    async def call(self, request: Call[Answer], *, timeout: float) -> Answer:
        answer: Answer = await self._called(request, timeout)
        return answer

    async def _called(self, request: Any, timeout: float) -> Any:
        if isinstance(request, Stage):
            return await self._stage(request, timeout)
        if isinstance(request, OfStages):
            return await self._of_stages(request, timeout)
        shard = None
        if request.queue:
            shard = self.of(request.queue)
        elif type(request) in _ORDERS:
            return await self._listed(request, timeout)
        elif request.missing is None:
            shard = self.of("")  # Its server refuses the name.
        elif request.missing is ReservationNotFound:
            shard = await self._shard_of_stream(request.stream, timeout)
        return await self._on(shard, request, timeout)

    async def _on(self, shard: Any, request: Call[Any], timeout: float, *, by_all: bool = False) -> Any:
        """Call a shard; without one the only shard that knows the id, or all."""
        if shard is not None:
            return await shard.call(request, timeout=timeout)
        answers = list((await self._known(request, timeout, request.missing, by_all=by_all)).values())
        combined = _COMBINED.get(type(request))
        return answers[0] if combined is None else combined(answers)

    async def _only(
        self, what: str, request: Call[Any], timeout: float, missing: type[SpoolrackError]
    ) -> Any | None:
        """Return the only shard that knows what is asked for, None if none does."""
        try:
            shards = list(await self._known(request, timeout, missing))
        except missing:
            return None
        if len(shards) > 1:
            raise InvalidRequest(
                f"{what} is on {' and '.join(map(str, shards))}: name its queue (queue=)."
            )
        return shards[0]

    async def _known(
        self,
        request: Call[Any],
        timeout: float,
        missing: type[SpoolrackError] | None,
        *,
        by_all: bool = False,
    ) -> dict[Any, Any]:
        """Call all shards; return the answers, by shard, of those that know what is asked for: an empty
        page knows nothing. Raise what keeps it from being known; with `by_all` any other error."""
        assert missing is not None
        answers = await self.together(lambda shard: shard.call(request, timeout=timeout))
        known, errors, unknown = {}, [], missing()
        for shard, answer in answers.items():
            if isinstance(answer, missing):
                unknown = answer
            elif isinstance(answer, SpoolrackError):
                errors.append(answer)
            elif not isinstance(answer, Page) or answer.items:
                known[shard] = answer
        if not known or (by_all and errors):
            raise joined(errors or [unknown])
        return known

    async def _listed(self, request: ListCall[Any], timeout: float) -> Page[Any]:
        """Return a page of a list of all shards, in the order of each.

        The token holds each shard's place, empty at its end: its own token, the last key that was
        returned, and whether it didn't answer. Such a shard comes last: the others are listed before it
        fails the list, or before its own items, if it has come back.
        """
        key, shards, token = _ORDERS[type(request)], self.all, request.page_token
        places: list[Any] = json.loads(token) if token else [["", None, False] for _ in shards]
        late = not any(place and not place[2] for place in places)
        asked = {
            shard: place
            for shard, place in zip(shards, places, strict=True)
            if place and place[2] is late
        }
        left = timeout if late else min(PATIENCE, timeout)
        pages = await self.together(
            lambda shard: shard.call(replace(request, page_token=asked[shard][0]), timeout=left), asked
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

    # Stages.

    async def _stage(self, request: Stage, timeout: float) -> StageResult:
        queue = request.queue
        queue_of_stage = self._queues.setdefault(request.stage, queue)
        if self.home(queue_of_stage) != self.home(queue):
            with contextlib.suppress(StageNotFound):  # It has expired: another one has its name now.
                await self.call(GetStage(stage=request.stage, queue=queue_of_stage), timeout=timeout)
                check_together(self.home, queue_of_stage, queue)
            self._queues[request.stage] = queue
        if len(self._queues) > KNOWN_STAGES:
            self._queues.pop(next(iter(self._queues)), None)
        staged: StageResult = await self.of(queue).call(request, timeout=timeout)
        return staged

    async def _of_stages(self, request: OfStages, timeout: float) -> Any:
        stages = request.stages if isinstance(request, Publish) else [request.stage]
        known = [self._queues[each] for each in stages if each in self._queues]
        is_named = bool(request.queue)
        queues = [request.queue] if is_named else known
        for each in queues[1:]:
            check_together(self.home, queues[0], each)
        shard = None
        try:
            if queues:
                request, shard = replace(request, queue=queues[0]), self.of(queues[0])
            elif isinstance(request, Publish):
                shard = await self._shard_of_stages(stages, timeout)
            answer = await self._on(shard, request, timeout, by_all=not stages)
        except StageNotFound:
            if not (isinstance(request, GetStage) and is_named):
                self._drop(stages)
            raise
        if not isinstance(request, GetStage):
            self._drop(stages)
        return answer

    def _drop(self, stages: Sequence[str]) -> None:
        """Note that stages are gone: the next ones of their names may be of another shard."""
        for stage in stages:
            self._queues.pop(stage, None)

    async def _shard_of_stages(self, stages: Sequence[str], timeout: float) -> Any:
        """Return the shard of stages. None: the answers tell which one it is: all are called."""
        shards = {
            await self._only(f"The stage {each}", GetStage(stage=each), timeout, StageNotFound): None
            for each in stages
        }
        shards.pop(None, None)
        if len(shards) > 1:
            raise InvalidRequest(
                f"The stages are on {' and '.join(map(str, shards))}: a publication is of one shard. "
                "Nothing was published."
            )
        return next(iter(shards), None)

    # Reservations.

    async def _shard_of_stream(self, stream: str, timeout: float) -> Any:
        # A commit must not delete on two shards. Of a stream that is committed or lost no reservation
        # is listed: the shard that it was on may tell.
        request = ListReservations(stream=stream)
        return await self._only(f"The stream {stream}", request, timeout, ReservationNotFound)

    async def shard_of(self, request: ReadReservation) -> Any:
        """Return the shard of a reservation."""
        shard = await self._shard_of_stream(request.stream, PATIENCE)
        if shard is None:
            get = GetReservation(stream=request.stream, sequence_number=request.sequence_number)
            found = await self._on(None, get, PATIENCE)
            return self.of(found.queue)
        return shard

    def read(self, request: ReadReservation) -> Any:
        return self.of(request.queue).read(request) if request.queue else _SoughtPages(self, request)

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


class _SoughtPages:
    """A read of a reservation whose shard is looked for first."""

    def __init__(self, whole: ShardedTransport, request: ReadReservation) -> None:
        self._whole, self._request = whole, request
        self._pages: Any = None

    async def next(self) -> Sequence[Envelope]:
        if self._pages is None:
            self._pages = (await self._whole.shard_of(self._request)).read(self._request)
        page: Sequence[Envelope] = await self._pages.next()
        return page

    def cancel(self) -> None:
        if self._pages is not None:
            self._pages.cancel()

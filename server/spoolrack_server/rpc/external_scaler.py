"""KEDA's external scaler: the backlog of a queue and its age, as metrics of a workload.

The trigger's metadata names the queue and the targets. Reads counts, and changes nothing. What can
fail: metadata that is missing or no number, a queue that isn't there.
"""

# ruff: noqa: N802 - KEDA's contract names the methods

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from spoolrack_store.model.clock import Clock
from spoolrack_store.model.errors import InvalidRequest

from ..app.bounds import queue_name
from ..app.queues import Queues
from .authorized_calls import Context, current_caller
from .calls import put
from .keda import externalscaler_pb2 as pb

MESSAGES: Final = "spoolrack-messages"
OLDEST_AGE: Final = "spoolrack-oldest-age"
MESSAGES_PER_REPLICA: Final = 10.0
"""The target if the trigger says none."""
INTERVAL: Final = 1.0
"""Seconds between two looks at a queue for `StreamIsActive`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trigger:
    """The metadata of a trigger."""

    queue: str
    messages_per_replica: float
    oldest_age: float | None
    """Seconds. None: the age is no metric."""
    activation_messages: float
    """Active is a queue with more messages than that."""
    counts_leased: bool


class ExternalScaler:
    """The handlers of KEDA's calls. Lives in one event loop."""

    def __init__(self, queues: Queues, clock: Clock) -> None:
        self._queues = queues
        self._clock = clock
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """End the streams: KEDA reconnects."""
        self._draining.set()

    async def IsActive(self, request: pb.ScaledObjectRef, context: Context) -> pb.IsActiveResponse:
        return pb.IsActiveResponse(result=await self._is_active(self._trigger(request)))

    async def StreamIsActive(self, request: pb.ScaledObjectRef, context: Context) -> None:
        trigger = self._trigger(request)
        said: bool | None = None
        while not self._draining.is_set():
            is_active = await self._is_active(trigger)
            if is_active != said:
                said = is_active
                await put(context, pb.IsActiveResponse(result=is_active).SerializeToString())
            try:
                async with asyncio.timeout(INTERVAL):
                    await self._draining.wait()
            except TimeoutError:
                continue

    async def GetMetricSpec(
        self, request: pb.ScaledObjectRef, context: Context
    ) -> pb.GetMetricSpecResponse:
        targets = _targets(self._trigger(request))
        return pb.GetMetricSpecResponse(
            metricSpecs=[
                pb.MetricSpec(metricName=name, targetSize=math.ceil(target), targetSizeFloat=target)
                for name, target in targets
            ]
        )

    async def GetMetrics(
        self, request: pb.GetMetricsRequest, context: Context
    ) -> pb.GetMetricsResponse:
        trigger = self._trigger(request.scaledObjectRef)
        names = [name for name, _ in _targets(trigger)]
        if request.metricName and request.metricName not in names:
            raise InvalidRequest(
                what="metricName",
                value=request.metricName,
                rule=f"must be one of GetMetricSpec: {', '.join(names)}",
            )
        values = await self._values(trigger)
        return pb.GetMetricsResponse(
            metricValues=[
                pb.MetricValue(
                    metricName=name,
                    metricValue=math.ceil(values[name]),
                    metricValueFloat=values[name],
                )
                for name in names
                if request.metricName in ("", name)
            ]
        )

    def _trigger(self, request: pb.ScaledObjectRef) -> _Trigger:
        """Return the trigger; raise `WrongShard` for the queue of another shard, for KEDA to show."""
        trigger = _trigger(request)
        self._queues.require_here(trigger.queue)
        return trigger

    async def _is_active(self, trigger: _Trigger) -> bool:
        return (await self._values(trigger))[MESSAGES] > trigger.activation_messages

    async def _values(self, trigger: _Trigger) -> Mapping[str, float]:
        """Return the backlog and its age in seconds, by the names of the metrics."""
        counts = await self._queues.counts(current_caller(), trigger.queue)
        oldest = counts.oldest
        leased = counts.leased_count if trigger.counts_leased else 0
        age = 0.0 if oldest is None else max(0, self._clock.wall() - oldest) / 1000.0
        return {MESSAGES: float(counts.ready_count + leased), OLDEST_AGE: age}


def _targets(trigger: _Trigger) -> Iterator[tuple[str, float]]:
    yield MESSAGES, trigger.messages_per_replica
    if trigger.oldest_age is not None:
        yield OLDEST_AGE, trigger.oldest_age


def _trigger(request: pb.ScaledObjectRef) -> _Trigger:
    metadata = request.scalerMetadata
    age = metadata.get("oldestAgeSeconds", "")
    return _Trigger(
        queue=queue_name(metadata.get("queue", "")),
        messages_per_replica=_number(
            metadata, "messagesPerReplica", MESSAGES_PER_REPLICA, is_positive=True
        ),
        oldest_age=_number(metadata, "oldestAgeSeconds", 0.0, is_positive=True) if age else None,
        activation_messages=_number(metadata, "activationMessages", 0.0, is_positive=False),
        counts_leased=_flag(metadata, "countLeased"),
    )


def _number(metadata: Mapping[str, str], name: str, default: float, *, is_positive: bool) -> float:
    text = metadata.get(name, "")
    rule = "must be a number above 0" if is_positive else "must be a number, and not negative"
    try:
        found = float(text) if text else default
    except ValueError:
        raise InvalidRequest(what=name, value=text, rule=rule) from None
    if not math.isfinite(found) or found < 0 or (is_positive and found == 0):
        raise InvalidRequest(what=name, value=text, rule=rule)
    return found


def _flag(metadata: Mapping[str, str], name: str) -> bool:
    text = metadata.get(name, "true")
    if text not in ("true", "false"):
        raise InvalidRequest(what=name, value=text, rule='must be "true" or "false"')
    return text == "true"

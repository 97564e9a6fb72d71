"""Rows out: into a stage, or straight into the queue. What an executor does, without Spark.

What can fail: a call that can't succeed or not in time, and a row that can't be a message. What was
written before stays: of a stage nobody sees it, of a direct send everybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf.duration_pb2 import Duration

from ..errors import SpoolrackError
from ..transports.grpc_values import error as error_of_message
from ..v1 import queue_service_pb2 as rpc
from ..v1 import staging_pb2 as staging
from .channel import Caller, may_repeat
from .chunks import chunks
from .options import Place
from .rows import Sized
from .window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    sent: int
    """Messages that the queue holds now, ..."""
    duplicates: int
    """... and those that it had before, by their deduplication_id: they were not stored again."""


def stage(caller: Caller, place: Place, name: str, messages: Iterable[Sized], lives: float) -> int:
    """Put the messages into a stage, durable and invisible; answers how many there are.

    The stage is there for `lives` seconds, and not at all if there is no message. A failure drops it,
    if the server can be reached; else it expires.
    """
    staged = 0
    time_to_live = Duration(seconds=int(lives))

    def take(request: Any, response: Any) -> None:
        nonlocal staged
        staged += len(request.messages)

    try:
        with Window(caller, "Stage", take) as window:
            for number, chunk in enumerate(chunks(messages, by_delay=True)):
                window.put(
                    staging.StageRequest(
                        stage=name,
                        chunk=number,
                        queue=place.queue,
                        messages=chunk,
                        time_to_live=time_to_live,
                    )
                )
    except BaseException:
        abort(caller, [name])
        raise
    return staged


def abort(caller: Caller, stages: Iterable[str]) -> None:
    """Drop stages that nobody will publish. What can't be reached now expires."""
    for name in stages:
        try:
            caller.once("Abort", staging.AbortRequest(stage=name), timeout=5.0)
        except SpoolrackError:
            # It takes room until it expires, and does no other harm.
            return


def send(caller: Caller, place: Place, messages: Iterable[Sized]) -> Counts:
    """Send the messages at once: each at least once, and once if it has a deduplication_id."""
    sent = duplicates = 0

    def take(request: Any, response: Any) -> tuple[Any, SpoolrackError] | None:
        nonlocal sent, duplicates
        again: list[Any] = []
        why: SpoolrackError | None = None
        for message, result in zip(request.messages, response.results, strict=True):
            if result.HasField("error"):
                error = error_of_message(result.error)
                if not may_repeat(error):
                    raise error
                again.append(message)
                why = error
            elif result.sent.duplicate:
                duplicates += 1
            else:
                sent += 1
        if why is None:
            return None
        return rpc.SendRequest(queue=place.queue, messages=again), why

    with Window(caller, "Send", take) as window:
        for chunk in chunks(messages, by_delay=False):
            window.put(rpc.SendRequest(queue=place.queue, messages=chunk))
    return Counts(sent=sent, duplicates=duplicates)

"""The client processes of a round: started together, told to go at one moment, and heard to the end.

They are forked from a process that has loaded everything and touched nothing, so that a round doesn't
wait for imports. Lost and doubled messages are found here, from their reports.
"""

from __future__ import annotations

import multiprocessing
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from multiprocessing.sharedctypes import RawArray
from typing import Final, cast

from . import delivery_account, load
from .load import OVER, Board, Done, Job

SILENCE: Final = 30.0
"""Seconds without a message deleted, after which the rest counts as lost."""
_STUCK: Final = 60.0
"""Seconds after which a client process that doesn't say what it should won't any more."""
LONGEST: Final = 3_600.0
"""Seconds that a sender may take for a number of messages."""
_HEADSTART: Final = 0.05
_LOOK: Final = 0.01
_CONTEXT: Final = multiprocessing.get_context("forkserver")


class LoadFailed(Exception):
    """A client process met an error."""


def preload(modules: Sequence[str]) -> None:
    """Load the modules of the client processes before the first round."""
    _CONTEXT.set_forkserver_preload(
        ["benchmarks.backlog", "benchmarks.table", "benchmarks.systems.catalog", *modules]
    )


@dataclass(kw_only=True, slots=True)
class Outcome:
    """The outcome of a round. Seconds are from the common start."""

    sent: int = 0
    sent_by: dict[int, int] = field(default_factory=dict)
    sending_seconds: float = 0.0
    deleted: int = 0
    seconds: float = 0.0
    """Until the last message was sent, or deleted if there are consumers."""
    calls: array[float] = field(default_factory=lambda: array("d"))
    """Seconds that each sending call, or life, took."""
    arrivals: array[float] = field(default_factory=lambda: array("d"))
    """Seconds from the moment when each message was due to its arrival, in no order."""
    client_processor: float = 0.0
    received: array[int] = field(default_factory=delivery_account.tickets)
    faults: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Member:
    job: Job
    process: ForkServerProcess
    pipe: Connection
    done: Done | None = None


def perform(
    jobs: Sequence[Job],
    *,
    before: dict[int, int] | None = None,
    enough: int | None = None,
) -> Outcome:
    """Do all jobs at once, and return when all that was sent is deleted, if there are consumers.

    `before` is what the queue holds already, by sender. With `enough`, it is over when so many are
    deleted, and what is then left is not lost. Raises `LoadFailed`.
    """
    consumers = sum(job.consumes for job in jobs)
    board = cast(Board, RawArray("q", 1 + consumers))
    places = iter(range(1, 1 + consumers))
    members: list[_Member] = []
    try:
        for job in jobs:
            ours, theirs = _CONTEXT.Pipe()
            place = next(places) if job.consumes else OVER
            process = _CONTEXT.Process(target=load.run, args=(job, theirs, board, place), daemon=True)
            process.start()
            theirs.close()
            members.append(_Member(job, process, ours))
        for member in members:
            _hear_ready(member)
        begin = time.monotonic() + _HEADSTART
        for member in members:
            member.pipe.send(begin)
        return _follow(members, board, consumers, begin, before or {}, enough)
    finally:
        for member in members:
            member.process.kill()
            member.process.join()
            member.pipe.close()


def _hear_ready(member: _Member) -> None:
    if not member.pipe.poll(_STUCK):
        raise LoadFailed(f"a client process isn't ready: {member.job}")
    word = member.pipe.recv()
    if isinstance(word, Done):
        raise LoadFailed("\n".join(word.errors))


def _follow(
    members: list[_Member],
    board: Board,
    consumers: int,
    begin: float,
    before: dict[int, int],
    enough: int | None,
) -> Outcome:
    senders = [member for member in members if member.job.sends]
    for member in senders:
        member.done = _hear_done(member)
    sent_by = dict(before)
    for member in senders:
        assert member.done is not None
        sent_by.update(member.done.sent)
    # Those that were sent in the same numbering before are among `before`.
    total = sum(sent_by.values())
    if consumers:
        _wait_for(board, consumers, total if enough is None else min(enough, total), members)
    board[OVER] = 1
    outcome = Outcome(sent_by=sent_by, sent=total - sum(before.values()))
    for member in members:
        done = member.done or _hear_done(member)
        seconds = done.ended - begin
        outcome.received.extend(done.received)
        if member.job.sends:
            outcome.calls.extend(done.waits)
            outcome.sending_seconds = max(outcome.sending_seconds, seconds)
        else:
            outcome.arrivals.extend(done.waits)
        outcome.seconds = max(outcome.seconds, seconds)
        outcome.client_processor += done.processor
        member.pipe.send("end")
        member.process.join(_STUCK)
    outcome.deleted = len(outcome.received)
    if consumers:
        outcome.faults = delivery_account.faults(sent_by, outcome.received, all_of_it=enough is None)
    return outcome


def _hear_done(member: _Member) -> Done:
    try:
        seconds = member.job.seconds if member.job.sends else 0.0
        if not member.pipe.poll(min(seconds, LONGEST) + _STUCK):
            raise LoadFailed(f"a client process hasn't come to an end: {member.job}")
        done = member.pipe.recv()
    except EOFError:
        raise LoadFailed(f"a client process has ended with {member.process.exitcode}") from None
    assert isinstance(done, Done)
    if done.errors:
        raise LoadFailed("\n".join(done.errors[:3]))
    return done


def _wait_for(board: Board, consumers: int, total: int, members: list[_Member]) -> None:
    """Return when so many are deleted, when nothing more comes, or when a consumer has ended."""
    deleted, since = -1, time.monotonic()
    while (now := sum(board[1 + at] for at in range(consumers))) < total:
        if now != deleted:
            deleted, since = now, time.monotonic()
        elif time.monotonic() - since > SILENCE:
            return
        if any(not member.job.sends and member.pipe.poll() for member in members):
            return
        time.sleep(_LOOK)

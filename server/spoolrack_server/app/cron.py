"""Ticks of a cron expression in a time zone, as Unix times in seconds. Pure, but for the tz database.

The expression is that of crontab(5), as Debian's cron reads it, which `cronsim` evaluates. Where clocks
are put forward, a tick of a stated hour that falls into the gap comes right after it; where they are
put back, it comes once. Expressions with a star in minutes or hours follow real time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from spoolrack_store.model.errors import InvalidRequest

MINUTE = 60
LONGEST = 50 * 366 * 86_400
"""Seconds; an expression without a tick within 50 years has none."""


class UnusableTime(Exception):
    """An expression or a zone that was valid when it was stored, and can't be evaluated now."""


def check(cron: str, time_zone: str, now: int) -> None:
    """Raise `InvalidRequest` for an invalid expression or zone, or for an expression without ticks."""
    try:
        zone = _zone(time_zone)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidRequest(
            what="time_zone",
            value=time_zone,
            rule="must be a zone of the tz database, such as Europe/Berlin or UTC",
        ) from error
    try:
        if len(cron.split()) != 5:
            raise CronSimError("it doesn't have five fields")
        next(CronSim(cron, datetime.fromtimestamp(now, zone)))
    except (CronSimError, StopIteration, AssertionError) as error:
        why = f" ({error})" if str(error) else ""
        raise InvalidRequest(
            what="cron",
            value=cron,
            rule="must be five fields with a time that comes: minute, hour, day of the month, month, "
            f"day of the week{why}",
        ) from error


def next_tick(cron: str, time_zone: str, after: int) -> int | None:
    """Return the first tick above the Unix time `after`; None if there is none.

    Raise `UnusableTime`.
    """
    with _told(cron, time_zone):
        return next(_ticks(cron, time_zone, after), None)


def last_tick(cron: str, time_zone: str, after: int, until: int) -> int | None:
    """Return the last tick above `after` and up to `until`; None if there is none.

    It looks back over spans that double, so that it costs no more after a year than after an hour.
    Raise `UnusableTime`.
    """
    with _told(cron, time_zone):
        return _last_tick(cron, time_zone, after, until)


def _last_tick(cron: str, time_zone: str, after: int, until: int) -> int | None:
    first = next(_ticks(cron, time_zone, after), None)
    if first is None or first > until:
        return None
    span = MINUTE
    while span < LONGEST and until - span > after:
        found = _last_of(_ticks(cron, time_zone, until - span), until)
        if found is not None:
            return found
        span *= 2
    return _last_of(_ticks(cron, time_zone, after), until)


def _last_of(ticks: Iterator[int], until: int) -> int | None:
    last = None
    for tick in ticks:
        if tick > until:
            break
        last = tick
    return last


def _ticks(cron: str, time_zone: str, after: int) -> Iterator[int]:
    """Yield the ticks above `after`, each once, in order."""
    last = after
    for moment in CronSim(cron, datetime.fromtimestamp(after, _zone(time_zone))):
        tick = int(moment.timestamp())
        # In the hour that comes twice, a stated hour is evaluated from its first coming on.
        if tick > last:
            last = tick
            yield tick


@contextmanager
def _told(cron: str, time_zone: str) -> Iterator[None]:
    """Raise `UnusableTime` for what the tz database and the evaluator raise: they are of other versions
    than when the schedule was stored, and have errors of many kinds."""
    try:
        _zone(time_zone)
    except Exception as error:
        raise UnusableTime(
            f"the time zone {time_zone!r} can't be loaded ({_why(error)}): install the tz database "
            "that has it (the system's, or Python's package tzdata), or give the schedule another zone"
        ) from error
    try:
        yield
    except Exception as error:
        raise UnusableTime(
            f"the cron expression {cron!r} can't be evaluated in {time_zone} ({_why(error)}): give the "
            "schedule another one"
        ) from error


def _why(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)

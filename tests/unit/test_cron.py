"""Ticks of cron expressions: each once, through the hours that are left out and that come twice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from spoolrack_server.app import cron
from spoolrack_store.model.errors import InvalidRequest

BERLIN = "Europe/Berlin"


def unix(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def ticks(expression: str, zone: str, begin: str, end: str) -> list[str]:
    """Return the ticks after `begin` up to `end`, one after the other."""
    found, at = [], unix(begin)
    while (tick := cron.next_tick(expression, zone, at)) is not None and tick <= unix(end):
        assert tick > at
        found.append(datetime.fromtimestamp(tick, UTC).strftime("%dT%H:%M"))
        at = tick
    return found


def test_a_tick_is_one_of_its_zone() -> None:
    found = ticks("30 6 * * MON-FRI", BERLIN, "2026-11-20T00:00Z", "2026-11-24T00:00Z")
    assert found == ["20T05:30", "23T05:30"]


def test_a_stated_hour_that_is_left_out_comes_right_after_the_gap() -> None:
    found = ticks("30 2 * * *", BERLIN, "2026-03-28T12:00Z", "2026-03-30T12:00Z")
    assert found == ["29T01:00", "30T00:30"]


def test_a_stated_hour_that_comes_twice_has_one_tick() -> None:
    found = ticks("30 2 * * *", BERLIN, "2026-10-24T12:00Z", "2026-10-26T12:00Z")
    assert found == ["25T00:30", "26T01:30"]


def test_each_hour_has_its_tick_where_clocks_are_put_back() -> None:
    found = ticks("0 * * * *", BERLIN, "2026-10-24T23:00Z", "2026-10-25T03:00Z")
    assert found == ["25T00:00", "25T01:00", "25T02:00", "25T03:00"]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 * * * *", "*/7 2-3 * * *", "15,45 1,2 * * *"])
@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25", "2026-11-23"])
def test_the_last_tick_is_one_of_the_ticks_from_wherever_it_is_asked_for(
    expression: str, day: str
) -> None:
    begin, end = unix(f"{day}T00:00Z") - 7_200, unix(f"{day}T05:00Z")
    known, at = [], begin
    while (tick := cron.next_tick(expression, BERLIN, at)) is not None and tick <= end:
        known.append(tick)
        at = tick
    for now in range(begin, end, 421):
        expected = max((tick for tick in known if tick <= now), default=None)
        assert cron.last_tick(expression, BERLIN, begin, now) == expected


def test_the_last_tick_of_ten_years_is_found_at_once() -> None:
    begin, end = unix("2016-01-01T00:00Z"), unix("2026-11-23T10:00:30Z")
    assert cron.last_tick("* * * * *", BERLIN, begin, end) == unix("2026-11-23T10:00Z")
    assert cron.last_tick("0 0 29 2 *", "UTC", begin, end) == unix("2024-02-29T00:00Z")
    assert cron.last_tick("0 0 1 1 *", "UTC", end, end + 60) is None


@pytest.mark.parametrize(
    "expression",
    ["", "x", "* * * *", "* * * * * *", "61 * * * *", "0 0 30 2 *", "L/2 * * * *", "@daily"],
)
def test_an_expression_that_is_none_is_refused(expression: str) -> None:
    with pytest.raises(InvalidRequest, match="must be five fields with a time that comes"):
        cron.check(expression, "UTC", 0)


@pytest.mark.parametrize("zone", ["", "Mars/Base", "../UTC", "/etc/localtime", "Europe", "a\0b", "é"])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(InvalidRequest, match="must be a zone of the tz database"):
        cron.check("* * * * *", zone, 0)

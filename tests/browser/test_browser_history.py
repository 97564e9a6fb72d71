"""Charts of the last hour, in a real browser: full when the page is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spoolrack_server.metrics.history import EVERY, SLOTS
from spoolrack_store.manual_clock import ManualClock

from tests.browser.browser_rig import Desk, Served, served

pytestmark = pytest.mark.slow


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def hour(tmp_path: Path, clock: ManualClock) -> Iterator[Served]:
    """A server that has run for an hour, and in which 20 messages were sent every minute."""
    with served(tmp_path / "root", clock=clock) as server:
        server.create("jobs", "idle")
        for slot in range(SLOTS):
            if slot % 6 == 0 and slot:
                server.send("jobs", *(b"x" for _ in range(20)))
            clock.advance(EVERY)
            server.sample()
        yield server


def test_a_chart_has_the_last_hour_when_the_page_is_opened(
    hour: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(hour, "queue/jobs")
    chart = desk.page.locator(".chart")
    wanted = "The last 60 minutes: in at most 2.0/s, out at most 0/s, ready at most 1,180"
    desk.until("(label) => document.querySelector('.chart')?.ariaLabel === label", wanted)
    desk.button("States").click()
    desk.until("() => document.querySelector('.chart').ariaLabel.includes('delayed at most 0')")
    desk.button("Oldest").click()
    desk.until("() => document.querySelector('.chart').ariaLabel.includes('oldest ready at most 59')")
    assert chart.locator("canvas").count() == 1
    # It is the server's: a page that is opened anew has it as well.
    desk.page.reload()
    desk.until("(label) => document.querySelector('.chart')?.ariaLabel === label", wanted)


def test_the_list_of_queues_has_their_last_hour_when_it_is_opened(
    hour: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(hour)
    desk.until_count("svg.spark polyline", 1)
    points = desk.row("jobs").locator("polyline").get_attribute("points")
    assert points is not None
    heights = [float(point.partition(",")[2]) for point in points.split()]
    assert len(heights) == 31
    assert heights == sorted(heights, reverse=True), "it rose for an hour"
    assert heights[0] - heights[-1] > 10


def test_before_its_first_sample_a_queue_is_said_to_have_none_and_then_its_chart_comes(
    tmp_path: Path, clock: ManualClock, open_desk: Callable[..., Desk]
) -> None:
    with served(tmp_path / "root", clock=clock) as server:
        server.sample()
        server.create("new")
        desk = open_desk(server, "queue/new")
        desk.text("No samples of this queue yet.")
        clock.advance(EVERY)
        server.sample()
        desk.look_now()
        desk.page.locator(".chart canvas").wait_for()


def test_the_legend_shows_the_latest_values_without_a_cursor(
    hour: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(hour, "queue/jobs")
    desk.page.locator(".u-legend").wait_for()
    latest = "[...document.querySelectorAll('.u-legend .u-value')].at(-1).textContent === '1,180'"
    desk.until(f"() => {latest}")
    chart = desk.page.locator(".chart .u-over")
    chart.hover()
    desk.until(f"() => !({latest})")
    desk.page.mouse.move(0, 0)
    desk.until(f"() => {latest}")


def test_a_chart_of_less_than_an_hour_says_what_it_has(
    tmp_path: Path, clock: ManualClock, open_desk: Callable[..., Desk]
) -> None:
    with served(tmp_path / "root", clock=clock) as server:
        server.create("new")
        for _ in range(30):
            clock.advance(EVERY)
            server.sample()
        desk = open_desk(server, "queue/new")
        desk.page.get_by_role("heading", name="The last 5 min").wait_for()
        desk.text("The first sample of this queue is of")

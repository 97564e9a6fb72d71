"""A screen of 390 pixels, as a telephone has: all is within reach, and a list shows more than ids."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.browser.browser_rig import Desk, Served

NARROW = {"width": 390, "height": 800}


@pytest.fixture
def narrow(server: Served, open_desk: Callable[..., Desk]) -> Callable[[str], Desk]:
    return lambda path: open_desk(server, path, viewport=NARROW)


def test_a_message_shows_its_age_its_receives_its_attributes_and_the_beginning_of_its_body(
    server: Served, narrow: Callable[[str], Desk]
) -> None:
    server.create("q")
    (id,) = server.send("q", b'{"order": 7}', source="checkout")
    server.receive("q")
    desk = narrow("queue/q")
    desk.until_count("table.messages tbody tr", 1)
    shown = desk.row(id)
    for part in (id, "leased", "source=checkout", '{"order": 7}'):
        found = shown.get_by_text(part).first
        assert found.is_visible()
        box = found.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    labels = "[...document.querySelectorAll('table.messages tbody td')]"
    shown_labels = desk.page.evaluate(
        f"() => {labels}.map((each) => getComputedStyle(each, '::before').content)"
    )
    assert {'"Age "', '"Receives "', '"Size "'} <= set(shown_labels)
    assert desk.off_screen() == []


def test_a_redrive_is_begun_and_its_progress_seen(
    server: Served, narrow: Callable[[str], Desk]
) -> None:
    server.bury("orders", "orders.dead", 60)
    desk = narrow("dead-letters")
    redrive = desk.page.get_by_role("button", name="Redrive… orders.dead")
    redrive.wait_for()
    box = redrive.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    redrive.click()
    desk.page.get_by_label("Messages a second, at most").fill("1")
    assert desk.off_screen() == []
    desk.button("Start").click()
    desk.page.locator("table.redrives progress").wait_for()
    desk.page.get_by_role("button", name="Cancel the redrive of orders.dead").wait_for()
    assert desk.off_screen() == []


def test_queues_with_long_names_and_large_numbers_stay_on_the_screen(
    server: Served, narrow: Callable[[str], Desk]
) -> None:
    name, dead = "n" * 80, "d" * 80
    server.create(dead)
    server.create(name, dead_letter_queue=dead, max_receives=3)
    server.send(name, *(b"x" * 500 for _ in range(1_000)), **{"a" * 100: "v" * 1_000})
    desk = narrow("queues")
    desk.until_count("main tbody tr", 2)
    assert desk.off_screen() == []
    desk.button("Ready").click()
    assert desk.names()[0] == name
    for path in (f"queue/{name}", f"queue/{dead}", "dead-letters", "ages"):
        desk.go(path)
        desk.page.get_by_text(dead if path != "ages" else name).first.wait_for()
        desk.page.wait_for_load_state("networkidle")
        assert desk.off_screen() == [], path


def test_every_page_is_reached_without_scrolling_sideways(
    server: Served, narrow: Callable[[str], Desk]
) -> None:
    desk = narrow("queues")
    desk.text("There is no queue yet")
    links = desk.page.get_by_role("navigation").get_by_role("link").all()
    assert len(links) == 7
    for link in links:
        link.click()
        desk.page.locator("nav a[aria-current=page]", has_text=link.inner_text()).wait_for()
        assert desk.off_screen() == []


def test_messages_come_before_settings(server: Served, narrow: Callable[[str], Desk]) -> None:
    server.create("q")
    server.send("q", b"x")
    desk = narrow("queue/q")
    desk.until_count("table.messages tbody tr", 1)
    tops = [
        desk.page.locator(f"[aria-labelledby={part}]").bounding_box()
        for part in ("chart", "messages", "settings", "schedules")
    ]
    heights = [box["y"] for box in tops if box is not None]
    assert len(heights) == 4
    assert heights == sorted(heights)

"""The list of queues and the page of one, in a real browser, by mouse and by key."""

from __future__ import annotations

import re
from collections.abc import Callable

import spoolrack

from tests.browser.browser_rig import Desk, Served

CROWD = 200
FIRST = "document.querySelector('table.messages tbody th')?.textContent"
NOTHING = "\u2013"


def test_an_empty_page_says_so_in_words(desk: Desk) -> None:
    desk.text("There is no queue yet")
    for path, words in (
        ("ages", "No message is ready"),
        ("dead-letters", "No queue that you may see names a dead-letter queue"),
        ("dead-letters", "There was none in the last 30 days"),
        ("staged", "Nothing is staged"),
        ("reservations", "Nothing is reserved"),
        ("nowhere", "There is no such page"),
    ):
        desk.go(path)
        desk.text(words)


def test_a_queue_that_is_not_there_is_said_not_to_be(desk: Desk) -> None:
    desk.expected = ["404"]
    desk.go("queue/absent")
    desk.text("There is no queue absent")


def test_queues_are_shown_with_their_messages_by_state_and_headers_sort_them(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("a", "b", "c")
    server.send("a", b"x")
    server.send("b", b"x", b"yy", b"zzz")
    server.receive("b")
    server.send("c", b"later", b"later", delay=60_000)

    desk = open_desk(server)
    desk.until_count("main tbody tr", 3)

    assert desk.cells("b")[:3] == ["2", "1", "0"]
    assert desk.cells("c")[:4] == ["0", "0", "2", NOTHING]
    assert desk.names() == ["a", "b", "c"]
    desk.button("Ready").click()
    assert desk.names() == ["b", "a", "c"]
    assert desk.page.locator("th[aria-sort=descending]").inner_text().startswith("Ready")
    desk.button("Ready").click()
    assert desk.names() == ["c", "a", "b"]
    # A queue without an oldest message stands last, whichever way it is sorted.
    desk.button("Oldest").click()
    assert desk.names()[-1] == "c"
    desk.button("Oldest").click()
    assert desk.names()[-1] == "c"


def test_rates_are_shown_from_the_second_look_on_and_counts_change_by_themselves(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    desk = open_desk(server)
    desk.until_count("main tbody tr", 1)
    assert desk.cells("q")[4:6] == [NOTHING, NOTHING]

    server.send("q", *(b"x" for _ in range(50)))

    desk.until("() => document.querySelector('main tbody td').textContent === '50'")
    assert re.fullmatch(r"\d+(\.\d)?", desk.cells("q")[4])
    assert float(desk.cells("q")[4]) > 1
    assert desk.cells("q")[5] == "0"


def test_by_key_one_filters_moves_and_opens(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("audit", "orders", "orders.dead", "mail")
    desk = open_desk(server)
    desk.until_count("main tbody tr", 4)
    keys = desk.page.keyboard

    keys.press("/")
    keys.type("orders")
    desk.until_count("main tbody tr", 2)
    keys.press("Escape")
    focused = "() => document.activeElement.textContent"
    keys.press("j")
    assert desk.page.evaluate(focused) == "orders"
    keys.press("j")
    keys.press("j")
    assert desk.page.evaluate(focused) == "orders.dead"
    keys.press("k")
    keys.press("Enter")
    desk.page.get_by_role("heading", name="Queues orders").wait_for()
    keys.press("u")
    desk.page.get_by_role("heading", name="Queues", exact=True).wait_for()
    keys.press("2")
    desk.page.get_by_role("heading", name="Ages", exact=True).wait_for()
    keys.press("7")
    desk.page.get_by_role("heading", name="Server", exact=True).wait_for()


def test_the_keys_are_told_and_can_be_turned_off(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(server)
    desk.text("There is no queue yet")
    desk.page.keyboard.press("?")
    desk.page.get_by_label("These keys are on").uncheck()
    desk.page.keyboard.press("Escape")
    desk.until_count("dialog", 0)
    desk.page.keyboard.press("2")
    desk.page.keyboard.press("t")
    assert desk.page.url.endswith("#/queues")
    desk.page.reload()
    desk.text("There is no queue yet")
    desk.page.keyboard.press("2")
    assert desk.page.url.endswith("#/queues")


def test_a_filter_that_finds_nothing_says_so(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("a")
    desk = open_desk(server)
    desk.until_count("main tbody tr", 1)
    desk.page.get_by_role("searchbox").fill("<b>zzz")
    desk.text("No queue that you may see has “<b>zzz” in its name.")


def test_with_hundreds_of_queues_and_ten_thousand_messages_a_page_holds_a_page(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create(*(f"queue-{n:03}" for n in range(CROWD)))
    for _ in range(10):
        server.send("queue-007", *(b"x" * 20 for _ in range(1_000)))

    desk = open_desk(server)
    desk.text("200 queues · 10.0 k ready")
    assert desk.page.locator("main tbody tr").count() == 100
    desk.button("Next").click()
    assert desk.names()[0] == "queue-100"
    desk.button("Ready").click()
    desk.button("Before").click()
    assert desk.names()[0] == "queue-007"
    desk.go("queue/queue-007")
    desk.until_count("table.messages tbody tr", 25)
    first = desk.names()[0]
    desk.button("Next").click()
    desk.until(
        "(first) => document.querySelector('table.messages tbody th')?.textContent !== first", first
    )
    desk.until_count("table.messages tbody tr", 25)
    desk.button("Before").click()
    desk.until(
        "(first) => document.querySelector('table.messages tbody th')?.textContent === first", first
    )
    sizes = desk.page.evaluate(
        "() => performance.getEntriesByType('resource').map((each) => each.decodedBodySize)"
    )
    assert max(sizes) < 100_000, "an answer isn't a page"


def test_ages_show_which_queue_is_old(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("young", "idle")
    server.send("young", b"x", b"y")
    desk = open_desk(server, "ages")
    desk.until_count("table.ages tbody tr", 2)
    assert desk.names() == ["All of these", "young"]
    assert desk.cells("young")[:3] == ["2", "2", "·"]
    assert "shade6" in str(desk.row("young").locator("td").nth(1).get_attribute("class"))
    desk.page.get_by_label("Finest age").select_option("300")
    desk.text("< 5 min")


def test_nothing_moves_when_numbers_change(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("a", "b")
    server.send("a", b"x")
    desk = open_desk(server)
    desk.until_count("main tbody tr", 2)
    desk.page.evaluate(
        """() => { globalThis.shifts = []; new PerformanceObserver((list) => shifts.push(
        ...list.getEntries().filter((each) => each.value > 0.0005).map((each) => each.value)))
        .observe({type: "layout-shift"}); }"""
    )
    boxes = (
        "() => [...document.querySelectorAll('th, td')].map((each) => each.getBoundingClientRect().x)"
    )
    before = desk.page.evaluate(boxes)

    for count in (1_000, 234):
        server.send("a", *(b"x" * 1_000 for _ in range(count)))
    desk.look_now()

    desk.until("() => document.querySelector('main tbody td').textContent === '1,235'")
    assert desk.page.evaluate(boxes) == before
    assert desk.page.evaluate("() => globalThis.shifts") == []


def test_a_queue_shows_what_holds_its_messages_back(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q", receiving="open")
    server.send("q", b"x", b"y")
    server.receive("q")
    desk = open_desk(server)
    desk.go("queue/q")
    desk.text("Oldest leases")
    desk.until_count("table.leases tbody tr", 1)
    desk.text("unknown to this process; no other has the root open")


def test_a_paused_queue_looks_paused_in_the_list_and_on_its_page(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("halted", sending="paused", receiving="paused")
    server.create("held", receiving="paused")
    server.create("open")
    server.create("refusing", sending="paused")
    desk = open_desk(server)
    desk.until_count("main tbody tr.paused", 3)
    assert desk.names() == [
        *("halted paused", "held receiving paused", "open", "refusing sending paused")
    ]
    desk.go("queue/held")
    desk.text("receiving paused")


def test_settings_with_their_defaults_are_folded_and_values_have_words_and_units(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q", visibility_timeout=90_000, backoff_jitter=25)
    desk = open_desk(server, "queue/q")
    card = desk.page.locator("[aria-labelledby=settings]")
    card.get_by_text("settings have their defaults").wait_for()
    shown = card.inner_text()
    assert re.search(r"Visibility timeout\s+1 min 30 s", shown)
    assert re.search(r"Backoff jitter\s+25 %", shown)
    assert "Backoff at" not in shown
    card.locator("summary").click()
    unfolded = card.inner_text()
    assert re.search(r"Backoff at\s+a release\n", unfolded)
    assert re.search(r"Dead-letter at\s+when the lease ends", unfolded)
    assert "lease_end" not in unfolded


def test_a_filter_of_queues_has_an_address(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("mail", "orders", "orders.dead")
    desk = open_desk(server)
    desk.until_count("main tbody tr", 3)
    desk.page.get_by_role("searchbox").fill("orders")
    desk.until_count("main tbody tr", 2)
    assert desk.page.url.endswith("#/queues?contains=orders")
    desk.page.reload()
    desk.until_count("main tbody tr", 2)
    assert desk.page.get_by_role("searchbox").input_value() == "orders"


def test_consumers_show_who_holds_what(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("jobs", "mail")
    desk = open_desk(server, "consumers")
    desk.text("No consumer holds a message.")
    server.send("jobs", b"a", b"b", b"c")
    server.send("mail", b"d")
    with spoolrack.connect(server.server.grpc_address) as client:
        assert len(client.queue("jobs").receive(2)) == 2
        desk.look_now()
        desk.until_count("table.consumers tbody tr", 1)
        assert desk.cells(desk.names()[0])[:2] == ["jobs", "2"]
        assert "spoolrack-python" in desk.names()[0]
        assert len(client.queue("mail").receive()) == 1
        desk.look_now()
        desk.until_count("table.consumers tbody tr", 2)
    desk.page.get_by_role("link", name="mail").click()
    desk.page.get_by_role("heading", name="Queues mail").wait_for()
    assert desk.page.get_by_label("State").input_value() == "leased"

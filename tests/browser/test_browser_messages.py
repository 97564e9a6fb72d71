"""Messages in a real browser: looked at without a lease, shown as text whatever they say, deleted."""

from __future__ import annotations

import re
from collections.abc import Callable

from spoolrack_store.model.operations import Delete

from tests.browser.browser_rig import Desk, Served
from tests.support.listing import messages_in

STATES = "[...document.querySelectorAll('span.state')].map((each) => each.innerText)"
HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>\u202egpj.exe\x1b[31m'


def open_first(desk: Desk) -> None:
    desk.page.locator("table.messages [data-row]").first.click()
    desk.page.locator("pre.body, p.empty").first.wait_for()


def body_of(desk: Desk) -> str:
    return str(desk.page.locator("pre.body").inner_text())


def test_a_message_is_shown_with_its_state_its_attributes_and_its_body_in_three_forms(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    server.send("q", b'{"order": 7, "lines": [1, 2]}', source="checkout", raw=b"\x00\x01")
    server.receive("q")

    desk = open_desk(server, "queue/q")
    desk.until_count("table.messages tbody tr", 1)
    open_first(desk)

    assert body_of(desk) == '{\n  "order": 7,\n  "lines": [\n    1,\n    2\n  ]\n}'
    desk.button("Text").click()
    assert body_of(desk) == '{"order": 7, "lines": [1, 2]}'
    desk.button("Hex").click()
    assert body_of(desk).startswith("00000000  7b 22 6f 72")
    panel = desk.page.locator(".panel")
    assert "leased" in panel.inner_text()
    assert "checkout" in panel.inner_text()
    assert re.search(r"binary\s+00000000\s+00 01", panel.inner_text())
    desk.button("Close").click()
    desk.until_count(".panel", 0)
    assert desk.page.evaluate("() => document.activeElement.matches('[data-row]')")


def test_a_binary_body_is_shown_as_hex_and_an_empty_body_as_empty(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("bytes", "empty")
    server.send("bytes", bytes(range(128, 200)))
    server.send("empty", b"")
    desk = open_desk(server, "queue/bytes")
    open_first(desk)
    assert body_of(desk).startswith("00000000  80 81 82")
    desk.text("it is no text in UTF-8")
    assert desk.button("Text").is_disabled()
    desk.go("queue/empty")
    open_first(desk)
    desk.text("The body is empty.")


def test_a_hostile_message_stays_text_and_hides_nothing(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    server.send("q", HOSTILE.encode(), **{HOSTILE[:28]: HOSTILE, "__proto__": "x", "constructor": "y"})

    desk = open_desk(server, "queue/q")
    desk.until_count("table.messages tbody tr", 1)
    open_first(desk)

    shown = HOSTILE.replace("\u202e", "\\u202e").replace("\x1b", "\\u001b")
    assert body_of(desk) == shown
    assert shown in desk.page.locator(".panel .attributes").inner_text()
    assert "constructor" in desk.page.locator(".panel .attributes").inner_text()
    assert desk.page.locator("main img, main script").count() == 0
    assert not [url for url in desk.asked if url.endswith("/x")]


def test_a_json_body_that_looks_like_a_part_of_the_page_stays_text(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    server.send("q", b'{"type": "script", "props": {"dangerouslySetInnerHTML": {"__html": "<b>"}}}')
    desk = open_desk(server, "queue/q")
    open_first(desk)
    assert '"__html": "<b>"' in body_of(desk)


def test_messages_are_deleted_after_a_question(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("q")
    ids = server.send("q", b"a", b"b", b"c")
    desk = open_desk(server, "queue/q")
    desk.until_count("table.messages tbody tr", 3)
    desk.page.get_by_label(f"Choose {ids[0]}").check()
    desk.page.get_by_label(f"Choose {ids[2]}").check()
    desk.button("Delete 2…").click()
    desk.text("Delete 2 messages?")
    desk.button("Cancel").click()
    assert server.server.store.queue("q").counts.ready_count == 3
    desk.button("Delete 2…").click()
    desk.button("Delete").click()
    desk.text("Deleted 2 of 2.")
    desk.until_count("table.messages tbody tr", 1)
    assert [message.id for message in messages_in(server.server.store, "q")] == [ids[1]]


def test_one_state_at_a_time_can_be_shown(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("q")
    server.send("q", b"a", b"b")
    server.send("q", b"later", delay=60_000)
    server.receive("q")
    desk = open_desk(server, "queue/q")
    desk.until_count("table.messages tbody tr", 3)
    for state in ("ready", "leased", "delayed"):
        desk.page.get_by_label("State").select_option(state)
        desk.until(f"(state) => {STATES} == state", state)
    server.create("none")
    desk.go("queue/none")
    desk.text("The queue is empty.")


def test_a_message_that_has_gone_meanwhile_is_said_to_be_gone(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    server.send("q", b"a")
    desk = open_desk(server, "queue/q")
    desk.until_count("table.messages tbody tr", 1)
    (message,) = server.receive("q")
    server.ask(Delete(queue="q", receipts=[message.receipt or ""]))
    desk.expected = ["404"]
    desk.page.locator("table.messages [data-row]").first.click()
    desk.text("Not found.")


def test_a_purge_takes_only_the_state_that_is_chosen(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("orders")
    server.send("orders", b"a", b"b")
    server.receive("orders")
    desk = open_desk(server, "queue/orders")
    desk.until_count("table.messages tbody tr", 2)
    desk.button("Purge…").click()
    desk.page.locator("dialog select").first.select_option("leased")
    desk.text("All 1 messages are deleted.")
    desk.page.locator("dialog input").fill("orders")
    desk.button("Purge").click()
    desk.text("Purged orders: 1 messages deleted.")
    counts = server.server.store.queue("orders").counts
    assert (counts.ready_count, counts.leased_count) == (1, 0)


def test_a_purge_wants_the_queues_name_typed(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("orders")
    server.send("orders", b"a", b"b")
    server.receive("orders")
    desk = open_desk(server, "queue/orders")
    desk.until_count("table.messages tbody tr", 2)
    desk.button("Purge…").click()
    purge = desk.button("Purge")
    desk.text("All 2 messages are deleted")
    assert purge.is_disabled()
    for wrong in ("order", "Orders", "orders "):
        desk.page.keyboard.press("Control+A")
        desk.page.keyboard.type(wrong)
        assert purge.is_disabled()
        desk.page.keyboard.press("Enter")
    assert server.server.store.queue("orders").counts.leased_count == 1
    desk.page.keyboard.press("Control+A")
    desk.page.keyboard.type("orders")
    desk.page.keyboard.press("Enter")
    desk.text("Purged orders: 2 messages deleted.")
    desk.text("The queue is empty.")
    counts = server.server.store.queue("orders").counts
    assert (counts.ready_count, counts.leased_count) == (0, 0)


def test_a_schedule_is_created_paused_and_deleted_on_its_queues_page(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("orders")
    desk = open_desk(server, "queue/orders")
    desk.button("New schedule…").click()
    for label, text in (("Name", "yearly"), ("Cron", "0 0 1 1 *"), ("Body", "happy")):
        desk.page.locator("dialog").get_by_label(label).fill(text)
    desk.button("Create").click()
    desk.text("Created the schedule yearly.")
    desk.until_count("table.schedules tbody tr", 1)
    desk.page.get_by_role("button", name="Pause yearly").click()
    desk.text("Paused the schedule yearly.")
    (paused,) = server.server.store.schedules(queue="orders")
    assert (paused.schedule.cron, paused.schedule.paused) == ("0 0 1 1 *", True)
    desk.page.get_by_role("button", name="Delete yearly").click()
    desk.button("Delete the schedule").click()
    desk.text("Deleted the schedule yearly.")
    assert server.server.store.schedules(queue="orders") == []


def test_a_message_and_a_filter_have_an_address_and_the_back_button_returns(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    ids = server.send("q", b"a", b"b")
    server.receive("q")
    desk = open_desk(server, "queue/q")
    desk.until_count("table.messages tbody tr", 2)
    desk.page.get_by_label("State").select_option("leased")
    desk.until_count("table.messages tbody tr", 1)
    open_first(desk)
    assert desk.page.url.endswith(f"#/queue/q?state=leased&message={ids[0]}")
    address = desk.page.url

    desk.page.go_back()
    desk.until_count(".panel", 0)
    desk.until_count("table.messages tbody tr", 1)
    desk.page.go_back()
    desk.until_count("table.messages tbody tr", 2)
    desk.page.go_forward()
    desk.page.go_forward()
    desk.until_count(".panel", 1)

    desk.go("queues")
    desk.until_count("main tbody tr", 1)
    desk.page.goto(address)
    desk.page.locator("pre.body").wait_for()
    assert body_of(desk) == "a"
    assert desk.page.get_by_label("State").input_value() == "leased"


def test_a_message_opens_by_its_address_where_the_list_does_not_have_it(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    *_, last = server.send("q", *(b"%d" % number for number in range(40)))
    desk = open_desk(server, f"queue/q?message={last}")
    desk.page.locator("pre.body").wait_for()
    assert body_of(desk) == "39"
    desk.button("Close").click()
    desk.until_count(".panel", 0)

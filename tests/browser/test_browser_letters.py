"""Dead letters, stages, reservations and the server itself, in a real browser."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.metadata import version

import pytest
import spoolrack
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.stage_requests import Stage

from tests.browser.browser_rig import Desk, Served
from tests.support import STUCK
from tests.support.listing import messages_in

pytestmark = pytest.mark.slow


def percent(desk: Desk) -> str:
    return str(desk.page.locator(".percent").first.inner_text())


def test_dead_letters_go_back_with_a_rate_and_their_progress_is_seen(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.bury("orders", "orders.dead", 24)
    desk = open_desk(server, "dead-letters")
    desk.until_count("table[data-keys] tbody tr", 1)
    assert desk.cells("orders.dead")[0] == "24"
    desk.page.get_by_role("button", name="Redrive… orders.dead").click()
    desk.page.get_by_label("Messages a second, at most").fill("x")
    assert desk.button("Start").is_disabled()
    desk.page.get_by_label("Messages a second, at most").fill("10")
    desk.button("Start").click()

    desk.text("The redrive of orders.dead has begun.")
    desk.text("running")
    seen = {percent(desk)}
    for _ in range(20):
        if "100 %" in seen:
            break
        desk.until("(last) => document.querySelector('.percent').innerText !== last", percent(desk))
        seen.add(percent(desk))
    assert "100 %" in seen
    assert len(seen) > 2, f"no progress was seen: {seen}"
    desk.until("() => document.querySelector('table.redrives .state').innerText === 'done'")
    assert server.server.store.queue("orders").counts.ready_count == 24


def test_a_redrive_says_how_many_and_how_long_before_it_begins(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.bury("orders", "orders.dead", 90)
    desk = open_desk(server, "queue/orders.dead")
    desk.button("Redrive all…").click()
    plan = desk.page.locator("dialog .plan")
    desk.text("Moves all 90 messages that are dead letters now")
    assert plan.inner_text().startswith("90 messages, as fast as the disk takes them")
    rate = desk.page.get_by_label("Messages a second, at most")
    rate.fill("1")
    assert plan.inner_text() == "90 messages, 1 a second: it takes about 1 min 30 s."
    rate.fill("20")
    assert plan.inner_text() == "90 messages, 20 a second: it takes about 5 s."
    desk.page.get_by_label("Only those that came from").fill("orders")
    assert plan.inner_text() == "At most 90 messages, 20 a second: it takes up to 5 s."
    desk.page.get_by_label("Only those that came from").fill("")
    rate.fill("1")
    desk.button("Start").click()
    # Its progress stands on the page of the queue, and so does how to stop it.
    card = desk.page.locator("section", has=desk.page.get_by_role("heading", name="A redrive runs"))
    card.get_by_text(
        re.compile(r"moved to where each came from, \d+ left, 1 a second, about 1 min")
    ).wait_for()
    assert desk.button("Redrive all…").count() == 0
    card.get_by_role("button", name="Cancel the redrive of orders.dead").click()
    desk.button("Cancel the redrive").click()
    desk.text("is cancelled. Messages that it has moved stay moved.")
    desk.button("Redrive all…").wait_for()
    assert card.count() == 0


def test_the_messages_that_a_redrive_moved_are_gone_from_the_list_when_it_ends(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.bury("orders", "orders.dead", 5)
    desk = open_desk(server, "queue/orders.dead")
    desk.until_count("table.messages tbody tr", 5)
    desk.button("Redrive all…").click()
    # The list is looked at as the redrive begins, before it has moved all.
    desk.page.get_by_label("Messages a second, at most").fill("5")
    desk.button("Start").click()
    desk.text("The queue is empty.")


def test_dead_letter_queues_are_marked_and_their_messages_say_why_and_from_where(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    (id,) = server.bury("orders", "orders.dead", 1)
    desk = open_desk(server)
    desk.until_count("main tbody tr", 2)
    marked = desk.page.locator("tbody tr", has_text="dead letters").locator("th").all_inner_texts()
    assert [text.split() for text in marked] == [["orders.dead", "dead", "letters"]]
    desk.go("queue/orders.dead")
    desk.until_count("table.messages tbody tr", 1)
    desk.page.locator(".tag").get_by_text("dead-letter queue").wait_for()
    headers = desk.page.locator("table.messages thead th").all_inner_texts()
    found = dict(zip(headers[2:], desk.cells(id)[1:], strict=True))
    assert found["From"] == "orders"
    assert found["Why"] == "received too often"
    assert found["Receives before"] == "1"
    assert found["Dead for"]
    desk.go("queue/orders")
    desk.text("The queue is empty.")
    assert desk.page.locator(".tag").count() == 0


def test_a_redrive_that_runs_can_be_cancelled_and_what_it_moved_stays_moved(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.bury("orders", "orders.dead", 30)
    server.create("parking")
    desk = open_desk(server, "dead-letters")
    desk.page.get_by_role("button", name="Redrive… orders.dead").click()
    desk.page.get_by_label("To the queue").fill("parking")
    desk.page.get_by_label("Only those that came from").fill("orders")
    desk.page.get_by_label("Messages a second, at most").fill("2")
    desk.page.keyboard.press("Enter")
    desk.page.get_by_role("button", name=re.compile("Cancel the redrive of")).click()
    desk.button("Cancel the redrive").click()
    desk.text("is cancelled. Messages that it has moved stay moved.")
    desk.until("() => document.querySelector('table.redrives .state').innerText === 'cancelled'")
    store = server.server.store
    moved, left = (
        store.queue("parking").counts.ready_count,
        store.queue("orders.dead").counts.ready_count,
    )
    assert moved + left == 30
    assert left > 0


def test_an_invalid_redrive_is_explained_in_the_form(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.bury("orders", "orders.dead", 2)
    desk = open_desk(server, "dead-letters")
    desk.expected = ["404"]
    desk.page.get_by_role("button", name="Redrive… orders.dead").click()
    desk.page.get_by_label("To the queue").fill("absent")
    desk.button("Start").click()
    desk.page.locator("dialog [role=alert]").get_by_text("There is no queue absent").wait_for()
    assert server.server.store.redrives() == []


def test_chosen_dead_letters_go_back_and_how_each_died_is_told(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    ids = server.bury("orders", "orders.dead", 3)
    desk = open_desk(server, "queue/orders.dead")
    desk.until_count("table.messages tbody tr", 3)
    desk.page.get_by_role("button", name=ids[1]).click()
    panel = desk.page.locator(".panel")
    panel.get_by_text("How it became a dead letter").wait_for()
    assert "received too often" in panel.inner_text()
    desk.button("Close").click()
    desk.page.get_by_label(f"Choose {ids[1]}").check()
    desk.button("Redrive 1…").click()
    desk.text("Moves the message that you chose")
    desk.button("Start").click()
    desk.text("The redrive of orders.dead has begun.")
    desk.go("dead-letters")
    desk.until("() => document.querySelector('table.redrives .state')?.innerText === 'done'")
    assert [message.id for message in messages_in(server.server.store, "orders")] == [ids[1]]


def test_a_dead_letter_says_what_was_raised_first_and_its_two_receive_counts_and_goes_back(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    raised = "ValueError: dog.gif is a GIF, which this worker can't resize: send a JPEG in its place"
    server.create("failed")
    server.create("pictures", dead_letter_queue="failed", max_receives=2)
    (id,) = server.send("pictures", b"dog.gif")
    with spoolrack.connect(server.server.grpc_address) as client:
        for queue in (client.queue("pictures"), client.queue("pictures"), client.queue("failed")):
            (message,) = queue.receive(wait=STUCK)
            message.release(reason=raised)
    server.until_ready("failed", 1)
    desk = open_desk(server, "queue/failed")
    desk.until_count("table.messages tbody tr", 1)
    why = desk.page.locator("td.why")
    assert why.inner_text() == f"{raised} (received too often)"
    # All of it is seen: nothing of the cell is cut.
    assert why.locator("span").evaluate("(span) => span.scrollHeight <= span.clientHeight")
    assert desk.page.locator("td[data-label='Receives before']").inner_text() == "2"

    why.click()
    panel = desk.page.locator(".panel")
    panel.get_by_text("2 before it became a dead letter, 1 since").wait_for()
    panel.get_by_role("button", name="Redrive… this message").click()
    desk.text("Moves the message that you chose")
    desk.expected = ["404"]  # the page looks once more for the message that it shows
    desk.button("Start").click()
    server.until_ready("pictures", 1)
    assert [message.id for message in messages_in(server.server.store, "pictures")] == [id]


def test_a_queue_that_is_nobodys_grave_offers_no_redrive(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    server.send("q", b"x")
    desk = open_desk(server, "queue/q")
    desk.until_count("table.messages tbody tr", 1)
    assert desk.page.get_by_role("button", name="Redrive").count() == 0


def test_a_stage_is_aborted_after_a_question(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("q")
    server.ask(Stage(stage="night-run", chunk_number=0, queue="q", bodies=[b"x", b"y"]))
    desk = open_desk(server, "staged")
    desk.until_count("main tbody tr", 1)
    assert desk.cells("night-run")[:3] == ["q 2", "2", "1"]
    desk.page.get_by_role("button", name="Abort night-run").click()
    desk.text("Its 2 messages are dropped")
    desk.button("Abort").click()
    desk.text("Nothing is staged.")


def test_a_reservation_is_released_after_a_question(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    server.send("q", b"x", b"y")
    server.ask(Reserve(queue="q", stream="spark-1", sequence_number=2**63 - 2))
    desk = open_desk(server, "reservations")
    desk.until_count("main tbody tr", 1)
    assert desk.cells("spark-1")[:3] == [str(2**63 - 2), "q", "2"]
    desk.page.get_by_role("button", name="Release spark-1").click()
    desk.button("Release").click()
    desk.text("Released spark-1")
    desk.page.get_by_role("cell", name="lost", exact=True).wait_for()
    # Released messages come back with the commits that follow; a receive waits for them.
    assert len(server.receive("q", most=2)) == 2


def test_the_server_tells_its_version_its_uptime_its_disk_and_its_memory(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(server, "server")
    main = desk.page.locator("main")
    main.get_by_text(re.compile(r"GiB free of .* GiB")).wait_for()
    shown = main.inner_text()
    assert re.search(rf"Version\s+{re.escape(version('spoolrack'))}", shown)
    assert re.search(r"Uptime\s+\d+ (ms|s)", shown)
    assert server.server.root in shown
    assert re.search(r"Memory\s+[\d.]+ MiB in use", shown)
    assert desk.cells("Process 0")[0] == str(os.getpid())


def test_the_server_page_shows_status_owners_and_reason(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(server, "server")
    desk.text("answers you")
    desk.text("This process alone: no peers.")
    desk.page.locator("header .health.good").wait_for()

    desk.text("Sends and receives are taken.")
    assert "stable media" not in desk.page.locator("main").inner_text()

    server.server._health.doubt = "a disk in doubt: after a power cut, messages may be lost"
    desk.until(
        "() => { document.dispatchEvent(new Event('visibilitychange')); "
        "return document.querySelector('.warned')?.innerText.includes('on a disk in doubt'); }"
    )

    server.in_loop(server.server._health.fail, "A sync failed: <b>EIO</b>.")

    desk.until(
        "() => { document.dispatchEvent(new Event('visibilitychange')); "
        "return document.querySelector('.banner') !== null; }"
    )
    desk.page.locator(".banner").get_by_text("A sync failed: <b>EIO</b>.").wait_for()
    desk.page.locator("header .health.bad").get_by_text("Not serving").wait_for()

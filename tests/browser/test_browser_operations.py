"""Queues are created, their settings changed and messages sent, in a real browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from spoolrack_store.model.settings import QueueSettings

from tests.browser.browser_rig import Desk, Served
from tests.support.listing import messages_in

pytestmark = pytest.mark.slow


def test_a_queue_is_created_with_settings_in_units(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(server)
    desk.button("Create a queue…").click()
    assert desk.button("Create").is_disabled()
    desk.page.get_by_label("Name").fill("orders")
    desk.page.get_by_label("Visibility timeout").first.fill("1.5")
    desk.page.get_by_label("Unit of: Visibility timeout").select_option("min")
    desk.page.get_by_label("Max bytes").first.fill("3")
    desk.page.get_by_label("Unit of: Max bytes").select_option("GiB")
    desk.page.get_by_label("Lease durability").select_option("relaxed")
    orders = desk.page.get_by_label("Group order")
    assert orders.locator("option").all_inner_texts() == ["fair", "strict"]
    desk.page.get_by_label("Retention").first.fill("a week")
    desk.text("Not a number: Retention.")
    assert desk.button("Create").is_disabled()
    desk.page.get_by_label("Retention").first.fill("7")
    desk.page.get_by_label("Unit of: Retention").select_option("d")
    desk.button("Create").click()

    desk.text("The queue orders is created.")
    desk.page.get_by_role("heading", name="Queues orders").wait_for()
    found = server.server.store.queue("orders").settings
    assert found == QueueSettings().changed(
        {
            "visibility_timeout": 90_000,
            "max_bytes": 3 * 1024**3,
            "lease_durability": "relaxed",
            "retention": 7 * 86_400_000,
        }
    )


def test_an_invalid_queue_is_explained_in_the_form(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(server)
    desk.expected = ["400"]
    desk.button("Create a queue…").click()
    desk.page.get_by_label("Name").fill("no/queue")
    desk.button("Create").click()
    alert = desk.page.locator("dialog [role=alert]")
    alert.get_by_text("no/queue").wait_for()
    desk.page.get_by_label("Name").fill("q")
    desk.page.get_by_label("Max receives").fill("3")
    desk.button("Create").click()
    alert.get_by_text("goes with a dead_letter_queue: set both or neither").wait_for()
    assert server.server.store.queues() == []


def test_only_the_settings_that_were_changed_are_saved(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q", retention=3_600_000)
    server.create("dead")
    desk = open_desk(server, "queue/q")
    desk.button("Edit… the settings").click()
    assert desk.page.get_by_label("Retention").first.input_value() == "1"
    assert desk.page.get_by_label("Unit of: Retention").input_value() == "h"
    assert desk.button("Save").is_disabled()
    desk.page.get_by_label("Max receives").fill("4")
    desk.page.get_by_label("Dead letters to").fill("dead")
    # Another program changes a setting meanwhile.
    with desk.page.expect_response(lambda response: response.url.endswith("/q")):
        server.update("q", max_messages=5)
    with desk.page.expect_request(lambda asked: asked.method == "PATCH") as asked:
        desk.button("Save").click()
    assert asked.value.post_data_json == {"dead_letter_queue": "dead", "max_receives": 4}
    desk.text("The settings of q are changed.")
    found = server.server.store.queue("q").settings
    assert (found.max_receives, found.dead_letter_queue, found.max_messages) == (4, "dead", 5)
    desk.page.locator("dl.settings").get_by_role("link", name="dead").wait_for()


def test_a_click_pauses_a_queue_and_another_resumes_it(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    desk = open_desk(server, "queue/q")
    for setting in ("receiving", "sending"):
        for button, flow in (("Pause", "paused"), ("Resume", "open")):
            desk.button(f"{button} {setting}").click()
            desk.text(f"q: {setting} is {button.lower()}d.")
            assert getattr(server.server.store.queue("q").settings, setting) == flow


def test_a_queue_is_deleted_after_its_name_is_typed(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q", "other")
    server.send("q", b"x", b"y")
    desk = open_desk(server, "queue/q")
    desk.button("Delete the queue…").click()
    desk.text("its 2 messages are deleted")
    assert desk.button("Delete the queue").is_disabled()
    desk.page.get_by_label("Type the queue's name").fill("q")
    desk.button("Delete the queue").click()
    desk.text("The queue q is deleted.")
    desk.until_count("table.queues tbody tr", 1)
    assert [queue.name for queue in server.server.store.queues()] == ["other"]


def test_a_message_is_sent_with_attributes_and_a_delay(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    desk = open_desk(server, "queue/q")
    desk.text("The queue is empty.")
    desk.button("Send…").click()
    desk.page.get_by_label("Body").fill("zwölf\nBoxkämpfer")
    desk.button("Add an attribute").click()
    desk.page.get_by_label("Name of attribute 1").fill("source")
    desk.page.get_by_label("Value of attribute 1").fill("by hand")
    desk.button("Add an attribute").click()
    desk.page.get_by_role("button", name="Remove attribute 2").click()
    desk.page.locator("dialog").get_by_label("Delay").first.fill("2")
    desk.page.get_by_label("Unit of: Delay").select_option("h")
    desk.button("Send").click()

    desk.until_count("table.messages tbody tr", 1)
    (sent,) = messages_in(server.server.store, "q")
    assert sent.body == "zwölf\nBoxkämpfer".encode()
    assert sent.attributes == {"source": "by hand"}
    assert sent.due is not None
    # The id is made a moment before.
    assert 7_200_000 <= sent.due - sent.sent_at < 7_210_000
    assert "source=by hand" in desk.cells(sent.id)


def test_a_message_that_the_queue_refuses_stays_in_the_form(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q", max_message_size=3)
    desk = open_desk(server, "queue/q")
    desk.expected = ["413", "400"]
    desk.button("Send…").click()
    desk.page.get_by_label("Body").fill("four")
    desk.button("Send").click()
    desk.page.locator("dialog [role=alert]").get_by_text("The body has 4 bytes").wait_for()
    assert desk.page.get_by_label("Body").input_value() == "four"
    desk.page.get_by_label("Body").fill("<b>")
    desk.button("Send").click()
    desk.until_count("dialog", 0)
    assert [each.body for each in messages_in(server.server.store, "q")] == [b"<b>"]

"""Common to all pages: access, polling, colours and accessibility."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from spoolrack_server.access.security import Security
from spoolrack_store.model.reservation_requests import Reserve
from spoolrack_store.model.stage_requests import Stage

from tests.browser.browser_rig import Desk, Served, served

TOKENS = {"alice": "alices-token", "bob": "bobs-token"}
RULES = "alice all *\nbob monitor *\nbob receive mail\n"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Served]:
    """A server that asks who comes: alice may do all, bob look."""
    tokens, permissions = tmp_path / "tokens", tmp_path / "permissions"
    lines = [f"{who} sha256:{hashlib.sha256(t.encode()).hexdigest()}\n" for who, t in TOKENS.items()]
    tokens.write_text("".join(lines))
    tokens.chmod(0o600)
    permissions.write_text(RULES)
    security = Security(tokens=str(tokens), permissions=str(permissions))
    with served(tmp_path / "root", security) as server:
        server.create("mail", "orders")
        server.send("mail", b"x")
        server.send("orders", b"x")
        yield server


def come_as(desk: Desk, who: str) -> None:
    desk.expected = ["401"]
    desk.page.get_by_label("Token").fill(TOKENS[who])
    desk.button("Use it").click()
    desk.until_count("dialog", 0)


def test_an_unauthenticated_user_is_asked_for_a_token_which_stays_in_the_tab(
    guarded: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(guarded)
    desk.expected = ["401"]
    desk.text("This server wants a token.")
    desk.page.get_by_label("Token").fill("a wrong one")
    desk.button("Use it").click()
    desk.text("The server doesn't take the token of this tab any more.")
    with desk.page.expect_request(lambda asked: "/-/queues" in asked.url) as asked:
        come_as(desk, "alice")
    assert asked.value.headers["authorization"] == "Bearer alices-token"
    desk.until_count("main tbody tr", 2)

    assert not [url for url in desk.asked if "token" in url.lower()]
    assert desk.page.evaluate("() => [document.cookie, JSON.stringify(localStorage)]") == ["", "{}"]
    desk.page.reload()
    desk.until_count("main tbody tr", 2)
    other = open_desk(guarded)
    other.expected = ["401"]
    other.text("This server wants a token.")
    desk.go("server")
    desk.page.get_by_role("button", name="Forget the token of this tab").click()
    desk.text("This server wants a token.")


def test_a_user_without_a_token_is_asked_once(guarded: Served, open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(guarded)
    desk.expected = ["401"]
    desk.text("This server wants a token.")
    desk.button("Cancel").click()
    desk.until_count("dialog", 0)
    with desk.page.expect_response(lambda response: response.status == 401):
        desk.look_now()
    desk.text("The server doesn't know who asks.")
    assert desk.page.locator("dialog").count() == 0
    desk.button("Give a token").click()
    come_as(desk, "bob")
    desk.until_count("main tbody tr", 2)


def test_forbidden_actions_are_not_offered(guarded: Served, open_desk: Callable[..., Desk]) -> None:
    desk = open_desk(guarded)
    come_as(desk, "bob")
    desk.until_count("main tbody tr", 2)
    desk.go("queue/orders")
    desk.text("To look at messages takes the permission receive on this queue.")
    changing = [desk.button(name) for name in ("Purge…", "Send…", "Edit… the settings")]
    assert [button.count() for button in changing] == [0, 0, 0]
    desk.go("queue/mail")
    desk.until_count("table.messages tbody tr", 1)
    assert [button.count() for button in changing] == [0, 0, 0]
    assert desk.button("Delete…").count() == 1
    assert not [url for url in desk.asked if "/orders/messages" in url]
    desk.go("queues")
    desk.until_count("main tbody tr", 2)
    assert desk.button("Create a queue…").count() == 0


def test_it_follows_the_system_and_a_switch_and_remembers(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    theme = "() => document.documentElement.dataset.theme"
    paper = "() => getComputedStyle(document.body).backgroundColor"
    light = open_desk(server, color_scheme="light")
    dark = open_desk(server, color_scheme="dark")
    assert (light.page.evaluate(theme), dark.page.evaluate(theme)) == ("light", "dark")
    assert light.page.evaluate(paper) == "rgb(255, 255, 255)"
    assert dark.page.evaluate(paper) == "rgb(17, 20, 24)"
    light.page.emulate_media(color_scheme="dark")
    light.until("() => document.documentElement.dataset.theme === 'dark'")
    dark.button("Light").click()
    assert dark.page.evaluate(theme) == "light"
    dark.page.reload()
    dark.button("Dark").wait_for()
    assert dark.page.evaluate(theme) == "light"


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1280),
        pytest.param("dark", 390, marks=pytest.mark.slow),
        pytest.param("light", 390, marks=pytest.mark.slow),
        pytest.param("dark", 1280, marks=pytest.mark.slow),
    ],
)
def test_every_page_is_accessible(
    server: Served, open_desk: Callable[..., Desk], scheme: str, width: int
) -> None:
    server.bury("orders", "orders.dead", 30)
    server.send("orders", *(b"{}" for _ in range(9)), source="checkout")
    server.create("blocked", dead_letter_queue="orders.dead", max_receives=5)
    server.ask(Stage(stage="s", chunk_number=0, queue="orders", bodies=[b""]))
    server.send("blocked", b"x")
    server.ask(Reserve(queue="blocked", stream="r", sequence_number=1))
    server.sample()
    screen = {"width": width, "height": 800}
    desk = open_desk(server, color_scheme=scheme, bypass_csp=True, viewport=screen)
    found: dict[str, list[str]] = {}

    def look(where: str) -> None:
        found[where] = [*desk.accessibility(), *(f"off screen: {each}" for each in desk.off_screen())]

    for path, seen in (
        ("queues", "table.queues tbody tr"),
        ("ages", "table.ages tbody tr"),
        ("queue/orders.dead", "table.messages tbody tr"),
        ("queue/orders", ".chart canvas"),
        ("dead-letters", "main tbody tr"),
        ("staged", "main tbody tr"),
        ("reservations", "main tbody tr"),
        ("consumers", "table.consumers tbody tr"),
        ("server", "main meter"),
    ):
        desk.go(path)
        desk.page.locator(seen).first.wait_for()
        look(path)
    desk.go("queues")
    desk.button("Create a queue…").click()
    look("a new queue")
    desk.page.keyboard.press("Escape")
    desk.go("queue/orders.dead")
    desk.page.locator("[data-row]").first.click()
    desk.page.locator("pre.body").wait_for()
    look("a message")
    for name, where in (("Purge…", "a dialog"), ("Edit… the settings", "settings")):
        desk.button(name).click()
        look(where)
        desk.page.keyboard.press("Escape")
        desk.until_count("dialog", 0)
    desk.button("Send…").click()
    desk.button("Add an attribute").click()
    look("a message to be sent")
    desk.page.keyboard.press("Escape")
    desk.until_count("dialog", 0)
    desk.go("dead-letters")
    desk.page.get_by_role("button", name="Redrive… orders.dead").click()
    desk.page.get_by_label("Messages a second, at most").fill("1")
    look("a form")
    desk.button("Start").click()
    desk.page.locator("table.redrives tbody tr").wait_for()
    look("a redrive")
    desk.go("queue/orders.dead")
    desk.text("A redrive runs")
    look("a redrive of the queue")
    desk.page.keyboard.press("?")
    look("help")
    assert not {where: wrong for where, wrong in found.items() if wrong}


def test_the_focus_is_visible_and_a_dialog_gives_it_back(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    desk = open_desk(server, "queue/q")
    purge = desk.button("Purge…")
    purge.focus()
    desk.page.keyboard.press("Enter")
    desk.until("() => document.activeElement.matches('dialog input')")
    desk.page.keyboard.press("Escape")
    desk.until_count("dialog", 0)
    desk.until("() => document.activeElement.textContent === 'Purge…'")
    outline = "() => getComputedStyle(document.activeElement).outlineStyle"
    assert desk.page.evaluate(outline) == "solid"


def test_a_server_that_is_gone_is_asked_less_and_less_and_the_numbers_stay(
    server: Served, open_desk: Callable[..., Desk]
) -> None:
    server.create("q")
    desk = open_desk(server)
    desk.expected = ["ERR_", "Failed to load resource"]
    desk.rule_time("main tbody tr")
    server.stop()
    desk.page.clock.run_for(2_500)
    desk.text("The server can't be reached.")
    desk.text("The page shows the state before that.")
    assert desk.names() == ["q"]
    desk.page.locator("header .health.bad").get_by_text("No answer").wait_for()
    before = len(desk.asked)
    for _ in range(60):
        desk.page.clock.run_for(1_000)
    asked = [url for url in desk.asked[before:] if "/-/queues" in url]
    assert 1 <= len(asked) <= 6, asked


def test_a_hidden_page_sends_no_request(server: Served, open_desk: Callable[..., Desk]) -> None:
    server.create("q")
    desk = open_desk(server)
    desk.rule_time("main tbody tr")
    hide = """(value) => { Object.defineProperty(document, "hidden", {value, configurable: true});
        document.dispatchEvent(new Event("visibilitychange")); }"""
    before = len(desk.asked)
    desk.page.clock.run_for(10_000)
    assert len(desk.asked) > before
    desk.page.evaluate(hide, True)
    desk.page.wait_for_load_state("networkidle")
    before = len(desk.asked)
    for _ in range(20):
        desk.page.clock.run_for(3_000)
    assert desk.asked[before:] == []
    with desk.page.expect_response(lambda response: "/-/queues" in response.url):
        desk.page.evaluate(hide, False)

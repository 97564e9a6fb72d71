"""The dashboard of shards: all of them at the address of a proxy, and one alone without it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.browser.browser_rig import Desk, Served, served
from tests.proof.proxies.real_proxy import why_not
from tests.proof.proxies.servers import HTTP, SHARDS, Servers

QUEUES: Final = {0: ("jobs-1", "jobs-3"), 1: ("jobs",), 2: ("jobs-dead",)}
"""Queues by the shard of three that they are on."""


@pytest.fixture
def shards(tmp_path: Path) -> Iterator[Servers]:
    servers = Servers(tmp_path, SHARDS)
    try:
        servers.start()
        yield servers
    finally:
        servers.kill()


@pytest.fixture
def proxy(shards: Servers) -> Iterator[Any]:
    """A proxy in front of the shards."""
    reason = why_not("haproxy")
    if reason is not None:
        pytest.skip(reason)
    with shards.behind("haproxy") as proxy:
        yield SimpleNamespace(url=f"http://{proxy.at(HTTP)}")


# In this order: a page that outlives its proxy complains.
@pytest.fixture
def behind_proxy(proxy: Any, open_desk: Callable[..., Desk]) -> Callable[..., Desk]:
    """Opens a page at the address of the proxy."""
    return partial(open_desk, proxy)


def test_all_shards_are_listed_at_the_address_of_a_proxy(
    shards: Servers, behind_proxy: Callable[..., Desk]
) -> None:
    for number, queues in QUEUES.items():
        for queue in queues:
            shards.each[number].client.create_queue(queue).send_many([b"1"] * (number + 1))
    desk = behind_proxy("server")
    desk.row("Shard 0").wait_for(timeout=30_000)
    assert desk.cells("Shard 0")[:5] == ["Serving", "2", "2", "0", "0"]
    assert desk.cells("Shard 1")[:5] == ["Serving", "1", "2", "0", "0"]
    assert desk.cells("Shard 2")[:5] == ["Serving", "1", "3", "0", "0"]
    desk.page.get_by_role("link", name="Shard 2", exact=True).click()
    desk.row("jobs-dead").wait_for()
    assert desk.names() == ["jobs-dead"]
    # A queue's page and a reload stay on the shard.
    desk.page.get_by_role("link", name="jobs-dead").click()
    desk.page.reload()
    desk.page.get_by_role("heading", name="jobs-dead").wait_for()
    desk.page.locator("header").get_by_text("Shard 2").wait_for()


@pytest.mark.slow
def test_a_shard_that_is_down_is_shown_as_down_and_the_others_as_they_are(
    shards: Servers, behind_proxy: Callable[..., Desk]
) -> None:
    desk = behind_proxy("server")
    desk.row("Shard 1").get_by_text("Serving").wait_for()
    desk.expected = ("503",)
    shards.each[1].kill()
    desk.row("Shard 1").get_by_text("No answer", exact=True).wait_for()
    desk.text("The proxy has no answer of this shard.")
    desk.row("Shard 2").get_by_text("Serving").wait_for()
    # The list is there also where the shard that is looked at is down.
    desk.page.goto(desk.page.url.replace("dashboard#", f"dashboard?shard=1/{SHARDS}#"))
    desk.row("Shard 1").get_by_text("No answer", exact=True).wait_for()
    desk.row("Shard 0").get_by_text("Serving").wait_for()
    shards.each[1].start()
    desk.row("Shard 1").get_by_text("Serving").wait_for()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_list_of_shards_is_accessible_also_with_one_down(
    shards: Servers, behind_proxy: Callable[..., Desk], scheme: str, width: int
) -> None:
    shards.each[2].kill()
    screen = {"width": width, "height": 800}
    desk = behind_proxy("server", color_scheme=scheme, bypass_csp=True, viewport=screen)
    desk.expected = ("503",)
    desk.row("Shard 2").get_by_text("No answer", exact=True).wait_for()
    assert [*desk.accessibility(), *desk.off_screen()] == []


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "root", shard="2/8") as server:
        yield server


def test_a_shard_that_is_asked_itself_tells_that_it_is_alone_and_asks_no_more(
    shard: Served, open_desk: Callable[..., Desk]
) -> None:
    desk = open_desk(shard, "server")
    desk.expected = ("421",)
    desk.text("This address leads to shard 2/8 only.")
    desk.text("number 2 of 8, counted from 0")
    desk.page.locator("header").get_by_text("Shard 2").wait_for()
    asked = [url for url in desk.asked if url.endswith("/-/server")]
    with desk.page.expect_response("**/-/server"):
        pass
    again = [url for url in desk.asked if url.endswith("/-/server")]
    # Its own health alone.
    assert len(again) == len(asked) + 1

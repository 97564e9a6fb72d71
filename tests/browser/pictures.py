"""The pictures of docs/images: `python -m tests.browser.pictures` makes them anew.

The server is real, and its clock stands still; each page is pictured at 1280 pixels, and in the folder
that is given also at 390, to be looked at.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final

import spoolrack
from playwright.sync_api import sync_playwright
from spoolrack_server.metrics.history import EVERY, SLOTS
from spoolrack_store.manual_clock import ManualClock
from spoolrack_store.model.clock import Millis

from tests import CHECKOUT
from tests.browser.browser_rig import Desk, Served, served
from tests.browser.conftest import CHROMIUM, FLAGS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES: Final = CHECKOUT / "docs" / "images"
KEPT: Final = {"queues", "ages", "queue", "redrive"}
"""Pages that docs/how-to/dashboard.md shows; each of the tutorial's is kept, too."""
_NIGHT: Final = Millis(1_796_000_000_000)


def fill(server: Served, clock: ManualClock, client: spoolrack.Client) -> None:
    """Live an hour of a shop: orders are worked on, mails wait, images fail, exports are paused."""
    random = Random(1)
    orders = client.queue("orders")
    server.create("orders.dead", "images.dead")
    server.create("orders", dead_letter_queue="orders.dead", max_receives=5, visibility_timeout=60_000)
    server.create("images", dead_letter_queue="images.dead", max_receives=1)
    server.create("mail", retention=86_400_000, priority_aging=600_000)
    server.create("exports")
    server.bury("images-old", "images.dead", 40)
    for slot in range(SLOTS):
        for number in range(3 + random.randrange(4)):
            server.send("orders", b'{"order": %d}' % (slot * 10 + number), source="checkout")
        for message in orders.receive(3 + random.randrange(4)):
            message.delete()
        if slot % 6 == 0:
            mails = (b"Dear customer," for _ in range(1 + slot // 60))
            server.send("mail", *mails, template="receipt")
        if slot == 200:
            server.send("exports", *(b"x" * 900 for _ in range(30)))
            server.update("exports", receiving="paused")
        clock.advance(EVERY)
        server.sample()
    for most in (6, 3):
        orders.receive(most)
    client.queue("mail").receive(2)
    server.send("mail", b"Happy birthday", delay=3_600_000)
    client.queue("images.dead").redrive(max_messages_per_second=6)
    clock.advance(Millis(2_000))
    server.sample()


def picture(desk: Desk, path: str, seen: str, to: Path) -> None:
    desk.go(path)
    desk.page.locator(seen).first.wait_for()
    desk.page.wait_for_load_state("networkidle")
    desk.page.screenshot(path=to, full_page=True)
    desk.page.screenshot(path=to.with_suffix(".top.png"))


def picture_all(browser: Browser, server: Served, folder: Path, width: int, height: int) -> None:
    viewport = {"width": width, "height": height}
    with Desk(browser, server, {"viewport": viewport, "color_scheme": "light"}) as desk:
        for name, path, seen in (
            ("queues", "queues", "svg.spark polyline"),
            ("ages", "ages", "table.ages tbody tr"),
            ("queue", "queue/orders", "table.messages tbody tr"),
            ("message", "queue/orders?state=leased", "table.messages tbody tr"),
            ("paused", "queue/exports", "table.messages tbody tr"),
            ("consumers", "consumers", "table.consumers tbody tr"),
            ("redrive", "dead-letters", "table.fixed tbody tr"),
            ("server", "server", "#disk"),
        ):
            if name == "message":
                desk.go(path)
                desk.page.locator("table.messages [data-row]").first.click()
                desk.page.locator("pre.body").wait_for()
                desk.page.screenshot(path=folder / f"{name}-{width}.png", full_page=True)
            else:
                picture(desk, path, seen, folder / f"{name}-{width}.png")


def picture_tutorial(browser: Browser, server: Served) -> None:
    """Picture the dead letter of docs/tutorials/first-hour.md, and the form that redrives it."""
    server.create("failed")
    server.create("pictures", dead_letter_queue="failed", max_receives=3)
    with spoolrack.connect(server.server.grpc_address) as client:
        pictures = client.queue("pictures")
        pictures.send("dog.gif")
        for _ in range(3):
            (message,) = pictures.receive(wait=10)
            message.release(reason="ValueError: dog.gif is a GIF")
    server.until_ready("failed", 1)
    viewport = {"width": 1280, "height": 800}
    with Desk(browser, server, {"viewport": viewport, "color_scheme": "light"}) as desk:
        desk.go("queue/failed")
        desk.page.locator("table.messages [data-row]").first.click()
        desk.page.locator("pre.body").scroll_into_view_if_needed()
        desk.page.screenshot(path=IMAGES / "tutorial-failed.png")
        desk.page.evaluate("scrollTo(0, 0)")
        desk.button("Redrive all…").click()
        desk.page.locator("dialog .plan").wait_for()
        desk.page.screenshot(path=IMAGES / "tutorial-redrive.png")


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clock = ManualClock(_NIGHT)
        server = stack.enter_context(served(root / "root", clock=clock))
        client = stack.enter_context(spoolrack.connect(server.server.grpc_address))
        fill(server, clock, client)
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        stack.callback(browser.close)
        for width, height in ((1280, 800), (390, 800)):
            picture_all(browser, server, folder, width, height)
        picture_tutorial(browser, stack.enter_context(served(root / "tutorial")))
    for name in KEPT:
        (IMAGES / f"dashboard-{name}.png").write_bytes((folder / f"{name}-1280.top.png").read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))

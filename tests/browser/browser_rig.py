"""A server that runs in a thread of its own, and a page in a browser that holds it to its word."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from spoolrack_server.access.security import Security
from spoolrack_server.process.serve_settings import ServeSettings
from spoolrack_server.process.server import Server
from spoolrack_store.model.clock import Clock, Millis
from spoolrack_store.model.operations import (
    ChangeVisibility,
    CreateQueue,
    Message,
    Receive,
    Request,
    Send,
    UpdateQueue,
    messages_of,
)
from spoolrack_store.model.settings import QueueSettings

from tests.support import STUCK

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Locator, Page
    from playwright.sync_api import Request as Asked

Answer = TypeVar("Answer")
AXE = Path(__file__).parent / "vendor" / "axe" / "axe.min.js"


class Served:
    """A server, and short ways to its store, from any thread."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self.server = server
        self._loop = loop

    @property
    def url(self) -> str:
        assert self.server.http_url is not None
        return self.server.http_url

    def ask(self, request: Request[Answer]) -> Answer:
        return self.server.store.submit(request).result(STUCK)

    def create(self, *queues: str, **settings: object) -> None:
        for queue in queues:
            self.ask(CreateQueue(name=queue, settings=QueueSettings().changed(settings)))

    def update(self, queue: str, **changes: object) -> None:
        self.ask(UpdateQueue(name=queue, changes=changes))

    def send(self, queue: str, *bodies: bytes, delay: int = 0, **attributes: str | bytes) -> list[str]:
        places = range(len(bodies))
        named = dict.fromkeys(places, attributes) if attributes else {}
        delays = dict.fromkeys(places, Millis(delay))
        stored = self.ask(Send(queue=queue, bodies=bodies, attributes=named, delays=delays))
        return [id for id in stored.results if isinstance(id, str)]

    def receive(self, queue: str, most: int = 1) -> list[Message]:
        return messages_of(self.ask(Receive(queue=queue, max_messages=most)))

    def bury(self, source: str, queue: str, count: int) -> list[str]:
        """Return so many messages of `source` die and go to `queue`."""
        self.create(queue)
        self.create(source, dead_letter_queue=queue, max_receives=1)
        ids = self.send(source, *(b'{"n": %d}' % n for n in range(count)))
        while messages := self.receive(source, 1_000):
            receipts = [message.receipt or "" for message in messages]
            self.ask(ChangeVisibility(queue=source, receipts=receipts, visibility_timeout=Millis(0)))
        self.until_ready(queue, count)
        return ids

    def until_ready(self, queue: str, count: int) -> None:
        """Wait until so many messages of a queue are ready."""
        ends = time.monotonic() + STUCK
        while self.server.store.queue(queue).counts.ready_count != count:
            assert time.monotonic() < ends, f"never {count} messages in {queue}"
            time.sleep(0.001)

    def sample(self) -> None:
        """Take a sample for the charts now, as the server does every ten seconds."""
        asyncio.run_coroutine_threadsafe(self.server.observer.sample(), self._loop).result(STUCK)

    def in_loop(self, act: Any, *of: Any) -> None:
        self._loop.call_soon_threadsafe(act, *of)

    def stop(self) -> None:
        """Let nothing answer any more."""
        asyncio.run_coroutine_threadsafe(self.server.stop(grace=0), self._loop).result(STUCK)


@contextmanager
def served(
    root: Path,
    security: Security | None = None,
    clock: Clock | None = None,
    shard: str | None = None,
) -> Iterator[Served]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    settings = ServeSettings(root=str(root), shard=shard)
    server = Server(settings, security=security, clock=clock)
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(STUCK)
        yield Served(server, loop)
        asyncio.run_coroutine_threadsafe(server.stop(grace=0), loop).result(STUCK)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STUCK)
        loop.close()


class Desk:
    """One page. Requests to another host, and complaints of the console, are errors at its end.

    A refusal that a test provokes is `expected`: the browser writes each into its console.
    """

    def __init__(self, browser: Browser, server: Served, context: dict[str, Any]) -> None:
        self._server = server
        options = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", **context}
        self._context = browser.new_context(**options)
        self.page: Page = self._context.new_page()
        self.page.set_default_timeout(STUCK * 1_000)
        self.page.on("request", self._asked)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.asked: list[str] = []
        self.complaints: list[str] = []
        self.expected: Sequence[str] = ()
        """Parts of what the console may say."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._context.close()
        if error is None:
            self.check()

    def check(self) -> None:
        foreign = [url for url in self.asked if not url.startswith(f"{self._server.url}/")]
        assert not foreign, f"asked of others: {foreign}"
        complaints = [
            text for text in self.complaints if not any(part in text for part in self.expected)
        ]
        assert not complaints, complaints

    def _asked(self, request: Asked) -> None:
        self.asked.append(request.url)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    # Short ways.

    def go(self, path: str) -> None:
        self.page.goto(f"{self._server.url}/-/dashboard#/{path}")

    def text(self, text: str) -> Locator:
        """Return what has this text, once it is there."""
        found = self.page.get_by_text(text).first
        found.wait_for()
        return found

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def row(self, name: str) -> Locator:
        """Return the row of a table whose header is `name`."""
        return self.page.locator("tbody tr").filter(
            has=self.page.get_by_role("rowheader", name=name, exact=True)
        )

    def cells(self, name: str) -> list[str]:
        return [text.strip() for text in self.row(name).locator("td").all_inner_texts()]

    def names(self) -> list[str]:
        """Return the headers of the rows, in their order."""
        return [
            text.strip() for text in self.page.locator("main tbody th[scope=row]").all_inner_texts()
        ]

    def look_now(self) -> None:
        """Let the page ask at once, as it does when it is seen again."""
        self.page.evaluate("() => document.dispatchEvent(new Event('visibilitychange')) && 0")

    def rule_time(self, seen: str) -> None:
        """Open the page anew, with a clock that only the test moves, until it shows `seen`."""
        self.page.clock.install()
        self.page.reload()
        for _ in range(10_000):
            self.page.clock.run_for(100)
            if self.page.locator(seen).count():
                return
        raise AssertionError(f"never saw {seen}")

    def until(self, holds: str, argument: object = None) -> None:
        """Return once `holds`, an expression of the page's, is true."""
        self.page.wait_for_function(holds, arg=argument)

    def until_count(self, selector: str, count: int) -> None:
        self.until(
            "([selector, count]) => document.querySelectorAll(selector).length === count",
            [selector, count],
        )

    def off_screen(self) -> list[str]:
        """Return what is to be seen or used and does not lie wholly between the sides of the screen."""
        found = self.page.evaluate(
            """() => [...document.querySelectorAll("body *")].filter((each) => {
                if (each.closest(".hidden, .skip, thead:not(.sorts)") && innerWidth < 760) return false;
                if (each.closest(".hidden, .skip")) return false;
                const {left, right, width, height} = each.getBoundingClientRect();
                return width > 0 && height > 0 && (left < -0.5 || right > innerWidth + 0.5);
            }).map((each) => each.outerHTML.slice(0, 120))"""
        )
        return [str(each) for each in found]

    def accessibility(self) -> list[str]:
        """Return what axe-core finds wrong with the page as it is."""
        self.page.evaluate(AXE.read_text() + "; 0")
        found = self.page.evaluate(
            """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
            .flatMap(({id, nodes}) => nodes.map((node) => `${id}: ${node.html.slice(0, 160)} ` +
                node.any.concat(node.all).map((each) => each.message).join("; ")))"""
        )
        return [str(each) for each in found]

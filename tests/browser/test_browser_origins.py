"""A real browser shows a page of another site, which tries to use a server of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.browser_rig import Served
from tests.support import STUCK
from tests.support.fixed_answers import answering

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

POST = "() => fetch('{url}', {{method: 'POST', mode: 'no-cors', body: 'x'}}).then(() => 0)"
ATTEMPTS = {
    "a fetch": POST,
    "a fetch of text": POST.replace("body", "headers: {{'Content-Type': 'text/plain'}}, body"),
    "a fetch that leases": "() => fetch('{url}?visibility_timeout=43200', {{mode: 'no-cors'}})"
    ".then(() => 0)",
    "a beacon": "() => navigator.sendBeacon('{url}', 'x') && 0",
    "a form": "() => {{ const form = document.createElement('form'); form.method = 'post';"
    " form.action = '{url}'; document.body.append(form); form.submit(); }}",
    "a link that leases": "() => {{ location = '{url}'; }}",
    "an image that leases": "() => {{ new Image().src = '{url}?visibility_timeout=43200'; }}",
    "a script that leases": "() => {{ const script = document.createElement('script');"
    " script.src = '{url}'; document.body.append(script); }}",
    "a frame that leases": "() => {{ const frame = document.createElement('iframe');"
    " frame.src = '{url}'; document.body.append(frame); }}",
}
HOSTS = ("evil.localhost", "127.0.0.1")
"""Another site, and another port of the server's own address, which is the same site to a browser."""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of another site."""
    page = b"<!doctype html><title>Another site</title><body>"
    with answering(lambda path: (200, "text/html", page)) as port:
        yield port


@pytest.fixture(params=HOSTS)
def foreign(chromium: Browser, port: int, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(STUCK * 1_000)
    page.goto(f"http://{request.param}:{port}/")
    yield page
    context.close()


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_a_page_of_another_site_neither_sends_nor_leases(
    server: Served, foreign: Page, attempt: str
) -> None:
    server.create("q")
    server.send("q", b"mine")
    url = f"{server.url}/q/messages"

    with foreign.expect_request(lambda request: request.url.startswith(url)) as asked:
        foreign.evaluate(attempt.format(url=url))
    answered = asked.value.response()
    # An answer that is no image, or no script, is not even shown to the page.
    assert answered is None or answered.status == 403
    counts = server.server.store.queue("q").counts
    assert (counts.ready_count, counts.leased_count) == (1, 0)


def test_a_link_on_another_site_leads_to_the_dashboard(server: Served, foreign: Page) -> None:
    server.create("mail")
    foreign.evaluate(f"() => {{ location = '{server.url}/'; }}")
    foreign.wait_for_url("**/-/dashboard*")
    foreign.get_by_role("rowheader", name="mail", exact=True).wait_for()

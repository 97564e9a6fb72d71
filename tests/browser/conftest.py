"""A real server in a thread, and a Chromium that looks at it. A request to another host, or a complaint
in the console, fails the test."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.browser_rig import Desk, Served, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)


# Not for all tests together: as long as it is there, Playwright's own loop runs in this thread, and no
# other test could run one.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium: make system-tools installs it")
    if importlib.util.find_spec("playwright") is None:
        pytest.skip("needs playwright: make test sets it up")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "root") as server:
        yield server


@pytest.fixture
def open_desk(chromium: Browser) -> Iterator[Callable[..., Desk]]:
    """Opens a page of a server: `open_desk(server, "ages", color_scheme="dark")`."""
    with ExitStack() as stack:

        def opened(server: Served, path: str = "queues", **context: object) -> Desk:
            desk = stack.enter_context(Desk(chromium, server, dict(context)))
            desk.go(path)
            return desk

        yield opened


@pytest.fixture
def desk(server: Served, open_desk: Callable[..., Desk]) -> Desk:
    """A page that is open at the list of queues."""
    return open_desk(server)

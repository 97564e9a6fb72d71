"""What holds for every test: the slow ones run when asked for, and a skip is never silent."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator

import pytest

# .ci/allowed-skips knows this reason.
SLOW = pytest.mark.skip(reason="slow: make test-all runs it")


# A shell starts what runs in its background deaf to Ctrl-C, and all that is started from there: the
# programs of these tests must hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(SLOW)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Close with what was not tested: pytest itself says nothing when there is nothing."""
    if not terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("Nothing was skipped.")


@pytest.fixture(autouse=True)
def _the_stores_log_stays_as_it_was() -> Iterator[None]:
    """A server or fsck in this process turns it for its own ends, and doesn't turn it back."""
    log = logging.getLogger("spoolrack_store")
    level, propagate, handlers = log.level, log.propagate, list(log.handlers)
    yield
    log.setLevel(level)
    log.propagate = propagate
    log.handlers[:] = handlers

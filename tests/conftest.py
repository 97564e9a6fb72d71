"""What holds for every test: the slow ones run when asked for, and a skip is never silent."""

from __future__ import annotations

import pytest

# .ci/allowed-skips knows this reason.
SLOW = pytest.mark.skip(reason="slow: make test-all runs it")


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

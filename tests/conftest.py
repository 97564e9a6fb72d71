"""Common to all tests: slow ones run when asked for, a skip is never silent, and tests that share a
fixture run on one worker."""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

TESTS: Final = Path(__file__).parent
LONGEST: Final = "spark"
"""The folder that takes one worker nearly the whole run: the others leave it the processor."""
STAND_BACK: Final = 3
"""By how much their nice value rises."""
TOGETHER: Final = frozenset({"browser", "image", "interop", "spark"})
"""Folders whose tests share what takes long to start or to build: one worker runs all of each."""

LONGEST_FIRST: Final = (
    *("spark", "interop", "celery", "browser", "e2e", "faults", "power", "docs", "sqs", "crash"),
    *("fuzz", "cli", "helm", "server"),
)
"""Folders that begin, in this order: a long one at the end would keep one worker alone."""

TURNS: Final = {"crash": 4, "format": 4}
"""Folders of tests/proof of which each commit's sample has one case in so many, by turns: what only the
nightly proof runs could be red for days. That takes about a minute of processor time."""

HANGS_AFTER: Final = 30
UNIT_LIKE: Final = frozenset({"access", "client", "http", "server", "store", "unit", "vectors"})
"""Folders whose tests fail after so many seconds of processor time, which other work on the machine
doesn't make more. In any folder a test fails after the time of `timeout`, also one that waits."""
ENDS_AFTER: Final = 60
"""Seconds from then to the end of the process: asyncio and Hypothesis swallow what a signal raises."""
RUN_ENDS_AFTER: Final = {False: 3_600, True: 6 * 3_600}
"""Seconds of a run on several workers, without and with slow tests."""

# .ci/allowed-skips knows this reason.
SLOW = pytest.mark.skipif(True, reason="slow: make test-all runs it")


# A busy machine takes seconds for an example: no property fails by time.
settings.register_profile(
    "any speed", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any speed")

# A shell starts what runs in its background deaf to Ctrl-C, and all that is started from there: the
# programs of these tests must hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Tests start more than a thousand programs, and without its bytecode each compiles the server anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_configure(config: pytest.Config) -> None:
    global _stderr
    _stderr = os.dup(2)  # That of a test is captured.
    if "PYTEST_XDIST_WORKER" not in os.environ and config.getoption("numprocesses", None):
        limit = RUN_ENDS_AFTER[config.getoption("--slow")]
        faulthandler.dump_traceback_later(limit, exit=True, file=_stderr)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """End a process whose test outlives its time."""
    mark = item.get_closest_marker("timeout")
    limit = mark.args[0] if mark and mark.args else float(item.config.getini("timeout"))
    faulthandler.dump_traceback_later(limit + ENDS_AFTER, exit=True, file=_stderr)
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that takes too much of the processor's time."""
    if _folder(item.path) not in UNIT_LIKE or item.get_closest_marker("timeout"):
        return (yield)
    before = signal.signal(signal.SIGPROF, _hangs)
    signal.setitimer(signal.ITIMER_PROF, HANGS_AFTER)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _hangs(*_: object) -> None:
    pytest.fail(f"it has taken {HANGS_AFTER} s of processor time")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take long, too")
    parser.addoption("--sample", action="store_true", help="of tests/proof run a part")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--sample"):
        _leave_a_sample(config, items)
    items.sort(key=_turn)
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            # First: of a test that isn't run it doesn't matter what else it needs.
            item.add_marker(SLOW, append=False)


def pytest_collection_finish() -> None:
    """Spare later garbage collections the modules and tests, which take them 0.16 s each."""
    gc.freeze()


def _leave_a_sample(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases of a test of the proof, but for the first that isn't slow, and for those whose
    turn it is."""
    commit = _commit()
    seen: set[str] = set()
    left: list[pytest.Item] = []
    out: list[pytest.Item] = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        is_slow = item.get_closest_marker("slow") is not None
        is_more = is_slow or (name in seen and not _has_turn(item, commit))
        is_left_out = is_more and item.path.is_relative_to(TESTS / "proof")
        (out if is_left_out else left).append(item)
        if not is_left_out:
            seen.add(name)
    items[:] = left
    config.hook.pytest_deselected(items=out)


def _has_turn(item: pytest.Item, commit: str) -> bool:
    """Return whether a case of the proof is run at this commit beside the first of its test: each run
    at a commit has the same ones."""
    turns = TURNS.get(_folder(item.path))
    return turns is not None and crc32(f"{commit} {item.nodeid}".encode()) % turns == 0


def _commit() -> str:
    """Return the commit of the checkout; "" if it isn't known."""
    asked = ("git", "rev-parse", "HEAD")
    try:
        return subprocess.run(
            asked, cwd=TESTS, capture_output=True, text=True, check=False
        ).stdout.strip()
    except FileNotFoundError:
        return ""


def _folder(path: Path) -> str:
    """Return the folder of a test's file: `crash` for one in tests/proof/crash."""
    first, *others = path.relative_to(TESTS).parts
    return others[0] if first == "proof" else first


def _turn(item: pytest.Item) -> int:
    folder = _folder(item.path)
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """Distribute groups of tests: a file, which may share a server, or a folder.

    pytest-xdist's own groups (`--dist loadgroup`) have no effect with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByGroup(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            path = Path(nodeid.partition("::")[0]).relative_to(TESTS.name)
            return path.parts[0] if path.parts[0] in TOGETHER else str(path)

    return ByGroup(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let this worker, and the programs that it starts, stand back for the one that takes longest."""
    if _folder(item.path) != LONGEST and "PYTEST_XDIST_WORKER" in os.environ and os.nice(0) == 0:
        os.nice(STAND_BACK)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Close with what was not tested: pytest itself says nothing when there is nothing."""
    if not terminalreporter.stats.get("skipped"):
        terminalreporter.write_line("Nothing was skipped.")


@pytest.fixture(autouse=True)
def _the_stores_logs_stay_as_they_were() -> Iterator[None]:
    """Restore the store's loggers: a server or a command in this process leaves their levels set."""
    logs = [logging.getLogger(name) for name in _store_logs()]
    before = [(log, log.level, log.propagate, list(log.handlers)) for log in logs]
    yield
    for name in _store_logs():
        logging.getLogger(name).setLevel(logging.NOTSET)
    for log, level, propagate, handlers in before:
        log.setLevel(level)
        log.propagate = propagate
        log.handlers[:] = handlers


def _store_logs() -> list[str]:
    return [
        name
        for name in logging.root.manager.loggerDict
        if name == "spoolrack_store" or name.startswith("spoolrack_store.")
    ]

"""Each test here runs once for each language: with its driver, a real server, and Python beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
import spoolrack
from spoolrack._transports.grpc_stubs import Stubs

from tests.interop.interop_driver import Driver
from tests.interop.interop_languages import Language, languages
from tests.support.run_processes import Crew, Served

HANGS_AFTER = 120
"""Seconds that a test may take by itself; the build of its language has a limit of its own."""
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(HANGS_AFTER, func_only=True))


# A missing language is skipped once, and by name, in test_interop_toolchains.py.
LANGUAGES = [
    pytest.param(one, marks=() if one.is_in_ci else pytest.mark.slow, id=str(one))
    for one in languages()
    if not one.missing()
]
"""Those beside CI's two take minutes to build: `make test-all` and `make interop` run them."""


@pytest.fixture(scope="session", params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> Language:
    """One that is built."""
    language: Language = request.param
    language.build()
    return language


@pytest.fixture(scope="session")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server for all tests that leave it as it is."""
    folder = tmp_path_factory.mktemp("interop")
    crew = Crew(folder)
    yield Served(crew, folder / "root")
    crew.end()


@pytest.fixture
def crew(tmp_path: Path) -> Iterator[Crew]:
    crew = Crew(tmp_path)
    yield crew
    crew.end()


@pytest.fixture
def served(crew: Crew, tmp_path: Path) -> Served:
    """A server that a test may stop, kill and start again."""
    return Served(crew, tmp_path / "root", http=True)


@pytest.fixture
def drivers(language: Language) -> Iterator[Callable[[str], Driver]]:
    """Starts drivers at an address."""
    started: list[Driver] = []

    def start(address: str) -> Driver:
        started.append(Driver(language, address))
        return started[-1]

    yield start
    for driver in started:
        driver.end()


@pytest.fixture(scope="session")
def _driver_of_all(language: Language, hall: Served) -> Iterator[list[Driver]]:
    drivers = [Driver(language, hall.address)]
    yield drivers
    for driver in drivers:
        driver.end()


@pytest.fixture
def driver(_driver_of_all: list[Driver], language: Language, hall: Served) -> Driver:
    """The language's driver at the server of all: one process, as long as it lives."""
    if not _driver_of_all[-1].is_alive:
        _driver_of_all.append(Driver(language, hall.address))
    return _driver_of_all[-1]


@pytest.fixture(scope="session")
def python(hall: Served) -> Iterator[spoolrack.Client]:
    with spoolrack.connect(hall.address, timeout=120) as client:
        yield client


@pytest.fixture(scope="session")
def stub(hall: Served) -> Iterator[Stubs]:
    """The bare contract, as Python has it."""
    with grpc.insecure_channel(hall.address, options=UNLIMITED) as channel:
        yield Stubs(channel)


@pytest.fixture
def name(request: pytest.FixtureRequest, language: Language) -> str:
    """A name for a queue, and whatever else a test needs one for, that no other test has."""
    test = request.node.originalname.removeprefix("test_")
    found = len(request.config.stash.setdefault(_NAMES, []))
    request.config.stash[_NAMES].append(test)
    return f"{language}-{found}-{test[:40]}"


_NAMES = pytest.StashKey[list[str]]()


@pytest.fixture
def queue(python: spoolrack.Client, name: str) -> spoolrack.Queue:
    """A queue of the test's own, whose leases and limits are not in its way."""
    python.create_queue(name, visibility_timeout=3600, max_message_size=64 << 20)
    return python.queue(name)

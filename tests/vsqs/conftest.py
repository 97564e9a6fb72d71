"""The tests of vsqs's format: each of a queue's promises is kept with the kernel's help and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from spoolrack import vsqs
from spoolrack.vsqs import Queue
from spoolrack.vsqs import _watched_folder as watching
from spoolrack.vsqs._watcher import Watcher

from tests.vsqs.vsqs_rig import Micros, no_inotify

OFTEN = 0.02
"""Seconds between two listings of a folder without events."""


@pytest.fixture(params=["told by the kernel", "by listing"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a queue comes to know what others do."""
    means: str = request.param
    if means == "by listing":
        blind = partial(Watcher, kernel=no_inotify, list_every=OFTEN)
        monkeypatch.setattr(watching, "Watcher", blind)
    return means


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


@pytest.fixture
def opened(means: str, folder: Path) -> Iterator[Callable[..., Queue]]:
    """Opens the queue, as one more process would."""
    queues: list[Queue] = []

    def open_one(capacity: int | None = None) -> Queue:
        queues.append(Queue(folder, capacity))
        return queues[-1]

    yield open_one
    for queue in queues:
        queue.close()


@pytest.fixture
def queue(opened: Callable[..., Queue]) -> Queue:
    return opened()


@pytest.fixture
def micros(monkeypatch: pytest.MonkeyPatch) -> Micros:
    """The clock, which stands still at 1 s until the test moves it."""
    clock = Micros(1_000_000)
    monkeypatch.setattr(vsqs, "micros", clock)
    return clock

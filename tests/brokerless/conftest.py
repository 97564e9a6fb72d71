"""A root, its URL, and processes that use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import spoolrack

from tests.brokerless.actor import Actor


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def url(root: Path) -> str:
    return f"file://{root}"


@pytest.fixture
def client(url: str) -> Iterator[spoolrack.Client]:
    with spoolrack.connect(url) as client:
        yield client


@pytest.fixture
def jobs(client: spoolrack.Client) -> spoolrack.Queue:
    """An empty queue whose leases end soon."""
    client.create_queue("jobs", visibility_timeout=1)
    return client.queue("jobs")


@pytest.fixture
def actor(url: str) -> Iterator[Callable[[], Actor]]:
    """Makes processes that use the root."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Actor(url))

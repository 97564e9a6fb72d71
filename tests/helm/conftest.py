"""One Helm for all tests, and each case rendered once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import pytest

from tests.helm.chart_rig import CASES, ROUTED, Rendered, rendered
from tests.helm.helm_engine import Engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def release(engine: Engine) -> Callable[[str], Rendered]:
    """A case, by its name."""
    return cache(lambda name: rendered(engine, (CASES | ROUTED)[name]))

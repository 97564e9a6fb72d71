"""A trace for each test, which begins with a root that has a queue."""

from __future__ import annotations

import pytest

from tests.proof.audit.trace_text import TraceText


@pytest.fixture
def trace() -> TraceText:
    return TraceText().queue()

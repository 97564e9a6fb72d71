"""Callers of a proxy are those of the client's own tests: threads and tasks."""

from __future__ import annotations

from tests.client.conftest import connect as connect

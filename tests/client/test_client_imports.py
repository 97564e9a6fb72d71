"""Importing the client loads neither server nor store nor tracing: each is loaded where it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = (
    *(
        "spoolrack_server",
        "spoolrack_store",
        "spoolrack.vsqs",
        "spoolrack._transports.folder_transport",
    ),
    *("opentelemetry", "pyspark"),
)


@pytest.mark.parametrize("module", ["spoolrack", "spoolrack.aio", "spoolrack.testing"])
def test_importing_the_client_loads_neither_server_nor_store_nor_tracing(module: str) -> None:
    program = f"import sys, {module}; print(*(name for name in {LATE} if name in sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    assert loaded.stdout.split() == []

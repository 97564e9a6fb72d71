"""Fuzzing over HTTP: the server answers every request as its OpenAPI page says, and stays as it was.

SPOOLRACK_FUZZ=5000 asks so often by each operation, and differently each time.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.proof.fuzz.anything import ID, QUEUES
from tests.proof.fuzz.fuzz_rig import Fuzzed

TRIES: Final = int(os.environ.get("SPOOLRACK_FUZZ", "5"))
RUN_LIMIT: Final = 60 + 2 * TRIES
CHECKS: Final = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)


@pytest.fixture
def fuzzed(tmp_path: Path) -> Iterator[Fuzzed]:
    with Fuzzed(tmp_path, QUEUES) as fuzzed:
        yield fuzzed


@pytest.mark.slow
@pytest.mark.parametrize("named", [{}, {"queue": QUEUES[0]}, {"queue": QUEUES[1], "id": ID}])
@pytest.mark.timeout(60 + RUN_LIMIT)
def test_any_request_is_answered_as_the_page_says(
    fuzzed: Fuzzed, tmp_path: Path, named: dict[str, str]
) -> None:
    """About anything, about a queue that is there, and about a message that may be."""
    if importlib.util.find_spec("schemathesis") is None:
        pytest.skip("needs schemathesis: scripts/set-up dev installs it")
    lines = [f'"path.{name}" = "{value}"' for name, value in named.items()]
    # A receive of a queue that another request has made may wait for an hour, as it asks.
    lines.append('"query.wait" = 0.01')
    (tmp_path / "schemathesis.toml").write_text("\n".join(["[parameters]", *lines]))
    seed = [] if "SPOOLRACK_FUZZ" in os.environ else ["--seed", "1", "--generation-deterministic"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{fuzzed.url}/-/openapi.json"),
            *("--checks", ",".join(CHECKS), "--max-examples", str(TRIES), "--request-timeout", "30"),
            *("--phases", "examples,coverage,fuzzing", "--no-color", *seed),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_LIMIT,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    fuzzed.check()
    fuzzed.check_for_leaks()
    fuzzed.check_folders()

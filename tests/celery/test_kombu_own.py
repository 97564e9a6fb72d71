"""kombu's own integration tests of SQS, from its source distribution, against a real server."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from spoolrack_store.model.clock import SystemClock

from tests.support.sqs_rig import serving_sqs

CHECKOUT: Final = Path(__file__).resolve().parents[2]
STUCK: Final = 300.0
NOT_OURS: Final = {
    "test_fanout": "a fan-out is SNS's",
    "test_ack_invalid_receipt_with_backoff": "a second delete succeeds; that of GoAws fails",
}
"""Tests that are left out, by their names, with the reason."""


def fetch(folder: Path) -> Path:
    """Return the folder of kombu's source."""
    pins = CHECKOUT / "requirements" / "kombu-tests.txt"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"),
            *("--require-hashes", "-r", str(pins), "--dest", str(folder)),
        ],
        check=True,
        stdout=sys.stderr,
    )
    (archive,) = folder.glob("kombu-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    return source


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_kombus_own_tests_pass(tmp_path: Path) -> None:
    source = await asyncio.to_thread(fetch, tmp_path)
    async with serving_sqs(tmp_path / "root", clock=SystemClock()) as server:
        address = urlsplit(server.sqs_url)
        done = await asyncio.to_thread(
            subprocess.run,
            [
                *(sys.executable, "-m", "pytest", "t/integration/test_sqs.py", "-q", "-W", "ignore"),
                *("-o", "addopts=", "-p", "no:cacheprovider"),
                *("-k", " and ".join(f"not {name}" for name in NOT_OURS)),
            ],
            cwd=source,
            env={
                **os.environ,
                "SQS_HOST": str(address.hostname),
                "SQS_PORT": str(address.port),
                "AWS_ACCESS_KEY_ID": "any",
                "AWS_SECRET_ACCESS_KEY": "any",
                "AWS_DEFAULT_REGION": "us-east-1",
            },
            capture_output=True,
            text=True,
            timeout=STUCK,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^39 passed, 3 deselected", done.stdout, re.MULTILINE), done.stdout

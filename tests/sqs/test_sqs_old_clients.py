"""A boto3 of the years of AWS Query, as pip installs it, against a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from spoolrack_store.model.clock import SystemClock

from tests import CHECKOUT
from tests.support import STUCK
from tests.support.sqs_rig import serving_sqs


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_boto3_that_speaks_query_does_all_that_it_can(tmp_path: Path) -> None:
    folder = tmp_path / "old"
    await asyncio.to_thread(venv.create, folder, with_pip=True)
    python = folder / "bin" / "python"
    pins = CHECKOUT / "requirements" / "sqs-query.txt"
    await asyncio.to_thread(
        subprocess.run,
        [python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", pins],
        check=True,
        stdout=sys.stderr,
    )
    async with serving_sqs(tmp_path / "root", clock=SystemClock()) as server:
        done = await asyncio.to_thread(
            subprocess.run,
            [python, Path(__file__).with_name("query_client.py"), server.sqs_url],
            capture_output=True,
            text=True,
            timeout=STUCK,
            check=False,
        )
    assert done.stdout == "all of it works\n", done.stderr

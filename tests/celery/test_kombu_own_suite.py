"""kombu's own integration tests of its transport for Amazon SQS, from its source distribution, against
a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.celery.sources import UNPACK_LIMIT, unpack_tests
from tests.celery.worker_rig import until
from tests.support.real_server import RealServer

SUITE = "t/integration/test_sqs.py"
NOT_OF_SQS = (
    "test_SQSBaseExchangeTypes and test_fanout",  # By SNS, which is another service.
    "test_ack_invalid_receipt_with_backoff",  # Expects GoAws's error for a second delete: SQS has none.
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tests_of_kombu_for_sqs_pass(tmp_path: Path) -> None:
    unpack_tests("kombu", tmp_path)
    server = RealServer(tmp_path / "data", tmp_path / "server.log", after=("--sqs", "127.0.0.1:0"))
    server.start()
    try:
        port = until(lambda: re.search(r"sqs=http://127\.0\.0\.1:(\d+)", server.log), "it serves SQS")
        left_out = " or ".join(f"({each})" for each in NOT_OF_SQS)
        ini = [f"--override-ini={each}" for each in ("python_classes=test_*", "addopts=")]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                SUITE,
                "-q",
                "--rootdir",
                ".",
                *ini,
                "-k",
                f"not ({left_out})",
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "SQS_HOST": "127.0.0.1",
                "SQS_PORT": port[1],
                "AWS_DEFAULT_REGION": "us-east-1",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=UNPACK_LIMIT,
            check=False,
        )
    finally:
        server.kill()
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 30

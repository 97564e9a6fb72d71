"""kombu's own integration tests of its transport for Amazon SQS, from its source distribution, against
a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.celery.worker_rig import until
from tests.support.real_server import RealServer

STUCK = 500.0
SUITE = "t/integration/test_sqs.py"
NOT_OF_SQS = (
    "test_SQSBaseExchangeTypes and test_fanout",  # By SNS, which is another service.
    "test_ack_invalid_receipt_with_backoff",  # Expects GoAws's error for a second delete: SQS has none.
)


def unpack(folder: Path) -> None:
    """Put the tests of the installed version of kombu into a folder, without kombu itself."""
    pins = (CHECKOUT / "requirements" / "dev.txt").read_text()
    pin = re.search(r"^kombu(?:\[.*\])?(==\S+ (?:\\\n +--hash=\S+ ?)+)", pins, re.MULTILINE)
    assert pin is not None
    assert pin[1].startswith(f"=={version('kombu')} "), "the installed kombu is not the pinned one"
    (folder / "pin.txt").write_text(f"kombu{pin[1]}\n")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "kombu"]
    subprocess.run(
        [*pip, "--require-hashes", "-r", "pin.txt"],
        cwd=folder,
        check=True,
        stdout=sys.stderr,
        timeout=STUCK,
    )
    (archive,) = folder.glob("kombu-*.tar.gz")
    with tarfile.open(archive) as source:
        for member in source.getmembers():
            root, _, member.name = member.name.partition("/")
            if root and member.name.startswith("t/"):
                source.extract(member, folder, filter="data")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_tests_of_kombu_for_sqs_pass(tmp_path: Path) -> None:
    unpack(tmp_path)
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
            timeout=STUCK,
            check=False,
        )
    finally:
        server.kill()
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 30

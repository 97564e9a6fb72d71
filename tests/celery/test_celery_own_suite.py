"""Celery's own tests, from its source distribution, with `spoolrack://` as their broker.

Its integration tests run one worker in their process. Its smoke tests run workers in containers: here
they are processes, by `smoke_workers.py`. Both keep results in a Redis server, as Celery's own runs do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from spoolrack.testing import running_server

from benchmarks import server_processes
from tests.celery.sources import CHECKOUT, UNPACK_LIMIT, unpack_tests

REDIS = server_processes.find("redis-server")
LONGEST = 3_000
"""Seconds of a suite, on a machine of two cores that is busy."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(LONGEST + 2 * UNPACK_LIMIT),
    pytest.mark.skipif(REDIS is None, reason="needs redis-server: scripts/install-peers installs it"),
]


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return a folder with Celery's tests in `t/`, and with what they import in `packages/`."""
    folder = tmp_path_factory.mktemp("suite")
    unpack_tests("celery", folder)
    shutil.copy(
        Path(__file__).with_name("smoke_workers.py"), folder / "t" / "smoke" / "tests" / "conftest.py"
    )
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--require-hashes",
        "--target",
        "packages",
    ]
    pins = CHECKOUT / "requirements" / "celery-suite.txt"
    subprocess.run([*pip, "-r", pins], cwd=folder, check=True, stdout=sys.stderr, timeout=UNPACK_LIMIT)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the environment that tells the suite of its broker and its backend."""
    assert REDIS is not None
    port = server_processes.free_port()
    redis = server_processes.Server(
        [REDIS, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)],
        tmp_path / "redis.log",
    )
    try:
        redis.wait_for_port(port)
        with running_server(tmp_path / "data") as server:
            yield {
                "TEST_BROKER": server.url.replace("grpc://", "spoolrack://"),
                "TEST_BACKEND": f"redis://127.0.0.1:{port}",
                "REDIS_HOST": "127.0.0.1",
                "REDIS_PORT": str(port),
            }
    finally:
        redis.end()


def passed(suite: Path, env: dict[str, str], *arguments: str) -> int:
    """Run tests of the suite; return how many have passed, which all must."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--rootdir", "."),
            *("--override-ini=python_classes=test_*", "--override-ini=addopts="),
            *("-W", "ignore", "-p", "no:cacheprovider", *arguments),
        ],
        cwd=suite,
        env={
            **os.environ,
            **env,
            "PYTHONPATH": f"{suite}:{suite / 'packages'}",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "WORKER_LOGLEVEL": "INFO",  # As in Celery's own runs: some tests read the log.
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    found = re.search(r"(\d+) passed", done.stdout)
    assert found is not None
    return int(found[1])


OF_THE_BROKER = ("beat", "canvas", "group_chains", "inspect", "tasks", "worker")
NOT_OF_THE_BROKER = (
    "test_scheduled",  # The server delays a task that is due later: no worker holds it.
    "django or autodiscover",  # Of a framework that isn't installed.
    "msg_duplication",  # Publishes a property that isn't JSON: it fails with Redis, too.
    "test_trace_log_arguments",  # Gives the log of another process ten milliseconds.
)


def test_the_integration_tests_of_celery_pass(suite: Path, servers: dict[str, str]) -> None:
    files = [f"t/integration/test_{name}.py" for name in OF_THE_BROKER]
    count = passed(suite, servers, *files, "-k", f"not ({' or '.join(NOT_OF_THE_BROKER)})")
    assert count > 200


SMOKE = ("canvas", "control", "revoke", "tasks", "worker")
NOT_OF_PROCESSES = (
    "soft_shutdown_eta",  # The server delays a task that is due later.
    "alias_is_not_reconsumed",  # Runs a program in the broker's container.
    "pending_operation_order",  # Wants gevent.
    "child_process_respawn",  # Counts the processes of its container.
    "test_replace",  # Wants an image of an older Celery.
)


def test_the_smoke_tests_of_celery_pass(suite: Path, servers: dict[str, str]) -> None:
    files = [f"t/smoke/tests/test_{name}.py" for name in SMOKE]
    left_out = " or ".join(NOT_OF_PROCESSES)
    # Some are races, which Celery's own runs repeat, too.
    count = passed(suite, servers, *files, "--reruns", "2", "-k", f"not ({left_out})")
    assert count > 50

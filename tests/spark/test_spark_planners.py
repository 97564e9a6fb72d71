"""The planners of the tests' queries connect to Spark however long Python takes to import."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from pathlib import Path

from tests.spark.spark_rig import environment
from tests.support import STUCK

SECRET = b"a secret"
SLOW = """
import os, sys
print("begun", flush=True)
sys.stdin.readline()
from pyspark.worker_util import get_sock_file_to_executor
with get_sock_file_to_executor(timeout=None) as file:
    file.write(b"planned")
"""


def test_a_planner_connects_before_it_imports(tmp_path: Path) -> None:
    (tmp_path / "python_streaming_source_runner.py").write_text(SLOW)
    variables = environment(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as spark:
        spark.settimeout(STUCK)
        own = {
            "PYTHON_WORKER_FACTORY_PORT": str(spark.getsockname()[1]),
            "PYTHON_WORKER_FACTORY_SECRET": SECRET.decode(),
            "PYTHONPATH": os.pathsep.join([str(tmp_path), variables["PYTHONPATH"]]),
        }
        with subprocess.Popen(
            [variables["PYSPARK_PYTHON"], "-m", "python_streaming_source_runner"],
            env={**os.environ, **variables, **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as planner:
            assert planner.stdin is not None
            connection, _ = spark.accept()
            with connection, connection.makefile("rb") as said:
                connection.settimeout(STUCK)
                assert said.read(4 + len(SECRET)) == struct.pack("!i", len(SECRET)) + SECRET
                # Only now may its module go on.
                planner.stdin.write(b"\n")
                planner.stdin.close()
                connection.sendall(struct.pack("!i", 2) + b"ok")
                assert said.read() == struct.pack("!i", planner.pid) + b"planned"
            assert planner.wait(STUCK) == 0

"""What ends a benchmark ends the servers that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.support import STUCK

PROGRAM = """
import sys, time
from pathlib import Path
from benchmarks import server_processes

folder = Path(sys.argv[1])
server = server_processes.serve(folder / "root", folder / "log")
print(server.pids()[0], flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_benchmark_that_is_told_to_end_ends_its_servers(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    # A server that just begins is one that no list has yet.
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        assert program.stdout is not None
        server = int(program.stdout.readline())
        program.send_signal(number)
        program.wait(STUCK)
    end = time.monotonic() + 60
    while Path(f"/proc/{server}").exists() and time.monotonic() < end:
        time.sleep(0.01)
    left = Path(f"/proc/{server}").exists()
    if left:
        os.kill(server, signal.SIGKILL)
    assert not left

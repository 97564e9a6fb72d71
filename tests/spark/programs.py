"""Runs `moving.py` as a program of its own, which is killed and started again until it ends well.

Its child processes end with it: all are in a session that the program has begun.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyspark

from tests.spark.dying import session_of
from tests.spark.spark_rig import environment
from tests.support import STUCK

NO_CONF: Final[Mapping[str, str]] = {}
HERE: Final = Path(__file__).parent

Move = Callable[..., int]


@contextlib.contextmanager
def moving(folder: Path, endpoint: str) -> Iterator[Move]:
    """Yield a function that runs the program until it ends well, and returns how often it didn't."""
    (folder / "marks").mkdir()
    # The fixed folder in which a local cluster keeps the executors' logs.
    work = Path(pyspark.__file__).parent / "work"
    before = set(work.iterdir()) if work.exists() else set()
    log = folder / "log"
    programs: list[subprocess.Popen[bytes]] = []

    variables = {**os.environ, **environment(folder)}
    # Executors work in folders of their own.
    roads = variables["PYTHONPATH"].split(os.pathsep)
    variables["PYTHONPATH"] = os.pathsep.join(str(Path(road).absolute()) for road in roads)

    def run(
        master: str, *, read: dict[str, Any], through: str = "", conf: Mapping[str, str] = NO_CONF
    ) -> int:
        given = {
            "master": master,
            "endpoint": endpoint,
            "checkpoint": str(folder / "checkpoint"),
            "marks": str(folder / "marks"),
            "through": through,
            "read": read,
            # Executors of their own don't take over the driver's environment.
            "conf": {"spark.executorEnv.PYTHONPATH": variables["PYTHONPATH"], **conf},
        }
        command = [sys.executable, str(HERE / "moving.py"), json.dumps(given)]
        for failures in range(6):
            with log.open("ab") as out:
                program = subprocess.Popen(
                    command, env=variables, stdout=out, stderr=out, start_new_session=True
                )
            programs.append(program)
            code = program.wait(STUCK)
            end_session(program.pid)
            if code == 0:
                return failures
        raise AssertionError("it failed six times:\n" + log.read_text(errors="replace")[-4_000:])

    try:
        yield run
    finally:
        for program in programs:
            end_session(program.pid)
            program.wait(STUCK)
        for left in set(work.iterdir()) - before if work.exists() else ():
            shutil.rmtree(left)
        if work.exists() and not any(work.iterdir()):
            work.rmdir()


def end_session(leader: int) -> None:
    """End all that a program of ours has started, and it."""
    for pid in session_of(leader):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

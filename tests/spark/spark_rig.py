"""The Spark that tests run: its Java, its settings, and the environment of a program that starts one.

Settings are in conf/; each Spark of a test, in this process or another, gets them by its environment.
This knows nothing of queues.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
HERE: Final = Path(__file__).parent
CHECKOUT: Final = HERE.parents[1]
PLANNER: Final = HERE / "prompt_planner.py"


@cache
def java_home() -> str | None:
    """Return where the Java is that Spark is to run with; None if the machine and the wheels have
    none."""
    found = subprocess.run(
        [sys.executable, CHECKOUT / "scripts" / "find-java"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    return found.stdout.strip() if found.returncode == 0 else None


@cache
def missing() -> str | None:
    """Return what keeps Spark from running here, or None."""
    try:
        socket.getaddrinfo("localhost", None)
    except OSError:  # PySpark's own servers listen there.
        return "needs the name localhost: add the line 127.0.0.1 localhost to /etc/hosts"
    lacks = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not lacks and java_home() is None:
        lacks = ["a Java"]
    return f"needs {', '.join(lacks)}: make test sets it up" if lacks else None


def home(folder: Path) -> Path:
    """Return a SPARK_HOME in this folder: a cluster's executors write below it, not into the installed
    one."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, missing()
    assert spec.origin is not None
    made = folder / "spark-home"
    made.mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "jars", "python"):
        if not (made / name).is_symlink():
            (made / name).symlink_to(Path(spec.origin).with_name(name))
    return made


def environment(folder: Path) -> dict[str, str]:
    """Return the variables that make a Spark one of the tests, with its files in this folder."""
    java = java_home()
    assert java is not None, missing()
    python = folder / "python-of-workers"
    python.write_text(
        f"""#!/bin/sh
case "$*" in *python_streaming_source_runner*) exec "{sys.executable}" "{PLANNER}" "$@" ;; esac
exec "{sys.executable}" "$@"
"""
    )
    python.chmod(0o755)
    return {
        "JAVA_HOME": java,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": str(python),
        # Its workers look up by name what a test gives them to run.
        "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *filter(None, [os.getenv("PYTHONPATH")])]),
        "SPARK_CONF_DIR": str(HERE / "conf"),
        "SPARK_HOME": str(home(folder)),
        "SPARK_LOCAL_DIRS": str(folder / "spark-local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def bare(folder: Path, packages: Path) -> dict[str, str]:
    """Return the environment of a Spark whose Python knows these packages alone, not this checkout."""
    python = folder / "python"
    # Without `site` the file that leads from the environment to this checkout isn't read.
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    alone = {"PYTHONPATH": str(packages)}
    alone |= dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), str(python))
    return os.environ | environment(folder) | alone


def submit(environment: dict[str, str], master: str, *arguments: object, folder: Path) -> str:
    """Run a job; return what it printed."""
    program = f"{environment['SPARK_HOME']}/bin/spark-submit"
    return printed(environment, program, "--master", master, *arguments, folder=folder)


def printed(environment: dict[str, str], *command: object, folder: Path) -> str:
    """Run a program that must end well; return what it printed."""
    run = subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, timeout=400
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@contextmanager
def running(
    environment: dict[str, str], folder: Path, log: str, program: str, *arguments: object
) -> Iterator[Path]:
    """Run one of Spark's own servers; yield the file of its output."""
    told = folder / log
    with told.open("w") as out:
        process = subprocess.Popen(
            [f"{environment['SPARK_HOME']}/bin/{program}", *map(str, arguments)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield told
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def wait_for_port(port: int, told: Path, seconds: float = 200.0) -> None:
    """Return when a server listens there; raise with what it said."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise AssertionError(told.read_text())

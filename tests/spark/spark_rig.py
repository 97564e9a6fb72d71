"""The Spark that tests run: its Java, its settings, and the environment of a program that starts one.

Settings are in conf/; each Spark of a test, in this process or another, gets them by its environment.
This knows nothing of queues.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
HERE: Final = Path(__file__).parent
CHECKOUT: Final = HERE.parents[1]


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
    """Return the variables that make a Spark one of the tests: what it keeps meanwhile is in this
    folder."""
    java = java_home()
    assert java is not None, missing()
    return {
        "JAVA_HOME": java,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        # Its workers look up by name what a test gives them to run.
        "PYTHONPATH": os.pathsep.join([str(CHECKOUT), *filter(None, [os.getenv("PYTHONPATH")])]),
        "SPARK_CONF_DIR": str(HERE / "conf"),
        "SPARK_HOME": str(home(folder)),
        "SPARK_LOCAL_DIRS": str(folder / "spark-local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

"""The environment of Spark, its workers and the servers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).parents[1]


def prepare() -> None:
    """Name the Python, the Java, and the folders of modules, which the workers import, too."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    roads = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(CHECKOUT), *map(os.path.abspath, roads)])
    os.environ["JAVA_HOME"] = subprocess.run(
        [sys.executable, CHECKOUT / "scripts" / "find-java"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.strip()

"""One Spark session for the whole run, because starting one takes longer than most tests.

Tests of what kills Spark start their own, in processes of their own: `spark_rig.environment`.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import CHECKOUT
from tests.spark.spark_rig import environment, missing
from tests.support import STUCK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = 4


class Unready(pytest.Module):
    """The tests of a module that can't be imported here."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        pytest.skip(missing() or "", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Without Spark no test here is even imported; each module says so."""
    return Unready.from_parent(parent, path=module_path) if missing() else None


@pytest.fixture(scope="module", autouse=True)
def _few_files_are_open() -> None:
    """Collect the stores that earlier tests have closed: their files stay open until then.

    py4j's callback server waits in select(2), and ends without a word if a descriptor is above 1023.
    """
    gc.collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with four cores. A test ends what it starts in it."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    before = dict(os.environ)
    os.environ.update(environment(folder))
    try:
        session = (
            SparkSession.builder.master(f"local[{CORES}]")
            .appName("spoolrack's tests")
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .getOrCreate()
        )
    finally:
        os.environ.clear()
        os.environ.update(before)
    yield session
    gateway = SparkContext._gateway
    assert gateway is not None
    session.stop()
    # Its Java lives as long as this process otherwise, and the next session would get it as it is.
    gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    gateway.proc.wait(STUCK)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as it is published."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    (built,) = folder.glob("*.whl")
    return built

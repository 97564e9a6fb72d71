"""Spark reads and writes queues: the data sources `spoolrack` and `spoolrack.root`, and a writer for
partitions.

    spark.readStream.format("spoolrack").options(endpoint="queues:50051", queue="jobs").load()

Spark finds the data sources by itself where it finds the packages `pyspark_spoolrack` and
`pyspark_spoolrack_root`; elsewhere `register(spark)` registers them in a session. This module loads
without pyspark: only what is asked for that is Spark's brings it in. `spoolrack` itself never does.
docs/how-to/spark.md is the way in.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ._partition import COUNTS, write_batches, write_partition, writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ._datasource import SpoolrackDataSource
    from ._root_source import SpoolrackRootDataSource

__all__ = [
    "COUNTS",
    "SpoolrackDataSource",
    "SpoolrackRootDataSource",
    "register",
    "write_batches",
    "write_partition",
    "writer",
]

OLDEST: Final = (4, 2)
"""The first pyspark that passes data sources the amount to read."""


_SOURCES: Final = {"SpoolrackDataSource": "_datasource", "SpoolrackRootDataSource": "_root_source"}
"""The data sources, and their modules, which need pyspark."""


def register(spark: SparkSession) -> None:
    """Make `format("spoolrack")` and `format("spoolrack.root")` known to a session that can't find them
    by itself.

    Raise `ImportError` where pyspark is too old for the data sources.
    """
    for name in _SOURCES:
        spark.dataSource.register(__getattr__(name))


def _check_version() -> None:
    import pyspark

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < OLDEST:
        raise ImportError(
            f"The data source spoolrack needs pyspark {OLDEST[0]}.{OLDEST[1]} or newer, and this is "
            f"{pyspark.__version__}. With an older one write by foreachBatch(writer(...))."
        )


def __getattr__(name: str) -> Any:
    if name not in _SOURCES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _check_version()
    return getattr(import_module(f".{_SOURCES[name]}", __name__), name)

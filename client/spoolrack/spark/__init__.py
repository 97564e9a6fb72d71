"""Spark reads and writes queues: the data sources `spoolrack` and `spoolrack.root`, and a writer for
partitions.

    spark.readStream.format("spoolrack").options(endpoint="queues:50051", queue="jobs").load()

Spark finds the data sources by itself where it finds the packages `pyspark_spoolrack` and
`pyspark_spoolrack_root`; elsewhere `register(spark)` registers them in a session. This module loads
without pyspark: only what is asked for that is Spark's brings it in. `spoolrack` itself never does.
docs/spark.md is the way in.
"""

from __future__ import annotations

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


def register(spark: SparkSession) -> None:
    """Make `format("spoolrack")` and `format("spoolrack.root")` known to a session that can't find them
    by itself.

    Raise `ImportError` where pyspark is too old for the data sources.
    """
    _check_version()
    from ._datasource import SpoolrackDataSource
    from ._root_source import SpoolrackRootDataSource

    spark.dataSource.register(SpoolrackDataSource)
    spark.dataSource.register(SpoolrackRootDataSource)


def _check_version() -> None:
    import pyspark

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < OLDEST:
        raise ImportError(
            f"The data source spoolrack needs pyspark {OLDEST[0]}.{OLDEST[1]} or newer, and this is "
            f"{pyspark.__version__}. With an older one write by foreachBatch(writer(...))."
        )


def __getattr__(name: str) -> Any:
    if name == "SpoolrackDataSource":
        _check_version()
        from ._datasource import SpoolrackDataSource

        return SpoolrackDataSource
    if name == "SpoolrackRootDataSource":
        _check_version()
        from ._root_source import SpoolrackRootDataSource

        return SpoolrackRootDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

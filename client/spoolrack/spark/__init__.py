"""Spark reads and writes queues: the data source `spoolrack`, and a writer for partitions.

    spark.readStream.format("spoolrack").options(endpoint="queues:50051", queue="jobs").load()

Spark finds the data source by itself where it finds the package `pyspark_spoolrack`; elsewhere
`register(spark)` tells a session of it. This module loads without pyspark: only what is asked for that
is Spark's brings it in. `spoolrack` itself never does. docs/spark.md is the way in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ._partition import COUNTS, write_batches, write_partition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ._datasource import SpoolrackDataSource

__all__ = ["COUNTS", "SpoolrackDataSource", "register", "write_batches", "write_partition"]

OLDEST: Final = (4, 2)
"""The first pyspark whose data sources are told how much to read."""


def register(spark: SparkSession) -> None:
    """Make `format("spoolrack")` known to a session that can't find it by itself.

    Raise `ImportError` where pyspark is too old for the data source.
    """
    spark.dataSource.register(_data_source())


def _data_source() -> type[SpoolrackDataSource]:
    import pyspark

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < OLDEST:
        raise ImportError(
            f"The data source spoolrack needs pyspark {OLDEST[0]}.{OLDEST[1]} or newer, and this is "
            f"{pyspark.__version__}. With an older one write by foreachPartition(write_partition(...))."
        )
    from ._datasource import SpoolrackDataSource

    return SpoolrackDataSource


def __getattr__(name: str) -> Any:
    if name == "SpoolrackDataSource":
        return _data_source()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The data source `spoolrack.root`: a store's folder as a table, without a server.

It reads the files with the store's own package, which it imports when it is first asked for a schema.
What can fail: a wheel without the store, an option, a folder that is no root.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ._columns import ddl
from ._rows import InvalidColumn

if TYPE_CHECKING:
    from ._root_reader import RootOptions


class SpoolrackRootDataSource(DataSource):
    """A root as a table, a row for each message; docs/how-to/spark.md lists columns and options."""

    @classmethod
    def name(cls) -> str:
        return "spoolrack.root"

    def schema(self) -> str:
        root = _root_reader()
        return ddl(root.root_options(self.options).columns, root.COLUMNS)

    def reader(self, schema: StructType) -> RootReader:
        options = _root_reader().root_options(self.options)
        if tuple(schema.fieldNames()) != options.columns:
            raise InvalidColumn(
                "The columns of a root are chosen by .option('columns', 'queue, state, ...'), not by "
                ".schema(...): leave that out."
            )
        return RootReader(options)


class RootReader(DataSourceReader):
    def __init__(self, options: RootOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(each) for each in _root_reader().ranges(self._options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _root_reader().read(self._options, partition.value)


def _root_reader() -> Any:
    """Return the module that reads roots; raise `ImportError` where the store's package is missing."""
    try:
        from . import _root_reader
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "spoolrack_store":
            raise
        raise ImportError(
            "format('spoolrack.root') reads files with the package spoolrack_store, which isn't here. "
            "The wheel of spoolrack has it: install 'spoolrack[spark]' for the driver and for each "
            "executor, or ship the whole wheel with --py-files (docs/how-to/spark.md)."
        ) from error
    return _root_reader

"""The data source `spoolrack`: its entry points for Spark, and the checks before any row moves.

What can fail: an option, a column or a mode that can't be; the error says what to write instead.
"""

# ruff: noqa: N802 - Spark names the methods

from __future__ import annotations

from types import UnionType
from typing import Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
)

from ._columns import COLUMNS, ddl
from ._options import InvalidOption, ReadOptions, read_options, write_options
from ._rows import InvalidColumn, check_columns
from ._sink import QueueStreamWriter, QueueWriter
from ._source import QueueReader, QueueStreamReader

_KINDS: Final[dict[str, str]] = {
    "body": "binary or string",
    "attributes": "map<string, string> or map<string, binary>",
    "binary_attributes": "map<string, binary>",
    "deduplication_id": "string",
    "group": "string",
    "priority": "a whole number",
    "delay_seconds": "a number",
}


class SpoolrackDataSource(DataSource):
    """Queues as tables: `docs/spark.md` lists the options."""

    @classmethod
    def name(cls) -> str:
        return "spoolrack"

    def schema(self) -> str:
        return ddl(read_options(self.options).columns, COLUMNS)

    def reader(self, schema: StructType) -> QueueReader:
        options = read_options(self.options)
        _check_read(schema, options)
        return QueueReader(options)

    def streamReader(self, schema: StructType) -> QueueStreamReader:
        options = read_options(self.options)
        _check_read(schema, options)
        if options.states or options.since is not None or options.until is not None:
            raise InvalidOption(
                "states, sentAfter and sentBefore are for a batch read, which looks: a stream takes "
                "what is ready. Leave them out, or use .where(...)."
            )
        return QueueStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> QueueWriter:
        if overwrite:
            raise InvalidOption(
                "A queue can't be overwritten: use .mode('append'), and purge it if it shall be empty."
            )
        options = write_options(self.options)
        _check_written(schema, is_direct=options.is_direct)
        return QueueWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> QueueStreamWriter:
        if overwrite:
            raise InvalidOption(
                "A queue can't be overwritten with each batch: use .outputMode('append')."
            )
        options = write_options(self.options)
        if options.transaction:
            raise InvalidOption(
                "txnId is for a batch write: a streaming query is known by its id, and its batches."
            )
        _check_written(schema, is_direct=options.is_direct)
        return QueueStreamWriter(options)


def _check_read(schema: StructType, options: ReadOptions) -> None:
    if tuple(schema.fieldNames()) != options.columns:
        raise InvalidColumn(
            f"This read has the columns {', '.join(options.columns)}, and .schema(...) has others: "
            "leave that out, and choose by .option('columns', 'id, body, ...')."
        )


def _check_written(schema: StructType, *, is_direct: bool) -> None:
    check_columns(schema.fieldNames(), may_deduplicate=is_direct, must_deduplicate=is_direct)
    for field in schema.fields:
        if not _fits(field.name, field.dataType):
            raise InvalidColumn(
                f"The column {field.name} is {field.dataType.simpleString()}: it must be "
                f"{_KINDS[field.name]}."
            )


def _is_map(kind: DataType, values: type[DataType] | UnionType) -> bool:
    return (
        isinstance(kind, MapType)
        and isinstance(kind.keyType, StringType)
        and isinstance(kind.valueType, values)
    )


def _fits(name: str, kind: DataType) -> bool:
    match name:
        case "body":
            return isinstance(kind, BinaryType | StringType)
        case "attributes":
            return _is_map(kind, BinaryType | StringType)
        case "binary_attributes":
            return _is_map(kind, BinaryType)
        case "deduplication_id" | "group":
            return isinstance(kind, StringType)
        case "priority":
            return isinstance(kind, IntegralType)
        case _:
            return isinstance(kind, NumericType)

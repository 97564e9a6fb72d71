"""The data source `spoolrack`: its entry points for Spark, and the checks before any row moves.

What can fail: an option, a column or a mode that can't be; the error says what to write instead.
"""

# ruff: noqa: N802 - Spark names the methods

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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

from ._columns import COLUMNS, ddl, in_spark
from ._options import InvalidOption, ReadOptions, read_options, write_options
from ._rows import WRITTEN, InvalidColumn, check_columns
from ._sink import QueueStreamWriter, QueueWriter
from ._source import QueueReader, QueueStreamReader

_TEXT: Final = BinaryType | StringType
_KINDS: Final[dict[str, tuple[str, Callable[[DataType], bool]]]] = {
    "body": ("binary or string", lambda kind: isinstance(kind, _TEXT)),
    "attributes": ("map<string, string> or map<string, binary>", lambda kind: _is_map(kind, _TEXT)),
    "binary_attributes": ("map<string, binary>", lambda kind: _is_map(kind, BinaryType)),
    "deduplication_id": ("string", lambda kind: isinstance(kind, StringType)),
    "group": ("string", lambda kind: isinstance(kind, StringType)),
    "priority": ("a whole number", lambda kind: isinstance(kind, IntegralType)),
    "delay_seconds": ("a number", lambda kind: isinstance(kind, NumericType)),
}
"""The columns of what is written, each with its types, as text and as a check."""
_ONLY_READ: Final = frozenset(COLUMNS).difference(WRITTEN)
_READ_KINDS: Final = {
    name: {in_spark(column.kind).replace(" ", "")} for name, column in COLUMNS.items()
}
_READ_KINDS["body"].add("string")


class SpoolrackDataSource(DataSource):
    """Queues as tables: `docs/how-to/spark.md` lists the options."""

    @classmethod
    def name(cls) -> str:
        return "spoolrack"

    def schema(self) -> str:
        return ddl(read_options(self.options).columns, COLUMNS)

    def reader(self, schema: StructType) -> QueueReader:
        return QueueReader(_with_columns(schema, read_options(self.options)))

    def streamReader(self, schema: StructType) -> QueueStreamReader:
        options = _with_columns(schema, read_options(self.options))
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
        # INSERT INTO writes null to the columns that it doesn't name.
        written = [one for one in schema.fields if one.name not in _ONLY_READ or not one.nullable]
        _check_written(StructType(written), is_direct=options.is_direct)
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


def _with_columns(schema: StructType, options: ReadOptions) -> ReadOptions:
    """Return the options for the columns of a schema, which is a table's or the caller's, or follows
    from the options."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    others = [name for name, kind in kinds.items() if kind not in _READ_KINDS.get(name, ())]
    if others:
        raise InvalidColumn(
            f"A queue doesn't have the columns {', '.join(others)} of the table or of .schema(...): it "
            f"has {ddl(COLUMNS, COLUMNS)}. body may be a string."
        )
    return replace(options, columns=tuple(kinds), is_text=kinds.get("body") == "string")


def _check_written(schema: StructType, *, is_direct: bool) -> None:
    check_columns(schema.fieldNames(), may_deduplicate=is_direct, must_deduplicate=is_direct)
    for field in schema.fields:
        kinds, fits = _KINDS[field.name]
        if not fits(field.dataType):
            raise InvalidColumn(
                f"The column {field.name} is {field.dataType.simpleString()}: it must be {kinds}."
            )


def _is_map(kind: DataType, values: type[DataType] | UnionType) -> bool:
    return (
        isinstance(kind, MapType)
        and isinstance(kind.keyType, StringType)
        and isinstance(kind.valueType, values)
    )

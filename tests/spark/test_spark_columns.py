"""Messages become Arrow's columns and messages again, without a change."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from spoolrack.spark._columns import COLUMNS, Rows, chunks_of, messages_of, record_batch
from spoolrack.spark._options import READ_UNASKED
from spoolrack.spark._row_sender import checksums, together
from spoolrack.spark._rows import InvalidColumn
from spoolrack.v1 import columns_pb2
from spoolrack.v1 import queue_pb2 as pb


def test_attributes_of_both_types_are_copied_as_they_are() -> None:
    read = pb.Message(id="1", body=b"x")
    read.attributes["text"].string_value = "eA=="
    read.attributes["bytes"].binary_value = b"\xff"

    page = [Rows("q", read), Rows("q", pb.Message(id="2", body=b"y"))]
    batch = record_batch(page, READ_UNASKED, COLUMNS)
    copied = batch.select(["body", "attributes", "binary_attributes"])
    first, second = (message for message, _, _ in messages_of(copied))

    assert first.attributes == read.attributes
    assert not second.attributes


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_bodies_go_out_by_column_and_have_the_checksums_of_messages(kind: pa.DataType) -> None:
    bodies = [b"", b"x" * 200, b"y" * 20_000, "ü".encode(), *(b"%d" % n for n in range(2_000))]
    batch = pa.RecordBatch.from_arrays([pa.array([b"before", *bodies], kind)], names=["body"]).slice(1)

    chunks = list(chunks_of([batch, batch.slice(0, 0)]))

    assert [len(chunk.body_sizes) for chunk in chunks] == [1_000, 1_000, 4]
    assert b"".join(chunk.bodies for chunk in chunks) == b"".join(bodies)
    whole = together(checksums("q", chunk) for chunk in chunks)
    assert whole == checksums("q", [pb.OutgoingMessage(body=body) for body in bodies])


def test_a_chunk_has_a_mebibyte_or_one_larger_body_and_texts_are_bytes() -> None:
    bodies = ["a" * 600_000, "b" * 600_000, "c" * 2_000_000, "d"]
    batch = pa.RecordBatch.from_arrays([pa.array(bodies)], names=["body"])

    sizes = [list(chunk.body_sizes) for chunk in chunks_of([batch])]

    assert sizes == [[600_000], [600_000], [2_000_000], [1]]


def test_a_body_that_is_null_is_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"x", None])], names=["body"])
    with pytest.raises(InvalidColumn, match="null"):
        list(chunks_of([batch]))


def test_messages_by_column_are_the_rows_that_they_are_one_by_one() -> None:
    first = pb.Message(id="01990000-0000-7000-8000-0000000000ff", receive_count=2, priority=3)
    first.send_time.FromMilliseconds(1_700_000_000_123)
    run = columns_pb2.MessageRun(
        first=first, columns=columns_pb2.MessageColumns(bodies=b"abb", body_sizes=[1, 0, 2])
    )
    run.columns.attributes[2].by_name["n"].string_value = "v"
    run.columns.groups[0] = "g"
    alone = pb.Message(id="one", body=b"z", body_size=1)
    alone.attributes["b"].binary_value = b"\xff"
    left_out = pb.Message(id="large", body_size=1 << 40)
    columns = [*READ_UNASKED, "priority", "body_size", "queue"]

    for page in (
        [run],
        [run, run],
        [run, columns_pb2.MessageRun(first=alone), columns_pb2.MessageRun(first=left_out)],
    ):
        batch = record_batch([Rows.of("q", run) for run in page], columns, COLUMNS)

        singles = [Rows("q", single) for each in page for single in singles_of(each)]
        assert batch.equals(record_batch(singles, columns, COLUMNS))


def singles_of(run: columns_pb2.MessageRun) -> Iterator[pb.Message]:
    if not run.HasField("columns"):
        yield run.first
        return
    columns, end = run.columns, 0
    for place, size in enumerate(columns.body_sizes):
        begin, end = end, end + size
        one = pb.Message()
        one.CopyFrom(run.first)
        one.id = f"{run.first.id[:-3]}{0xFF + place:03x}"
        one.body, one.body_size = columns.bodies[begin:end], size
        one.group = columns.groups.get(place, "")
        if place in columns.attributes:
            for name, value in columns.attributes[place].by_name.items():
                one.attributes[name].CopyFrom(value)
        yield one

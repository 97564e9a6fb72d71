"""Messages become Arrow's columns and messages again, without a change."""

from __future__ import annotations

from spoolrack.spark._columns import messages_of, record_batch
from spoolrack.spark._options import READ_UNASKED
from spoolrack.v1 import queue_pb2 as pb


def test_attributes_of_both_types_are_copied_as_they_are() -> None:
    read = pb.Message(id="1", body=b"x")
    read.attributes["text"].string_value = "eA=="
    read.attributes["bytes"].binary_value = b"\xff"

    batch = record_batch([read, pb.Message(id="2", body=b"y")], READ_UNASKED, "q")
    copied = batch.select(["body", "attributes", "binary_attributes"])
    first, second = (message for message, _, _ in messages_of(copied))

    assert first.attributes == read.attributes
    assert not second.attributes

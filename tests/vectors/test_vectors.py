"""The golden vectors and this implementation say the same, and the vectors leave nothing out."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from spoolrack_server.wire.contract import METHODS
from spoolrack_server.wire.status import CODES

HERE = Path(__file__).parent
WELL_KNOWN = "google.protobuf."
LATER = {"a state of a later version", "fields of a later version, which must not hurt"}
"""Vectors that a codec keeps, and JSON can't say or not in words."""
KINDS = {"stage", "chunk", "published", "redrive", "reserved"}


@cache
def read(name: str) -> Any:
    return json.loads((HERE / name).read_text())


def messages() -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = read("messages.json")["vectors"]
    return vectors


def types() -> dict[str, Descriptor]:
    methods = METHODS.values()
    return {kind.full_name: kind for m in methods for kind in (m.input_type, m.output_type)}


def test_the_implementation_makes_the_vectors_that_are_kept() -> None:
    compared = subprocess.run(
        [sys.executable, "-m", "tests.vectors.make", "--check"],
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert compared.returncode == 0, (
        f"{compared.stderr}The bytes on the wire or on disk have changed. If that is meant, and breaks "
        "no reader: .venv/bin/python tests/vectors/make.py"
    )


def test_binary_and_json_of_each_message_are_the_same_message() -> None:
    for vector in messages():
        kind = GetMessageClass(types()[vector["type"]])
        message = kind.FromString(base64.b64decode(vector["binary"]))
        assert MessageToDict(message) == vector["json"], vector["name"]
        assert message.SerializeToString(deterministic=True) == base64.b64decode(vector["binary"])
        if vector["name"] not in LATER:
            # The bytes in an Any have no one order of a map's entries.
            assert MessageToDict(ParseDict(vector["json"], kind())) == vector["json"], vector["name"]


def test_each_request_and_response_of_each_rpc_has_vectors() -> None:
    found = {vector["type"] for vector in messages()}
    assert found == set(types())
    assert len({vector["name"] for vector in messages()}) == len(messages())


def test_each_field_and_each_enum_value_that_a_message_can_have_is_set_in_a_vector() -> None:
    set_somewhere: set[str] = set()

    def look(message: Message) -> None:
        for field, value in message.ListFields():
            set_somewhere.add(field.full_name)
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                if field.message_type.fields_by_name["value"].message_type is not None:
                    for each in value.values():
                        look(each)
            elif field.is_repeated:
                for each in value:
                    look(each)
            else:
                look(value)

    wanted: set[str] = set()

    def want(kind: Descriptor) -> None:
        if kind.GetOptions().map_entry:
            if (value := kind.fields_by_name["value"].message_type) is not None:
                want(value)
            return
        names = {field.full_name for field in kind.fields}
        if kind.full_name.startswith(WELL_KNOWN) or names <= wanted:
            return
        wanted.update(names)
        for field in kind.fields:
            if field.message_type is not None:
                want(field.message_type)

    for kind in types().values():
        want(kind)
    for vector in messages():
        look(GetMessageClass(types()[vector["type"]]).FromString(base64.b64decode(vector["binary"])))
    assert wanted - set_somewhere == set()


def test_each_status_carries_its_reason_code_facts_and_delay() -> None:
    vectors = read("statuses.json")["vectors"]
    assert [vector["reason"] for vector in vectors] == sorted(CODES)
    for vector in vectors:
        status = Status.FromString(base64.b64decode(vector["binary"]))
        info, retry = ErrorInfo(), RetryInfo()
        assert status.details[0].Unpack(info)
        assert (status.code, status.message) == (vector["code"], vector["message"])
        assert (info.domain, info.reason) == ("spoolrack", vector["reason"])
        assert dict(info.metadata) == vector["metadata"]
        assert len(status.details) == 1 + (vector["retry_ms"] is not None)
        if vector["retry_ms"] is not None:
            assert status.details[1].Unpack(retry)
            assert retry.retry_delay.ToMilliseconds() == vector["retry_ms"]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_each_kind_of_record_has_valid_and_invalid_ones(kind: str) -> None:
    names = [vector for vector in read("records.json")["names"] if vector["kind"] == kind]
    assert any(vector["parsed"] is not None for vector in names)
    assert any(vector["parsed"] is None for vector in names)
    assert len({vector["name"] for vector in names}) == len(names)


def test_every_kind_of_record_is_known() -> None:
    assert {vector["kind"] for vector in read("records.json")["names"]} == KINDS

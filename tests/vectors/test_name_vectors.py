"""The vectors of names say what docs/reference/disk-format.md says, read by a program of its own; and
what is no name is refused, whatever it is."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack_store.files.changes import _START, RING, ChangeKind
from spoolrack_store.model import names
from spoolrack_store.model.members import MOST
from spoolrack_store.model.names import MAX_BYTES, NotAName, parse
from spoolrack_store.model.settings import MIB

from tests import CHECKOUT
from tests.proof.format import second_reader
from tests.proof.format.second_reader import Name
from tests.vectors.name_vectors import said_of

LATER = ["sent", "ready", "delayed", "leased", "removed", "quarantined"]


@cache
def read() -> Any:
    return json.loads((Path(__file__).parent / "names.json").read_text())


def test_each_kind_of_vector_has_good_and_bad_ones() -> None:
    vectors = read()["names"]
    assert {vector["parsed"]["state"] for vector in vectors if vector["parsed"]} == set(LATER)
    assert len({vector["path"] for vector in vectors}) == len(vectors)
    assert all(vector.get("why") for vector in vectors if vector["parsed"] is None)
    assert {vector["messages"] is None for vector in read()["contents"]} == {True, False}
    assert any(vector["unlisted"] for vector in read()["listings"])


def test_the_page_says_the_bounds_that_the_store_has() -> None:
    page = (CHECKOUT / "docs" / "reference" / "disk-format.md").read_text()
    grammar = names.__doc__ or ""
    for rule in ("name  =", "stem  =", "death =", "path  ="):
        (line,) = (line for line in grammar.splitlines() if line.strip().startswith(rule))
        assert " ".join(line.split()) in " ".join(page.split()), line
    assert f"| `n` | 1 to {MOST} |" in page
    assert f"| `r` | 1 to {names.MAX_RECEIVES} |" in page
    assert f"{MIB // MIB} MiB of records" in page
    assert (RING, _START) == (MIB, 4096)
    assert "offset 4096" in page
    assert [f"{kind.value} ({kind.name.lower()})" in page for kind in list(ChangeKind)[:3]] == [
        True
    ] * 3
    for member in ("sizes", "crcs", "attributes", "binary_attributes", "keys", "groups"):
        assert f"| `{member}` |" in page


def said_by(name: Name) -> dict[str, Any]:
    """Return what the second reader finds in a name, in the form of the vectors, members as a set."""
    return {field: value for field, value in asdict(name).items() if field not in ("path", "stem")}


def test_names_say_what_the_page_says() -> None:
    for vector in read()["names"]:
        name = second_reader.parse(vector["path"])
        if vector["parsed"] is None:
            assert name is None, vector["path"]
            continue
        assert name is not None, vector["path"]
        expected = dict(vector["parsed"])
        runs = expected.pop("members")
        members = {i for first, last in runs for i in range(first, last + 1)}
        assert said_by(name) == expected | {"members": members}, vector["path"]


@pytest.mark.parametrize("vector", read()["listings"], ids=lambda vector: vector["name"])
def test_of_all_names_that_list_a_message_the_highest_version_holds_it(vector: dict[str, Any]) -> None:
    names = list(filter(None, map(second_reader.parse, vector["paths"])))
    assert len(names) == len(vector["paths"])
    found: dict[str, Any] = {}
    unlisted: list[str] = []
    batches = second_reader.batches_of(names).values()
    for batch in batches:
        first, holders = batch.names[0], batch.holders()
        if batch.is_new and holders.keys() != first.everything:
            continue
        unlisted += map(first.message_id, sorted(batch.unlisted()))
        for index, name in holders.items():
            said = {key: said_by(name)[key] for key in ("state", "queue", "receives", "due", "token")}
            found[name.message_id(index)] = said | {"holder": name.path}
    assert found == vector["messages"]
    assert unlisted == vector["unlisted"]


def test_contents_are_bodies_and_a_line_of_json() -> None:
    for vector in read()["contents"]:
        name = second_reader.parse(f"queues/q/{vector['stem']}")
        assert name is not None
        external = vector.get("external_body")
        try:
            found = second_reader.read_contents(
                name,
                base64.b64decode(vector["content"]),
                None if external is None else base64.b64decode(external),
            )
        except second_reader.Damaged:
            assert vector["messages"] is None, vector
            continue
        assert (vector["messages"] is None) == any(each.body is None for each in found), vector
        for message, content in zip(vector["messages"] or (), found, strict=False):
            assert content.body == base64.b64decode(message["body"])
            assert message["attributes"] == {
                name: {"text": value}
                if isinstance(value, str)
                else {"bytes": base64.b64encode(value).decode()}
                for name, value in content.attributes.items()
            }


def test_a_receipt_has_a_tag_of_token_and_index() -> None:
    for vector in read()["receipts"]:
        queue, id = vector["queue"], vector["receipt"].partition(":")[2][:33] + "000"
        name = second_reader.parse(
            f"delay/{queue}:{id},n1000,s0,c00000000,m1,r1@1700000000000~{vector['token']}"
        )
        assert name is not None
        assert second_reader.receipt_of(name, vector["index"]) == vector["receipt"]


def test_changes_is_a_header_and_a_ring_of_records() -> None:
    vector = read()["changes"]
    header, ring = base64.b64decode(vector["header"]), base64.b64decode(vector["ring"])
    log = second_reader.Changes(header.ljust(4096, b"\0") + ring)
    assert (log.head, log.is_poisoned) == (vector["head"], False)
    assert log.owners == vector["owners"]
    places, records = zip(*log.records(), strict=True)
    assert [asdict(record) for record in records] == vector["records"]
    assert log.done == places[vector["in_doubt"]]


# An invalid name is refused, and never becomes a path.

CHARACTERS = st.sampled_from(list("0123456789abcdefgknvsmribo,.-_:@~/ \n\0%Aé٣")) | st.characters(
    codec="utf-8"
)


@st.composite
def spoiled(draw: st.DrawFn) -> str:
    """Return a name of which a few characters are other ones, more, or missing."""
    path = draw(st.sampled_from([vector["path"] for vector in read()["names"]]))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(path)))
        path = path[:at] + draw(st.text(CHARACTERS, max_size=3)) + path[at + draw(st.integers(0, 3)) :]
    return path


@given(spoiled() | st.text(max_size=200))
@example("queues/../018bcfe5-6801-7000-8000-0000000000ff,s5,c3610a686")
@example("new/" + "9" * 5000)
@example(f"queues/q/018bcfe5-6800-7194-90e5-78aa9611a000,n1000,s1,c00000000,b0.{'v' * 5000}")
@example(f"queues/q/018bcfe5-6800-7194-90e5-78aa9611a000,n1000,s1,c00000000,i{'1.' * 5000}3")
def test_an_alternative_spelling_is_refused_and_the_canonical_one_stays_in_its_folder(
    path: str,
) -> None:
    try:
        name = parse(path)
    except NotAName:
        assert second_reader.parse(path) is None
        return
    assert name.path == path
    assert path.isascii()
    assert path.isprintable()
    folder, *others = path.split("/")
    assert folder in ("new", "queues", "delay", "remove", "quarantine")
    assert len(others) == (2 if folder == "queues" else 1)
    assert not any(part.startswith(".") for part in others)
    assert name.bytes == len(others[-1])
    said = said_of(name)
    read_again = second_reader.parse(path)
    assert read_again is not None
    assert said_by(read_again) | {"members": said["members"]} == said


def test_a_name_that_the_store_makes_fits_into_what_file_systems_allow() -> None:
    paths = [vector["path"] for vector in read()["names"] if vector["parsed"]]
    assert all(len(path.rpartition("/")[2]) <= MAX_BYTES for path in paths)

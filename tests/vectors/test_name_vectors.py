"""The vectors of names say what docs/format.md says, read by a program of its own; and what is no
name is refused, whatever it is."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spoolrack_store.files.changes import _START, RING, ChangeKind
from spoolrack_store.model import names
from spoolrack_store.model.names import MAX_BYTES, MOST, NotAName, parse
from spoolrack_store.model.settings import MIB

from tests import CHECKOUT
from tests.vectors.name_lists import NAMES, NO_NAMES
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
    page = (CHECKOUT / "docs" / "format.md").read_text()
    grammar = names.__doc__ or ""
    for rule in ("name  =", "stem  =", "path  ="):
        (line,) = (line for line in grammar.splitlines() if line.strip().startswith(rule))
        assert " ".join(line.split()) in " ".join(page.split()), line
    assert f"| `n` | 1 to {MOST} |" in page
    assert f"| `d` | 1 to {names.MAX_DEATHS} |" in page
    assert f"| `r` | 1 to {names.MAX_RECEIVES} |" in page
    assert f"{MIB // MIB} MiB of records" in page
    assert (RING, _START) == (MIB, 4096)
    assert "offset 4096" in page
    assert [f"{kind.value} ({kind.name.lower()})" in page for kind in list(ChangeKind)[:3]] == [
        True
    ] * 3
    for member in ("sizes", "crcs", "attributes", "binary_attributes", "keys", "groups", "deaths"):
        assert f"| `{member}` |" in page


# A second implementation, as small as the page allows.


def read_name(path: str) -> dict[str, Any]:
    """Read a name that is one."""
    folder, _, rest = path.partition("/")
    queue, _, rest = rest.partition("/" if folder == "queues" else ":")
    text, _, end = rest.partition("@")
    due, _, token = end.partition("~")
    id, *tags = text.split(",")
    said = {tag[0]: tag[1:] for tag in tags}
    count = int(said.get("n", 0))
    members = set(range(count or 1))
    if "i" in said:
        ranges = (part.split("-") for part in said["i"].split("."))
        members = {index for each in ranges for index in range(int(each[0]), int(each[-1]) + 1)}
    if "b" in said:
        start, digits = said["b"].split(".")
        bits = sum(int(digit, 32) << 5 * place for place, digit in enumerate(digits))
        members = {int(start) + bit for bit in range(bits.bit_length()) if bits >> bit & 1}
    states = {"new": "sent", "queues": "ready", "remove": "removed", "quarantine": "quarantined"}
    return {
        "state": states.get(folder, "leased" if token else "delayed"),
        "queue": queue,
        "id": id,
        "count": count,
        "size": int(said["s"]),
        "attributes": int(said.get("a", 0)),
        "crc": int(said["c"], 16),
        "line": int(said.get("m", 0)),
        "deaths": int(said.get("d", 0)),
        "key": said.get("k"),
        "is_grouped": "g" in said,
        "priority": int(said.get("p", 0)),
        "external": "x" in said,
        "version": int(said.get("v", 1)),
        "members": members,
        "receives": int(said.get("r", 0)),
        "first": int(said["f"]) if "f" in said else None,
        "redriven": int(said["t"]) if "t" in said else None,
        "owner": said.get("o"),
        "due": int(due) if due else None,
        "token": token or None,
        "stem": ",".join([id, *(tag for tag in tags if tag[0] in "nsacmdk")]),
    }


def test_names_say_what_the_page_says() -> None:
    for vector in read()["names"]:
        if vector["parsed"] is None:
            continue
        found = read_name(vector["path"])
        found.pop("stem")
        members = found.pop("members")
        expected = dict(vector["parsed"])
        runs = expected.pop("members")
        assert found == expected, vector["path"]
        assert members == {i for first, last in runs for i in range(first, last + 1)}, vector["path"]


def message_id(name: dict[str, Any], index: int) -> str:
    return f"{name['id'][:-3]}{index:03x}" if name["count"] else str(name["id"])


@pytest.mark.parametrize("vector", read()["listings"], ids=lambda vector: vector["name"])
def test_of_all_names_that_list_a_message_the_highest_version_holds_it(vector: dict[str, Any]) -> None:
    there = [read_name(path) | {"path": path} for path in vector["paths"]]
    found: dict[str, Any] = {}
    unlisted: list[str] = []
    files = {(name["deaths"], name["stem"]) for name in there}
    for _, stem in sorted(files):
        own = [name for name in there if name["stem"] == stem]
        everything = set(range(own[0]["count"] or 1))
        listed = set().union(*(name["members"] for name in own))
        if all(name["state"] == "sent" for name in own) and (listed != everything or own[0]["deaths"]):
            continue
        if not all(name["state"] in ("removed", "quarantined") for name in own):
            unlisted += [message_id(own[0], index) for index in sorted(everything - listed)]
        for index in listed:
            holder = max(
                (name for name in own if index in name["members"]),
                key=lambda name: (name["version"], LATER.index(name["state"]), name["path"]),
            )
            said = {key: holder[key] for key in ("state", "queue", "receives", "due", "token")}
            found[message_id(holder, index)] = said | {"holder": holder["path"]}
    assert found == vector["messages"]
    assert unlisted == vector["unlisted"]


def test_contents_are_bodies_and_a_line_of_json() -> None:
    for vector in read()["contents"]:
        if vector["messages"] is None:
            continue
        name = read_name(f"queues/q/{vector['stem']}")
        content = base64.b64decode(vector["content"])
        assert len(content) == name["line"] + (0 if name["external"] else name["size"])
        line = content[len(content) - name["line"] :]
        assert crc32(line or content) == name["crc"]
        if name["external"]:
            content = base64.b64decode(vector["external_body"])
            assert len(content) == name["size"]
        said = json.loads(line or json.dumps({"sizes": [name["size"]], "crcs": [name["crc"]]}))
        at = 0
        for index, message in enumerate(vector["messages"]):
            body = content[at : at + said["sizes"][index]]
            at += len(body)
            assert body == base64.b64decode(message["body"])
            assert said["crcs"][index] in (None, crc32(body))
            key = str(index)
            attributes = {n: {"text": v} for n, v in said.get("attributes", {}).get(key, {}).items()}
            for n, v in said.get("binary_attributes", {}).get(key, {}).items():
                attributes[n] = {"bytes": v}
            assert attributes == message["attributes"]


def test_a_receipt_has_a_tag_of_token_and_index() -> None:
    for vector in read()["receipts"]:
        block, place = divmod(vector["index"], 8)
        digest = hashlib.blake2b(
            block.to_bytes(2, "big"), key=vector["token"].encode(), digest_size=64
        ).hexdigest()
        head, _, tag = vector["receipt"].partition("~")
        assert tag == digest[16 * place : 16 * place + 16]
        assert head.startswith(f"{vector['queue']}:")
        assert int(head[-3:], 16) == vector["index"]


def test_changes_is_a_header_and_a_ring_of_records() -> None:
    vector = read()["changes"]
    header, ring = base64.b64decode(vector["header"]), base64.b64decode(vector["ring"])
    magic, head, done, poison = struct.unpack_from("<8sQQQ", header)
    assert (magic, head, poison) == (b"changes2", vector["head"], 0)
    assert header[56:].partition(b"\0")[0].decode().split() == vector["members"]
    records, at, places = [], 0, []
    while at < head:
        places.append(at)
        length, kind, due = struct.unpack_from("<IBQ", ring, at)
        source, _, target = ring[at + 13 : at + length].decode().partition("\n")
        records.append({"kind": kind, "due": due, "source": source, "target": target})
        at += length
    assert records == vector["records"]
    assert done == places[vector["in_doubt"]]


# An invalid name is refused, and never becomes a path.

CHARACTERS = st.sampled_from(list("0123456789abcdefgknvsmribo,.-_:@~/ \n\0%Aé٣")) | st.characters(
    codec="utf-8"
)


@st.composite
def spoiled(draw: st.DrawFn) -> str:
    """Return a name of which a few characters are other ones, more, or missing."""
    path = draw(st.sampled_from([*NAMES, *(path for path, _ in NO_NAMES)]))
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
    read_again = read_name(path)
    assert {key: read_again[key] for key in said if key != "members"} | {
        "members": said["members"]
    } == said


@pytest.mark.parametrize("path", NAMES)
def test_a_name_that_the_store_makes_fits_into_what_file_systems_allow(path: str) -> None:
    assert len(path.rpartition("/")[2]) <= MAX_BYTES

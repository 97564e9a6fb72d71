"""The vectors of `names.json`: names, members, listings, contents, receipts and CHANGES.

Each text is written by hand in the file; the store parses it to its meaning.
"""

from __future__ import annotations

import base64
from typing import Any

from spoolrack_store.engine.index import Index
from spoolrack_store.files.changes import Change, ChangeKind, Changes
from spoolrack_store.model import receipts
from spoolrack_store.model.batch_file import Damaged, body, decode, encode, line_of, stem_of
from spoolrack_store.model.members import indexes, runs
from spoolrack_store.model.message_content import Attributes
from spoolrack_store.model.names import Death, Name, NotAName, Stem, parse

from tests.support.root_rig import Bytes

_BATCH = "018bcfe5-6800-7194-90e5-78aa9611a000"
_LONE = "018bcfe5-6801-7000-8000-0000000000ff"
_HEADER = 64
"""Bytes of the header of CHANGES that the vectors show: more is zero."""
_RING = 4096


def vectors(kept: dict[str, Any]) -> dict[str, Any]:
    """Return the vectors of the texts in `kept`: a name with a `why` is none, a content with one is
    damaged, and of a content without `content` the `messages` are written."""
    return {
        "names": [_refused(each) if "why" in each else _said(each["path"]) for each in kept["names"]],
        "listings": [_listing(each["name"], each["paths"]) for each in kept["listings"]],
        "contents": [_content(each) for each in kept["contents"]],
        "receipts": [_receipt(each) for each in kept["receipts"]],
        "changes": _changes(kept["changes"]["records"]),
    }


def said_of(name: Name) -> dict[str, Any]:
    stem = name.stem
    return {
        "state": name.state.value,
        "queue": name.queue,
        "id": stem.id,
        "count": stem.count,
        "size": stem.size,
        "attributes": stem.attributes,
        "crc": stem.crc,
        "line": stem.line,
        "key": stem.key,
        "is_grouped": stem.is_grouped,
        "priority": stem.priority,
        "external": stem.is_external,
        "version": name.version,
        "members": list(runs(name.members)),
        "receives": name.receives,
        "first": name.first,
        "death": None if name.death is None else _death(name.death),
        "renewed": name.renewed,
        "owner": name.owner or None,
        "due": name.due,
        "token": name.token or None,
    }


def _death(death: Death) -> dict[str, Any]:
    if death.file:
        return {"file": death.file}
    return {
        "at": death.at,
        "reason": "rejected" if death.is_rejected else "max_receives",
        "receives": death.receives,
        "first": death.first,
        "source": death.source,
    }


def _said(path: str) -> dict[str, Any]:
    name = parse(path)
    assert name.path == path
    return {"path": path, "parsed": said_of(name)}


def _refused(vector: dict[str, Any]) -> dict[str, Any]:
    try:
        parse(vector["path"])
    except NotAName:
        return {"path": vector["path"], "parsed": None, "why": vector["why"]}
    raise AssertionError(vector)


def _listing(name: str, paths: list[str]) -> dict[str, Any]:
    """Return what a root with these names holds: each message with its state, and where its holder
    is."""
    index = Index()
    for path in paths:
        index.appear(parse(path), 1)
    messages: dict[str, Any] = {}
    unlisted: list[str] = []
    for batch in index.batches.values():
        stem = batch.stem
        if not batch.was_sent:
            continue
        if not batch.is_over:
            unlisted += [stem.message_id(member) for member in indexes(batch.unlisted)]
        for member in indexes(stem.full & ~batch.unlisted):
            id = stem.message_id(member)
            found = index.holder(id)
            assert found is not None
            held = found[0].name
            messages[id] = {
                "state": held.state.value,
                "queue": held.queue,
                "receives": held.receives,
                "due": held.due,
                "token": held.token or None,
                "holder": held.path,
            }
    return {"name": name, "paths": paths, "messages": messages, "unlisted": unlisted}


def _content(vector: dict[str, Any]) -> dict[str, Any]:
    if "external_body" in vector:
        return _external(vector)
    if "why" in vector:
        return _damaged(vector)
    messages = [
        (
            base64.b64decode(each["body"]),
            {
                name: value["text"] if "text" in value else base64.b64decode(value["bytes"])
                for name, value in each["attributes"].items()
            },
        )
        for each in vector["messages"]
    ]
    bodies = [body for body, _ in messages]
    attributes: dict[int, Attributes] = {at: named for at, (_, named) in enumerate(messages) if named}
    line = line_of(bodies, attributes, {})
    encoded = encode(line)
    stem = stem_of(_LONE if len(bodies) == 1 else _BATCH, line, encoded)
    behind = _raw(vector, "behind") if "behind" in vector else b""
    content = b"".join(bodies) + encoded + behind
    assert _messages(stem, content) == messages
    made = {"stem": stem.text, "content": text(content), "messages": vector["messages"]}
    return {**made, "behind": text(behind)} if behind else made


def _external(vector: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose body is in a file of its own."""
    stem, content, there = _stem(vector), _raw(vector, "content"), _raw(vector, "external_body")
    line = decode(stem, content, len(content))
    assert line.is_external
    assert body(line, there, 0) == there
    encoded = encode(line)
    return {**vector, "stem": stem_of(stem.id, line, encoded).text, "content": text(encoded)}


def _damaged(vector: dict[str, Any]) -> dict[str, Any]:
    """Return a file that is not what its name says, or whose line says what can't be."""
    try:
        _messages(_stem(vector), _raw(vector, "content"))
    except Damaged:
        return vector
    raise AssertionError(vector)


def _messages(stem: Stem, content: bytes) -> list[tuple[bytes, Attributes]]:
    line = decode(stem, content, len(content))
    return [
        (body(line, content, index), line.attributes.get(index, {})) for index in indexes(stem.full)
    ]


def _stem(vector: dict[str, Any]) -> Stem:
    return parse(f"queues/jobs/{vector['stem']}").stem


def _raw(vector: dict[str, Any], member: str) -> bytes:
    return base64.b64decode(vector[member])


def _receipt(vector: dict[str, Any]) -> dict[str, Any]:
    queue, token, index = vector["queue"], vector["token"], vector["index"]
    id = receipts.parse(queue, vector["receipt"]).id
    (made,) = receipts.make(queue, token, [(index, id)])
    return {"queue": queue, "token": token, "index": index, "receipt": made}


def _changes(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a log with its last record in doubt."""
    memory = Bytes()
    changes = Changes(memory, "p1")
    changes.begin_anew()
    changes.set_owners(("p1", "p2"))
    for each in records:
        changes.intend(Change(ChangeKind(each["kind"]), each["source"], each["target"], each["due"]))
    reader = Changes(memory, "p2")
    reader.read_header()
    in_doubt = reader.in_doubt()
    assert in_doubt is not None
    read = [
        {"kind": each.kind.value, "due": each.due, "source": each.source, "target": each.target}
        for each in (*reader.news(), in_doubt)
    ]
    assert read == records
    assert not any(memory.read(_HEADER, _RING - _HEADER))
    ring = memory.read(_RING, len(records) * 1_000).rstrip(b"\0")
    return {
        "header": text(memory.read(0, _HEADER)),
        "ring": text(ring),
        "head": len(ring),
        "owners": list(reader.owners),
        "records": read,
        "in_doubt": len(records) - 1,
    }


def text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()

"""The vectors of `names.json`: names, members, listings, contents, receipts and CHANGES.

Each text is written by hand in `name_lists`; the store parses it to its meaning.
"""

from __future__ import annotations

import base64
from typing import Any
from zlib import crc32

from spoolrack_store.engine.index import Index
from spoolrack_store.files.changes import SIZE, Change, ChangeKind, Changes
from spoolrack_store.model import receipts
from spoolrack_store.model.batch_file import Damaged, Line, body, decode, encode, line_of, stem_of
from spoolrack_store.model.members import indexes, runs
from spoolrack_store.model.message_content import Attributes
from spoolrack_store.model.names import Death, Name, NotAName, Stem, parse

from tests.vectors import name_lists as lists

_HEADER = 64
"""Bytes of the header of CHANGES that the vectors show: more is zero."""
_RING = 4096


def vectors() -> dict[str, Any]:
    return {
        "names": [
            *({"path": path, "parsed": _said(path)} for path in lists.NAMES),
            *({"path": path, "parsed": None, "why": why} for path, why in _refused(lists.NO_NAMES)),
        ],
        "listings": [_listing(name, paths) for name, paths in lists.LISTINGS],
        "contents": [
            *(_content(messages) for messages in lists.CONTENTS),
            *(_external(crc) for crc in (crc32(b"hello"), None)),
            *_damaged(),
            *(_line(text, why) for text, why in lists.LINES),
        ],
        "receipts": [each for args in lists.RECEIPTS for each in _receipts(*args)],
        "changes": _changes(),
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
        "owner": name.owner or None,
        "due": name.due,
        "token": name.token or None,
    }


def _death(death: Death) -> dict[str, Any]:
    if death.file:
        return {"file": death.file, "redriven": death.redriven}
    return {
        "at": death.at,
        "reason": "rejected" if death.is_rejected else "max_receives",
        "receives": death.receives,
        "first": death.first,
        "source": death.source,
        "redriven": death.redriven,
    }


def _said(path: str) -> dict[str, Any]:
    name = parse(path)
    assert name.path == path
    return said_of(name)


def _refused(given: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    for path, _ in given:
        try:
            parse(path)
        except NotAName:
            continue
        raise AssertionError(path)
    return given


def _listing(name: str, paths: tuple[str, ...]) -> dict[str, Any]:
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


def _content(messages: tuple[tuple[bytes, dict[str, str | bytes]], ...]) -> dict[str, Any]:
    bodies = [body for body, _ in messages]
    attributes: dict[int, Attributes] = {at: named for at, (_, named) in enumerate(messages) if named}
    line = line_of(bodies, attributes, {})
    encoded = encode(line)
    is_lone = len(bodies) == 1
    stem = stem_of(lists.LONE if is_lone else lists.BATCH, line, encoded)
    content = b"".join(bodies) + encoded
    assert _messages(stem, content) == [(each, named) for each, named in messages]
    return {
        "stem": stem.text,
        "content": text(content),
        "messages": [
            {
                "body": text(each),
                "attributes": {
                    name: {"text": value} if isinstance(value, str) else {"bytes": text(value)}
                    for name, value in named.items()
                },
            }
            for each, named in messages
        ],
    }


def _external(crc: int | None) -> dict[str, Any]:
    """Return a message whose body is in a file of its own."""
    line = Line([5], [crc], {0: {"k": "v"}}, is_external=True)
    encoded = encode(line)
    stem = stem_of(lists.LONE, line, encoded)
    assert body(decode(stem, encoded, len(encoded)), b"hello", 0) == b"hello"
    return {
        "stem": stem.text,
        "content": text(encoded),
        "external_body": text(b"hello"),
        "messages": [{"body": text(b"hello"), "attributes": {"k": {"text": "v"}}}],
    }


def _messages(stem: Stem, content: bytes) -> list[tuple[bytes, Attributes]]:
    line = decode(stem, content, len(content))
    return [
        (body(line, content, index), line.attributes.get(index, {})) for index in indexes(stem.full)
    ]


def _damaged() -> list[dict[str, Any]]:
    """Files that are not what their names say."""
    found = []
    for whole, changed in ((lists.CONTENTS[3], b"j"), (lists.CONTENTS[6], b"k")):
        vector = _content(whole)
        stem = parse(f"queues/jobs/{vector['stem']}").stem
        content = base64.b64decode(vector["content"])
        for raw, why in (
            (content[:-1], "the last byte is missing"),
            (content + b"\n", "a byte too many"),
            (b"", "all is missing"),
            (bytes(len(content)), "zeros"),
            (content[:-3] + changed + content[-2:], "the line is another one"),
            (changed + content[1:], "the first body is another one"),
        ):
            assert_damaged(stem, raw)
            found.append({"stem": stem.text, "content": text(raw), "messages": None, "why": why})
    return found


def _line(line: str, why: str) -> dict[str, Any]:
    encoded = b"\n" + line.encode() + b"\n"
    stem = Stem(id=lists.BATCH, count=2, size=5, crc=crc32(encoded), line=len(encoded))
    content = b"onetw" + encoded
    assert_damaged(stem, content)
    return {"stem": stem.text, "content": text(content), "messages": None, "why": why}


def assert_damaged(stem: Stem, content: bytes) -> None:
    try:
        _messages(stem, content)
    except Damaged:
        return
    raise AssertionError(content)


def _receipts(queue: str, token: str, batch: str, of: tuple[int, ...]) -> list[dict[str, Any]]:
    stem = Stem(id=batch, count=1000, size=0, crc=0, line=1)
    made = receipts.make(queue, token, [(index, stem.message_id(index)) for index in of])
    return [
        {"queue": queue, "token": token, "index": index, "receipt": receipt}
        for index, receipt in zip(of, made, strict=True)
    ]


class _Memory:
    def __init__(self) -> None:
        self.content = bytearray(SIZE)

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self.content[offset : offset + length])

    def write(self, offset: int, content: bytes) -> None:
        self.content[offset : offset + len(content)] = content


def _changes() -> dict[str, Any]:
    """Return a log with its last record in doubt."""
    memory = _Memory()
    changes = Changes(memory, "p1")
    changes.begin_anew()
    changes.set_members(("p1", "p2"))
    for kind, due, source, target in lists.RECORDS:
        changes.intend(Change(ChangeKind(kind), source, target, due))
    reader = Changes(memory, "p2")
    reader.read_header()
    in_doubt = reader.in_doubt()
    assert in_doubt is not None
    records = [*reader.news(), in_doubt]
    assert [(each.kind, each.due, each.source, each.target) for each in records] == list(lists.RECORDS)
    assert not any(memory.content[_HEADER:_RING])
    ring = bytes(memory.content[_RING:]).rstrip(b"\0")
    return {
        "header": text(bytes(memory.content[:_HEADER])),
        "ring": text(ring),
        "head": len(ring),
        "members": list(reader.members),
        "records": [
            {"kind": kind, "due": due, "source": source, "target": target}
            for kind, due, source, target in lists.RECORDS
        ],
        "in_doubt": len(lists.RECORDS) - 1,
    }


def text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()

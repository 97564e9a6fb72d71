"""The names on disk, with what they say: those that are one, and those that are none.

Each text is written here by hand; what it says is what the store's own grammar makes of it. A text
that is named as invalid must be refused, and one that is valid must be spelt the same again.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final
from zlib import crc32

import name_lists as lists
from spoolrack_store.model.content import NotTheContent, checksum, parse, trailer_of
from spoolrack_store.model.holds import parse_hold
from spoolrack_store.model.keys import id_text, key_of, key_text, lines_in
from spoolrack_store.model.names import (
    Entry,
    NotAName,
    parse_entry,
    parse_filed,
    parse_item,
    parse_receipt,
)
from spoolrack_store.model.redrive_names import parse_redrive
from spoolrack_store.model.sealed import NotWhole, unseal
from spoolrack_store.model.stage_names import parse_chunk, parse_published, parse_stage_folder

Parse = Callable[[str], Any]
GRAMMARS: Final[dict[str, tuple[Parse, tuple[str, ...], tuple[str, ...]]]] = {
    "item": (parse_item, lists.ITEMS, lists.NO_ITEMS),
    "filed": (parse_filed, lists.FILED, lists.NOT_FILED),
    "receipt": (parse_receipt, lists.RECEIPTS, lists.NO_RECEIPTS),
    "stage": (parse_stage_folder, lists.STAGES, lists.NO_STAGES),
    "chunk": (parse_chunk, lists.CHUNKS, lists.NO_CHUNKS),
    "published": (parse_published, lists.PUBLISHED, lists.NOT_PUBLISHED),
    "redrive": (parse_redrive, lists.REDRIVES, lists.NO_REDRIVES),
    "reserved": (parse_hold, lists.RESERVED, lists.NOT_RESERVED),
}
"""By kind: what parses it, what is one, and what is none."""


def vectors() -> dict[str, Any]:
    """`names`, each with `kind`, `name` and `parsed` (null: it is none); and what files hold:
    `contents` of messages, `segments` and `keys` of deduplication, and what is `sealed`."""
    names = []
    for kind, (parse_name, valid, invalid) in GRAMMARS.items():
        for name in valid:
            parsed = parse_name(name)
            assert str(parsed) == name, name
            names.append({"kind": kind, "name": name, "parsed": said(parsed)})
        for name in invalid:
            assert is_refused(parse_name, name), name
            names.append({"kind": kind, "name": name, "parsed": None})
    return {
        "names": names,
        "segments": [_segment(content) for content in lists.SEGMENTS],
        "keys": [
            {"deduplication_id": id, "salt": salt, "key": key_text(key_of(id, salt))}
            for id, salt in lists.KEYS
        ],
        "contents": [*(_content(*content) for content in lists.CONTENTS), *_damaged()],
        "sealed": [sealed for line in lists.SEALED for sealed in _sealed(line)],
    }


def is_refused(parse_name: Parse, name: str) -> bool:
    try:
        parse_name(name)
    except NotAName:
        return True
    return False


def said(value: Any) -> Any:
    """What a parsed name says, as JSON: an object with its kind, and a member for each part."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: said(getattr(value, field.name)) for field in fields(value)}
        return {"is": type(value).__name__} | parts
    if isinstance(value, Enum):
        return said(value.value)
    if isinstance(value, tuple):
        return [said(each) for each in value]
    assert value is None or isinstance(value, bool | int | str), value
    return value


def _segment(content: str) -> dict[str, Any]:
    lines = [
        {
            "queue": line.queue,
            "id": id_text(line.id),
            "key": key_text(line.key),
            "is_news": line.is_news,
        }
        for line in lines_in(content.encode())
    ]
    return {"content": content, "lines": lines}


def _content(body: bytes, attributes: dict[str, str | bytes]) -> dict[str, Any]:
    """A message's file: what its name says of it, and its bytes."""
    trailer = trailer_of(attributes)
    entry = Entry(id=lists.ID, size=len(body), crc=checksum(body, trailer), trailer=len(trailer))
    raw = body + trailer
    assert parse(entry, raw).attributes == attributes
    return {
        "name": str(entry),
        "content": text(raw),
        "body": text(body),
        "attributes": {
            name: {"text": value} if isinstance(value, str) else {"bytes": text(value)}
            for name, value in attributes.items()
        },
    }


def _damaged() -> list[dict[str, Any]]:
    """Files that are not what their names say: they must not be delivered."""
    whole = _content(b"hello", {"kind": "greeting"})
    raw = base64.b64decode(whole["content"])
    damaged = [raw[:-1], raw + b"\n", b"j" + raw[1:], b""]
    for content in damaged:
        try:
            parse(parse_entry(whole["name"]), content)
        except NotTheContent:
            continue
        raise AssertionError(content)
    return [
        {"name": whole["name"], "content": text(content), "body": None, "attributes": None}
        for content in damaged
    ]


def _sealed(line: str) -> list[dict[str, Any]]:
    """The same line, sealed, torn and changed."""
    whole = line + f"{crc32(line.encode()):08x}\n"
    changed = whole.replace("7", "8", 1)
    made: list[dict[str, Any]] = [{"content": whole, "values": unseal(whole.encode())}]
    for content in (line, whole[:-1], changed, whole + "\n", ""):
        try:
            unseal(content.encode())
        except NotWhole:
            made.append({"content": content, "values": None})
    assert len(made) == 6
    return made


def text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()

"""The names and the content of files that hold no messages, but for settings.

Each text is written by hand in `records.json`; the store's own grammar parses it to its meaning. A name
with `parsed` null must be refused, and any other must be spelt the same again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final
from zlib import crc32

from spoolrack_store.model.keys import key_of, key_text
from spoolrack_store.model.names import NotAName, Stem
from spoolrack_store.model.redrive_names import parse_redrive
from spoolrack_store.model.reservation_names import parse_reservation_name
from spoolrack_store.model.sealed import NotWhole, unseal
from spoolrack_store.model.stage_names import parse_chunk, parse_published, parse_stage_life

Parse = Callable[[str], Any]
GRAMMARS: Final[dict[str, Parse]] = {
    "stage": parse_stage_life,
    "chunk": parse_chunk,
    "published": parse_published,
    "redrive": parse_redrive,
    "reserved": parse_reservation_name,
}
"""The parser of each kind."""


def vectors(kept: dict[str, Any]) -> dict[str, Any]:
    """Return `names`, each with `kind`, `name` and `parsed` (null: it is none), `keys` of
    deduplication ids, and what is `sealed`."""
    return {
        "names": [_name(**each) for each in kept["names"]],
        "keys": [
            {
                "deduplication_id": each["deduplication_id"],
                "salt": each["salt"],
                "key": key_text(key_of(each["deduplication_id"], each["salt"])),
            }
            for each in kept["keys"]
        ],
        "sealed": [
            sealed
            for each in kept["sealed"]
            if each["values"] is not None
            for sealed in _sealed(each["content"])
        ],
    }


def _name(kind: str, name: str, parsed: Any) -> dict[str, Any]:
    if parsed is None:
        assert is_refused(GRAMMARS[kind], name), name
        return {"kind": kind, "name": name, "parsed": None}
    value = GRAMMARS[kind](name)
    assert (value.path if kind == "chunk" else str(value)).removeprefix("staged/") == name
    return {"kind": kind, "name": name, "parsed": said(value)}


def is_refused(parse_name: Parse, name: str) -> bool:
    try:
        parse_name(name)
    except NotAName:
        return True
    return False


def said(value: Any) -> Any:
    """Return what a parsed name says, as JSON: an object with its kind, and a member for each part."""
    if isinstance(value, Stem):
        return value.text
    if is_dataclass(value) and not isinstance(value, type):
        parts = {
            field.name: said(getattr(value, field.name)) for field in fields(value) if field.compare
        }
        return {"is": type(value).__name__} | parts
    if isinstance(value, Enum):
        return said(value.value)
    if isinstance(value, tuple):
        return [said(each) for each in value]
    assert value is None or isinstance(value, bool | int | str), value
    return value


def _sealed(content: str) -> list[dict[str, Any]]:
    """Return the first line of `content`, sealed, torn and changed."""
    line = content.splitlines(keepends=True)[0]
    whole = line + f"{crc32(line.encode()):08x}\n"
    changed = whole.replace("7", "8", 1)
    made: list[dict[str, Any]] = [{"content": whole, "values": unseal(whole.encode())}]
    for other in (line, whole[:-1], changed, whole + "\n", ""):
        try:
            unseal(other.encode())
        except NotWhole:
            made.append({"content": other, "values": None})
    assert len(made) == 6
    return made

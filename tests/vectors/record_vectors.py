"""The names and the content of files that hold no messages, but for settings.

Each text is written by hand in `record_lists`; the store's own grammar parses it to its meaning. An
invalid text must be refused, and a valid one must be spelt the same again.
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

from tests.vectors import record_lists as lists

Parse = Callable[[str], Any]
GRAMMARS: Final[dict[str, tuple[Parse, tuple[str, ...], tuple[str, ...]]]] = {
    "stage": (parse_stage_life, lists.STAGES, lists.NO_STAGES),
    "chunk": (parse_chunk, lists.CHUNKS, lists.NO_CHUNKS),
    "published": (parse_published, lists.PUBLISHED, lists.NOT_PUBLISHED),
    "redrive": (parse_redrive, lists.REDRIVES, lists.NO_REDRIVES),
    "reserved": (parse_reservation_name, lists.RESERVED, lists.NOT_RESERVED),
}
"""By kind: the parser, valid texts and invalid ones."""


def vectors() -> dict[str, Any]:
    """Return `names`, each with `kind`, `name` and `parsed` (null: it is none), `keys` of
    deduplication ids, and what is `sealed`."""
    names = []
    for kind, (parse_name, valid, invalid) in GRAMMARS.items():
        for name in valid:
            parsed = parse_name(name)
            assert (parsed.path if kind == "chunk" else str(parsed)).removeprefix("staged/") == name
            names.append({"kind": kind, "name": name, "parsed": said(parsed)})
        for name in invalid:
            assert is_refused(parse_name, name), name
            names.append({"kind": kind, "name": name, "parsed": None})
    return {
        "names": names,
        "keys": [
            {"deduplication_id": id, "salt": salt, "key": key_text(key_of(id, salt))}
            for id, salt in lists.KEYS
        ],
        "sealed": [sealed for line in lists.SEALED for sealed in _sealed(line)],
    }


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


def _sealed(line: str) -> list[dict[str, Any]]:
    """Return the same line, sealed, torn and changed."""
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

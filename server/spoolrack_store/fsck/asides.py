"""What lies in quarantine, and from where: the notes beside it say so.

    quarantine/<id>/<name>            what was put aside, as it was
    quarantine/<id>/<name>.why        one line: the path that it had, and why it is here

Reads only.
"""

from __future__ import annotations

import ast
from typing import Final

from ..files import layout
from ..files.disk import Disk
from .findings import Aside

NOTE: Final = ".why"
_NOTE_BYTES: Final = 4096


def read_asides(disk: Disk) -> list[Aside]:
    """Everything in quarantine, the oldest first; what can't be read is passed over."""
    try:
        places = sorted(disk.scan(layout.QUARANTINE), key=lambda found: found.name)
    except OSError:
        return []
    asides = []
    for place in places:
        folder = f"{layout.QUARANTINE}/{place.name}"
        try:
            names = [found.name for found in disk.scan(folder)]
        except OSError:
            continue
        notes = [name for name in names if name.endswith(NOTE)]
        kept = [name for name in names if name not in notes] or notes[1:]
        source, why = _read_note(disk, f"{folder}/{notes[0]}") if notes else ("", "")
        asides.append(Aside(id=place.name, name=kept[0] if kept else "", source=source, why=why))
    return asides


def _read_note(disk: Disk, path: str) -> tuple[str, str]:
    try:
        line = disk.read(path, _NOTE_BYTES).decode(errors="replace").strip()
    except OSError:
        return "", ""
    quoted, colon, why = line.partition("': ")
    if colon:
        quoted += "'"
    else:
        # A path with an apostrophe in it is quoted the other way.
        quoted, colon, why = line.partition('": ')
        quoted += '"'
    try:
        source = ast.literal_eval(quoted)
    except (ValueError, SyntaxError):
        return "", line
    return (source, why) if isinstance(source, str) else ("", line)

"""Foreign files in quarantine, each in a folder of its own with a note.

    quarantine/<id>/<name>            the file or folder, as it was
    quarantine/<id>/<name>.why        one line: the path that it had, and why it is here

Messages in quarantine have names there: see `names`.
"""

from __future__ import annotations

import ast
from typing import Final

from ..engine.moves import NOTE
from ..files.disk import Disk, FileKind
from ..files.layout import QUARANTINE
from ..model.errors import DiskError
from ..model.message_ids import ID_LENGTH, is_id
from ..model.names import name_at
from .findings import Findings, QuarantinedFile

_NOTE_BYTES: Final = 4096


def remove_quarantine_folder(disk: Disk, file: QuarantinedFile) -> None:
    """Remove the note and the folder of a file that has left quarantine. Raise `DiskError`."""
    folder = f"{QUARANTINE}/{file.id}"
    try:
        for found in disk.scan(folder):
            if found.name.endswith(NOTE):
                disk.unlink(f"{folder}/{found.name}")
        disk.remove_folder(folder)
    except OSError as error:
        raise DiskError(detail=str(error)) from error


def list_quarantined(findings: Findings) -> list[QuarantinedFile]:
    """Return the foreign files in quarantine, the oldest first."""
    quarantined = []
    for place in findings.scan(QUARANTINE):
        path = f"{QUARANTINE}/{place.name}"
        if place.kind is not FileKind.FOLDER or not is_id(place.name):
            if name_at(path) is None:
                file = QuarantinedFile(id=place.name, name=place.name, path=path, source="", why="")
                quarantined.append(file)
            continue
        folder = f"{QUARANTINE}/{place.name}"
        names = [found.name for found in findings.scan(folder)]
        told = [name for name in names if name.endswith(NOTE)]
        kept = [name for name in names if name not in told] or told[1:]
        name = kept[0] if kept else ""
        source, why = _read_note(findings.disk, f"{folder}/{told[0]}") if told else ("", "")
        quarantined.append(
            QuarantinedFile(id=place.name, name=name, path=f"{folder}/{name}", source=source, why=why)
        )
    return quarantined


def own_id(file: QuarantinedFile) -> str:
    """Return the id in the name of a message file; a foreign file may have had that name in any
    folder."""
    return file.name.rpartition(":")[2][:ID_LENGTH]


def _read_note(disk: Disk, path: str) -> tuple[str, str]:
    try:
        line = disk.read(path, _NOTE_BYTES).decode(errors="replace").strip()
    except OSError:
        return "", ""
    # A path with an apostrophe in it is quoted the other way.
    end = "': " if line.startswith("'") else '": '
    quoted, colon, why = line.partition(end)
    try:
        source = ast.literal_eval(quoted + end[0])
    except (ValueError, SyntaxError):
        return "", line
    return (source, why) if colon and isinstance(source, str) else ("", line)

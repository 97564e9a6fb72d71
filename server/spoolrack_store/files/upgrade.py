"""Upgrades a root of format 3 to format 4 in place: settings, `IDENTITY` and `SHARD` are sealed.

Each file is replaced by a rename. `FORMAT` says first that an upgrade has begun, which earlier versions
refuse, and last that it is done. After a crash in between the next start does it again: a file that is
sealed stays.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Final

from ..model.sealed import NotWhole, Torn, seal, seal_text, unseal_text
from ..model.settings import parse_settings_path
from .disk import Disk, FileKind
from .layout import (
    CONFIG,
    COPY,
    FORMAT,
    FORMAT_CONTENT,
    FORMAT_OF_HOSTS,
    IDENTITY,
    NEW,
    SHARD,
    UPGRADING,
    UPGRADING_OF_HOSTS,
)

log = logging.getLogger(__name__)

_LONGEST_LINE: Final = 100


def upgrade(
    disk: Disk, root: str, owner: str, also_when_full: Callable[[Callable[[], None]], None]
) -> None:
    """Make a root of format 3 one of format 4, durably. No other process has it open. Raise `OSError`.

    A file that is damaged stays as it is: the start that follows says so.
    """
    copy = f"{NEW}/{owner}-1{COPY}"

    def replace(path: str, content: bytes) -> None:
        also_when_full(lambda: disk.create(copy, [content], sync=True))
        disk.rename(copy, path)

    def sync_folders() -> None:
        for folder in (NEW, CONFIG, "."):
            disk.sync_folder(folder)

    replace(FORMAT, UPGRADING_OF_HOSTS if disk.several_hosts else UPGRADING)
    sync_folders()
    sealed = 0
    for found in disk.scan(CONFIG):
        path = f"{CONFIG}/{found.name}"
        if found.kind is FileKind.FILE and parse_settings_path(path) is not None:
            content = _sealed_settings(disk.read(path))
            if content is not None:
                replace(path, content)
                sealed += 1
    kinds = {found.name: found.kind for found in disk.scan(".")}
    for name in (IDENTITY, SHARD):
        if kinds.get(name) is FileKind.FILE:
            content = disk.read(name, _LONGEST_LINE)
            if _is_line(content):
                replace(name, seal_text(content.decode(errors="replace").strip()))
    sync_folders()
    replace(FORMAT, FORMAT_OF_HOSTS if disk.several_hosts else FORMAT_CONTENT)
    sync_folders()
    log.warning(
        "%s is upgraded to format 4, and %d files of settings are sealed: earlier versions refuse it "
        "from now on",
        root,
        sealed,
    )


def _sealed_settings(content: bytes) -> bytes | None:
    """Return settings of format 3 as a sealed file; None for what is sealed, or isn't whole."""
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return seal(values) if isinstance(values, dict) else None


def _is_line(content: bytes) -> bool:
    """Return whether a file holds one line and no seal."""
    try:
        unseal_text(content)
    except Torn:
        return content.endswith(b"\n")
    except NotWhole:
        pass
    return False

"""Where things lie under a root. Text only: see `names` for the grammar of the last component."""

from __future__ import annotations

from typing import Final

from ..model.clock import Millis
from ..model.holds import HoldName
from ..model.names import Item
from ..model.redrive_names import RedriveName
from ..model.stage_names import Chunk, Claim, Publication, StageFolder
from ..model.transitions import FOLDERS, State

FORMAT: Final = "FORMAT"
FORMAT_CONTENT: Final = "spoolrack 1\n"
RESERVE: Final = "RESERVE"
"""Takes up room and holds nothing: see `reserve`."""

CONFIG: Final = "config"
OWNERS: Final = "owners"
NEW: Final = FOLDERS[State.SENT]
QUEUES: Final = FOLDERS[State.READY]
DELAY: Final = FOLDERS[State.LEASED]
REMOVE: Final = FOLDERS[State.REMOVED]
STAGED: Final = "staged"
PUBLISHED: Final = "published"
RESERVED: Final = "reserved"
KEYS: Final = "keys"
"""The deduplication ids of what was unlinked already."""
KEYS_LOCK: Final = f"{KEYS}/LOCK"
"""Held by whoever of several decides about deduplication ids."""
HISTORY: Final = "history"
REDRIVES: Final = "redrives"
QUARANTINE: Final = FOLDERS[State.QUARANTINED]

ALL: Final = (
    CONFIG,
    OWNERS,
    NEW,
    QUEUES,
    DELAY,
    REMOVE,
    STAGED,
    PUBLISHED,
    RESERVED,
    KEYS,
    HISTORY,
    REDRIVES,
    QUARANTINE,
)
"""The folders of a root, made when it is."""


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def queue_of(path: str) -> str:
    """Whose message, batch or folder lies there: its name says so, or the folder that it lies in."""
    top, _, rest = path.partition("/")
    return rest.partition("/")[0] if top == QUEUES else rest.partition(":")[0]


def queue_folder(queue: str) -> str:
    return f"{QUEUES}/{queue}"


def sent(queue: str, item: Item | str, due: Millis | None = None, token: str | None = None) -> str:
    """A message with a delay carries its due already here, so that a restart can't forget it; one that
    is leased already, its token, too."""
    place = f"{NEW}/{queue}:{item}"
    if due is None:
        return place
    return f"{place}@{due:013d}" if token is None else f"{place}@{due:013d}~{token}"


def ready(queue: str, item: Item | str) -> str:
    return f"{QUEUES}/{queue}/{item}"


def hidden(queue: str, item: Item | str, due: Millis, token: str | None) -> str:
    place = f"{DELAY}/{queue}:{item}@{due:013d}"
    return place if token is None else f"{place}~{token}"


def removed(queue: str, item: Item | str) -> str:
    return f"{REMOVE}/{queue}:{item}"


def staged(folder: StageFolder) -> str:
    return f"{STAGED}/{folder}"


def chunk_in(folder: str, chunk: Chunk) -> str:
    """Of a stage whose folder is there now."""
    return f"{folder}/{chunk}"


def published(name: Publication | Claim) -> str:
    return f"{PUBLISHED}/{name}"


def history(queue: str, id: str) -> str:
    return f"{HISTORY}/{queue}:{id}"


def redrive(name: RedriveName) -> str:
    return f"{REDRIVES}/{name}"


def reserved(name: HoldName) -> str:
    """Where a set's manifest lies, or the marker of how far its stream is committed."""
    return f"{RESERVED}/{name}"


def config(queue: str, version: int) -> str:
    return f"{CONFIG}/{queue}.{version}.json"


def owner(owner: str) -> str:
    return f"{OWNERS}/{owner}"


def segment(writer: str, number: int) -> str:
    return f"{KEYS}/{writer}.{number}"

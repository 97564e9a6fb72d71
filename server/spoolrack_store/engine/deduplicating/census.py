"""Learns all deduplication keys that are there: at a start, and by who joins others.

Who starts alone has read all names already. Who joins others lists what they move meanwhile, and does
so until that shows nothing new. Then come the segments: a key is written there before its message's
name goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ...files import layout
from ...files.disk import Found, Kind
from ...files.folders import Folders, explained
from ...files.segments import Segments
from ...index.hidden import QueueIndex
from ...model.names import NotAName, is_unsent, parse_filed
from ..root import Root, path_in
from .known_keys import KnownKeys

_PASSES: Final = 4
"""A listing may miss what moves meanwhile, more than once."""


def learn_at_start(
    known: KnownKeys, root: Root, segments: Segments, removed: Iterable[tuple[str, str]]
) -> dict[str, int]:
    """Learn the keys of what the index has, of what was `removed` (queues and names), and of segments.

    Answers where each segment ends. Raises `StoreError` if one can't be read.
    """
    known.begin()
    for queue, index in root.index.queues.items():
        for name in _names_in(index):
            if ",k" in name:
                known.learn_name(queue, name)
    for queue, name in removed:
        known.learn_name(queue, name)
    return _learn_segments(known, segments)


def learn_beside_others(
    known: KnownKeys, root: Root, segments: Segments, arriving: Iterable[tuple[str, str]]
) -> None:
    """Learn the keys of all messages, those of `arriving` (queues and names) too.

    Raises `StoreError`.
    """
    known.begin()
    for queue, name in arriving:
        known.learn_name(queue, name)
    before = -1
    for _ in range(_PASSES):
        if before == len(known):
            break
        before = len(known)
        for queue, name in _listed(root.folders):
            known.learn_name(queue, name)
    _learn_segments(known, segments)


def _learn_segments(known: KnownKeys, segments: Segments) -> dict[str, int]:
    ends: dict[str, int] = {}
    try:
        for path in segments.paths():
            lines, ends[path] = segments.load(path)
            for line in lines:
                # News are of messages that are found themselves; or were, before a power cut.
                if not line.is_news:
                    known.learn(line.queue, line.key, line.id)
    except OSError as error:
        raise explained(error) from error
    known.end()
    return ends


def _names_in(index: QueueIndex) -> Iterator[str]:
    """The names of all entries, in no order."""
    yield from index.ready.singles()
    for folder in index.ready.folders():
        yield from folder.names
    for hidden in index.hidden():
        yield from hidden.names


def _listed(folders: Folders) -> Iterator[tuple[str, str]]:
    """Queues and names with keys, in the order in which messages move, and come back."""
    queues = [layout.queue_folder(found.name) for found in folders.scan(layout.QUEUES)]
    for folder in (layout.DELAY, *queues, layout.DELAY, layout.REMOVE):
        for found in folders.scan(folder):
            queue = layout.name_of(folder) if "/" in folder else found.name.partition(":")[0]
            for name in keyed_in(folders, folder, found):
                yield queue, name


def keyed_in(folders: Folders, folder: str, found: Found) -> Iterator[str]:
    """The names with keys of what was found in a folder of messages, but for what was never sent."""
    if found.kind is not Kind.FOLDER:
        names: Iterable[str] = (found.name,)
    elif folder == layout.REMOVE and _is_unsent(found.name):
        return
    else:
        names = folders.names_inside(path_in(folder, found.name))
    yield from (name for name in names if ",k" in name)


def _is_unsent(name: str) -> bool:
    try:
        return is_unsent(parse_filed(name).item)
    except NotAName:
        return False
